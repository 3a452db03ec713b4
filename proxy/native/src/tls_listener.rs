//! A port with TLS for servers in Python: passes the bytes of each connection on over a Unix socket.
//! A connection at rest occupies a fraction of what it does with Python's own TLS.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::BytesMut;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::unix::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use crate::accept::{Refused, accept_until, client_of};
use crate::backend;
use crate::proxy_header::Network;
use crate::sockets::{HTTP2, Socket, read_some, tune_agent};
use crate::tcp::Tcp;

/// Time in which a peer must read what it was sent, or the last of it.
const STALLED: Duration = Duration::from_secs(20);
const CLOSING: Duration = Duration::from_secs(5);
const CONNECT_PAUSE: Duration = Duration::from_millis(10);

pub struct TlsListener {
    /// Unix socket on which Python serves.
    pub backend: PathBuf,
    /// Time for the TLS handshake.
    pub handshake: Duration,
    pub refused: Mutex<Refused>,
    pub listening: watch::Sender<bool>,
}

impl TlsListener {
    /// Accepts clients until `listening` is false. `balancers` send the PROXY protocol.
    pub async fn listen(
        self: Arc<Self>,
        listener: TcpListener,
        tls: Arc<ServerConfig>,
        balancers: Vec<Network>,
    ) {
        let balancers = Arc::new(balancers);
        let listening = self.listening.subscribe();
        accept_until(listener, listening, |tcp, peer| {
            tune_agent(&tcp);
            tokio::spawn(self.clone().start_serving(tls.clone(), balancers.clone(), tcp, peer));
        })
        .await;
    }

    /// Does the handshakes, and starts the task that serves the connection; see `hub::start_serving`.
    async fn start_serving(
        self: Arc<Self>,
        tls: Arc<ServerConfig>,
        balancers: Arc<Vec<Network>>,
        tcp: TcpStream,
        peer: SocketAddr,
    ) {
        let mut tcp = Tcp::new(tcp);
        let client = client_of(&balancers, &self.refused, &mut tcp, peer).await;
        let Some(client) = client else { return };
        let secured = TlsAcceptor::from(tls).accept(tcp);
        let Ok(Ok(secured)) = timeout(self.handshake, secured).await else { return };
        if secured.get_ref().1.alpn_protocol() != Some(HTTP2) {
            return;
        }
        if let Ok(python) = self.connect(client).await {
            tokio::spawn(pass_on(Box::new(secured), python));
        }
    }

    /// Connects to Python, and names the client.
    async fn connect(&self, client: SocketAddr) -> io::Result<UnixStream> {
        let mut python = loop {
            match UnixStream::connect(&self.backend).await {
                // Python has not accepted those before yet.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    sleep(CONNECT_PAUSE).await;
                }
                connected => break connected?,
            }
        };
        let preface = format!("{} {}\n", client.ip().to_canonical(), client.port());
        python.write_all(preface.as_bytes()).await?;
        Ok(python)
    }
}

/// Passes bytes both ways until Python closes. A client that leaves is an end of input for Python.
async fn pass_on<S: Socket>(mut socket: Box<S>, mut python: UnixStream) {
    let (mut from_client, mut to_client) = tokio::io::split(&mut socket);
    if splice(&mut from_client, &mut to_client, &mut python).await.is_ok() {
        let _ = timeout(CLOSING, close(&mut from_client, &mut to_client)).await;
    }
}

async fn splice(
    from_client: &mut (impl AsyncRead + Unpin),
    to_client: &mut (impl AsyncWrite + Unpin),
    python: &mut UnixStream,
) -> io::Result<()> {
    let (from_python, mut to_python) = python.split();
    let mut down = pin!(to_client_until_end(&from_python, to_client));
    let up = to_python_until_end(from_client, &mut to_python);
    tokio::select! {
        sent = &mut down => sent,
        received = up => {
            to_python.shutdown().await?;
            // What Python has written before still arrives, if the client reads.
            timeout(CLOSING, down).await??;
            received
        }
    }
}

async fn to_python_until_end(
    client: &mut (impl AsyncRead + Unpin),
    python: &mut WriteHalf<'_>,
) -> io::Result<()> {
    loop {
        let mut piece = BytesMut::new();
        if read_some(client, &mut piece).await? == 0 {
            return Ok(());
        }
        python.write_all(&piece).await?;
    }
}

async fn to_client_until_end(
    python: &ReadHalf<'_>,
    client: &mut (impl AsyncWrite + Unpin),
) -> io::Result<()> {
    loop {
        let piece = backend::read(python).await?;
        if piece.is_empty() {
            return Ok(());
        }
        timeout(STALLED, async {
            client.write_all(&piece).await?;
            client.flush().await
        })
        .await??;
    }
}

/// Ends the connection after the client has read everything: a reset might overtake it.
async fn close(
    from_client: &mut (impl AsyncRead + Unpin),
    to_client: &mut (impl AsyncWrite + Unpin),
) -> io::Result<()> {
    to_client.shutdown().await?;
    let mut ignored = BytesMut::new();
    while read_some(from_client, &mut ignored).await? > 0 {
        ignored.clear();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio_rustls::server::TlsStream;

    fn size_of_task<A, B, F>(_: fn(A, B) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn an_agent_at_rest_occupies_little() {
        let size = size_of_task::<_, UnixStream, _>(pass_on::<TlsStream<Tcp>>);
        assert!(size < 1 << 10, "{size}");
    }
}
