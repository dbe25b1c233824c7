//! Everything that acts: the only place that names actix.
//!
//! An actor translates a message, calls its core machine and runs the outputs. It decides nothing.

mod broker;
mod clock;
mod coordinator;
mod diagnostics;
mod directory;
mod entropy;
mod handler;
mod mailbox;
mod metadata;
mod net;
mod oddities;
mod partition;
mod placement;
mod producer;
mod spawn;
mod status;
mod supervise;
mod telemetry;
mod trace;

#[cfg(feature = "cli")]
pub(crate) use clock::{Clock, unix_ms};
#[cfg(feature = "cli")]
pub(crate) use entropy::Entropy;
pub(crate) use net::canonical_bootstrap;
pub use net::{AccessToken, BoxFuture, Stream, Tcp, TokenProvider, Transport};
#[cfg(feature = "cli")]
pub(crate) use net::{IoInput, Net, Port, PortId, Said, target};
pub(crate) use placement::Placement;
pub(crate) use supervise::{Blueprint, Command, launch};
pub(crate) use telemetry::Telemetry;

/// The event loop that actors of the current thread need.
pub(crate) fn system() -> actix::SystemRunner {
    actix::System::new()
}
