//! The classes that Python uses; `core/native.py` describes them.

use std::collections::HashMap;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::RawFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use socket2::{Domain, Socket, Type};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::accept::Refused;
use crate::agent::{Agent, AgentLink, Server, run_link};
use crate::flow::Flow;
use crate::hub::{self, End, HubSettings, HubState, listen};
use crate::proxy_header::Network;
use crate::questions::Question;
use crate::runtime::{handle, locked};
use crate::sockets::{HTTP1, HTTP2};
use crate::splice::{Order, Report, Spliced};
use crate::tls_listener::TlsListener;
use crate::verdicts::AuthorizedRequest;
use crate::{sockets, wire};

/// Number of this interface: `core/native.py` uses a module of the same number only. It changes with
/// each change of a class or a method.
const INTERFACE: u32 = 11;
const BACKLOG: i32 = 2048;
/// Audit ID, duration, bytes.
type EndTuple = (String, f64, u64);
/// Verdict, host and port of one source, status, reason, number, ends.
type GroupTuple = (u64, String, u16, u16, u8, u64, Vec<EndTuple>);
/// Number, identity, head, audit ID, whether it asks for an upgrade.
type QuestionTuple = (u64, Vec<u8>, Vec<u8>, [u8; 16], bool);
/// Number, state, status, bytes in and out.
type ReportTuple = (u64, u8, u16, u64, u64);
/// Number, verdict, audit ID, source host and port, begin, age, bytes.
type OpenTuple = (u64, u64, String, String, u16, f64, f64, u64);

/// The control plane's end: listeners for users, verdicts, data links of agents.
#[pyclass(frozen)]
struct NativeHub {
    state: Arc<HubState>,
}

#[pymethods]
impl NativeHub {
    #[new]
    #[allow(clippy::too_many_arguments)] // Python passes them by name.
    fn new(
        backend: &str,
        idle: f64,
        answer: f64,
        stalled: f64,
        max_connections: usize,
        memory: usize,
        full: &[u8],
        proxy_protocol: Vec<String>,
        http2: bool,
        max_streams: u32,
        max_head: u32,
    ) -> PyResult<Self> {
        let settings = HubSettings {
            backend: backend.into(),
            idle_timeout: duration(idle)?,
            answer_timeout: duration(answer)?,
            stall_timeout: duration(stalled)?,
            max_connections,
            max_waiting_bytes: memory,
            full_response: Bytes::copy_from_slice(full),
            proxy_protocol: parse_networks(proxy_protocol)?,
            http2,
            max_streams,
            max_head,
        };
        Ok(Self { state: Arc::new(HubState::new(settings)) })
    }

    /// Listens for users, with TLS if a certificate is given; returns the port.
    #[pyo3(signature = (host, port, certificate=None, key=None))]
    fn listen(
        &self,
        host: &str,
        port: u16,
        certificate: Option<&str>,
        key: Option<&str>,
    ) -> PyResult<u16> {
        let tls = match (certificate, key) {
            (Some(certificate), Some(key)) => {
                let http2 = self.state.settings.http2;
                let offered: &[&[u8]] = if http2 { &[HTTP2, HTTP1] } else { &[HTTP1] };
                Some(
                    sockets::server_tls(certificate, key, offered)
                        .map_err(PyValueError::new_err)?,
                )
            }
            _ => None,
        };
        let listener = bind(host, port)?;
        let port = listener.local_addr()?.port();
        handle()?.spawn(listen(self.state.clone(), listener, tls));
        Ok(port)
    }

    fn stop_listening(&self) {
        self.state.stop_listening();
    }

    /// Number of open connections of users.
    fn connections(&self) -> usize {
        self.state.connections.load(Ordering::Relaxed)
    }

    fn drain(&self) {
        self.state.drain();
    }

    /// Ends all listeners, links and open requests.
    fn close(&self) {
        self.state.stop_listening();
        self.state.drain();
        self.state.links.close_all();
    }

    /// Offers a data link; returns its number and its ticket.
    fn offer_link(&self) -> PyResult<(u64, String)> {
        self.state.links.offer().ok_or_else(|| PyOSError::new_err("no random numbers"))
    }

    fn link_is_open(&self, link: u64) -> bool {
        self.state.links.find(link).is_some()
    }

    fn link_round_trip(&self, link: u64) -> f64 {
        let link = self.state.links.find(link);
        link.map_or(0.0, |link| link.windows.round_trip().as_secs_f64())
    }

