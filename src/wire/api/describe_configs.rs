//! DescribeConfigs (32), versions 1-4: reads configuration of topics and brokers.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::DescribeConfigsRequest;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;

use super::{Body, decode, put, read_error, read_throttle, text};
use crate::wire::api_key::ApiKey;
use crate::wire::cursor::{Cursor, IDENTIFIER_MAX, Read};
use crate::wire::error::{DecodeError, EncodeError};
use crate::wire::error_code::ErrorCode;

/// What a configuration belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResourceKind {
    /// A topic, named by its name.
    Topic,
    /// A broker, named by its id.
    Broker,
}

impl ResourceKind {
    const fn wire(self) -> i8 {
        match self {
            Self::Topic => 2,
            Self::Broker => 4,
        }
    }
}

/// Asks for configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// What to describe.
    pub resources: Vec<Resource>,
}

/// One topic or broker to describe.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Resource {
    /// What it is.
    pub kind: ResourceKind,
    /// Its name.
    pub name: String,
    /// The keys wanted; `None` is all.
    pub keys: Option<Vec<String>>,
}

impl Request {
    /// Appends the body at `version`.
    ///
    /// # Errors
    /// If `version` cannot carry it.
    pub fn encode(&self, version: i16, out: &mut BytesMut) -> Result<(), EncodeError> {
        let resources = self.resources.iter().map(|resource| {
            let keys = resource
                .keys
                .as_ref()
                .map(|keys| keys.iter().map(text).collect());
            DescribeConfigsResource::default()
                .with_resource_type(resource.kind.wire())
                .with_resource_name(text(&resource.name))
                .with_configuration_keys(keys)
        });
        let message = DescribeConfigsRequest::default().with_resources(resources.collect());
        put(ApiKey::DescribeConfigs, version, &message, out)
    }
}

/// The configurations.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Response {
    /// How long the broker asks us to be quiet.
    pub throttle: Duration,
    /// One row per resource.
    pub resources: Vec<Described>,
}

/// The configuration of one topic or broker.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Described {
    /// Error of this row.
    pub error: ErrorCode,
    /// The broker's words.
    pub message: Option<String>,
    /// Kind of resource as the wire numbers it: 2 topic, 4 broker.
    pub kind: i8,
    /// Its name.
    pub name: String,
    /// Its entries.
    pub entries: Vec<Entry>,
}

/// One configuration entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Its key.
    pub name: String,
    /// Its value; `None` if unset or sensitive.
    pub value: Option<String>,
    /// Whether it cannot be changed at run time.
    pub read_only: bool,
    /// Where the value comes from, as the wire numbers it.
    pub source: i8,
    /// Whether the broker hides the value.
    pub sensitive: bool,
}

impl Response {
    /// Decodes the body of an answer at `version`.
    ///
    /// # Errors
    /// If the bytes break the protocol.
    pub fn decode(version: i16, body: &Bytes) -> Result<Self, DecodeError> {
        decode(version, body).map(|(response, _)| response)
    }
}

impl Body for Response {
    const API: ApiKey = ApiKey::DescribeConfigs;

    fn read(cursor: &mut Cursor<'_>, version: i16) -> Read<Self> {
        let throttle = read_throttle(cursor)?;
        let resources =
            cursor.array("results", RESULT_MIN, |cursor| read_result(cursor, version))?;
        cursor.no_tags()?;
        Ok(Self {
            throttle,
            resources,
        })
    }
}

/// Smallest result: error, null text, kind, empty name, no entries.
const RESULT_MIN: usize = 7;
/// Smallest entry: empty name, null value, two flags, source, no synonyms.
const ENTRY_MIN: usize = 9;
/// Smallest synonym: empty name, null value, source.
const SYNONYM_MIN: usize = 4;

fn read_result(cursor: &mut Cursor<'_>, version: i16) -> Read<Described> {
    let error = read_error(cursor)?;
    let message = cursor.message("error_message")?;
    let kind = cursor.i8("resource_type")?;
    let name = cursor.text("resource_name", IDENTIFIER_MAX)?.to_owned();
    let entries = cursor.array("configs", ENTRY_MIN, |cursor| read_entry(cursor, version))?;
    cursor.no_tags()?;
    Ok(Described {
        error,
        message,
        kind,
        name,
        entries,
    })
}

fn read_entry(cursor: &mut Cursor<'_>, version: i16) -> Read<Entry> {
    let name = cursor.text("config name", IDENTIFIER_MAX)?.to_owned();
    let value = cursor
        .nullable_text("config value", IDENTIFIER_MAX)?
        .map(str::to_owned);
    let read_only = cursor.bool("read_only")?;
    let source = cursor.i8("config_source")?;
    let sensitive = cursor.bool("is_sensitive")?;
    for _ in 0..cursor.count("synonyms", SYNONYM_MIN)? {
        skip_synonym(cursor)?;
    }
    if version >= 3 {
        cursor.i8("config_type")?;
        cursor.nullable_text("documentation", IDENTIFIER_MAX)?;
    }
    cursor.no_tags()?;
    Ok(Entry {
        name,
        value,
        read_only,
        source,
        sensitive,
    })
}

fn skip_synonym(cursor: &mut Cursor<'_>) -> Read<()> {
    cursor.text("synonym name", IDENTIFIER_MAX)?;
    cursor.nullable_text("synonym value", IDENTIFIER_MAX)?;
    cursor.i8("synonym source")?;
    cursor.no_tags()
}
