//! The commit plan: when, in which requests, and with what consequences offsets are committed
//! (runtime.md L7, L8).
//!
//! [`Committer`] decides; its host, the coordinator's, acts. The host
//!
//! * gives [`Input::Observed`] whenever a ledger's watermark moved, with the partition's assignment
//!   epoch;
//! * passes on the member's [`Standing`](crate::group::Standing) and whether the coordinator is
//!   known;
//! * sends [`Output::Send`] and returns exactly one [`Input::Answer`] for it;
//! * gives [`Input::Flush`] at the end of a drain and goes on with [`Output::Flushed`];
//! * gives [`Input::Forget`] when partitions are released (after their flush) or lost (before
//!   anything else);
//! * passes [`Output::CoordinatorMoved`] and [`Output::Refused`] to the member.

mod answer;
mod committer;
mod flush;
mod io;
mod judge;
mod row;

pub use committer::Committer;
pub use io::{Due, Event, FlushId, Input, Observed, Output, Settings};