    fn close_link(&self, link: u64) {
        self.state.links.close(link);
    }

    /// Remembers a verdict; returns its number, 0: the head is left to Python.
    #[allow(clippy::too_many_arguments)] // Python passes them by name.
    fn teach(
        &self,
        link: u64,
        head: &[u8],
        identity: &[u8],
        before: &[u8],
        after: &[u8],
        lifetime: f64,
        late: &[u8],
        user: String,
        room: usize,
    ) -> PyResult<u64> {
        let Some(link) = self.state.links.find(link) else { return Ok(0) };
        let identity = Bytes::copy_from_slice(identity);
        let authorized = AuthorizedRequest {
            link,
            share: self.state.budget.share(identity.clone()),
            identity,
            before: Bytes::copy_from_slice(before),
            after: Bytes::copy_from_slice(after),
            head_request: before.starts_with(b"HEAD "),
            late: Bytes::copy_from_slice(late),
            max_open: room,
        };
        let head = Bytes::copy_from_slice(head);
        Ok(self.state.verdicts.teach(head, authorized, user, duration(lifetime)?))
    }

    /// Forgets all verdicts.
    fn forget(&self) {
        self.state.verdicts.forget();
    }

    fn sweep(&self) {
        self.state.verdicts.sweep();
    }

    fn load(&self, user: &str) -> usize {
        self.state.verdicts.load(user)
    }

    /// Python expects a request on a connection of which it has read and written so many bytes.
    fn rest(&self, connection: u64, read: u64, written: u64) {
        if let Some(known) = locked(&self.state.backends).get(&connection) {
            *locked(&known.rest) = Some((read, written));
        }
    }

    /// The user's connection must end with a reset.
    fn abort(&self, connection: u64) {
        if let Some(known) = locked(&self.state.backends).get(&connection) {
            known.abort();
        }
    }

    /// Descriptor that is readable while ended requests wait.
    fn ends(&self) -> PyResult<RawFd> {
        Ok(self.state.ended.descriptor()?)
    }

    /// Takes up to `most` ended requests, those with equal records in one group.
    fn take_ends(&self, most: usize) -> Vec<GroupTuple> {
        let mut groups: HashMap<_, GroupTuple> = HashMap::new();
        for request in self.state.ended.take(most) {
            let number = if request.end == End::Ended { request.number } else { 0 };
            let key = (request.verdict, request.source.ip(), request.status, request.end, number);
            let group = groups.entry(key).or_insert_with(|| {
                let (host, port) = host_and_port(request.source);
                let end = request.end as u8;
                (request.verdict, host, port, request.status, end, number, Vec::new())
            });
            group.6.push((hex_text(&request.id), request.seconds, request.bytes_out));
        }
        groups.into_values().collect()
    }

    /// Takes the connections of load balancers without a valid header: address and reason.
    fn take_refused(&self) -> Vec<(String, &'static str)> {
        take_refused_peers(&self.state.refused)
    }

    fn open_requests(&self) -> Vec<OpenTuple> {
        let open: Vec<_> = locked(&self.state.open).values().cloned().collect();
        let tuple = |request: Arc<hub::OpenRequest>| {
            let (host, port) = host_and_port(request.source);
            let size = request.flow.bytes_out.load(Ordering::Relaxed);
            let age = request.started.elapsed().as_secs_f64();
            (
                request.number,
                request.verdict.id,
                hex_text(&request.id),
                host,
                port,
                request.begun_at,
                age,
                size,
            )
        };
        open.into_iter().map(tuple).collect()
    }

    /// Ends an open request, with this response if none has begun.
    fn end(&self, number: u64, response: &[u8]) {
        let response = Bytes::copy_from_slice(response);
        if let Some(flow) = locked(&self.state.splices.open).get(&number) {
            flow.end(response);
        } else if let Some(request) = locked(&self.state.open).get(&number) {
            request.flow.end(response);
        }
    }

    /// Ends a request that was handed over once it is between two events.
    fn end_between_events(&self, number: u64) {
        if let Some(flow) = locked(&self.state.splices.open).get(&number) {
            flow.end_between_events();
        }
    }

