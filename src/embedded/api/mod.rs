//! One file per API of the protocol: versions and facts on top, then what a broker does.

mod api_versions;
mod create_topics;
pub(super) mod fetch;
mod find_coordinator;
mod heartbeat;
mod init_producer_id;
pub(super) mod join_group;
mod leave_group;
mod list_offsets;
mod metadata;
mod offset_commit;
mod offset_fetch;
mod offset_for_leader_epoch;
pub(super) mod produce;
mod sasl_authenticate;
mod sasl_handshake;
pub(super) mod sync_group;

use bytes::Bytes;

use super::Api;
use super::call::{Call, Reply};
use super::cluster::Cluster;

/// Decodes and answers one request.
pub(super) fn handle(cluster: &mut Cluster, call: &Call, mut body: Bytes) -> Reply {
    let now = cluster.now;
    let admitted = cluster
        .connections
        .get(&call.connection)
        .is_some_and(|connection| connection.standing.admits(call.api, now));
    if !admitted {
        return Reply::Close;
    }
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
                Some(request) => $api::handle(cluster, call, &request),
                None => Reply::Close,
            }
        };
    }
    match call.api {
        Api::Produce => serve!(produce),
        Api::Fetch => serve!(fetch),
        Api::ListOffsets => serve!(list_offsets),
        Api::Metadata => serve!(metadata),
        Api::OffsetCommit => serve!(offset_commit),
        Api::OffsetFetch => serve!(offset_fetch),
        Api::FindCoordinator => serve!(find_coordinator),
        Api::JoinGroup => serve!(join_group),
        Api::Heartbeat => serve!(heartbeat),
        Api::LeaveGroup => serve!(leave_group),
        Api::SyncGroup => serve!(sync_group),
        Api::SaslHandshake => serve!(sasl_handshake),
        Api::ApiVersions => serve!(api_versions),
        Api::CreateTopics => serve!(create_topics),
        Api::InitProducerId => serve!(init_producer_id),
        Api::OffsetForLeaderEpoch => serve!(offset_for_leader_epoch),
        Api::SaslAuthenticate => serve!(sasl_authenticate),
    }
}
