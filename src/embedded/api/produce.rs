//! Produce.
#[derive(Debug)]
pub(in super::super) struct ProducerState {}
#[derive(Debug)]
pub(in super::super) struct Waiting {
    pub(in super::super) due: crate::ids::Moment,
}
pub(in super::super) fn expire(_c: &mut super::super::cluster::Cluster, _w: Waiting) {}
pub(in super::super) fn wake(
    _c: &mut super::super::cluster::Cluster,
    _k: super::super::topics::PartitionKey,
) {
}