    /// Hands a request over, after Python has read and written so many bytes of its connection;
    /// returns its number, 0: Python has to serve it.
    #[allow(clippy::too_many_arguments)] // Python passes them by name.
    fn splice(
        &self,
        connection: u64,
        read: u64,
        written: u64,
        link: u64,
        identity: &[u8],
        before: &[u8],
        after: &[u8],
        id: [u8; 16],
        upgrade: bool,
        long_running: bool,
        keep_alive: bool,
        user: &[u8],
    ) -> u64 {
        let backend = locked(&self.state.backends).get(&connection).cloned();
        let (Some(backend), Some(link)) = (backend, self.state.links.find(link)) else { return 0 };
        let order = Order {
            read,
            written,
            link,
            packed: wire::pack(identity, before, after, &id),
            head_request: before.starts_with(b"HEAD "),
            upgrade,
            long_running,
            keep_alive,
            share: self.state.budget.share(Bytes::copy_from_slice(user)),
        };
        let Some(spliced) = Spliced::new(&self.state, order) else { return 0 };
        let number = spliced.number;
        backend.hand_over(spliced);
        number
    }

    /// Descriptor that is readable while reports wait.
    fn reports(&self) -> PyResult<RawFd> {
        Ok(self.state.splices.reports.descriptor()?)
    }

    /// Takes up to `most` reports about requests that were handed over.
    fn take_reports(&self, most: usize) -> Vec<ReportTuple> {
        let reports = self.state.splices.reports.take(most);
        let tuple = |report: Report| {
            let state = report.state.number();
            (report.number, state, report.status, report.bytes_in, report.bytes_out)
        };
        reports.into_iter().map(tuple).collect()
    }

    /// Open requests that were handed over: number, bytes in and out.
    fn spliced(&self) -> Vec<(u64, u64, u64)> {
        let open = locked(&self.state.splices.open);
        let row = |(number, flow): (&u64, &Arc<Flow>)| {
            let bytes_in = flow.bytes_in.load(Ordering::Relaxed);
            (*number, bytes_in, flow.bytes_out.load(Ordering::Relaxed))
        };
        open.iter().map(row).collect()
    }
}

/// Ports with TLS for agents, in front of a Unix socket on which Python serves.
#[pyclass(frozen)]
struct NativeTlsListener {
    listener: Arc<TlsListener>,
}

#[pymethods]
impl NativeTlsListener {
    #[new]
    fn new(backend: &str, handshake: f64) -> PyResult<Self> {
        let listener = Arc::new(TlsListener {
            backend: backend.into(),
            handshake: duration(handshake)?,
            refused: Mutex::default(),
            listening: watch::Sender::new(true),
        });
        Ok(Self { listener })
    }

    /// Listens; returns the port. `proxy_protocol`: networks of load balancers that name clients.
    fn listen(
        &self,
        host: &str,
        port: u16,
        certificate: &str,
        key: &str,
        proxy_protocol: Vec<String>,
    ) -> PyResult<u16> {
        let tls = sockets::server_tls(certificate, key, &[HTTP2]).map_err(PyValueError::new_err)?;
        let balancers = parse_networks(proxy_protocol)?;
        let listener = bind(host, port)?;
        let port = listener.local_addr()?.port();
        handle()?.spawn(self.listener.clone().listen(listener, tls, balancers));
        Ok(port)
    }

    fn stop_listening(&self) {
        self.listener.listening.send_replace(false);
    }

    fn take_refused(&self) -> Vec<(String, &'static str)> {
        take_refused_peers(&self.listener.refused)
    }
}

/// The agent's end: admitted requests, connections to the API server, data links.
#[pyclass(frozen)]
struct NativeAgent {
    agent: Arc<Agent>,
}

#[pymethods]
impl NativeAgent {
    /// `authorities`: certificates (DER) that sign the API server's; None: plain HTTP.
    #[new]
    #[pyo3(signature = (host, port, authorities=None))]
    fn new(host: String, port: u16, authorities: Option<Vec<Vec<u8>>>) -> PyResult<Self> {
        let upstream = server(host, port, authorities)?;
        Ok(Self { agent: Arc::new(Agent::new(upstream)) })
    }

    /// Admits requests with this identity and head; sends them as `send_before`, audit ID,
    /// `send_after`, the fields of the credential.
    #[allow(clippy::too_many_arguments)] // Python passes them by name.
    fn admit(
        &self,
        identity: &[u8],
        before: &[u8],
        after: &[u8],
        send_before: &[u8],
        send_after: &[u8],
        lifetime: f64,
    ) -> PyResult<()> {
        let packed = wire::pack(identity, before, after, &[0; 16]);
        let send_before = Bytes::copy_from_slice(send_before);
        let send_after = Bytes::copy_from_slice(send_after);
        self.agent.admit(packed, send_before, send_after, duration(lifetime)?);
        Ok(())
    }

