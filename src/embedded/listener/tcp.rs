//! TCP sockets: bound while their broker accepts, closed while it is down.

use std::io::Error as IoError;
use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpStream};

use super::Handle;
use super::driver::Incoming;
use crate::embedded::Settings;
use crate::ids::BrokerId;

/// A broker's listening socket.
#[derive(Debug)]
pub(super) struct Bound {
    broker: BrokerId,
    address: SocketAddr,
    listener: TcpListener,
}

/// Binds every broker's address and writes the ports that were taken back into the settings.
pub(super) async fn bind(settings: &mut Settings) -> Result<Vec<Bound>, IoError> {
    let mut listeners = Vec::new();
    for broker in &mut settings.brokers {
        let listener = TcpListener::bind((broker.host.as_str(), broker.port)).await?;
        let address = listener.local_addr()?;
        broker.port = address.port();
        listeners.push(Bound {
            broker: broker.id,
            address,
            listener,
        });
    }
    Ok(listeners)
}

/// Accepts connections for one broker until it is aborted.
pub(super) async fn accept(handle: Handle, bound: Bound) {
    let Bound {
        broker,
        address,
        listener,
    } = bound;
    let mut listener = Some(listener);
    let mut controlled = handle.0.controlled.subscribe();
    loop {
        let open = handle.lock().cluster.accepts(broker);
        match &listener {
            Some(socket) if open => tokio::select! {
                Ok((stream, _)) = socket.accept() => admit(&handle, broker, stream).await,
                _ = controlled.changed() => {}
            },
            // A closed socket is what makes the kernel refuse.
            Some(_) => listener = None,
            None if open => listener = TcpListener::bind(address).await.ok(),
            None => {
                if controlled.changed().await.is_err() {
                    return;
                }
            }
        }
    }
}

async fn admit(handle: &Handle, broker: BrokerId, stream: TcpStream) {
    // Small answers must not wait for the client's acknowledgement of the one before.
    if stream.set_nodelay(true).is_err() {
        return;
    }
    if let Ok(connection) = handle.connect(broker).await {
        handle.hand_over(Incoming::tcp(connection, stream));
    }
}
