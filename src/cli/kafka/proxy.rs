//! A TCP proxy in front of one broker, so that one client can lose it while the cluster stays
//! healthy.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::KafkaError;

/// What the proxy does to the bytes that pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Fault {
    /// Nothing: bytes pass.
    #[default]
    None,
    /// Connections end, new ones are refused.
    Refuse,
    /// Connections stay open and new ones are accepted, but no byte passes; what was on the way is
    /// kept and passes when the fault ends.
    BlackHole,
    /// Every read of up to 64 KiB, in either direction, waits this long before it is passed on.
    Slow(Duration),
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

#[derive(Debug, Default)]
struct State {
    fault: Fault,
    closing: bool,
    listening: bool,
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
            listening: true,
            ..State::default()
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            changed: Condvar::new(),
        });
        let acceptor = Arc::clone(&shared);
        let broker = SocketAddr::from((Ipv4Addr::LOCALHOST, broker_port));
        thread::spawn(move || acceptor.accept(listener, address, broker));
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

    /// Wakes everybody, and waits until the acceptor listens, or does not, as the fault demands.
    fn settle(&self, mut state: MutexGuard<'_, State>) {
        self.shared.changed.notify_all();
        if state.listening != state.wants_listener() && state.listening {
            // The acceptor sits in accept(): a connection gets it out.
            drop(TcpStream::connect(self.address));
        }
        while state.listening != state.wants_listener() {
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
    fn wants_listener(&self) -> bool {
        !self.closing && self.fault != Fault::Refuse
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

    /// The acceptor's life: accept while the fault allows a listener, pause while it does not.
    fn accept(self: Arc<Self>, mut listener: TcpListener, address: SocketAddr, broker: SocketAddr) {
        loop {
            loop {
                let accepted = listener.accept();
                let state = self.lock();
                if !state.wants_listener() {
                    break;
                }
                if let Ok((client, _)) = accepted {
                    self.admit(state, client, broker);
                }
            }
            drop(listener);
            match self.pause(address) {
                Some(reopened) => listener = reopened,
                None => return,
            }
        }
    }

    /// Keeps the port closed as long as the fault says; `None` when the proxy ends meanwhile.
    fn pause(&self, address: SocketAddr) -> Option<TcpListener> {
        let mut state = self.lock();
        state.listening = false;
        self.changed.notify_all();
        loop {
            if state.closing {
                return None;
            }
            if state.wants_listener()
                && let Ok(reopened) = TcpListener::bind(address)
            {
                state.listening = true;
                self.changed.notify_all();
                return Some(reopened);
            }
            // The limit matters only when the port could not be bound again at once.
            let waited = self.changed.wait_timeout(state, REBIND_INTERVAL);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Registers a connection before it has a broker side, so that a cut finds it, and serves it.
    fn admit(
        self: &Arc<Self>,
        mut state: MutexGuard<'_, State>,
        client: TcpStream,
        broker: SocketAddr,
    ) {
        let Ok(registered) = client.try_clone() else {
            return;
        };
        state.next_connection += 1;
        let id = state.next_connection;
        state.connections.insert(
            id,
            Pair {
                client: registered,
                broker: None,
            },
        );
        drop(state);
        let shared = Arc::clone(self);
        thread::spawn(move || {
            // Either side ending is the ordinary end of a connection.
            drop(shared.serve(id, client, broker));
            shared.forget(id);
        });
    }

    fn serve(self: &Arc<Self>, id: u64, client: TcpStream, broker: SocketAddr) -> io::Result<()> {
        self.gate(id)?;
        let broker = TcpStream::connect(broker)?;
        client.set_nodelay(true)?;
        broker.set_nodelay(true)?;
        let (down_from, down_to) = (broker.try_clone()?, client.try_clone()?);
        match self.lock().connections.get_mut(&id) {
            Some(pair) => pair.broker = Some(broker.try_clone()?),
            None => return Err(io::ErrorKind::ConnectionAborted.into()),
        }
        let shared = Arc::clone(self);
        let down = thread::spawn(move || shared.pump(id, down_from, down_to));
        self.pump(id, client, broker);
        // A pump has no panic to pass on.
        drop(down.join());
        Ok(())
    }

    /// Passes bytes on until either side ends, then ends both.
    fn pump(&self, id: u64, mut from: TcpStream, mut to: TcpStream) {
        let mut buffer = vec![0; CHUNK];
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            let chunk = buffer.get(..length).unwrap_or_default();
            if self.gate(id).and_then(|()| to.write_all(chunk)).is_err() {
                break;
            }
        }
        drop(from.shutdown(Shutdown::Both));
        drop(to.shutdown(Shutdown::Both));
    }

    /// Holds the caller as long as the fault says; an error when the connection was cut meanwhile.
    fn gate(&self, id: u64) -> io::Result<()> {
        let mut state = self.lock();
        while state.fault == Fault::BlackHole && state.connections.contains_key(&id) {
            state = self.wait(state);
        }
        let fault = state.fault;
        let alive = state.connections.contains_key(&id);
        drop(state);
        if let Fault::Slow(delay) = fault {
            thread::sleep(delay);
        }
        if alive {
            Ok(())
        } else {
            Err(io::ErrorKind::ConnectionAborted.into())
        }
    }

    fn forget(&self, id: u64) {
        self.lock().connections.remove(&id);
    }
}

const CHUNK: usize = 64 * 1024;
const REBIND_INTERVAL: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    /// A proxy in front of an echo server.
    fn echo() -> Proxy {
        let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = server.local_addr().unwrap().port();
        thread::spawn(move || {
            for stream in server.incoming() {
                let mut from = stream.unwrap();
                let mut to = from.try_clone().unwrap();
                thread::spawn(move || io::copy(&mut from, &mut to));
            }
        });
        Proxy::start(super::super::ports::free(1).unwrap()[0], port).unwrap()
    }

    fn ask(stream: &mut TcpStream) -> io::Result<[u8; 4]> {
        stream.write_all(b"ping")?;
        let mut answer = [0; 4];
        stream.read_exact(&mut answer)?;
        Ok(answer)
    }

    #[test]
    fn bytes_pass_while_there_is_no_fault() {
        let proxy = echo();
        let mut stream = TcpStream::connect(proxy.address()).unwrap();
        assert_eq!(&ask(&mut stream).unwrap(), b"ping");
        assert_eq!(proxy.connections(), 1);
    }

    #[test]
    fn a_cut_ends_open_connections_and_lets_new_ones_in() {
        let proxy = echo();
        let mut old = TcpStream::connect(proxy.address()).unwrap();
        ask(&mut old).unwrap();
        proxy.cut();
        assert!(ask(&mut old).is_err());
        let mut new = TcpStream::connect(proxy.address()).unwrap();
        assert_eq!(&ask(&mut new).unwrap(), b"ping");
    }

    #[test]
    fn a_refusing_proxy_refuses_until_it_is_healed() {
        let proxy = echo();
        let mut old = TcpStream::connect(proxy.address()).unwrap();
        ask(&mut old).unwrap();
        proxy.set(Fault::Refuse);
        assert!(ask(&mut old).is_err());
        let refused = TcpStream::connect(proxy.address()).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        proxy.set(Fault::None);
        let mut new = TcpStream::connect(proxy.address()).unwrap();
        assert_eq!(&ask(&mut new).unwrap(), b"ping");
    }

    #[test]
    fn a_black_hole_keeps_the_bytes_until_it_is_healed() {
        let proxy = echo();
        let mut stream = TcpStream::connect(proxy.address()).unwrap();
        ask(&mut stream).unwrap();
        proxy.set(Fault::BlackHole);
        stream
            .set_read_timeout(Some(Duration::from_millis(100)))
            .unwrap();
        let silent = ask(&mut stream).unwrap_err();
        assert!(matches!(
            silent.kind(),
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
        ));
        proxy.set(Fault::None);
        stream.set_read_timeout(None).unwrap();
        let mut answer = [0; 4];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"ping");
    }
}
