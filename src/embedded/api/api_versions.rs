//! ApiVersions (18), versions 0-4 (KIP-35, KIP-511).
//!
//! - An unknown version is answered with code 35 and the table, framed as version 0.
//! - The response header has no tagged fields at any version.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::api_versions_response::ApiVersion;
use kafka_protocol::messages::{ApiVersionsRequest, ApiVersionsResponse};

use super::super::Api;
use super::super::call::{Call, Reply};
use super::super::cluster::Cluster;
use super::super::sasl::Standing;

pub(super) fn handle(cluster: &mut Cluster, call: &Call, request: &ApiVersionsRequest) -> Reply {
    let connection = cluster.connections.get_mut(&call.connection);
    if let Some(Standing::Stranger { told }) = connection.map(|open| &mut open.standing) {
        *told = true;
    }
    let named = call.version >= 3;
    let code = if named && !is_client_name(&request.client_software_name) {
        ResponseError::InvalidRequest.code()
    } else {
        cluster.faults.error(call, false).unwrap_or(0)
    };
    call.answer(
        &table(cluster, call)
            .with_error_code(code)
            .with_throttle_time_ms(call.throttle_ms()),
    )
}

/// The answer to a version that the broker does not serve: a table for ApiVersions, a closed
/// connection for everything else.
pub(super) fn unsupported(cluster: &Cluster, call: &Call) -> Reply {
    if call.api != Api::ApiVersions {
        return Reply::Close;
    }
    let response = table(cluster, call).with_error_code(ResponseError::UnsupportedVersion.code());
    call.frame(&response, 0).map_or(Reply::Close, Reply::Answer)
}

fn table(cluster: &Cluster, call: &Call) -> ApiVersionsResponse {
    let range = |api: Api| {
        cluster
            .brokers
            .get(&call.broker)
            .map(|broker| broker.versions(api))
    };
    let row = |api: Api| {
        let (low, high) = range(api).filter(|(low, high)| low <= high)?;
        let row = ApiVersion::default().with_api_key(api.key());
        Some(row.with_min_version(low).with_max_version(high))
    };
    ApiVersionsResponse::default().with_api_keys(Api::ALL.into_iter().filter_map(row).collect())
}

fn is_client_name(name: &str) -> bool {
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    let inner = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-';
    edge(name.chars().next()) && edge(name.chars().last()) && name.chars().all(inner)
}
