//! The source tree as data: files, their code without comments and literals, their functions.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// Where sources of ours live.
const SOURCE_FOLDERS: [&str; 5] = ["src", "actors", "tests", "examples", "benches"];

/// Parts of `src/` that act or present; the rest is the core.
const SURFACE: [&str; 5] = [
    "src/fleet",
    "src/cli",
    "src/http",
    "src/bin",
    "src/embedded/listener",
];

/// All sources, read once.
pub(crate) fn sources() -> &'static [Source] {
    static SOURCES: LazyLock<Vec<Source>> = LazyLock::new(|| {
        let mut files = Vec::new();
        for folder in SOURCE_FOLDERS {
            collect(&root().join(folder), "rs", &mut files);
        }
        assert!(files.len() > 50, "this is not the source tree");
        let source = |(name, text): (String, String)| Source {
            code: blank(&text),
            name,
            text,
        };
        files.into_iter().map(source).collect()
    });
    &SOURCES
}

/// One file of ours.
pub(crate) struct Source {
    /// Its path from the root, with forward slashes.
    pub(crate) name: String,
    pub(crate) text: String,
    /// The text with comments and literals blanked out, line by line.
    pub(crate) code: String,
}

impl Source {
    pub(crate) fn is_in(&self, places: &[&str]) -> bool {
        places.iter().any(|place| {
            self.name
                .strip_prefix(place)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '.']))
        })
    }

    pub(crate) fn is_core(&self) -> bool {
        self.is_in(&["src"]) && !self.is_in(&SURFACE)
    }

    /// Whether cargo starts compiling here.
    pub(crate) fn is_root(&self) -> bool {
        let parts: Vec<&str> = self.name.split('/').collect();
        match parts.as_slice() {
            ["src", file] => matches!(*file, "lib.rs" | "main.rs"),
            ["src", "bin", ..] | ["tests" | "examples" | "benches", _] => true,
            ["tests" | "examples" | "benches", _, "main.rs"] => true,
            _ => self.name == "actors/mod.rs",
        }
    }

    pub(crate) fn full(&self) -> PathBuf {
        root().join(&self.name)
    }
}

/// Collects what is wrong, to be told at once.
#[derive(Default)]
pub(crate) struct Faults(Vec<String>);

impl Faults {
    pub(crate) fn check(&mut self, good: bool, source: &Source, line: usize, fault: impl Display) {
        if !good {
            self.0.push(format!("{}:{line}: {fault}", source.name));
        }
    }

    pub(crate) fn report(self) {
        assert!(self.0.is_empty(), "\n{}", self.0.join("\n"));
    }
}

pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) line: usize,
    pub(crate) lines: usize,
}

/// The functions in blanked code, with the lines from signature to closing brace.
pub(crate) fn functions(code: &str) -> Vec<Function> {
    let starts = code.match_indices("fn ").filter(|(at, _)| {
        let before = code[..*at].chars().next_back();
        before.is_none_or(|letter| !letter.is_alphanumeric() && letter != '_')
    });
    starts.filter_map(|(at, _)| function_at(code, at)).collect()
}

fn function_at(code: &str, at: usize) -> Option<Function> {
    let name: String = code[at + 3..]
        .chars()
        .take_while(|letter| letter.is_alphanumeric() || *letter == '_')
        .collect();
    let body = at + code[at..].find(['{', ';'])?;
    if name.is_empty() || code[body..].starts_with(';') {
        return None;
    }
    let mut depth = 0_usize;
    let end = code[body..].char_indices().find_map(|(index, letter)| {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        (depth == 0).then_some(body + index)
    })?;
    let lines = code[at..=end].lines().count();
    Some(Function {
        name,
        line: code[..=at].lines().count(),
        lines,
    })
}

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

