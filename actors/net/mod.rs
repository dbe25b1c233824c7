//! Sockets for the connection machines: the only place that opens, reads and writes them.

mod alarm;
mod port;
mod transport;

pub(crate) use alarm::Alarm;
pub(crate) use port::{IoInput, IoNews, Net, Port, PortId, Said, target};
pub use transport::{BoxFuture, Stream, Tcp, Transport};
