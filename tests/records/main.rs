//! Record batches: what is read, and what is refused.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a test may panic, and the batches it builds are small"
)]

mod bombs;
mod committed;
mod damage;
mod forge;
mod legacy;
mod mutations;
mod peer;
mod reading;
mod round_trip;
