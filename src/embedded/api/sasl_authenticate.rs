//! SaslAuthenticate (36), versions 0-2.
//!
//! - 1 tells how long the session lives (KIP-368), with the last answer only.

use bytes::Bytes;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::{SaslAuthenticateRequest, SaslAuthenticateResponse};
use kafka_protocol::protocol::StrBytes;

use super::super::call::{Call, Reply};
use super::super::cluster::Cluster;
use super::super::sasl::{Standing, Verdict};

pub(super) fn handle(
    cluster: &mut Cluster,
    call: &Call,
    request: &SaslAuthenticateRequest,
) -> Reply {
    let now = cluster.now;
    let (Some(sasl), Some(connection)) = (
        &cluster.settings.sasl,
        cluster.connections.get_mut(&call.connection),
    ) else {
        return refuse(call, ResponseError::IllegalSaslState, "no SASL here");
    };
    let Standing::Proving { server } = &mut connection.standing else {
        return refuse(call, ResponseError::IllegalSaslState, "no handshake before");
    };
    match server.step(sasl, &request.auth_bytes, call.connection) {
        Verdict::Challenge(token) => call.answer(&response(token)),
        Verdict::Accepted(token) => {
            let mechanism = server.mechanism();
            let until = sasl.session_max.map(|life| now + life);
            let life = sasl.session_max.map_or(0, |life| life.as_millis());
            connection.standing = Standing::Known { mechanism, until };
            let mut accepted = response(token);
            if call.version >= 1 {
                accepted.session_lifetime_ms = i64::try_from(life).unwrap_or(i64::MAX);
            }
            call.answer(&accepted)
        }
        Verdict::Refused(message) => {
            connection.standing = Standing::Refused;
            refuse(call, ResponseError::SaslAuthenticationFailed, &message)
        }
    }
}

fn refuse(call: &Call, error: ResponseError, message: &str) -> Reply {
    let message = StrBytes::from_string(message.to_owned());
    let refusal = response(Bytes::new())
        .with_error_code(error.code())
        .with_error_message(Some(message));
    call.answer(&refusal)
}

fn response(token: Bytes) -> SaslAuthenticateResponse {
    SaslAuthenticateResponse::default().with_auth_bytes(token)
}
