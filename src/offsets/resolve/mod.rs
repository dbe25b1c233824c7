//! Leader-side offset resolution: where to read, and whether our history is still the leader's
//! (runtime.md 6, routing.md 11 to 13).
//!
//! [`Resolver`] decides; its host, the coordinator's, acts. Only it sends OffsetFetch, ListOffsets
//! and OffsetForLeaderEpoch. The host
//!
//! * turns a route's questions into [`Input::Resolve`] and its own [`Output::Resolved`] back into
//!   the route's input: [`Outcome::Committed`], [`Outcome::Reset`], [`Outcome::At`] and
//!   [`Outcome::Inside`] are found offsets, [`Outcome::Agrees`], [`Outcome::Unknown`] and
//!   [`Outcome::Truncated`] verdicts; a `Truncated` that answers an out-of-range question is a
//!   found offset too;
//! * commits the offset of a [`Outcome::Reset`] that had no commit at once
//!   ([`Due::Now`](super::commit::Due::Now)), so that a restart before the first record does not
//!   reset again (X8);
//! * turns [`Output::Unanswered`] into the route's input of that name;
//! * sends [`Output::Send`] and returns exactly one [`Input::Answer`] for it;
//! * refreshes the metadata of [`Output::Refresh`] and gives [`Input::MetadataChanged`] with each
//!   new snapshot;
//! * passes on the member's standing and whether the coordinator is known;
//! * gives [`Input::Forget`] for partitions released or lost.

mod answer;
mod io;
mod job;
mod judge;
mod lanes;
mod owed;
mod resolver;

pub use io::{
    Event, Input, LeaderView, Outcome, Output, Question, Reset, ResetCause, Settings, To,
};
pub use resolver::Resolver;
