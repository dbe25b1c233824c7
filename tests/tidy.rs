//! House style, as tests: what a reviewer should not have to look for.

#![expect(clippy::unwrap_used, reason = "what is missing fails the test")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

mod source;

use source::{
    Faults, Source, blank, documents, functions, is_one_word, names, numbered, root, sources,
};

const FILE_LINES_MAX: usize = 500;
const FUNCTION_LINES_MAX: usize = 70;
const LINE_COLUMNS_MAX: usize = 100;

/// What the core must not name: whatever waits, acts, reads a clock or is random.
const NOT_IN_THE_CORE: [&str; 16] = [
    "actix::",
    "arc_swap::",
    "dashmap::",
    "futures::",
    "metrics::",
    "rand::",
    "tokio::",
    "tracing::",
    "std::fs::",
    "std::process::",
    "std::thread::",
    "std::net::Tcp",
    "std::net::Udp",
    "std::net::ToSocketAddrs",
    "Instant::now",
    "SystemTime::now",
];

/// Folders of state machines: what an input does in a state is written out there, arm by arm.
const MACHINES: [&str; 6] = [
    "src/cluster",
    "src/group",
    "src/handler/host",
    "src/offsets",
    "src/routing",
    "src/wire/connection",
];

/// Files of those folders whose wildcard arms match numbers or text, which cannot be written out.
const OPEN_MATCHES: [&str; 1] = ["src/routing/codes.rs"];

#[test]
fn files_stay_small() {
    let mut faults = Faults::default();
    for source in sources() {
        let lines = source.text.lines().count();
        faults.check(
            lines <= FILE_LINES_MAX,
            source,
            1,
            format_args!("{lines} lines in one file"),
        );
    }
    faults.report();
}

#[test]
fn lines_stay_short() {
    let mut faults = Faults::default();
    for source in sources() {
        for (number, line) in numbered(&source.text) {
            let columns = line.chars().count();
            let fits = columns <= LINE_COLUMNS_MAX || is_one_word(line);
            faults.check(fits, source, number, format_args!("{columns} columns"));
        }
    }
    faults.report();
}

#[test]
fn functions_stay_short() {
    let mut faults = Faults::default();
    for source in sources() {
        for function in functions(&source.code) {
            let text = format!("`{}` has {} lines", function.name, function.lines);
            faults.check(
                function.lines <= FUNCTION_LINES_MAX,
                source,
                function.line,
                text,
            );
        }
    }
    faults.report();
}

#[test]
fn the_core_names_nothing_that_acts() {
    let mut faults = Faults::default();
    for source in sources().iter().filter(|source| source.is_core()) {
        for (number, line) in numbered(&source.code) {
            for name in NOT_IN_THE_CORE {
                faults.check(
                    !names(line, name),
                    source,
                    number,
                    format_args!("`{name}` in the core"),
                );
            }
        }
    }
    faults.report();
}

#[test]
fn only_the_actors_name_actix() {
    let mut faults = Faults::default();
    for source in sources()
        .iter()
        .filter(|source| source.is_in(&["src", "examples"]))
    {
        for (number, line) in numbered(&source.code) {
            faults.check(
                !names(line, "actix::"),
                source,
                number,
                "`actix` outside actors/",
            );
        }
    }
    faults.report();
}

#[test]
fn machines_have_no_wildcard_arm() {
    let mut faults = Faults::default();
    let machines = sources().iter().filter(|source| source.is_in(&MACHINES));
    for source in machines.filter(|source| !source.is_in(&OPEN_MATCHES)) {
        for (number, line) in numbered(&source.code) {
            let wildcard = line.trim_start().starts_with("_ =>") || line.contains("| _ =>");
            faults.check(!wildcard, source, number, "wildcard arm in a machine");
        }
    }
    faults.report();
}

#[test]
fn path_attributes_are_few_and_known() {
    let attributes: usize = sources()
        .iter()
        .map(|source| source.code.matches("#[path").count())
        .sum();
    // The ring of actors, and what scenarios and simulator share: their network, and the
    // watch over their probes and over each step of a route.
    let known = [
        ("src/lib.rs", "#[path = \"../actors/mod.rs\"]"),
        ("tests/sim/main.rs", "#[path = \"../core/rig/net.rs\"]"),
        ("tests/sim/main.rs", "#[path = \"../core/rig/probing.rs\"]"),
        ("tests/sim/main.rs", "#[path = \"../core/rig/step.rs\"]"),
    ];
    for (file, attribute) in known {
        let text = fs::read_to_string(root().join(file)).unwrap();
        assert!(text.contains(attribute), "{file}: {attribute}");
    }
    assert_eq!(known.len(), attributes, "a path attribute nobody knows of");
}

