//! A TCP proxy in front of one broker, so that one client can lose it while the cluster stays
//! healthy.

mod door;
mod pump;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::KafkaError;
use door::Door;

/// What the proxy does to the bytes that pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Fault {
    /// Nothing: bytes pass.
    #[default]
    None,
    /// Connections end, new ones are refused.
    Refuse,
    /// Packets vanish both ways: open connections stay open and silent, and nobody answers the SYN
    /// of a new one. What was on its way passes when the fault ends, as TCP would send it again.
    Vanish,
    /// Whatever the broker sends arrives this much later; nothing is lost, nothing is thinned.
    Late(Duration),
}

/// The proxy of one broker.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    fault: Fault,
    closing: bool,
    /// What the acceptor has made of the port; it follows [`State::wanted`].
    door: Door,
    next_connection: u64,
    connections: BTreeMap<u64, Pair>,
}

/// Both ends of one proxied connection.
#[derive(Debug)]
struct Pair {
    client: TcpStream,
    broker: Option<TcpStream>,
}

impl Proxy {
    /// Listens on `port` and passes every connection on to `broker_port`, both on the loopback
    /// address.
    ///
    /// # Errors
    ///
    /// [`KafkaError::Failed`] when the port is taken.
    pub fn start(port: u16, broker_port: u16) -> Result<Self, KafkaError> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let listener = TcpListener::bind(address).map_err(KafkaError::doing("binding a proxy"))?;
        let address = listener
            .local_addr()
            .map_err(KafkaError::doing("binding a proxy"))?;
        let state = State {
            fault: Fault::None,
            closing: false,
            door: Door::Open,
            next_connection: 0,
            connections: BTreeMap::new(),
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            changed: Condvar::new(),
        });
        let acceptor = Arc::clone(&shared);
        let broker = SocketAddr::from((Ipv4Addr::LOCALHOST, broker_port));
        thread::spawn(move || acceptor.keep_door(listener, address, broker));
        Ok(Self { address, shared })
    }

    /// Where clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets the fault; on return it is in force for old and new connections alike.
    pub fn set(&self, fault: Fault) {
        let mut state = self.shared.lock();
        state.fault = fault;
        if fault == Fault::Refuse {
            state.cut();
        }
        self.settle(state);
    }

    /// Ends every open connection once; new ones are accepted.
    pub fn cut(&self) {
        self.shared.lock().cut();
        self.shared.changed.notify_all();
    }

    /// How many connections are open.
    pub fn connections(&self) -> usize {
        self.shared.lock().connections.len()
    }

    /// Wakes everybody, and waits until the acceptor has made of the port what the fault demands.
    fn settle(&self, mut state: MutexGuard<'_, State>) {
        self.shared.changed.notify_all();
        if state.door == Door::Open && state.wanted() != Door::Open {
            // The acceptor sits in accept(): a connection gets it out.
            drop(TcpStream::connect(self.address));
        }
        while state.door != state.wanted() {
            state = self.shared.wait(state);
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.closing = true;
        state.cut();
        self.settle(state);
    }
}

impl State {
    fn wanted(&self) -> Door {
        match self.fault {
            _ if self.closing => Door::Gone,
            Fault::None | Fault::Late(_) => Door::Open,
            Fault::Refuse => Door::Shut,
            Fault::Vanish => Door::Deaf,
        }
    }

    fn cut(&mut self) {
        for pair in std::mem::take(&mut self.connections).into_values() {
            for stream in std::iter::once(pair.client).chain(pair.broker) {
                // Already gone is as good as cut.
                drop(stream.shutdown(Shutdown::Both));
            }
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed
            .wait(state)
            .unwrap_or_else(PoisonError::into_inner)
    }
}
