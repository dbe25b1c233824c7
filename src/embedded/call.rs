//! One request on its way: who asked what, where, and how the answer is framed.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::ResponseHeader;
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, StrBytes};

use super::{Api, ConnectionId};
use crate::ids::BrokerId;

/// The header of a request, and where it arrived.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) connection: ConnectionId,
    pub(super) broker: BrokerId,
    pub(super) api: Api,
    pub(super) version: i16,
    pub(super) correlation: i32,
    pub(super) client_id: Option<StrBytes>,
    /// What the fault plan makes of the answer's throttle time.
    pub(super) throttle: Duration,
    /// How much later than usual the fault plan has the answer come.
    pub(super) delay: Duration,
    /// Whether the fault plan has the answer break off.
    pub(super) garble: bool,
}

/// What a broker does with a request.
#[derive(Debug)]
pub(super) enum Reply {
    /// Answers with this frame.
    Answer(Bytes),
    /// Takes the next request; this one has no answer (`acks=0`).
    Nothing,
    /// Has stored the call and answers later.
    Parked,
    /// Closes the connection: the request makes no sense.
    Close,
}

impl Call {
    /// Frames `response` for this call.
    pub(super) fn answer<R: Encodable + HeaderVersion>(&self, response: &R) -> Reply {
        self.frame(response, self.version)
            .map_or(Reply::Close, Reply::Answer)
    }

    /// Frames `response` at a version other than the request's (ApiVersions, KIP-511).
    pub(super) fn frame<R: Encodable + HeaderVersion>(
        &self,
        response: &R,
        version: i16,
    ) -> Option<Bytes> {
        const HEADER_BYTES_MAX: usize = 16;
        let size = response.compute_size(version).ok()?;
        let mut buffer = BytesMut::with_capacity(size + HEADER_BYTES_MAX);
        ResponseHeader::default()
            .with_correlation_id(self.correlation)
            .encode(&mut buffer, R::header_version(version))
            .ok()?;
        response.encode(&mut buffer, version).ok()?;
        Some(buffer.freeze())
    }

    /// Decodes the request's body; `None` if it is malformed or has bytes left over.
    pub(super) fn body<R: Decodable>(&self, body: &mut Bytes) -> Option<R> {
        let request = R::decode(body, self.version).ok()?;
        body.is_empty().then_some(request)
    }

    /// The throttle time as the wire has it, in milliseconds.
    pub(super) fn throttle_ms(&self) -> i32 {
        i32::try_from(self.throttle.as_millis()).unwrap_or(i32::MAX)
    }
}
