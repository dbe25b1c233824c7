//! ApiVersions (18), versions 0-4: what a broker serves (KIP-35, KIP-511).

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::ApiVersionsRequest;

use super::{Body, decode, put, read_error, read_throttle, text};
use crate::wire::api_key::ApiKey;
use crate::wire::cursor::{Cursor, IDENTIFIER_MAX, Read};
use crate::wire::error::{DecodeError, EncodeError};
use crate::wire::error_code::ErrorCode;

/// Asks a broker which versions it serves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// Name of this client, told from version 3 on.
    pub software_name: String,
    /// Release of this client, told from version 3 on.
    pub software_version: String,
}

impl Request {
    /// Appends the body at `version`.
    ///
    /// # Errors
    /// If `version` cannot carry it.
    pub fn encode(&self, version: i16, out: &mut BytesMut) -> Result<(), EncodeError> {
        let mut message = ApiVersionsRequest::default();
        if version >= 3 {
            message = message
                .with_client_software_name(text(&self.software_name))
                .with_client_software_version(text(&self.software_version));
        }
        put(ApiKey::ApiVersions, version, &message, out)
    }
}

/// Versions of one API.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    /// Number of the API; may be one this client does not know.
    pub api: i16,
    /// Lowest version served.
    pub min: i16,
    /// Highest version served.
    pub max: i16,
}

/// A finalized cluster feature (KIP-584).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Feature {
    /// Its name, such as `transaction.version`.
    pub name: String,
    /// Highest finalized level.
    pub max_level: i16,
    /// Lowest finalized level.
    pub min_level: i16,
}

/// What a broker serves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Response {
    /// 35 if the asked version is unknown to the broker.
    pub error: ErrorCode,
    /// One row per API.
    pub apis: Vec<Range>,
    /// How long the broker asks us to be quiet.
    pub throttle: Duration,
    /// Epoch of the finalized features, if any were finalized.
    pub features_epoch: Option<i64>,
    /// The finalized features.
    pub features: Vec<Feature>,
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
    const API: ApiKey = ApiKey::ApiVersions;

    fn read(cursor: &mut Cursor<'_>, version: i16) -> Read<Self> {
        let error = read_error(cursor)?;
        let mut apis = cursor.array("api_keys", RANGE_MIN, read_range)?;
        cursor.keep_first(&mut apis, |range| range.api);
        let throttle = if version >= 1 {
            read_throttle(cursor)?
        } else {
            Duration::ZERO
        };
        let mut epoch = -1;
        let mut features = Vec::new();
        cursor.tagged(|cursor, tag| {
            match tag {
                // What could be finalized, and a state of brokers with ZooKeeper: known, not used.
                0 => drop(cursor.array("supported_features", FEATURE_MIN, read_feature)?),
                3 => {
                    cursor.bool("zk_migration_ready")?;
                }
                1 => epoch = cursor.i64("finalized_features_epoch")?,
                2 => features = cursor.array("finalized_features", FEATURE_MIN, read_feature)?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        let features_epoch = (epoch >= 0).then_some(epoch);
        Ok(Self {
            error,
            apis,
            throttle,
            features_epoch,
            features,
        })
    }
}

/// Smallest row: three numbers.
const RANGE_MIN: usize = 6;
/// Smallest feature: empty name, two levels, no tags.
const FEATURE_MIN: usize = 6;

fn read_range(cursor: &mut Cursor<'_>) -> Read<Range> {
    let api = cursor.i16("api_key")?;
    let min = cursor.i16("min_version")?;
    let max = cursor.i16("max_version")?;
    cursor.no_tags()?;
    Ok(Range { api, min, max })
}

fn read_feature(cursor: &mut Cursor<'_>) -> Read<Feature> {
    let name = cursor.text("feature name", IDENTIFIER_MAX)?.to_owned();
    let max_level = cursor.i16("max_version_level")?;
    let min_level = cursor.i16("min_version_level")?;
    cursor.no_tags()?;
    Ok(Feature {
        name,
        max_level,
        min_level,
    })
}
