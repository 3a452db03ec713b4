//! The agent's end: requests of a data link, forwarded to the API server.
//! Python checks each request, unless it has admitted one with the same head before. The control plane
//! sends a declined request over the control link.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use h2::server::SendResponse;
use h2::{Reason, RecvStream};
use http::Request;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::budget::Budget;
use crate::gather::Gathering;
use crate::incoming::Incoming;
use crate::observer::{ResponseObserver, end_of_head};
use crate::outgoing::Outgoing;
use crate::questions::Questions;
use crate::raw::splice_server;
use crate::runtime::locked;
use crate::sockets::{Socket, read_piece, tune_link, tune_user};
use crate::tcp::Tcp;
use crate::windows::{CONNECTION_WINDOW, MAX_UNREAD_OVERHEAD, MAX_WINDOW_UP, Windows};
use crate::wire;

const DIAL_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_IDLE_CONNECTIONS: usize = 256;
const MAX_ADMITTED: usize = 4096;
const MAX_STREAMS: u32 = 8192;
const MAX_SEND_BUFFER: usize = 64 << 10;
/// Bytes of upgraded connections that may wait here for the API server.
const MAX_WAITING_BYTES: usize = 32 << 20;
const UNAUTHORIZED: u16 = 401;

/// Address and TLS of a server.
#[derive(Clone)]
pub struct Server {
    pub host: String,
    pub port: u16,
    pub tls: Option<Arc<ClientConfig>>,
}

impl Server {
    async fn dial(&self) -> std::io::Result<Box<dyn Socket>> {
        let tcp = TcpStream::connect((self.host.as_str(), self.port)).await?;
        tune_user(&tcp);
        let tcp = Tcp::new(tcp);
        let Some(tls) = &self.tls else { return Ok(Box::new(tcp)) };
        let name = ServerName::try_from(self.host.clone()).map_err(std::io::Error::other)?;
        Ok(Box::new(TlsConnector::from(tls.clone()).connect(name, tcp).await?))
    }
}

/// A request that Python has admitted; `before` and `after` surround the audit ID.
struct Admitted {
    before: Bytes,
    after: Bytes,
    expires_at: Instant,
}

struct Credential {
    fields: Bytes,
    expires_at: Instant,
}

pub struct Agent {
    upstream: Server,
    admitted: Mutex<HashMap<Bytes, Arc<Admitted>>>,
    credential: Mutex<Option<Credential>>,
    idle_connections: Mutex<Vec<Box<dyn Socket>>>,
    pub questions: Questions,
    budget: Arc<Budget>,
    /// Changes when all open requests must end.
    cleared: watch::Sender<u64>,
}

impl Agent {
    pub fn new(upstream: Server) -> Self {
        Self {
            upstream,
            admitted: Mutex::default(),
            credential: Mutex::default(),
            idle_connections: Mutex::default(),
            questions: Questions::default(),
            budget: Budget::new(MAX_WAITING_BYTES),
            cleared: watch::Sender::new(0),
        }
    }

    /// Admits a request (packed without its audit ID) for `lifetime`, sent as `before` and `after`.
    pub fn admit(&self, packed: Bytes, before: Bytes, after: Bytes, lifetime: Duration) {
        let mut admitted = locked(&self.admitted);
        if admitted.len() >= MAX_ADMITTED {
            admitted.clear();
        }
        let expires_at = Instant::now() + lifetime;
        admitted.insert(packed, Arc::new(Admitted { before, after, expires_at }));
    }

    pub fn set_credential(&self, fields: Bytes, lifetime: Duration) {
        let expires_at = Instant::now() + lifetime;
        *locked(&self.credential) = Some(Credential { fields, expires_at });
    }

    /// Forgets what was admitted, and ends all open requests.
    pub fn clear(&self) {
        locked(&self.admitted).clear();
        self.cleared.send_modify(|count| *count += 1);
    }

    /// Returns the bytes of a request for the API server; None: it is left to the control link.
    async fn prepare_request(&self, packed: &[u8], id: [u8; 16], upgrade: bool) -> Option<Bytes> {
        if !upgrade
            && let (Some(admitted), Some(fields)) =
                (self.find_admitted(packed), self.credential_fields())
        {
            let hex = wire::hex(&id);
            let parts: [&[u8]; 5] = [&admitted.before, &hex, &admitted.after, &fields, b"\r\n"];
            return Some(Bytes::from(parts.concat()));
        }
        self.questions.ask(packed, id, upgrade).await
    }