    fn set_credential(&self, fields: &[u8], lifetime: f64) -> PyResult<()> {
        self.agent.set_credential(Bytes::copy_from_slice(fields), duration(lifetime)?);
        Ok(())
    }

    /// Forgets what was admitted, and ends all open requests.
    fn clear(&self) {
        self.agent.clear();
    }

    /// Descriptor that is readable while questions wait.
    fn questions(&self) -> PyResult<RawFd> {
        Ok(self.agent.questions.inbox.descriptor()?)
    }

    /// Takes up to `most` questions.
    fn take_questions(&self, most: usize) -> Vec<QuestionTuple> {
        let questions = self.agent.questions.inbox.take(most);
        let tuple = |asked: Question| {
            let (identity, head) = (asked.identity.to_vec(), asked.head.to_vec());
            (asked.number, identity, head, asked.id, asked.upgrade)
        };
        questions.into_iter().map(tuple).collect()
    }

    /// Answers a question with the bytes to send; None: the request is declined.
    #[pyo3(signature = (number, request))]
    fn answer(&self, number: u64, request: Option<&[u8]>) {
        self.agent.questions.answer(number, request.map(Bytes::copy_from_slice));
    }

    /// Opens a data link to the control plane with a ticket.
    #[pyo3(signature = (host, port, authorities, ticket))]
    fn open_link(
        &self,
        host: String,
        port: u16,
        authorities: Option<Vec<Vec<u8>>>,
        ticket: String,
    ) -> PyResult<NativeAgentLink> {
        let hub = server(host, port, authorities)?;
        let link = Arc::new(AgentLink::default());
        handle()?.spawn(run_link(self.agent.clone(), link.clone(), hub, ticket));
        Ok(NativeAgentLink { link })
    }
}

/// A data link of an agent.
#[pyclass(frozen)]
struct NativeAgentLink {
    link: Arc<AgentLink>,
}

#[pymethods]
impl NativeAgentLink {
    #[getter]
    fn is_open(&self) -> bool {
        !self.link.ended.load(Ordering::Acquire)
    }

    #[getter]
    fn is_busy(&self) -> bool {
        self.link.requests.load(Ordering::Relaxed) > 0
    }

    fn close(&self) {
        self.link.closing.notify_one();
    }
}

fn server(host: String, port: u16, authorities: Option<Vec<Vec<u8>>>) -> PyResult<Server> {
    let tls = authorities.map(sockets::client_tls).transpose().map_err(PyValueError::new_err)?;
    Ok(Server { host, port, tls })
}

/// Binds a listener of the native runtime.
fn bind(host: &str, port: u16) -> std::io::Result<TcpListener> {
    let unknown = || std::io::Error::other(format!("{host} has no address"));
    let address = (host, port).to_socket_addrs()?.next().ok_or_else(unknown)?;
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    let _entered = handle()?.enter();
    TcpListener::from_std(socket.into())
}

fn parse_networks(texts: Vec<String>) -> PyResult<Vec<Network>> {
    let parsed: Result<_, _> = texts.iter().map(|text| text.parse()).collect();
    parsed.map_err(PyValueError::new_err)
}

fn take_refused_peers(refused: &Mutex<Refused>) -> Vec<(String, &'static str)> {
    let refused = std::mem::take(&mut *locked(refused));
    refused.into_iter().map(|(peer, reason)| (host_and_port(peer).0, reason)).collect()
}

fn duration(value: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(value).map_err(|error| PyValueError::new_err(error.to_string()))
}

fn host_and_port(source: SocketAddr) -> (String, u16) {
    (source.ip().to_canonical().to_string(), source.port())
}

fn hex_text(id: &[u8; 16]) -> String {
    String::from_utf8_lossy(&wire::hex(id)).into_owned()
}

#[pymodule]
fn towline_native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("INTERFACE", INTERFACE)?;
    module.add("DATA_LINK_VERSION", wire::VERSION)?;
    module.add_class::<NativeHub>()?;
    module.add_class::<NativeTlsListener>()?;
    module.add_class::<NativeAgent>()?;
    module.add_class::<NativeAgentLink>()
}
