//! Listening sockets, and the clients that load balancers name.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::proxy_header::{self, Network};
use crate::runtime::locked;
use crate::tcp::Tcp;

const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
const PROXY_HEADER: Duration = Duration::from_secs(5);
/// Refused connections of load balancers that Python has not logged yet.
const MAX_REFUSED: usize = 100;

/// Connections of load balancers without a valid header: address and reason.
pub type Refused = Vec<(SocketAddr, &'static str)>;

/// Accepts connections until `listening` is false.
pub async fn accept_until(
    listener: TcpListener,
    mut listening: watch::Receiver<bool>,
    begin: impl Fn(TcpStream, SocketAddr),
) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = listening.wait_for(|listening| !listening) => return,
        };
        match accepted {
            Ok((tcp, peer)) => begin(tcp, peer),
            // No descriptor is free, or the client has left.
            Err(_) => sleep(ACCEPT_PAUSE).await,
        }
    }
}

/// Returns the address of a connection's client; None: its load balancer has sent no header.
pub async fn client_of(
    balancers: &[Network],
    refused: &Mutex<Refused>,
    tcp: &mut Tcp,
    peer: SocketAddr,
) -> Option<SocketAddr> {
    if !balancers.iter().any(|network| network.contains(peer.ip())) {
        return Some(peer);
    }
    let header = timeout(PROXY_HEADER, proxy_header::read(tcp)).await;
    match header.unwrap_or(Err("no header within 5 s")) {
        Ok(client) => Some(client.unwrap_or(peer)),
        Err(reason) => {
            let mut refused = locked(refused);
            if refused.len() < MAX_REFUSED {
                refused.push((peer, reason));
            }
            None
        }
    }
}
