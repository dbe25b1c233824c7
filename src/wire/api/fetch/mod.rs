//! Fetch (1), versions 10-18: 11 hints (KIP-392), 12 diverging epochs and flexible, 13 topic ids,
//! 16 node endpoints (KIP-951).
//!
//! A response is validated once, then iterated: a [`Row`] borrows nothing, its records and its
//! aborted transactions are slices of the frame, and nothing is kept per partition.

mod request;
mod response;

pub use request::{Forgotten, Partition, Request};
pub use response::{Aborted, AbortedTransaction, EpochEnd, Response, Row, Rows};
