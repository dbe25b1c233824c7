//! Java's properties format, as `java.util.Properties` reads it.

use std::iter::Peekable;
use std::str::Chars;

use zeroize::Zeroizing;

use super::error::{ConfigError, Problem};

/// One property of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    /// Number of the line it starts on, from 1.
    pub(super) line: usize,
    /// The key, escapes resolved.
    pub(super) key: String,
    /// The value, escapes resolved, without blanks at its end. It may be a secret.
    pub(super) value: Zeroizing<String>,
}

/// Reads all properties of `text`. `name` is the file's name, for messages.
///
/// # Errors
///
/// [`Problem::Syntax`] with the line, for an escape that is none or a line without a key.
pub(super) fn parse(text: &str, name: &str) -> Result<Vec<Entry>, ConfigError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    logical_lines(text)
        .into_iter()
        .map(|(line, content)| {
            entry(line, &content).map_err(|what| {
                ConfigError::new(Problem::Syntax { what }).at(format!("{name}:{line}"))
            })
        })
        .collect()
}

/// Joins continued lines and drops comments and blank lines.
fn logical_lines(text: &str) -> Vec<(usize, Zeroizing<String>)> {
    let mut lines = Vec::new();
    let mut open: Option<(usize, Zeroizing<String>)> = None;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_start();
        if open.is_none() && (line.is_empty() || line.starts_with(['#', '!'])) {
            continue;
        }
        let (number, mut content) = open.take().unwrap_or((index + 1, Zeroizing::default()));
        // An even number of backslashes at the end is a value that ends in backslashes.
        let slashes = line.chars().rev().take_while(|c| *c == '\\').count();
        if slashes % 2 == 1 {
            content.push_str(line.strip_suffix('\\').unwrap_or(line));
            open = Some((number, content));
        } else {
            content.push_str(line);
            lines.push((number, content));
        }
    }
    lines.extend(open);
    lines
}

/// Splits one logical line into key and value.
fn entry(line: usize, content: &str) -> Result<Entry, String> {
    let mut chars = content.chars().peekable();
    let mut key = String::new();
    while let Some(c) = chars.next_if(|c| !matches!(c, '=' | ':') && !c.is_whitespace()) {
        key.push(if c == '\\' { escape(&mut chars)? } else { c });
    }
    skip_blanks(&mut chars);
    if chars.next_if(|c| matches!(c, '=' | ':')).is_some() {
        skip_blanks(&mut chars);
    }
    let mut value = Zeroizing::new(String::with_capacity(content.len()));
    // Java keeps blanks at the end of a value; nobody means them.
    let mut kept = 0;
    while let Some(c) = chars.next() {
        value.push(if c == '\\' { escape(&mut chars)? } else { c });
        if c == '\\' || !c.is_whitespace() {
            kept = value.len();
        }
    }
    value.truncate(kept);
    if key.is_empty() {
        return Err("no key before `=` or `:`".into());
    }
    Ok(Entry { line, key, value })
}

fn skip_blanks(chars: &mut Peekable<Chars<'_>>) {
    while chars.next_if(|c| c.is_whitespace()).is_some() {}
}

/// The character that an escape stands for; the backslash is already read.
fn escape(chars: &mut Peekable<Chars<'_>>) -> Result<char, String> {
    match chars.next() {
        Some('t') => Ok('\t'),
        Some('n') => Ok('\n'),
        Some('r') => Ok('\r'),
        Some('f') => Ok('\u{c}'),
        Some('u') => unicode(chars),
        Some(other) => Ok(other),
        None => Err("the last line ends in a lone backslash".into()),
    }
}

/// The character of `\uXXXX`, or of two of them that make a surrogate pair.
fn unicode(chars: &mut Peekable<Chars<'_>>) -> Result<char, String> {
    let mut units = vec![hex4(chars)?];
    if units
        .first()
        .is_some_and(|unit| (0xd800..0xdc00).contains(unit))
    {
        let follows = chars.next() == Some('\\') && chars.next() == Some('u');
        if !follows {
            return Err("`\\u` escape of half a character".into());
        }
        units.push(hex4(chars)?);
    }
    match char::decode_utf16(units).next() {
        Some(Ok(c)) => Ok(c),
        Some(Err(_)) | None => Err("`\\u` escape of half a character".into()),
    }
}

fn hex4(chars: &mut Peekable<Chars<'_>>) -> Result<u16, String> {
    let digits: String = std::iter::from_fn(|| chars.next_if(char::is_ascii_hexdigit))
        .take(4)
        .collect();
    if digits.len() < 4 {
        return Err(format!("`\\u{digits}` needs four hexadecimal digits"));
    }
    u16::from_str_radix(&digits, 16).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Vec<(usize, String, String)> {
        parse(text, "t")
            .unwrap()
            .into_iter()
            .map(|e| (e.line, e.key, e.value.to_string()))
            .collect()
    }

    fn pair(text: &str) -> (String, String) {
        let [(_, key, value)] = &pairs(text)[..] else {
            panic!("not one entry: {text}")
        };
        (key.clone(), value.clone())
    }

    fn failure(text: &str) -> String {
        parse(text, "client.properties").unwrap_err().to_string()
    }

    #[test]
    fn all_three_separators_and_blanks_around_them_are_read() {
        for text in ["a.b=1", "a.b:1", "a.b 1", "  a.b \t = 1  ", "a.b\t:1"] {
            assert_eq!(pair(text), ("a.b".into(), "1".into()), "{text}");
        }
        assert_eq!(
            pair("url=http://x:1/=y"),
            ("url".into(), "http://x:1/=y".into())
        );
        assert_eq!(pair("empty"), ("empty".into(), String::new()));
    }

    #[test]
    fn comments_and_blank_lines_are_skipped_but_counted() {
        let text = "# one\n\n! two\n   # three\nkey=v\n";
        assert_eq!(pairs(text), [(5, "key".into(), "v".into())]);
    }

    #[test]
    fn a_line_goes_on_after_an_odd_number_of_backslashes() {
        let text = "servers=a:1,\\\n    b:2\\\r\n    ,c:3\nnext=1";
        let expected = [
            (1, "servers".into(), "a:1,b:2,c:3".into()),
            (4, "next".into(), "1".into()),
        ];
        assert_eq!(pairs(text), expected);
        assert_eq!(pair("path=c:\\\\"), ("path".into(), "c:\\".into()));
        assert_eq!(pair("a=1\\\n# no comment").1, "1# no comment");
    }

    #[test]
    fn escapes_are_resolved_in_keys_and_values() {
        assert_eq!(
            pair(r"a\=b\ c=\t\u00e4\uD83D\uDE00\z"),
            ("a=b c".into(), "\tä😀z".into())
        );
        assert_eq!(pair(r"pass=secret\ ").1, "secret ");
    }

    #[test]
    fn a_mistake_is_told_with_its_line() {
        assert_eq!(
            failure("a=1\nb=\\u12x"),
            r"client.properties:2: `\u12` needs four hexadecimal digits"
        );
        assert_eq!(
            failure("\n=1"),
            "client.properties:2: no key before `=` or `:`"
        );
        assert_eq!(
            failure(r"a=\ud83d"),
            r"client.properties:1: `\u` escape of half a character"
        );
    }
}
