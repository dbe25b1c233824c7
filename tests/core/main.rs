//! Scenarios of the pure machines, in virtual time.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "what is missing fails the test"
)]

mod handler;
