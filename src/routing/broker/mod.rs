//! The link to one broker: who wants what from it, and how that becomes Fetch requests (metadata.md
//! 12).
//!
//! # Duties of the host of a link
//!
//! * Carry out [`Output::Send`] on the connection of its class and hand the answer back under its
//!   ticket; when the connection ends, [`Input::LinkLost`] alone tells of all its tickets. One
//!   Fetch per lane is in flight at a time.
//! * Put link, version, breaker and v10 facts into the [`Brokers`](crate::routing::Brokers) table
//!   of every thread before the routes concerned hear of them.
//! * Hand in a lot of demands before draining [`Broker::poll_output`]: they leave in one request.
//! * A row consumes its demand. The lane's next Fetch waits until every partition that got a row
//!   has wanted again or withdrawn, at most `fetch.max.wait.ms`; then who still has no room leaves
//!   the session.
//! * Raise [`Input::Progress`] when bytes of an answer came in that is not whole yet, at most every
//!   100 ms per connection.
//! * Divide one [`ProbeBudget`] among the links of a client: hand it what [`Output::Probing`]
//!   tells, and each link its [`Input::ProbeShare`].
//! * Raise [`Input::Muted`] when any connection of the broker reports a throttle (KIP-219).

mod answer;
mod appetite;
mod asked;
mod breaker;
mod hedges;
mod input;
mod lane;
mod leaving;
mod machine;
mod members;
mod output;
mod probes;
mod round_trip;
mod session;
mod settings;
mod share;
#[cfg(test)]
mod tests;
mod vigil;

pub use input::Input;
pub use machine::Broker;
pub use output::{Count, Output, Ticket, Traffic};
pub use settings::Settings;
pub use share::{ProbeBudget, ProbeNeed, ProbeShare};
