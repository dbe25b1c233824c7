//! Fuzz targets of nearside (wire.md 14): whatever a peer sends costs an error and a bounded amount
//! of memory.
//!
//! Each target is a plain function over bytes. `cargo fuzz run NAME --features libfuzzer` drives it
//! with coverage on a nightly compiler; the runner of this package mutates seeds on a stable one,
//! always in the same way for the same seed.

pub mod forge;
pub mod golden;
pub mod mutator;
pub mod rng;
pub mod runner;
pub mod script;
pub mod slow;
pub mod targets;

pub use targets::{Target, all, find};
