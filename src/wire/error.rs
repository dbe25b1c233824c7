//! Why a body could not be encoded or decoded.

use std::fmt;

use crate::wire::api_key::ApiKey;
use crate::wire::cursor::{Flaw, Malformed};

/// A response that breaks the protocol: names the place, never the bytes (wire.md 7 D9).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DecodeError {
    /// The API answered.
    pub api: ApiKey,
    /// The version it was asked at.
    pub version: i16,
    /// The field that is wrong.
    pub field: &'static str,
    /// Offset of the field in the response body, in bytes.
    pub at: usize,
    /// What is wrong with it.
    pub flaw: Flaw,
}

impl DecodeError {
    pub(crate) fn new(api: ApiKey, version: i16, malformed: Malformed) -> Self {
        let Malformed { field, at, flaw } = malformed;
        Self {
            api,
            version,
            field,
            at,
            flaw,
        }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            api,
            version,
            field,
            at,
            flaw,
        } = self;
        write!(
            f,
            "malformed {api} v{version} response: {field} at byte {at} {flaw}"
        )
    }
}

impl std::error::Error for DecodeError {}

/// A request that its version cannot carry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EncodeError {
    /// The API asked.
    pub api: ApiKey,
    /// The version chosen.
    pub version: i16,
    /// What does not fit.
    pub reason: String,
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "cannot encode {} v{}: {}",
            self.api, self.version, self.reason
        )
    }
}

impl std::error::Error for EncodeError {}
