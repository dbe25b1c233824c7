//! Builder, handle, events and report of a fleet: everything a process runs under one
//! configuration.

mod builder;
mod event;
mod handle;
mod report;
mod stop;
mod victim;

pub use crate::actors::{AccessToken, BoxFuture, Stream, Tcp, TokenProvider, Transport};
pub use builder::{Absent, Fleet, FleetBuilder, Present, StartAt};
pub use event::{Event, NumberedEvent, RouteChange, RouteEnd, RouteLease};
pub use handle::FleetHandle;
pub use report::{
    BudgetReport, DiagnosticReport, FetchedBytes, FleetReport, LaneName, PartitionReport, Totals,
    Zone,
};
pub use stop::{StopReason, Stopped, Unfinished};
#[doc(hidden)]
pub use victim::Victim;
