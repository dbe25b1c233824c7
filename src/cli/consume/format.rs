//! The output format of `consume -f`: kcat's tokens.

use std::io::Write as _;

use crate::cli::consume::row::Row;
use crate::cli::exit::Failure;

/// A parsed format string.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Format(Vec<Token>);

#[derive(Clone, PartialEq, Eq, Debug)]
enum Token {
    Literal(Vec<u8>),
    Topic,
    Partition,
    Offset,
    Key,
    KeyLength,
    Value,
    ValueLength,
    Timestamp,
    Headers,
}

impl Format {
    /// Parses a format: `%t` topic, `%p` partition, `%o` offset, `%k` key, `%K` its length (-1 for
    /// null), `%s` value, `%S` its length, `%T` timestamp in milliseconds, `%h` headers, `%%` a
    /// percent sign; `\n`, `\r`, `\t`, `\0`, `\\` and `\xNN`.
    ///
    /// # Errors
    /// A usage [`Failure`] that names the token nobody knows.
    pub(super) fn parse(text: &str) -> Result<Self, Failure> {
        let mut tokens = Vec::new();
        let mut literal = Vec::new();
        let mut letters = text.chars();
        while let Some(letter) = letters.next() {
            match letter {
                '%' => {
                    let token = token(letters.next())?;
                    if let Token::Literal(bytes) = token {
                        literal.extend(bytes);
                        continue;
                    }
                    if !literal.is_empty() {
                        tokens.push(Token::Literal(std::mem::take(&mut literal)));
                    }
                    tokens.push(token);
                }
                '\\' => literal.push(escape(&mut letters)?),
                letter => literal.extend(letter.encode_utf8(&mut [0; 4]).bytes()),
            }
        }
        if !literal.is_empty() {
            tokens.push(Token::Literal(literal));
        }
        Ok(Self(tokens))
    }

    /// Appends one record to `out`.
    pub(super) fn write(&self, row: &Row<'_>, out: &mut Vec<u8>) {
        for token in &self.0 {
            match token {
                Token::Literal(bytes) => out.extend_from_slice(bytes),
                Token::Topic => out.extend_from_slice(row.topic.as_bytes()),
                Token::Partition => number(out, i64::from(row.partition)),
                Token::Offset => number(out, row.record.offset.0),
                Token::Key => out.extend_from_slice(row.record.key.unwrap_or_default()),
                Token::KeyLength => length(out, row.record.key),
                Token::Value => out.extend_from_slice(row.record.value.unwrap_or_default()),
                Token::ValueLength => length(out, row.record.value),
                Token::Timestamp => number(out, row.record.timestamp),
                Token::Headers => headers(row, out),
            }
        }
    }
}

fn token(letter: Option<char>) -> Result<Token, Failure> {
    Ok(match letter {
        Some('t') => Token::Topic,
        Some('p') => Token::Partition,
        Some('o') => Token::Offset,
        Some('k') => Token::Key,
        Some('K') => Token::KeyLength,
        Some('s') => Token::Value,
        Some('S') => Token::ValueLength,
        Some('T') => Token::Timestamp,
        Some('h') => Token::Headers,
        Some('%') => Token::Literal(vec![b'%']),
        Some(other) => {
            return Err(Failure::usage(format!(
                "unknown format token `%{other}`; there are %t %p %o %k %K %s %S %T %h %%"
            )));
        }
        None => return Err(Failure::usage("the format ends in a lone `%`; write `%%`")),
    })
}

fn escape(letters: &mut std::str::Chars<'_>) -> Result<u8, Failure> {
    Ok(match letters.next() {
        Some('n') => b'\n',
        Some('r') => b'\r',
        Some('t') => b'\t',
        Some('0') => 0,
        Some('\\') => b'\\',
        Some('x') => {
            let digits: String = letters.take(2).collect();
            let value = u8::from_str_radix(&digits, 16)
                .ok()
                .filter(|_| digits.len() == 2);
            value.ok_or_else(|| {
                Failure::usage(format!("`\\x{digits}` in the format needs two hex digits"))
            })?
        }
        Some(other) => {
            return Err(Failure::usage(format!(
                "unknown escape `\\{other}` in the format; there are \\n \\r \\t \\0 \\\\ \\xNN"
            )));
        }
        None => {
            return Err(Failure::usage(
                "the format ends in a lone `\\`; write `\\\\`",
            ));
        }
    })
}

fn number(out: &mut Vec<u8>, value: i64) {
    // Writing into memory does not fail.
    write!(out, "{value}").ok();
}

fn length(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    let length = bytes.map_or(-1, |bytes| i64::try_from(bytes.len()).unwrap_or(i64::MAX));
    number(out, length);
}

/// Headers as kcat prints them: `key=value,key=value`; a null value is `NULL`.
fn headers(row: &Row<'_>, out: &mut Vec<u8>) {
    for (index, header) in row.record.headers.iter().flatten().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.extend_from_slice(header.key);
        out.push(b'=');
        out.extend_from_slice(header.value.unwrap_or(b"NULL"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::consume::row::tests::with_row;

    fn print(format: &str) -> String {
        let format = Format::parse(format).unwrap();
        let mut out = Vec::new();
        with_row(|row| format.write(row, &mut out));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn tokens_are_those_of_kcat() {
        assert_eq!(print("%t/%p@%o %T\\n"), "orders/3@7 1700000000000\n");
        assert_eq!(print("%k=%s %K %S"), "blue=seven 4 5");
        assert_eq!(print("%h"), "trace=abc,trace=def,empty=NULL");
        assert_eq!(print("100%%\\t\\x41\\\\"), "100%\tA\\");
    }

    #[test]
    fn text_around_tokens_may_be_of_any_language() {
        assert_eq!(print("наряд %s → готово"), "наряд seven → готово");
    }

    #[test]
    fn a_wrong_format_says_which_part() {
        let message = |text| Format::parse(text).unwrap_err().message;
        assert!(message("%q").starts_with("unknown format token `%q`"));
        assert!(message("50%").contains("lone `%`"));
        assert!(message("\\x4").contains("two hex digits"));
        assert!(message("\\q").starts_with("unknown escape `\\q`"));
    }
}
