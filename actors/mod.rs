//! Everything that acts: the only place that names actix.
//!
//! An actor translates a message, calls its core machine and runs the outputs. It decides nothing.

mod broker;
mod clock;
mod coordinator;
mod directory;
mod entropy;
mod handler;
mod mailbox;
mod metadata;
mod net;
mod partition;
mod placement;
mod spawn;
mod supervise;
mod telemetry;

pub use net::{BoxFuture, Stream, Tcp, Transport};
pub(crate) use placement::Placement;
pub(crate) use supervise::{Blueprint, Command, launch};
pub(crate) use telemetry::Telemetry;
