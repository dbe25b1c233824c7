//! How the bytes of a record become the value a handler sees.

use std::error::Error as StdError;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{DeserializeOwned, Deserializer, Visitor};

use crate::records::Headers;

/// Decodes records. Runs on the handler pool, as part of the attempt (runtime.md H2).
pub trait Codec: Send + Sync + 'static {
    /// What handlers get.
    type Value: Send + 'static;

    /// Decodes one record. A null value, a tombstone on compacted topics, arrives as `None`.
    ///
    /// # Errors
    /// [`DecodeError`], which says whether the bytes are at fault.
    fn decode(
        &self,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: Headers<'_>,
    ) -> Result<Self::Value, DecodeError>;
}

/// Why a record could not be decoded.
#[non_exhaustive]
pub enum DecodeError {
    /// The bytes are wrong and stay wrong: the exhausted action is taken at once.
    Malformed(Box<dyn StdError + Send + Sync>),
    /// Something needed for decoding is away, for example a schema source: the attempt is retried.
    Transient(Box<dyn StdError + Send + Sync>),
}

impl DecodeError {
    /// The bytes are wrong, for the reason given as a text or an error.
    pub fn malformed(reason: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::Malformed(reason.into())
    }

    /// Decoding may work later.
    pub fn transient(reason: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::Transient(reason.into())
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(reason) => write!(f, "malformed: {reason}"),
            Self::Transient(reason) => write!(f, "cannot decode now: {reason}"),
        }
    }
}

impl fmt::Debug for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl StdError for DecodeError {}

/// Leaves records as they are. Its value has no size: nothing is decoded, copied or allocated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Raw;

impl Codec for Raw {
    type Value = Self;

    #[inline]
    fn decode(
        &self,
        _key: Option<&[u8]>,
        _value: Option<&[u8]>,
        _headers: Headers<'_>,
    ) -> Result<Self, DecodeError> {
        Ok(Self)
    }
}

/// Decodes values as JSON. A null value fits `Option<_>` only and is malformed for every other `T`.
pub struct Json<T>(PhantomData<fn() -> T>);

impl<T> Json<T> {
    /// The codec for `T`.
    pub const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<T> Clone for Json<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Json<T> {}

impl<T> Default for Json<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for Json<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Json<{}>", std::any::type_name::<T>())
    }
}

impl<T: DeserializeOwned + Send + 'static> Codec for Json<T> {
    type Value = T;

    fn decode(
        &self,
        _key: Option<&[u8]>,
        value: Option<&[u8]>,
        _headers: Headers<'_>,
    ) -> Result<T, DecodeError> {
        match value {
            Some(bytes) => serde_json::from_slice(bytes).map_err(DecodeError::malformed),
            None => T::deserialize(Null).map_err(DecodeError::malformed),
        }
    }
}

/// A null record value: nothing for an `Option`, an error for every other type. JSON's own `null`
/// would also satisfy the unit type and free-form values, which then could not tell a tombstone
/// from a document.
struct Null;

impl<'de> Deserializer<'de> for Null {
    type Error = serde::de::value::Error;

    fn deserialize_any<V: Visitor<'de>>(self, _visitor: V) -> Result<V::Value, Self::Error> {
        Err(serde::de::Error::custom("the record has a null value"))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        visitor.visit_none()
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_HEADERS: &[u8] = &[0];

    fn decode<T: DeserializeOwned + Send + 'static>(
        value: Option<&[u8]>,
    ) -> Result<T, DecodeError> {
        Json::<T>::new().decode(None, value, Headers::from_raw(NO_HEADERS))
    }

    #[test]
    fn a_null_value_fits_an_option_only() {
        assert_eq!(decode::<Option<u32>>(None).unwrap(), None);
        assert_eq!(decode::<Option<u32>>(Some(b"5")).unwrap(), Some(5));
        assert!(matches!(
            decode::<u32>(None),
            Err(DecodeError::Malformed(_))
        ));
        assert!(matches!(
            decode::<serde_json::Value>(None),
            Err(DecodeError::Malformed(_))
        ));
        assert!(matches!(decode::<()>(None), Err(DecodeError::Malformed(_))));
    }

    #[test]
    fn broken_json_is_malformed() {
        assert!(matches!(
            decode::<u32>(Some(b"{")),
            Err(DecodeError::Malformed(_))
        ));
    }
}