    fn find_admitted(&self, packed: &[u8]) -> Option<Arc<Admitted>> {
        let admitted = locked(&self.admitted);
        admitted.get(packed).filter(|request| Instant::now() < request.expires_at).cloned()
    }

    fn credential_fields(&self) -> Option<Bytes> {
        let credential = locked(&self.credential);
        let valid = credential.as_ref().filter(|valid| Instant::now() < valid.expires_at);
        valid.map(|valid| valid.fields.clone())
    }

    /// Takes an idle connection on which nothing has arrived.
    async fn take_idle_connection(&self) -> Option<Box<dyn Socket>> {
        loop {
            let mut connection = locked(&self.idle_connections).pop()?;
            let mut byte = [0];
            tokio::select! {
                biased;
                _ = connection.read(&mut byte) => {}
                () = std::future::ready(()) => return Some(connection),
            }
        }
    }

    fn return_idle_connection(&self, connection: Box<dyn Socket>) {
        let mut idle = locked(&self.idle_connections);
        if idle.len() < MAX_IDLE_CONNECTIONS {
            idle.push(connection);
        }
    }
}

/// A data link of this agent.
#[derive(Default)]
pub struct AgentLink {
    pub ended: AtomicBool,
    pub closing: Notify,
    pub requests: AtomicUsize,
    windows: Arc<Windows>,
}

/// Dials the control plane with a ticket, and serves its requests until either side ends the link.
pub async fn run_link(agent: Arc<Agent>, link: Arc<AgentLink>, hub: Server, ticket: String) {
    tokio::select! {
        _ = serve_link(agent, &link, hub, ticket) => {}
        () = link.closing.notified() => {}
    }
    link.ended.store(true, Ordering::Release);
}

async fn serve_link(
    agent: Arc<Agent>,
    link: &Arc<AgentLink>,
    hub: Server,
    ticket: String,
) -> Option<()> {
    let socket = timeout(DIAL_TIMEOUT, connect_to_hub(&hub, &ticket)).await.ok()??;
    let gathering = Gathering::new(socket);
    let opening = h2::server::Builder::new()
        .initial_window_size(MAX_WINDOW_UP)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .data_frame_budget(MAX_UNREAD_OVERHEAD)
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(4096)
        .max_send_buffer_size(MAX_SEND_BUFFER)
        .handshake::<_, Bytes>(gathering.handle());
    let mut connection = gathering.in_turns(opening).await.ok()?;
    let pings = connection.ping_pong();
    let serving = async {
        while let Some(Ok((request, respond))) = gathering.in_turns(connection.accept()).await {
            tokio::spawn(serve_stream(agent.clone(), link.clone(), request, respond));
        }
    };
    tokio::select! {
        () = serving => {}
        () = link.windows.keep_alive(pings) => {}
        () = link.windows.overrun() => {}
    }
    Some(())
}

async fn serve_stream(
    agent: Arc<Agent>,
    link: Arc<AgentLink>,
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
) {
    let path = request.uri().path();
    if path == wire::GRANTS_PATH {
        if let Ok(mut to_hub) = respond.send_response(http::Response::new(()), false) {
            link.windows.exchange_grants(request.into_body(), &mut to_hub).await;
        }
        link.closing.notify_one();
        return;
    }
    let upgrade = path == wire::UPGRADE_PATH;
    link.requests.fetch_add(1, Ordering::Relaxed);
    serve_request(&agent, &link.windows, upgrade, request.into_body(), respond).await;
    link.requests.fetch_sub(1, Ordering::Relaxed);
}

/// Opens the connection of a data link; None: the control plane cannot be reached, or refuses.
async fn connect_to_hub(hub: &Server, ticket: &str) -> Option<Box<dyn Socket>> {
    let mut socket = hub.dial().await.ok()?;
    tune_link(socket.tcp());
    let request = format!(
        "GET {} HTTP/1.1\r\nHost: {}:{}\r\nConnection: Upgrade\r\nUpgrade: {}\r\n\
         Authorization: Bearer {ticket}\r\n\r\n",
        wire::PATH,
        hub.host,
        hub.port,
        wire::UPGRADE,
    );
    socket.write_all(request.as_bytes()).await.ok()?;
    socket.flush().await.ok()?;
    // The control plane sends nothing more before the client's preface, which it waits for here.
    let mut head = Vec::new();
    while end_of_head(&head).is_none() {
        let mut byte = [0];
        if head.len() > 1024 || socket.read(&mut byte).await.ok()? == 0 {
            return None;
        }
        head.extend_from_slice(&byte);
    }
    head.starts_with(b"HTTP/1.1 101 ").then_some(socket)
}

