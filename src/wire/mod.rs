//! Frames, versions, bounded decoders and the connection machine.
//!
//! [`Request`] and [`Response`] are plain data over the APIs in [`api`]; [`VersionTable`] says what one broker
//! serves; a [`Deframer`] turns bytes into frames. Peer bytes never panic and never allocate on their word.

pub mod api;
mod api_key;
pub(crate) mod cursor;
mod error;
mod error_code;
mod frame;
mod message;
mod versions;

pub use api_key::ApiKey;
pub use cursor::{Flaw, Oddities};
pub use error::{DecodeError, EncodeError};
pub use error_code::ErrorCode;
pub use frame::{Caps, Deframer, FrameError, PortMixup, Tier};
pub use message::{Request, Response};
pub use versions::{UnsupportedVersion, VersionRange, VersionTable, is_required, ours};
