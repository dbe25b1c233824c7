//! The simulator: whole members of a group against the embedded cluster, in virtual time, under
//! faults drawn from a seed. A seed reproduces its run exactly:
//!
//! ```text
//! SEED=123 cargo test --test sim one_seed -- --nocapture
//! SEEDS=100000 cargo test --release --test sim many_seeds -- --nocapture
//! ```

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "what is missing fails the test"
)]
#![expect(clippy::print_stdout, reason = "runs are reported")]
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a method takes the few faults it is for"
)]

mod chance;
mod faults;
mod gaps;
mod judge;
mod member;
#[path = "../core/rig/net.rs"]
mod net;
mod paths;
mod plan;
#[path = "../core/rig/probing.rs"]
mod probing;
mod seeds;
#[path = "../core/rig/step.rs"]
mod step;
mod trail;
mod world;
