//! Fetch.
#[derive(Debug)]
pub(in super::super) struct Sessions {}
impl Sessions {
    pub(in super::super) fn new(_n: usize) -> Self {
        Self {}
    }
}
#[derive(Debug)]
pub(in super::super) struct Waiting {
    pub(in super::super) due: crate::ids::Moment,
}
#[derive(Debug, Clone, Copy)]
pub(in super::super) enum Wake {
    Records,
    Leadership,
}
pub(in super::super) fn expire(
    _c: &mut super::super::cluster::Cluster,
    _i: super::super::ConnectionId,
    _w: Waiting,
) {
}
pub(in super::super) fn wake(
    _c: &mut super::super::cluster::Cluster,
    _k: super::super::topics::PartitionKey,
    _b: crate::ids::BrokerId,
    _w: Wake,
) {
}
