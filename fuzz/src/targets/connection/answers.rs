//! What the broker answers, encoded by the protocol library.

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages as wire;
use kafka_protocol::messages::api_versions_response::ApiVersion;
use kafka_protocol::protocol::{Encodable, StrBytes};
use nearside::wire::{ApiKey, ours};

use super::host::Ask;
use crate::script::Script;

/// Codes that mean something to a connection.
const CODES: [i16; 6] = [0, 35, 42, 33, 34, 58];
/// Throttles in milliseconds.
const THROTTLES: [i32; 5] = [0, 1, 2_000, i32::MAX, -1];
/// Lifetimes of a session in milliseconds.
const LIFETIMES: [i64; 6] = [0, 1, 5_000, 60_000, i64::MAX, -1];

/// Knobs of an answer.
#[derive(Clone, Copy)]
struct Tone {
    code: i16,
    throttle: i32,
    lifetime: i64,
    /// The broker serves no more than this.
    newest: i16,
}

const FINE: Tone = Tone {
    code: 0,
    throttle: 0,
    lifetime: 60_000,
    newest: i16::MAX,
};

/// A broker's ordinary answer.
pub(super) fn good(ask: &Ask) -> Bytes {
    body(ask, FINE).unwrap_or_default()
}

/// An answer with a knob turned, and perhaps with bytes behind it.
pub(super) fn odd(ask: &Ask, script: &mut Script<'_>) -> Bytes {
    let mut tone = FINE;
    match script.below(5) {
        0 => tone.code = script.pick(&CODES),
        1 => tone.newest = script.below(16) as i16,
        2 => tone.lifetime = script.pick(&LIFETIMES),
        3 => tone.throttle = script.pick(&THROTTLES),
        _ => {
            let trailing = [&good(ask), script.field()].concat();
            return trailing.into();
        }
    }
    body(ask, tone).unwrap_or_default()
}

fn body(ask: &Ask, tone: Tone) -> Option<Bytes> {
    let Tone { code, throttle, .. } = tone;
    let version = ask.version;
    macro_rules! throttled {
        ($response:ident) => {
            encode(
                &wire::$response::default().with_throttle_time_ms(throttle),
                version,
            )
        };
        ($response:ident with code) => {
            encode(
                &wire::$response::default()
                    .with_throttle_time_ms(throttle)
                    .with_error_code(code),
                version,
            )
        };
    }
    match ask.api {
        ApiKey::ApiVersions => api_versions(version, tone),
        ApiKey::SaslHandshake => encode(
            &wire::SaslHandshakeResponse::default()
                .with_error_code(code)
                .with_mechanisms(vec![StrBytes::from_static_str("PLAIN")]),
            version,
        ),
        ApiKey::SaslAuthenticate => encode(
            &wire::SaslAuthenticateResponse::default()
                .with_error_code(code)
                .with_session_lifetime_ms(tone.lifetime),
            version,
        ),
        ApiKey::Metadata if version >= 13 => throttled!(MetadataResponse with code),
        ApiKey::Metadata => throttled!(MetadataResponse),
        ApiKey::Fetch => throttled!(FetchResponse with code),
        ApiKey::Produce => throttled!(ProduceResponse),
        ApiKey::Heartbeat => throttled!(HeartbeatResponse with code),
        ApiKey::JoinGroup => throttled!(JoinGroupResponse with code),
        ApiKey::SyncGroup => throttled!(SyncGroupResponse with code),
        ApiKey::OffsetCommit => throttled!(OffsetCommitResponse),
        ApiKey::FindCoordinator if version >= 4 => throttled!(FindCoordinatorResponse),
        ApiKey::FindCoordinator => throttled!(FindCoordinatorResponse with code),
        ApiKey::ListOffsets => throttled!(ListOffsetsResponse),
        api => panic!("{api} was not asked"),
    }
}

/// A refusal of the version comes in version 0, with the row of ApiVersions in it.
fn api_versions(version: i16, tone: Tone) -> Option<Bytes> {
    let row = |api: ApiKey| {
        let max = ours(api).max.min(tone.newest);
        ApiVersion::default()
            .with_api_key(api.code())
            .with_max_version(max)
    };
    let refused = tone.code == 35;
    let response = wire::ApiVersionsResponse::default()
        .with_error_code(tone.code)
        .with_api_keys(ApiKey::ALL.into_iter().map(row).collect());
    match version {
        _ if refused => encode(&response, 0),
        0 => encode(&response, 0),
        _ => encode(&response.with_throttle_time_ms(tone.throttle), version),
    }
}

fn encode(message: &impl Encodable, version: i16) -> Option<Bytes> {
    let mut out = BytesMut::new();
    message.encode(&mut out, version).ok()?;
    Some(out.freeze())
}

/// A frame without its length: correlation id, no tags where the header has them, body.
pub(super) fn frame(ask: &Ask, correlation: i32, body: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(5 + body.len());
    frame.put_i32(correlation);
    if ask.api.response_header(ask.version) > 0 {
        frame.put_u8(0);
    }
    frame.put_slice(body);
    frame.freeze()
}
