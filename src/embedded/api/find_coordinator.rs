//! FindCoordinator (10), versions 0-6. 1 key type; 4 several keys in one request (KIP-699).

use kafka_protocol::ResponseError;
use kafka_protocol::messages::find_coordinator_response::Coordinator;
use kafka_protocol::messages::{
    BrokerId as WireBroker, FindCoordinatorRequest, FindCoordinatorResponse,
};
use kafka_protocol::protocol::StrBytes;

use super::super::call::{Call, Reply};
use super::super::cluster::Cluster;
use crate::ids::GroupId;

pub(super) fn handle(
    cluster: &mut Cluster,
    call: &Call,
    request: &FindCoordinatorRequest,
) -> Reply {
    let response = FindCoordinatorResponse::default().with_throttle_time_ms(call.throttle_ms());
    if call.version >= 4 {
        let keys = request.coordinator_keys.iter().cloned();
        let rows = keys.map(|key| find(cluster, call, key)).collect();
        return call.answer(&response.with_coordinators(rows));
    }
    let found = find(cluster, call, request.key.clone());
    call.answer(
        &response
            .with_error_code(found.error_code)
            .with_node_id(found.node_id)
            .with_host(found.host)
            .with_port(found.port),
    )
}

fn find(cluster: &mut Cluster, call: &Call, key: StrBytes) -> Coordinator {
    let group = GroupId::from(key.as_str());
    let none = Coordinator::default()
        .with_key(key)
        .with_node_id(WireBroker(-1))
        .with_port(-1);
    if cluster.faults.denies_group(&group) {
        return none.with_error_code(ResponseError::GroupAuthorizationFailed.code());
    }
    if let Some(code) = cluster.faults.error(call, false) {
        return none.with_error_code(code);
    }
    let broker = cluster
        .coordinator(&group)
        .and_then(|broker| cluster.brokers.get(&broker));
    match broker {
        None => none.with_error_code(ResponseError::CoordinatorNotAvailable.code()),
        Some(broker) => none
            .with_node_id(WireBroker(broker.settings.id.0))
            .with_host(StrBytes::from_string(broker.settings.host.clone()))
            .with_port(i32::from(broker.settings.port)),
    }
}
