//! Position, completion ledger, commits and leader-side offset resolution (runtime.md 6 and 7).
//!
//! [`Ledger`] is the account of one partition and lives in the partition's cell. [`Committer`] is
//! the commit plan of one group.

pub mod commit;
mod ledger;
mod runs;

pub use commit::Committer;
pub use ledger::Ledger;
pub use runs::{Run, Runs};
