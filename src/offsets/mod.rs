//! Position, completion ledger, commits and leader-side offset resolution (runtime.md 6 and 7).
//!
//! [`Ledger`] is the account of one partition and lives in the partition's cell. [`Committer`] is
//! the commit plan of one group, [`Resolver`] finds where its partitions start, [`Sampler`] whether
//! a replica that stands still lags behind its leader.

pub mod commit;
mod ledger;
pub mod resolve;
mod runs;
pub mod sampler;

pub use commit::Committer;
pub use ledger::Ledger;
pub use resolve::Resolver;
pub use runs::{Run, Runs};
pub use sampler::Sampler;
