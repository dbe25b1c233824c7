//! Sockets for the connection machines: the only place that opens, reads and writes them.

mod alarm;
mod canonical;
mod lapses;
mod login;
mod meter;
mod port;
mod reading;
mod socket;
mod tls;
mod token_file;
mod tokens;
mod transport;

pub(crate) use alarm::Alarm;
pub(crate) use canonical::canonical_bootstrap;
pub(crate) use port::{IoInput, IoNews, Net, Port, PortId, Said, target};
pub(crate) use tls::Reload;
pub use tokens::{AccessToken, TokenProvider};
pub use transport::{BoxFuture, Stream, Tcp, Transport};
