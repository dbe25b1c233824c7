//! SaslHandshake (17), versions 0-1.
//!
//! - A listener without SASL, and a connection that renews its session by another mechanism, get
//!   34.
//! - Version 0 means raw tokens (before KIP-152), which are not spoken here: the connection closes.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::{SaslHandshakeRequest, SaslHandshakeResponse};
use kafka_protocol::protocol::StrBytes;

use super::super::call::{Call, Reply};
use super::super::cluster::Cluster;
use super::super::sasl::{Server, Standing};
use crate::wire::sasl::Mechanism;

pub(super) fn handle(cluster: &mut Cluster, call: &Call, request: &SaslHandshakeRequest) -> Reply {
    let (Some(sasl), Some(connection)) = (
        &cluster.settings.sasl,
        cluster.connections.get_mut(&call.connection),
    ) else {
        return refuse(call, ResponseError::IllegalSaslState, &[]);
    };
    if call.version == 0 {
        return Reply::Close;
    }
    let named = |mechanism: &&Mechanism| mechanism.name() == request.mechanism.as_str();
    let Some(mechanism) = sasl.mechanisms.iter().find(named).copied() else {
        return refuse(
            call,
            ResponseError::UnsupportedSaslMechanism,
            &sasl.mechanisms,
        );
    };
    let renewing = match connection.standing {
        Standing::Known { mechanism, .. } => Some(mechanism),
        Standing::Open
        | Standing::Stranger { .. }
        | Standing::Proving { .. }
        | Standing::Refused => None,
    };
    if renewing.is_some_and(|known| known != mechanism) {
        return refuse(call, ResponseError::IllegalSaslState, &sasl.mechanisms);
    }
    connection.standing = Standing::Proving {
        server: Box::new(Server::new(mechanism)),
    };
    call.answer(&response(&sasl.mechanisms))
}

fn refuse(call: &Call, error: ResponseError, offered: &[Mechanism]) -> Reply {
    call.answer(&response(offered).with_error_code(error.code()))
}

fn response(offered: &[Mechanism]) -> SaslHandshakeResponse {
    let name = |mechanism: &Mechanism| StrBytes::from_static_str(mechanism.name());
    SaslHandshakeResponse::default().with_mechanisms(offered.iter().map(name).collect())
}
