//! The idempotent producer in virtual time, against a played cluster.

mod answers;
mod expiry;
mod order;
mod played;
mod rig;
mod spread;
