//! Frames, versions, bounded decoders and the connection machine.
//!
//! [`Request`] and [`Response`] are plain data over the APIs in [`api`]; [`VersionTable`] says what
//! one broker serves; a [`Deframer`] turns bytes into frames; a [`Connection`] turns requests into
//! answers. Peer bytes never panic and never allocate on their word.
//!
//! # Hosting a connection
//!
//! A [`Connection`] is pure: no socket, no clock, no randomness. Its host runs this loop.
//!
//! 1. Hand in one [`Input`] with a random sample and the present moment: [`Connection::handle`].
//! 2. Act on every output until [`Connection::poll_output`] answers `None`, in order.
//! 3. Sleep until [`Connection::next_deadline`] or the next input. A passed deadline is
//!    [`Input::Tick`]; a tick too many does no harm.
//!
//! | output | the host |
//! |---|---|
//! | [`Output::Resolve`] | resolves, answers [`Input::Resolved`] |
//! | [`Output::Dial`] | opens a socket with a [`Deframer`] of its own, answers [`Input::Dialed`] |
//! | [`Output::StartTls`] | shakes hands, answers [`Input::Tls`] |
//! | [`Output::Sasl`] | steps the mechanism ([`sasl::Exchange`]), answers [`Input::Sasl`] |
//! | [`Output::Write`] | pushes the tier ([`Deframer::expect`]), **then** writes; may join writes |
//! | [`Output::Close`] | closes the socket, or gives its dial up; needs no answer |
//! | [`Output::Completed`] | hands the result to the [`Token`]'s owner; each token comes once |
//! | [`Output::Throttled`] | hands [`Input::Mute`] to the broker's data and control connections |
//! | [`Event::Malformed`] | hands [`Input::Malformed`] to all other connections of the node |
//! | [`Output::TwinWanted`] | opens a second machine, drains this one when that is ready |
//! | [`Output::Returned`] | hands it to the machine that took over, as [`Input::Adopt`] |
//! | [`Output::Event`] | logs and counts |
//!
//! One task reads a socket: it fills [`Deframer::buffer`], hands every [`Deframer::next_frame`] in
//! as [`Input::Frame`], and a deframer's error as [`Input::Broken`]. When reading or writing ends,
//! both end, and the host hands in one [`Input::Lost`] with the number of bytes ever written: it
//! decides which requests certainly never left. Inputs that name an earlier socket are ignored, so
//! a late task does no harm.
//!
//! Requests may be handed in at any time in any state: they wait, and end by their own deadline
//! whatever happens.

pub mod api;
mod api_key;
mod connection;
pub(crate) mod cursor;
mod error;
mod error_code;
mod flaw;
mod frame;
mod message;
pub mod sasl;
mod versions;

pub use api_key::ApiKey;
pub use connection::{
    Carried, Challenge, Class, Completion, Connection, Distrust, DrainReason, Event, Input,
    Outcome, Output, Reason, RequestError, RequestFailure, SaslStep, Security, Settings, SocketId,
    StateName, Target, TlsFailure, Token,
};
pub use error::{DecodeError, EncodeError};
pub use error_code::ErrorCode;
pub use flaw::{Flaw, Oddities};
pub use frame::{Caps, Deframer, FrameError, PortMixup, Tier};
pub use message::{Request, Response};
pub use versions::{UnsupportedVersion, VersionRange, VersionTable, is_required, ours};
