//! State of the control plane's end: settings, verdicts, requests, connections.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::accept::{Refused, accept_until, client_of};
use crate::backend::Backend;
use crate::budget::Budget;
use crate::flow::Flow;
use crate::inbox::Inbox;
use crate::link::{self, HubLinks};
use crate::proxy_header::Network;
use crate::runtime::locked;
use crate::sockets::{HTTP2, Socket, tune_user};
use crate::splice::Splices;
use crate::tcp::Tcp;
use crate::verdicts::{Verdict, Verdicts};
use crate::wire::AuditIds;
use crate::{http1, http2};

const TLS_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Ended requests that Python has not taken yet; above this all requests are left to Python.
const MAX_ENDED: usize = 20_000;

pub struct HubSettings {
    /// Unix socket on which Python serves everything that has no verdict.
    pub backend: PathBuf,
    /// Time without a request after which a connection ends.
    pub idle_timeout: Duration,
    /// Time for the first byte of a response, and for the last bytes to a user.
    pub answer_timeout: Duration,
    /// Time for which a user may leave data unread.
    pub stall_timeout: Duration,
    pub max_connections: usize,
    /// Bytes that may wait here for slow readers.
    pub max_waiting_bytes: usize,
    /// Response to connections above `max_connections`.
    pub full_response: Bytes,
    /// Load balancers that name their clients with the PROXY protocol.
    pub proxy_protocol: Vec<Network>,
    /// Offers HTTP/2 to users of TLS.
    pub http2: bool,
    /// Streams of one HTTP/2 connection.
    pub max_streams: u32,
    /// Size of the head of an HTTP/2 request, as RFC 9113 counts it.
    pub max_head: u32,
}

/// Reasons why a request ended; Python knows them by these numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    Done = 0,
    UserLeft = 1,
    Upstream = 2,
    Timeout = 3,
    /// Python ended it, and knows why.
    Ended = 4,
}

/// A request that was served without Python, which records it.
pub struct Ended {
    pub verdict: u64,
    pub id: [u8; 16],
    pub source: SocketAddr,
    pub seconds: f64,
    pub status: u16,
    pub bytes_out: u64,
    pub end: End,
    pub number: u64,
}

/// An open request.
pub struct OpenRequest {
    pub number: u64,
    pub verdict: Arc<Verdict>,
    pub id: [u8; 16],
    pub source: SocketAddr,
    /// Seconds since the epoch.
    pub begun_at: f64,
    pub started: Instant,
    pub flow: Flow,
}

pub struct HubState {
    pub settings: HubSettings,
    pub verdicts: Verdicts,
    pub links: HubLinks,
    pub backends: Mutex<HashMap<u64, Arc<Backend>>>,
    pub open: Mutex<HashMap<u64, Arc<OpenRequest>>>,
    pub splices: Splices,
    pub budget: Arc<Budget>,
    pub ended: Inbox<Ended>,
    pub refused: Mutex<Refused>,
    pub ids: AuditIds,
    pub draining: watch::Sender<bool>,
    pub last_number: AtomicU64,
    pub connections: AtomicUsize,
    listening: watch::Sender<bool>,
}

impl HubState {
    pub fn new(settings: HubSettings) -> Self {
        Self {
            splices: Splices::default(),
            budget: Budget::new(settings.max_waiting_bytes),
            settings,
            verdicts: Verdicts::default(),
            links: HubLinks::default(),
            backends: Mutex::default(),
            open: Mutex::default(),
            ended: Inbox::default(),
            refused: Mutex::default(),
            ids: AuditIds::default(),
            draining: watch::Sender::new(false),
            last_number: AtomicU64::new(0),
            connections: AtomicUsize::new(0),
            listening: watch::Sender::new(true),
        }
    }

    pub fn stop_listening(&self) {
        self.listening.send_replace(false);
    }

    /// Leaves all further requests to Python, and closes idle connections.
    pub fn drain(&self) {
        self.draining.send_replace(true);
        self.verdicts.forget();
    }

    /// Returns the verdict on a head whose request may be served now.
    pub fn admit(&self, head: &[u8]) -> Option<Arc<Verdict>> {
        let verdict = self.verdicts.find(head)?;
        let authorized = &verdict.authorized;
        let can_serve = verdict.load.load(Ordering::Relaxed) < authorized.max_open
            && authorized.link.is_open()
            && !*self.draining.borrow()
            && !authorized.share.is_tight()
            && self.ended.len() < MAX_ENDED;
        can_serve.then_some(verdict)
    }