async fn serve_request(
    agent: &Agent,
    windows: &Arc<Windows>,
    upgrade: bool,
    body: RecvStream,
    mut respond: SendResponse<Bytes>,
) {
    let mut cleared = agent.cleared.subscribe();
    let forwarding = async {
        if upgrade {
            Box::pin(forward_upgrade(agent, windows, body, &mut respond)).await
        } else {
            forward(agent, windows, body, &mut respond).await
        }
    };
    let served = tokio::select! {
        served = forwarding => served,
        _ = cleared.changed() => Err(()),
    };
    if served.is_err() {
        respond.send_reset(Reason::INTERNAL_ERROR);
    }
}

/// Leaves the request to the control link.
fn decline(respond: &mut SendResponse<Bytes>) -> Result<(), ()> {
    let status = http::StatusCode::from_u16(wire::DECLINED).map_err(drop)?;
    let mut response = http::Response::new(());
    *response.status_mut() = status;
    respond.send_response(response, true).map_err(drop)?;
    Ok(())
}

async fn forward(
    agent: &Agent,
    windows: &Arc<Windows>,
    body: RecvStream,
    respond: &mut SendResponse<Bytes>,
) -> Result<(), ()> {
    let mut packed = read_packed_request(body).await.ok_or(())?;
    let id = wire::take_id(&mut packed).ok_or(())?;
    let prepared = tokio::select! {
        prepared = agent.prepare_request(&packed, id, false) => prepared,
        _ = poll_fn(|context| respond.poll_reset(context)) => return Err(()),
    };
    let Some(request) = prepared else { return decline(respond) };
    drop(packed);
    // Its memory is needed until the response begins.
    let Some((connection, first)) = Box::pin(send_request(agent, &request, respond)).await? else {
        return decline(respond);
    };
    let observer = ResponseObserver::new(request.starts_with(b"HEAD "));
    drop(request);
    let mut response = ForwardedResponse { observer, stream: None, respond, windows };
    let (connection, reusable) = response.pass_on(agent, connection, first).await?;
    if reusable {
        agent.return_idle_connection(connection);
    }
    Ok(())
}

/// Forwards a request that asks for an upgrade. It is never sent twice: what it starts may change
/// something.
async fn forward_upgrade(
    agent: &Agent,
    windows: &Arc<Windows>,
    mut body: RecvStream,
    respond: &mut SendResponse<Bytes>,
) -> Result<(), ()> {
    let (mut packed, received) = read_prefixed_request(&mut body).await.ok_or(())?;
    let id = wire::take_id(&mut packed).ok_or(())?;
    let share = agent.budget.share(read_identity(&packed));
    let prepared = tokio::select! {
        prepared = agent.prepare_request(&packed, id, true) => prepared,
        _ = poll_fn(|context| respond.poll_reset(context)) => return Err(()),
    };
    let Some(request) = prepared else { return decline(respond) };
    let Ok(Ok(connection)) = timeout(DIAL_TIMEOUT, agent.upstream.dial()).await else {
        return decline(respond);
    };
    let (connection, first) = send_over(connection, &request, respond).await?.ok_or(())?;
    let observer = ResponseObserver::of_upgrade();
    let mut response = ForwardedResponse { observer, stream: None, respond, windows };
    let (connection, _) = response.pass_on(agent, connection, first).await?;
    if let (true, Some(stream)) = (response.observer.upgraded, &mut response.stream) {
        let tls = agent.upstream.tls.is_some();
        let mut incoming = Incoming::new(body, windows.clone(), share, MAX_WINDOW_UP);
        incoming.put_back(received).map_err(drop)?;
        splice_server(connection, tls, incoming, stream).await?;
    }
    Ok(())
}

fn read_identity(packed: &[u8]) -> Bytes {
    let (identity, ..) = wire::parts(packed).unwrap_or_default();
    Bytes::copy_from_slice(identity)
}

