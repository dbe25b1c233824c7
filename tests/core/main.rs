//! Scenarios of the pure machines, in virtual time.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "what is missing fails the test"
)]

mod handler;
mod metadata_hints;
mod metadata_merge;
mod metadata_refresh;
mod metadata_rig;
