//! One file per API of the protocol: versions and facts on top, then what a broker does.

pub(super) mod api_versions;
pub(super) mod fetch;
pub(super) mod metadata;
pub(super) mod produce;

use bytes::Bytes;

use super::Api;
use super::call::{Call, Reply};
use super::cluster::Cluster;

/// Decodes and answers one request.
pub(super) fn handle(cluster: &mut Cluster, call: &Call, mut body: Bytes) -> Reply {
    let (low, high) = cluster
        .brokers
        .get(&call.broker)
        .map_or((0, -1), |b| b.versions(call.api));
    if !(low..=high).contains(&call.version) {
        return api_versions::unsupported(cluster, call);
    }
    macro_rules! serve {
        ($api:ident) => {
            match call.body(&mut body) {
                Some(request) => $api::handle(cluster, call, request),
                None => Reply::Close,
            }
        };
    }
    match call.api {
        Api::ApiVersions => serve!(api_versions),
        Api::Metadata => serve!(metadata),
        Api::Fetch => serve!(fetch),
        Api::Produce => serve!(produce),
        _ => Reply::Close,
    }
}
