//! InitProducerId (22), versions 0-5. 3 resumes with id and epoch (KIP-360).
//!
//! Idempotent producers only: transactions are not part of the embedded cluster.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::{InitProducerIdRequest, InitProducerIdResponse, ProducerId};

use super::super::call::{Call, Reply};
use super::super::cluster::Cluster;

pub(super) fn handle(cluster: &mut Cluster, call: &Call, request: &InitProducerIdRequest) -> Reply {
    let refused = || {
        let response = InitProducerIdResponse::default().with_producer_id(ProducerId(-1));
        response
            .with_producer_epoch(-1)
            .with_throttle_time_ms(call.throttle_ms())
    };
    if let Some(code) = cluster.faults.error(call, false) {
        return call.answer(&refused().with_error_code(code));
    }
    if request.transactional_id.is_some() {
        let code = ResponseError::TransactionalIdAuthorizationFailed.code();
        return call.answer(&refused().with_error_code(code));
    }
    let resumes = call.version >= 3 && request.producer_id.0 >= 0;
    let raised = request.producer_epoch.checked_add(1).filter(|_| resumes);
    let (id, epoch) = match raised {
        Some(epoch) => (request.producer_id.0, epoch),
        None => {
            cluster.next_producer += 1;
            (cluster.next_producer, 0)
        }
    };
    call.answer(
        &InitProducerIdResponse::default()
            .with_throttle_time_ms(call.throttle_ms())
            .with_producer_id(ProducerId(id))
            .with_producer_epoch(epoch),
    )
}