pub(crate) fn documents() -> BTreeMap<String, String> {
    let mut files = Vec::new();
    for entry in fs::read_dir(root()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            take(&path, "md", &mut files);
        }
    }
    collect(&root().join("docs"), "md", &mut files);
    files.into_iter().collect()
}

/// Reads every file below `folder` that ends in `extension`, but for packages of their own.
fn collect(folder: &Path, extension: &str, into: &mut Vec<(String, String)>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        if !path.is_dir() {
            take(&path, extension, into);
        } else if !path.join("Cargo.toml").exists() && !path.ends_with("target") {
            collect(&path, extension, into);
        }
    }
}

fn take(path: &Path, extension: &str, into: &mut Vec<(String, String)>) {
    if path.extension().is_some_and(|found| found == extension) {
        let name = path
            .strip_prefix(root())
            .unwrap()
            .to_str()
            .unwrap()
            .replace('\\', "/");
        into.push((name, fs::read_to_string(path).unwrap()));
    }
}

pub(crate) fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line))
}

/// A link or a long literal cannot be broken.
pub(crate) fn is_one_word(line: &str) -> bool {
    line.trim_start()
        .trim_start_matches(['/', '!'])
        .split_whitespace()
        .count()
        <= 1
}

/// Whether `line` names `path`, not as the end of a longer name.
pub(crate) fn names(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        before.is_none_or(|letter| !letter.is_alphanumeric() && letter != '_' && letter != ':')
    })
}

/// The text with comments, strings and character literals replaced by spaces; lines stay where they
/// are.
pub(crate) fn blank(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let literal = literal_length(rest, code.chars().next_back());
        let length = literal.unwrap_or(letter.len_utf8());
        let (piece, behind) = rest.split_at(length);
        if literal.is_some() {
            code.extend(
                piece
                    .chars()
                    .map(|letter| if letter == '\n' { '\n' } else { ' ' }),
            );
        } else {
            code.push_str(piece);
        }
        rest = behind;
    }
    code
}

/// Length of the comment or literal at the front of `text`, if there is one.
fn literal_length(text: &str, before: Option<char>) -> Option<usize> {
    let inside_word = before.is_some_and(|letter| letter.is_alphanumeric() || letter == '_');
    if text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    if text.starts_with('"') {
        return Some(quoted_length(text, '"'));
    }
    if text.starts_with("r\"") || text.starts_with("r#\"") || text.starts_with("r##\"") {
        let hashes = text[1..]
            .chars()
            .take_while(|letter| *letter == '#')
            .count();
        let end = format!("\"{}", "#".repeat(hashes));
        let start = 2 + hashes;
        return (!inside_word || before == Some('b')).then(|| {
            text[start..]
                .find(&end)
                .map_or(text.len(), |at| start + at + end.len())
        });
    }
    if text.starts_with('\'') {
        // A lifetime has no closing quote behind its first letter.
        let second = text.chars().nth(1)?;
        let is_literal = second == '\\' || text[1 + second.len_utf8()..].starts_with('\'');
        return is_literal.then(|| quoted_length(text, '\''));
    }
    None
}

/// Length of a literal in quotes, escapes respected.
fn quoted_length(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, letter) in text.char_indices().skip(1) {
        if escaped {
            escaped = false;
        } else if letter == '\\' {
            escaped = true;
        } else if letter == quote {
            return at + 1;
        }
    }
    text.len()
}

#[test]
fn the_scanner_sees_code_and_nothing_else() {
    let code =
        blank("let a = \"x // {\"; // fn b() {\nlet c: &'static str = r#\"\"{\"#; '}'; '\\'';");
    assert!(!code.contains(['{', '}']) && !code.contains("fn") && code.contains("&'static str"));
    let text = "fn one() {\n    if x {\n    }\n}\nfn two();\n";
    let found: Vec<_> = functions(text)
        .iter()
        .map(|f| (f.name.clone(), f.line, f.lines))
        .collect();
    assert_eq!(found, [("one".to_owned(), 1, 4)]);
}