    /// Counts a request as open.
    pub fn enter(
        &self,
        verdict: Arc<Verdict>,
        id: [u8; 16],
        source: SocketAddr,
    ) -> Arc<OpenRequest> {
        verdict.load.fetch_add(1, Ordering::Relaxed);
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let request = Arc::new(OpenRequest {
            number: self.last_number.fetch_add(1, Ordering::Relaxed) + 1,
            verdict,
            id,
            source,
            begun_at: since_epoch.as_secs_f64(),
            started: Instant::now(),
            flow: Flow::default(),
        });
        locked(&self.open).insert(request.number, request.clone());
        request
    }

    /// Removes a request. Without its end, Python serves and records it.
    pub fn leave(&self, request: &OpenRequest, end: Option<(u16, End)>) {
        request.verdict.load.fetch_sub(1, Ordering::Relaxed);
        locked(&self.open).remove(&request.number);
        if let Some((status, end)) = end {
            self.ended.put(Ended {
                verdict: request.verdict.id,
                id: request.id,
                source: request.source,
                seconds: request.started.elapsed().as_secs_f64(),
                status,
                bytes_out: request.flow.bytes_out.load(Ordering::Relaxed),
                end,
                number: request.number,
            });
        }
    }
}

#[cfg(test)]
impl HubState {
    pub fn for_tests(backend: &std::path::Path) -> Arc<Self> {
        let second = Duration::from_secs(1);
        Arc::new(Self::new(HubSettings {
            backend: backend.into(),
            idle_timeout: 30 * second,
            answer_timeout: second,
            stall_timeout: 30 * second,
            max_connections: 100,
            max_waiting_bytes: 64 << 20,
            full_response: Bytes::new(),
            proxy_protocol: Vec::new(),
            http2: true,
            max_streams: 16,
            max_head: 1 << 16,
        }))
    }
}

/// Accepts users until the hub stops to listen.
pub async fn listen(hub: Arc<HubState>, listener: TcpListener, tls: Option<Arc<ServerConfig>>) {
    accept_until(listener, hub.listening.subscribe(), |tcp, peer| {
        tune_user(&tcp);
        tokio::spawn(start_serving(hub.clone(), tls.clone(), tcp, peer));
    })
    .await;
}

/// Reads the PROXY header, does the TLS handshake, and starts the task that serves the connection. It
/// is another task, because a task occupies as much memory to its end as its largest step, and most
/// connections rest.
async fn start_serving(
    hub: Arc<HubState>,
    tls: Option<Arc<ServerConfig>>,
    tcp: TcpStream,
    peer: SocketAddr,
) {
    let mut tcp = Tcp::new(tcp);
    let source = client_of(&hub.settings.proxy_protocol, &hub.refused, &mut tcp, peer).await;
    let Some(source) = source else { return };
    // On the heap: a task keeps room for each argument in each of its steps.
    let Some(tls) = tls else {
        tokio::spawn(serve_http1(hub, Box::new(tcp), source, false));
        return;
    };
    let secured = TlsAcceptor::from(tls).accept(tcp);
    let Ok(Ok(secured)) = timeout(TLS_HANDSHAKE_TIMEOUT, secured).await else { return };
    if secured.get_ref().1.alpn_protocol() == Some(HTTP2) {
        tokio::spawn(serve_http2(hub, secured, source));
    } else {
        tokio::spawn(serve_http1(hub, Box::new(secured), source, true));
    }
}

async fn serve_http2(hub: Arc<HubState>, socket: TlsStream<Tcp>, source: SocketAddr) {
    let counted = CountedConnection::new(&hub);
    http2::serve(hub.clone(), socket, source, counted.exceeds_limit).await;
}

async fn serve_http1(hub: Arc<HubState>, socket: impl Socket, source: SocketAddr, tls: bool) {
    let counted = CountedConnection::new(&hub);
    let data_link = http1::serve(hub.clone(), socket, source, tls, counted.exceeds_limit).await;
    drop(counted);
    if let Some((socket, link)) = data_link {
        Box::pin(link::run_link(socket, link)).await;
    }
}

/// Counts a connection while it is open.
struct CountedConnection<'a> {
    hub: &'a HubState,
    exceeds_limit: bool,
}

impl<'a> CountedConnection<'a> {
    fn new(hub: &'a HubState) -> Self {
        let others = hub.connections.fetch_add(1, Ordering::Relaxed);
        Self { hub, exceeds_limit: others >= hub.settings.max_connections }
    }
}

impl Drop for CountedConnection<'_> {
    fn drop(&mut self) {
        self.hub.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size_of_task<A, B, C, D, F>(_: fn(A, B, C, D) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn a_user_at_rest_occupies_little() {
        let size = size_of_task::<_, Box<TlsStream<Tcp>>, _, _, _>(serve_http1);
        assert!(size < 1280, "{size}");
    }
}