#[test]
fn lints_are_expected_with_a_reason_and_never_allowed() {
    let mut faults = Faults::default();
    for source in sources() {
        for (number, line) in numbered(&source.code) {
            let allows =
                line.contains("[allow(") || line.contains("cfg_attr(") && line.contains(" allow(");
            faults.check(
                !allows,
                source,
                number,
                "`allow`: use `expect` with a reason",
            );
        }
        for (at, _) in source.code.match_indices("[expect(") {
            let attribute = source.code[at..].split(']').next().unwrap();
            let number = source.code[..at].lines().count();
            faults.check(
                attribute.contains("reason ="),
                source,
                number,
                "`expect` without a reason",
            );
        }
    }
    faults.report();
}

#[test]
fn nothing_is_left_for_later() {
    // Written in two halves, or this file would find itself.
    let reminders =
        [["TO", "DO"], ["FIX", "ME"], ["XX", "X"], ["HA", "CK"]].map(|half| half.concat());
    let mut faults = Faults::default();
    for source in sources() {
        for (number, line) in numbered(&source.text) {
            let mut words = line.split(|letter: char| !letter.is_alphanumeric());
            let reminder = words.any(|word| reminders.iter().any(|reminder| reminder == word));
            faults.check(!reminder, source, number, "a reminder instead of the work");
        }
    }
    faults.report();
}

#[test]
fn every_file_is_reached_and_says_what_it_is_for() {
    let mut faults = Faults::default();
    let sources = sources();
    let mut reached: BTreeSet<PathBuf> = BTreeSet::new();
    let mut waiting: Vec<PathBuf> = sources
        .iter()
        .filter(|s| s.is_root())
        .map(Source::full)
        .collect();
    while let Some(path) = waiting.pop() {
        if reached.insert(path.clone()) {
            waiting.extend(modules_of(&path));
        }
    }
    for source in sources {
        faults.check(
            reached.contains(&source.full()),
            source,
            1,
            "no `mod` reaches this file",
        );
        faults.check(
            source.text.starts_with("//!"),
            source,
            1,
            "no first line that says what it is for",
        );
    }
    faults.report();
}

#[test]
fn every_example_is_listed() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap_or_default();
    let mut faults = Faults::default();
    for source in sources()
        .iter()
        .filter(|source| source.is_in(&["examples"]))
    {
        let name = Path::new(&source.name)
            .file_stem()
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        faults.check(
            readme.contains(&name),
            source,
            1,
            "the README does not list it",
        );
    }
    faults.report();
}

#[test]
fn metrics_and_their_documentation_agree() {
    let is_core = |source: &Source| source.is_in(&["src", "actors"]);
    let coded: BTreeSet<String> = sources()
        .iter()
        .filter(|s| is_core(s))
        .flat_map(|s| metric_names(&s.text))
        .collect();
    let documented: BTreeSet<String> = documents()
        .values()
        .flat_map(|text| metric_names(text))
        .collect();
    let undocumented: Vec<_> = coded.difference(&documented).collect();
    let invented: Vec<_> = documented.difference(&coded).collect();
    assert!(
        undocumented.is_empty(),
        "in the code, not in the documentation: {undocumented:?}"
    );
    assert!(
        invented.is_empty(),
        "in the documentation, not in the code: {invented:?}"
    );
}

/// The files that the `mod` declarations of `path` name.
fn modules_of(path: &Path) -> Vec<PathBuf> {
    let Ok(text) = fs::read_to_string(path) else {
        return Vec::new();
    };
    let folder = path.parent().unwrap();
    let stem = path.file_stem().unwrap().to_str().unwrap();
    let inside = match stem {
        "mod" | "lib" | "main" => folder.to_path_buf(),
        _ if is_folder_of_roots(folder) => folder.to_path_buf(),
        stem => folder.join(stem),
    };
    let code = blank(&text);
    let names = code.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = words.iter().position(|word| *word == "mod")?;
        words.get(at + 1)?.strip_suffix(';').map(str::to_owned)
    });
    names
        .flat_map(|name| {
            [
                inside.join(format!("{name}.rs")),
                inside.join(name).join("mod.rs"),
            ]
        })
        .filter(|file| file.exists())
        .collect()
}

/// Whether each file of `folder` is a crate of its own.
fn is_folder_of_roots(folder: &Path) -> bool {
    ["tests", "benches", "bin"]
        .iter()
        .any(|name| folder.ends_with(name))
}

/// Every metric name in `text`.
fn metric_names(text: &str) -> BTreeSet<String> {
    let prefix = ["near", "side_"].concat();
    let ends =
        |letter: char| !letter.is_ascii_lowercase() && !letter.is_ascii_digit() && letter != '_';
    text.match_indices(&prefix)
        .map(|(at, _)| text[at..].split(ends).next().unwrap().to_owned())
        .filter(|name| METRIC_UNITS.iter().any(|unit| name.ends_with(unit)))
        .collect()
}

/// Every metric name ends in its unit or kind.
const METRIC_UNITS: [&str; 9] = [
    "_total",
    "_bytes",
    "_seconds",
    "_records",
    "_partitions",
    "_in_hand",
    "_abandoned",
    "_limit",
    "_epoch",
];
