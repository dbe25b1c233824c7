//! The one view of the cluster: immutable snapshot, epoch-guarded merge, diff events, refresh discipline.
