//! A connection to Python, which serves all requests without a verdict over a Unix socket.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::net::unix::ReadHalf;
use tokio::sync::Notify;

use crate::hub::HubState;
use crate::runtime::locked;
use crate::splice::Spliced;

const PIECE: usize = 16 << 10;
/// Python closes a connection at rest after a while: one that may be about to close is not used.
const FRESH: Duration = Duration::from_secs(30);

/// Bytes that Python had read and written when no request was open, and its commands.
#[derive(Default)]
pub struct Backend {
    pub rest: Mutex<Option<(u64, u64)>>,
    aborted: AtomicBool,
    handed_over: Mutex<Option<Box<Spliced>>>,
    pub news: Notify,
}

impl Backend {
    /// Ends the user's connection with a reset.
    pub fn abort(&self) {
        self.aborted.store(true, Ordering::Release);
        self.news.notify_one();
    }

    pub fn is_aborted(&self) -> bool {
        self.aborted.load(Ordering::Acquire)
    }

    pub fn hand_over(&self, spliced: Box<Spliced>) {
        *locked(&self.handed_over) = Some(spliced);
        self.news.notify_one();
    }

    pub fn take_over(&self) -> Option<Box<Spliced>> {
        locked(&self.handed_over).take()
    }
}

pub struct PythonConnection {
    hub: Arc<HubState>,
    pub socket: UnixStream,
    number: u64,
    pub shared: Arc<Backend>,
    pub sent: u64,
    pub received: u64,
    pub used: Instant,
}

impl PythonConnection {
    /// Connects for a user; None: Python serves no more.
    pub async fn open(hub: &Arc<HubState>, source: SocketAddr, tls: bool) -> Option<Self> {
        let mut socket = UnixStream::connect(&hub.settings.backend).await.ok()?;
        let number = hub.last_number.fetch_add(1, Ordering::Relaxed) + 1;
        let shared = Arc::new(Backend::default());
        locked(&hub.backends).insert(number, shared.clone());
        let scheme = if tls { "https" } else { "http" };
        let (host, port) = (source.ip().to_canonical(), source.port());
        let preface = format!("{number} {scheme} {host} {port}\n");
        let hub = hub.clone();
        let written = socket.write_all(preface.as_bytes()).await;
        let opened =
            Self { hub, socket, number, shared, sent: 0, received: 0, used: Instant::now() };
        written.is_ok().then_some(opened)
    }

    /// Reports whether Python has answered all requests, and expects another one.
    pub fn is_idle(&self) -> bool {
        *locked(&self.shared.rest) == Some((self.sent, self.received))
    }

    pub fn is_fresh(&self) -> bool {
        self.used.elapsed() <= FRESH
    }
}

/// Reads the bytes that Python has written; empty: it has closed. Allocates only when bytes are
/// there: most long-running requests wait.
pub async fn read(from_python: &ReadHalf<'_>) -> io::Result<BytesMut> {
    loop {
        from_python.readable().await?;
        let mut buffer = BytesMut::with_capacity(PIECE);
        match from_python.try_read_buf(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            read => return read.map(|_| buffer),
        }
    }
}

impl Drop for PythonConnection {
    fn drop(&mut self) {
        locked(&self.hub.backends).remove(&self.number);
    }
}

#[cfg(test)]
pub mod fake {
    use std::path::PathBuf;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{UnixListener, UnixStream};
    use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

    use crate::wire;

    /// Answers what was received of a connection; it may have ended.
    type Answer = fn(&[u8], bool) -> Option<&'static [u8]>;

    /// A server in the place of Python, which keeps what it got on each connection.
    pub struct Python {
        pub path: PathBuf,
        connections: UnboundedReceiver<Vec<u8>>,
    }

    impl Python {
        pub fn start(answer: Answer) -> Self {
            let name = wire::hex(&wire::random().unwrap());
            let name = format!("towline-{}", String::from_utf8_lossy(&name));
            let path = std::env::temp_dir().join(name);
            let listener = UnixListener::bind(&path).unwrap();
            let (sender, connections) = unbounded_channel();
            tokio::spawn(async move {
                while let Ok((connection, _)) = listener.accept().await {
                    tokio::spawn(serve(connection, answer, sender.clone()));
                }
            });
            Self { path, connections }
        }

        /// Returns the bytes of the next connection that has ended, after its first line.
        pub async fn next(&mut self) -> Vec<u8> {
            self.connections.recv().await.unwrap()
        }
    }

    impl Drop for Python {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.path);
        }
    }

    async fn serve(mut user: UnixStream, answer: Answer, ended: UnboundedSender<Vec<u8>>) {
        let (mut line, mut received) = (Vec::new(), Vec::new());
        while line.last() != Some(&b'\n') {
            let Ok(byte) = user.read_u8().await else { return };
            line.push(byte);
        }
        loop {
            let has_ended = !matches!(user.read_buf(&mut received).await, Ok(1..));
            if let Some(text) = answer(&received, has_ended) {
                let _ = user.write_all(text).await;
            }
            if has_ended {
                let _ = ended.send(received);
                return;
            }
        }
    }
}
