//! A real Apache Kafka on this machine: nodes in racks, and every fault a test may want.
//!
//! `nearside cluster --kafka`, the tests of `tests/kafka` and the peer benchmark start their
//! cluster here. It needs a JDK and, the first time, Maven; without them [`Cluster::start`] answers
//! [`KafkaError::Unavailable`], which the tests count as ignored. Everything it starts ends with
//! it: nodes and files go when the [`Cluster`] is dropped, and a guard process removes them when
//! this process dies.
//!
//! All of it is blocking and Linux only: it drives processes, for which an async runtime would gain
//! nothing.

mod admin;
mod cluster;
mod counters;
mod error;
mod groups;
mod guard;
mod jars;
mod java;
mod load;
mod node;
mod ports;
mod produce;
mod proxy;
mod secure;
mod settings;
mod topics;
mod wait;

pub use admin::{Admin, BrokerView, PartitionView};
pub use cluster::{Cluster, Options};
pub use error::KafkaError;
pub use java::availability;
pub use node::RACKS;
pub use produce::{ProduceLoad, Producing};
pub use proxy::{Fault, Proxy};
pub use secure::{Listener, Secured};
pub use wait::until;