/// Returns the packed request, and the bytes that follow it.
async fn read_prefixed_request(body: &mut RecvStream) -> Option<(BytesMut, Bytes)> {
    let (mut received, mut size) = (BytesMut::new(), 0);
    loop {
        if let Some(packed) = wire::take_prefixed(&mut received)? {
            let taken = size - received.len();
            let _ = body.flow_control().release_capacity(taken);
            return Some((packed, received.freeze()));
        }
        let data = body.data().await?.ok()?;
        size += data.len();
        received.extend_from_slice(&data);
    }
}

async fn read_packed_request(mut body: RecvStream) -> Option<BytesMut> {
    let mut packed = BytesMut::new();
    while let Some(data) = body.data().await {
        let data = data.ok()?;
        if packed.len() + data.len() > wire::MAX_REQUEST {
            return None;
        }
        let _ = body.flow_control().release_capacity(data.len());
        packed.extend_from_slice(&data);
    }
    Some(packed)
}

/// Sends the request, and reads the first bytes of the response. A reused connection may be stale,
/// so the request is repeated once over a new one. None: the API server cannot be reached.
async fn send_request(
    agent: &Agent,
    request: &Bytes,
    respond: &mut SendResponse<Bytes>,
) -> Result<Option<(Box<dyn Socket>, Bytes)>, ()> {
    if let Some(connection) = agent.take_idle_connection().await
        && let Some(started) = send_over(connection, request, respond).await?
    {
        return Ok(Some(started));
    }
    match timeout(DIAL_TIMEOUT, agent.upstream.dial()).await {
        Ok(Ok(connection)) => send_over(connection, request, respond).await,
        _ => Ok(None),
    }
}

/// Sends the request over a connection, and reads the first bytes of the response. None: the
/// connection has ended. Err: the control plane has reset the stream.
async fn send_over(
    mut connection: Box<dyn Socket>,
    request: &Bytes,
    respond: &mut SendResponse<Bytes>,
) -> Result<Option<(Box<dyn Socket>, Bytes)>, ()> {
    if connection.write_all(request).await.is_err() || connection.flush().await.is_err() {
        return Ok(None);
    }
    let read = tokio::select! {
        read = read_piece(&mut connection) => read.unwrap_or_default(),
        _ = poll_fn(|context| respond.poll_reset(context)) => return Err(()),
    };
    Ok((!read.is_empty()).then_some((connection, read)))
}

/// The response to one request, on its way to the control plane.
struct ForwardedResponse<'a> {
    observer: ResponseObserver,
    stream: Option<Outgoing>,
    respond: &'a mut SendResponse<Bytes>,
    windows: &'a Arc<Windows>,
}

impl ForwardedResponse<'_> {
    /// Passes the response on to its end; returns the connection, and whether it can be reused.
    async fn pass_on(
        &mut self,
        agent: &Agent,
        mut connection: Box<dyn Socket>,
        first: Bytes,
    ) -> Result<(Box<dyn Socket>, bool), ()> {
        let mut data = first;
        loop {
            let ready = self.observer.feed(data).map_err(drop)?;
            if self.observer.status == Some(UNAUTHORIZED) && self.stream.is_none() {
                // Python decides with a new token.
                *locked(&agent.credential) = None;
                decline(self.respond)?;
                return Ok((connection, false));
            }
            let complete = self.observer.complete;
            if !ready.is_empty() || complete {
                self.send(ready, complete).await?;
            }
            if complete || self.observer.upgraded {
                return Ok((connection, complete && self.observer.keep_alive));
            }
            data = self.read(&mut connection).await?;
            if data.is_empty() {
                self.observer.end().map_err(drop)?;
                self.send(Bytes::new(), true).await?;
                return Ok((connection, false));
            }
        }
    }

    async fn read(&mut self, connection: &mut Box<dyn Socket>) -> Result<Bytes, ()> {
        let (stream, respond) = (&mut self.stream, &mut self.respond);
        let reset = poll_fn(|context| match stream.as_mut() {
            Some(stream) => stream.poll_reset(context),
            None => respond.poll_reset(context),
        });
        tokio::select! {
            read = read_piece(connection) => read.map_err(drop),
            _ = reset => Err(()),
        }
    }

    async fn send(&mut self, data: Bytes, end: bool) -> Result<(), ()> {
        let stream = match self.stream.as_mut() {
            Some(stream) => stream,
            None => {
                let head = http::Response::new(());
                let stream = self.respond.send_response(head, false).map_err(drop)?;
                self.stream.insert(Outgoing::new(stream, self.windows.clone()))
            }
        };
        stream.send(data, end).await
    }
}
