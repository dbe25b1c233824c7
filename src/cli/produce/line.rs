//! What one line of input says.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;

use crate::ids::{PartitionIndex, TopicName};
use crate::producer::Record;

/// How lines become records.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Reading {
    /// The line is the value; with a delimiter, what stands before its first occurrence is the key.
    Text {
        /// Between key and value.
        key_delimiter: Option<Vec<u8>>,
    },
    /// The line is a JSON object, such as `consume --json` prints.
    Json,
}

impl Reading {
    /// The record of `line`, without its line end, for `topic`. `now_ms` is its time unless the
    /// line has one.
    ///
    /// # Errors
    /// In words, if the line is not what it should be.
    pub(super) fn record(
        &self,
        line: &[u8],
        topic: &TopicName,
        now_ms: i64,
    ) -> Result<Record, String> {
        let (key, value) = match self {
            Self::Json => return json(line, topic, now_ms),
            Self::Text {
                key_delimiter: None,
            } => (None, line),
            Self::Text {
                key_delimiter: Some(delimiter),
            } => split(line, delimiter)
                .map(|(key, value)| (Some(key), value))
                .ok_or("there is no key delimiter")?,
        };
        Ok(Record {
            key: key.map(Bytes::copy_from_slice),
            ..Record::new(topic.clone(), Bytes::copy_from_slice(value)).at(now_ms)
        })
    }
}

fn split<'a>(line: &'a [u8], delimiter: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let at = line
        .windows(delimiter.len().max(1))
        .position(|window| window == delimiter)?;
    let (key, rest) = line.split_at(at);
    Some((key, rest.get(delimiter.len()..)?))
}

/// What a JSON line may hold; other fields are passed over.
#[derive(Deserialize)]
struct Line {
    #[serde(default)]
    key: Value,
    #[serde(default)]
    value: Value,
    #[serde(default)]
    headers: Vec<(String, Value)>,
    partition: Option<i32>,
    timestamp: Option<i64>,
}

fn json(line: &[u8], topic: &TopicName, now_ms: i64) -> Result<Record, String> {
    let line: Line =
        serde_json::from_slice(line).map_err(|error| format!("not a record in JSON: {error}"))?;
    let headers = line
        .headers
        .into_iter()
        .map(|(key, value)| Ok((key, bytes(value)?)));
    Ok(Record {
        topic: topic.clone(),
        partition: line.partition.map(PartitionIndex),
        timestamp: line.timestamp.unwrap_or(now_ms),
        key: bytes(line.key)?,
        value: bytes(line.value)?,
        headers: headers.collect::<Result<_, String>>()?,
    })
}

/// A string is its text, `{"hex": "..."}` is bytes, null is null; anything else is written as JSON.
fn bytes(value: Value) -> Result<Option<Bytes>, String> {
    if let Value::Object(fields) = &value
        && let (1, Some(Value::String(hex))) = (fields.len(), fields.get("hex"))
    {
        let bytes = unhex(hex).ok_or_else(|| format!("`{hex}` is not made of hex digits"))?;
        return Ok(Some(bytes.into()));
    }
    Ok(match value {
        Value::Null => None,
        Value::String(text) => Some(text.into()),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            Some(value.to_string().into())
        }
    })
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().chunks(2);
    digits
        .map(|pair| {
            let pair = std::str::from_utf8(pair)
                .ok()
                .filter(|pair| pair.len() == 2)?;
            u8::from_str_radix(pair, 16).ok()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(reading: &Reading, line: &str) -> Result<Record, String> {
        reading.record(line.as_bytes(), &"orders".into(), 99)
    }

    fn text(delimiter: Option<&str>) -> Reading {
        Reading::Text {
            key_delimiter: delimiter.map(|text| text.as_bytes().to_vec()),
        }
    }

    #[test]
    fn a_line_is_a_value_or_key_and_value() {
        let record = read(&text(None), "a:b").unwrap();
        assert_eq!((record.key, record.value), (None, Some("a:b".into())));
        assert_eq!(record.timestamp, 99);
        let record = read(&text(Some("::")), "a::b::c").unwrap();
        assert_eq!(
            (record.key, record.value),
            (Some("a".into()), Some("b::c".into()))
        );
        assert!(read(&text(Some(":")), "abc").is_err());
    }

    #[test]
    fn json_is_what_consume_prints() {
        let line = r#"{"topic":"x","partition":3,"offset":7,"timestamp":17,
            "headers":[["trace","abc"],["none",null]],"key":"blue","value":{"hex":"ff00"}}"#;
        let record = read(&Reading::Json, line).unwrap();
        assert_eq!(
            record.topic.as_str(),
            "orders",
            "the topic is the command's"
        );
        assert_eq!(record.partition, Some(PartitionIndex(3)));
        assert_eq!(record.timestamp, 17);
        assert_eq!(record.key, Some("blue".into()));
        assert_eq!(record.value, Some(Bytes::from_static(&[0xff, 0])));
        let headers = [
            ("trace".to_owned(), Some("abc".into())),
            ("none".to_owned(), None),
        ];
        assert_eq!(record.headers, headers);
    }

    #[test]
    fn json_values_that_are_no_text_stay_json() {
        let record = read(&Reading::Json, r#"{"value":{"cents":7}}"#).unwrap();
        assert_eq!(
            (record.key, record.value),
            (None, Some(r#"{"cents":7}"#.into()))
        );
        assert_eq!(read(&Reading::Json, r#"{"key":"a"}"#).unwrap().value, None);
        assert!(
            read(&Reading::Json, "[]")
                .unwrap_err()
                .contains("not a record in JSON")
        );
        assert!(read(&Reading::Json, r#"{"value":{"hex":"f"}}"#).is_err());
    }
}
