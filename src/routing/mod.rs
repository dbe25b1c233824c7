//! From which broker each partition is read (KIP-392), and what every answer does to that decision.
//!
//! Two machines, both pure. [`Route`] (one per assigned partition) decides: it is `Parked`, at the
//! `Leader`, at a `Follower` under a lease, or `Forced` to the leader on a lane that carries no
//! rack, so that a replica that must not be read costs no record. [`broker::Broker`] (one per
//! broker) carries demand to the wire: two lanes with a fetch session each (KIP-227), probes, and
//! the breaker.
//!
//! # Duties of the host of a route
//!
//! * Apply a changed fact to [`Brokers`] first, then hand in the [`Input`] that names the broker,
//!   to every route that [`concerns`](Route::concerns) it.
//! * After each input carry out the outputs in order, until [`Route::poll_output`] is empty.
//! * [`Output::Want`], `Withdraw`, `Drain`, `Probe`, `CancelProbe`, `Hedge`, `CancelHedge`,
//!   `Cooling`, `DropLane` and `Dial` go to the broker machine named, whose `Row`, `Drained`,
//!   `ProbeRow`, `ProbeFailed`, `HedgeRow`, `HedgeFailed` and `Permit` come back as inputs.
//! * Silence of a lane is a fact with an edge: [`Input::Silent`] is handed in each time a lane
//!   misses a deadline, also while it is silent already; the fact ends with the lane's next answer,
//!   and with its connection.
//! * A row consumes its demand. The route wants again or withdraws in the same call, unless it
//!   delivered ([`Output::Deliver`]): then it waits for [`Input::Indexed`], which is owed before
//!   the next row. A buffer without room is told by [`Input::Room`]; the link holds its lane for
//!   that partition at most `fetch.max.wait.ms`.
//! * [`Output::Resolve`] and [`Output::Validate`] are questions to the coordinator actor, which
//!   repeats the confirming question of routing.md 12 and the hold of routing.md 11 step 5 by
//!   itself. A late answer does no harm.
//! * KIP-951 leadership goes from the broker machine straight to the metadata machine, whatever the
//!   route thinks of the row (gate G0); it comes back as [`Input::LeaderChanged`].
//! * Hand in [`Input::Tick`] when [`Route::next_deadline`] has passed.

pub mod broker;

mod change;
mod codes;
mod cooldown;
mod demand;
pub mod diagnostics;
mod event;
mod facts;
mod health;
mod hint;
mod input;
mod lease;
mod marks;
mod output;
mod refuge;
mod retry;
mod route;
mod settings;
mod stamp;
mod state;
#[cfg(test)]
mod tests;
mod timer;
pub mod trace;
mod transition;
mod watch;

pub use cooldown::Fault;
pub use event::{Bound, Endpoint, Event, Halt, Reason, RoutingChange};
pub use facts::{Breaker, BrokerFacts, Brokers, Class, FOLLOWER_FETCH, Link};
pub use health::Health;
pub use input::{Assigned, Found, Indexed, Input, Leadership, LinkChange, Source, Verdict};
pub use lease::{Hold, Lease};
pub use marks::{Lag, Watermarks};
pub use output::{Count, Delivery, Demand, Output, Resolve};
pub use route::Route;
pub use settings::{CooldownBases, CooldownPolicy, FollowHints, IsrPolicy, RefugePolicy, Settings};
pub use stamp::{Gate, HedgeId, Kind, Lane, ProbeId, Role, Stamp};
pub use state::{Position, Probe, State, Until, Why, Wish};
