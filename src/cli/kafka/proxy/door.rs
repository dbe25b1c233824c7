//! The proxy's port: open, refusing, or dropping every SYN.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use socket2::SockRef;

use super::{Pair, Shared, State};

/// What becomes of a new connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Door {
    /// It is passed on.
    Open,
    /// It is refused: nobody listens.
    Shut,
    /// Its SYN is dropped: somebody listens, and the queue of connections to accept is full.
    Deaf,
    /// The proxy has ended.
    Gone,
}

impl Shared {
    /// The acceptor's life: keeps the port as the fault demands until the proxy ends.
    pub(super) fn keep_door(
        self: Arc<Self>,
        listener: TcpListener,
        address: SocketAddr,
        broker: SocketAddr,
    ) {
        let mut listener = Some(listener);
        loop {
            let wanted = self.lock().wanted();
            match wanted {
                Door::Open => {
                    let open = listener.take().or_else(|| self.bind(address));
                    if let Some(open) = open {
                        self.accept(&open, broker);
                        listener = Some(open);
                    }
                }
                Door::Shut => {
                    drop(listener.take());
                    self.rest(Door::Shut);
                }
                Door::Deaf => {
                    listener = listener.or_else(|| self.bind(address));
                    let fillers = listener.as_ref().map(|deaf| fill_queue(deaf, address));
                    self.rest(Door::Deaf);
                    drop(fillers);
                }
                Door::Gone => {
                    drop(listener);
                    self.enter(self.lock(), Door::Gone);
                    return;
                }
            }
        }
    }

    fn accept(self: &Arc<Self>, listener: &TcpListener, broker: SocketAddr) {
        // After a deaf spell the queue is as short as it can be.
        drop(SockRef::from(listener).listen(BACKLOG));
        self.enter(self.lock(), Door::Open);
        loop {
            let accepted = listener.accept();
            let state = self.lock();
            if state.wanted() != Door::Open {
                return;
            }
            if let Ok((client, _)) = accepted {
                self.admit(state, client, broker);
            }
        }
    }

    /// Says that the port is as it should be, and waits until it should be something else.
    fn rest(&self, door: Door) {
        let mut state = self.lock();
        self.enter(state, door);
        state = self.lock();
        while state.wanted() == door {
            state = self.wait(state);
        }
    }

    fn enter(&self, mut state: MutexGuard<'_, State>, door: Door) {
        state.door = door;
        drop(state);
        self.changed.notify_all();
    }

    /// `None` when the fault changed its mind meanwhile.
    fn bind(&self, address: SocketAddr) -> Option<TcpListener> {
        let mut state = self.lock();
        let wanted = state.wanted();
        while state.wanted() == wanted {
            if let Ok(bound) = TcpListener::bind(address) {
                return Some(bound);
            }
            // The port could not be bound again at once.
            let waited = self.changed.wait_timeout(state, REBIND_INTERVAL);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        None
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
        let pair = Pair {
            client: registered,
            broker: None,
        };
        state.connections.insert(id, pair);
        drop(state);
        let shared = Arc::clone(self);
        thread::spawn(move || {
            // Either side ending is the ordinary end of a connection.
            drop(shared.serve(id, client, broker));
            shared.forget(id);
        });
    }
}

/// Leaves no room for a connection to wait in: from then on Linux drops every SYN. The room is held
/// as long as the streams live.
fn fill_queue(listener: &TcpListener, address: SocketAddr) -> Vec<TcpStream> {
    // A queue of length 0 still holds one.
    drop(SockRef::from(listener).listen(0));
    (0..FILLERS_MAX)
        .map_while(|_| TcpStream::connect_timeout(&address, FILL_TIMEOUT).ok())
        .collect()
}

const BACKLOG: i32 = 128;
const REBIND_INTERVAL: Duration = Duration::from_millis(20);
/// More than a queue of length 0 ever takes; clients may come first.
const FILLERS_MAX: usize = 4;
const FILL_TIMEOUT: Duration = Duration::from_millis(30);
