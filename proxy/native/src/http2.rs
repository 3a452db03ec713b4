//! A user's HTTP/2 connection (RFC 9113). Each stream is one request. One whose head, written as
//! that of an HTTP/1.1 request, has a verdict is served here; Python serves the others, each on an
//! HTTP/1.1 connection that no other stream uses meanwhile.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};
use h2::server::{Builder, SendResponse};
use h2::{Reason, RecvStream};
use http::{Method, Request};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::net::unix::ReadHalf;
use tokio::sync::Notify;
use tokio::time::{interval, timeout};

use crate::backend::{self, Backend, PythonConnection};
use crate::exchange::{AgentRequest, Entered, Stop, exchange};
use crate::hub::{End, HubState};
use crate::request_head::{self, Framing};
use crate::response_stream::ResponseStream;
use crate::runtime::locked;
use crate::sockets::Socket;
use crate::splice::{HandedOver, Spliced, State};

/// Windows for contents of requests: of one stream, and of all streams of a connection.
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = 4 << 20;
/// Bytes of one response that wait for the user's connection.
const UNSENT: usize = 64 << 10;
const MAX_IDLE: usize = 16;
const SWEEP: Duration = Duration::from_secs(15);
/// Streams that a user may reset at once, and each second.
const RESETS: f64 = 200.0;
const RESETS_A_SECOND: f64 = 33.0;

/// State that the streams of one connection share.
struct Streams {
    hub: Arc<HubState>,
    source: SocketAddr,
    /// Connections to Python that no stream uses.
    idle: Mutex<Vec<PythonConnection>>,
    resets: Mutex<Resets>,
    too_many_resets: Notify,
}

/// Serves a user who speaks HTTP/2 over TLS. `full`: too many connections are open.
pub async fn serve<S: Socket>(hub: Arc<HubState>, socket: S, source: SocketAddr, full: bool) {
    let opening = Builder::new()
        .max_concurrent_streams(hub.settings.max_streams)
        .max_header_list_size(hub.settings.max_head)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buffer_size(UNSENT)
        .handshake::<_, Bytes>(socket);
    let Ok(Ok(mut connection)) = timeout(hub.settings.idle_timeout, opening).await else { return };
    let streams = Arc::new(Streams::new(hub.clone(), source));
    let mut draining = hub.draining.subscribe();
    let mut sweep = interval(SWEEP.min(hub.settings.idle_timeout / 4));
    let mut used = Instant::now();
    let mut closing = false;
    loop {
        tokio::select! {
            biased;
            () = streams.too_many_resets.notified() => {
                connection.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
                closing = true;
            }
            accepted = connection.accept() => {
                let Some(Ok((request, respond))) = accepted else { return };
                used = Instant::now();
                if full {
                    tokio::spawn(refuse(hub.clone(), request, respond));
                } else {
                    tokio::spawn(streams.clone().answer(request, respond));
                }
            }
            _ = draining.wait_for(|draining| *draining), if !closing => {
                connection.graceful_shutdown();
                closing = true;
                locked(&streams.idle).clear();
            }
            _ = sweep.tick() => {
                streams.sweep();
                if connection.has_streams() {
                    used = Instant::now();
                }
                let idle = used.elapsed();
                if closing && idle > hub.settings.answer_timeout {
                    return;
                }
                if full || idle > hub.settings.idle_timeout && !closing {
                    connection.graceful_shutdown();
                    closing = true;
                }
            }
        }
    }
}

async fn refuse(hub: Arc<HubState>, request: Request<RecvStream>, respond: SendResponse<Bytes>) {
    let head_request = request.method() == Method::HEAD;
    let mut response = ResponseStream::new(respond, head_request, hub.settings.stall_timeout);
    let _ = response.pass_on(hub.settings.full_response.clone()).await;
}

impl Streams {
    fn new(hub: Arc<HubState>, source: SocketAddr) -> Self {
        Self {
            hub,
            source,
            idle: Mutex::default(),
            resets: Mutex::new(Resets { tokens: RESETS, refilled_at: Instant::now() }),
            too_many_resets: Notify::new(),
        }
    }

    async fn answer(
        self: Arc<Self>,
        request: Request<RecvStream>,
        mut respond: SendResponse<Bytes>,
    ) {
        let (parts, body) = request.into_parts();
        let Ok((head, framing)) = request_head::write(&parts, body.is_end_stream()) else {
            respond.send_reset(Reason::PROTOCOL_ERROR);
            return;
        };
        let head_request = parts.method == Method::HEAD;
        drop(parts);
        let mut response =
            ResponseStream::new(respond, head_request, self.hub.settings.stall_timeout);
        let served = body.is_end_stream() && self.serve_with_verdict(&head, &mut response).await;
        if !served {
            self.ask_python(head, (body, framing), &mut response).await;
        }
    }

    // Requests with a verdict

    /// Returns false if Python must serve the request.
    async fn serve_with_verdict(&self, head: &Bytes, response: &mut ResponseStream) -> bool {
        let Some(verdict) = self.hub.admit(head) else { return false };
        let Some(id) = self.hub.ids.take() else { return false };
        let request = self.hub.enter(verdict, id, self.source);
        let mut entered = Entered::new(self.hub.clone(), request.clone());
        let agent_request = AgentRequest::repeated(&self.hub, &request);
        let result = exchange(agent_request, &request.flow, response).await;
        let status = response.observer.status.unwrap_or(0);
        match result {
            Ok(_) => entered.end = Some((status, End::Done)),
            Err(Stop::UserLeft) => {
                entered.end = Some((status, End::UserLeft));
                self.on_reset(response);
            }
            Err(Stop::Declined | Stop::Failed) if !response.begun => {
                self.hub.verdicts.decline(head.clone());
                response.restart();
                return false;
            }
            Err(stop @ (Stop::Late | Stop::Ended)) if !response.begun => {
                let refusal = entered.refuse(stop);
                response.restart();
                let _ = response.pass_on(refusal).await;
            }
            Err(stop) => {
                let end = if matches!(stop, Stop::Ended) { End::Ended } else { End::Upstream };
                entered.end = Some((status, end));
                response.reset(Reason::INTERNAL_ERROR);
            }
        }
        true
    }

    // All other requests

    async fn ask_python(
        &self,
        head: Bytes,
        content: (RecvStream, Framing),
        response: &mut ResponseStream,
    ) {
        let mut python = self.connect().await;
        if python.is_none() {
            response.reset(Reason::REFUSED_STREAM);
        }
        let mut unsent = Some((head, content));
        while let Some(mut known) = python.take() {
            match pass(&mut known, &mut unsent, response).await {
                Ok(Passed::HandedOver(spliced)) => {
                    python = Some(known);
                    if self.serve_spliced(spliced, &mut python, response).await {
                        if let Some(python) = python {
                            self.keep(python);
                        }
                        return;
                    }
                }
                Ok(Passed::Response { is_sent }) => {
                    if is_sent && response.observer.keep_alive {
                        self.keep(known);
                    }
                }
                Err(Stop::UserLeft) => self.on_reset(response),
                Err(_) => response.reset(Reason::INTERNAL_ERROR),
            }
        }
    }

    // Requests that Python has handed over

    /// Returns false if Python must serve the request.
    async fn serve_spliced(
        &self,
        mut spliced: Box<Spliced>,
        python: &mut Option<PythonConnection>,
        response: &mut ResponseStream,
    ) -> bool {
        let (agent_request, flow) = (spliced.order.take(), spliced.flow.clone());
        let mut user = HandedOver { user: &mut *response, spliced: &mut spliced, python };
        let result = exchange(agent_request, &flow, &mut user).await;
        spliced.state = match result {
            Ok(_) => State::Over(End::Done),
            Err(Stop::UserLeft) => {
                self.on_reset(response);
                State::Over(End::UserLeft)
            }
            // If Python has ended it, it has a response for the user.
            Err(Stop::Declined | Stop::Failed | Stop::Ended) if !response.begun => {
                response.restart();
                let is_unsent = matches!(result, Err(Stop::Declined));
                spliced.state = if is_unsent { State::Declined } else { State::Lost };
                return false;
            }
            Err(Stop::EndedBetweenEvents) => {
                response.cut();
                State::Over(End::Ended)
            }
            Err(stop) => {
                response.reset(Reason::INTERNAL_ERROR);
                let is_ended = matches!(stop, Stop::Ended);
                State::Over(if is_ended { End::Ended } else { End::Upstream })
            }
        };
        true
    }

    async fn connect(&self) -> Option<PythonConnection> {
        // Python closes connections at rest while it drains.
        if !*self.hub.draining.borrow() {
            let mut idle = locked(&self.idle);
            let found = idle.iter().rposition(|python| python.is_fresh() && python.is_idle());
            if let Some(found) = found {
                return Some(idle.swap_remove(found));
            }
        }
        PythonConnection::open(&self.hub, self.source, true).await
    }

    fn keep(&self, mut python: PythonConnection) {
        python.used = Instant::now();
        let mut idle = locked(&self.idle);
        // Python waits for its connections to end while it drains.
        if idle.len() < MAX_IDLE && !*self.hub.draining.borrow() {
            idle.push(python);
        }
    }

    fn sweep(&self) {
        locked(&self.idle).retain(PythonConnection::is_fresh);
    }

    /// Handles a stream that ended before its response: each one has cost work (CVE-2023-44487).
    fn on_reset(&self, response: &mut ResponseStream) {
        response.reset(Reason::CANCEL);
        if !locked(&self.resets).take(Instant::now()) {
            self.too_many_resets.notify_one();
        }
    }
}

enum Passed {
    /// The response is complete. `is_sent`: so is the request.
    Response {
        is_sent: bool,
    },
    HandedOver(Box<Spliced>),
}

/// Passes a request to Python, and its response to the user, unless Python hands the request over.
async fn pass(
    python: &mut PythonConnection,
    unsent: &mut Option<(Bytes, (RecvStream, Framing))>,
    response: &mut ResponseStream,
) -> Result<Passed, Stop> {
    let shared = python.shared.clone();
    let (mut sent, mut received) = (None, 0);
    let passed = {
        let (from_python, mut to_python) = python.socket.split();
        let sending = async {
            match unsent.take() {
                Some((head, content)) => send_request(&mut to_python, head, content).await,
                None => Ok(0),
            }
        };
        let receiving = pass_response(&from_python, response, &shared, &mut received);
        tokio::pin!(sending, receiving);
        loop {
            tokio::select! {
                biased;
                () = shared.news.notified() => break None,
                passed = &mut receiving => break Some(passed),
                size = &mut sending, if sent.is_none() => match size {
                    Ok(size) => sent = Some(size),
                    Err(stop) => break Some(Err(stop)),
                },
            }
        }
    };
    let is_sent = sent.is_some();
    python.sent += sent.unwrap_or(0);
    python.received += received;
    match (passed, shared.take_over()) {
        (Some(Ok(())), _) => Ok(Passed::Response { is_sent }),
        (None, Some(spliced)) if is_sent && received == 0 && spliced.is_in_step_with(python) => {
            Ok(Passed::HandedOver(spliced))
        }
        (Some(Err(stop)), _) => Err(stop),
        _ => Err(Stop::Ended),
    }
}

/// Sends a request to Python; returns the number of bytes.
async fn send_request(
    to_python: &mut (impl AsyncWrite + Unpin),
    head: Bytes,
    (mut body, framing): (RecvStream, Framing),
) -> Result<u64, Stop> {
    let mut sent = write(to_python, head).await;
    while let Some(data) = body.data().await {
        let data = data.map_err(|_| Stop::UserLeft)?;
        let size = data.len();
        // An empty chunk would end the content.
        if size > 0 {
            sent += match framing {
                Framing::Counted => write(to_python, data).await,
                Framing::Chunked => {
                    let line = Bytes::from(format!("{size:x}\r\n"));
                    write(to_python, line.chain(data).chain(&b"\r\n"[..])).await
                }
            };
        }
        let _ = body.flow_control().release_capacity(size);
    }
    if framing == Framing::Chunked {
        sent += write(to_python, &b"0\r\n\r\n"[..]).await;
    }
    Ok(sent)
}

/// Writes all of it; never returns if Python has closed the connection, whose response counts.
async fn write(to_python: &mut (impl AsyncWrite + Unpin), mut data: impl Buf) -> u64 {
    let size = data.remaining() as u64;
    if to_python.write_all_buf(&mut data).await.is_err() {
        std::future::pending::<()>().await;
    }
    size
}

/// Passes on Python's response, and counts its bytes.
async fn pass_response(
    from_python: &ReadHalf<'_>,
    response: &mut ResponseStream,
    shared: &Backend,
    received: &mut u64,
) -> Result<(), Stop> {
    loop {
        let piece = tokio::select! {
            biased;
            piece = backend::read(from_python) => piece,
            () = response.disconnected() => return Err(Stop::UserLeft),
        };
        let piece = match piece {
            Ok(piece) if !piece.is_empty() => piece,
            _ if shared.is_aborted() => return Err(Stop::Ended),
            _ => return response.finish().await,
        };
        *received += piece.len() as u64;
        if response.pass_on(piece.freeze()).await? {
            return Ok(());
        }
    }
}

/// A token bucket of streams that the user may reset.
struct Resets {
    tokens: f64,
    refilled_at: Instant,
}

impl Resets {
    fn take(&mut self, now: Instant) -> bool {
        let refilled = now.duration_since(self.refilled_at).as_secs_f64() * RESETS_A_SECOND;
        self.tokens = RESETS.min(self.tokens + refilled) - 1.0;
        self.refilled_at = now;
        self.tokens >= 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::fake;
    use crate::observer::end_of_head;
    use crate::random::Random;
    use crate::tcp::{Tcp, pair};
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpStream;

    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    /// GET https://a/ with indexed fields, and a name that is not.
    const FIELDS: &[u8] = b"\x82\x87\x84\x41\x01a\x40\x01b\x01c";

    fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let size = (payload.len() as u32).to_be_bytes();
        [&size[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
    }

    /// A frame that a client might send, or not.
    fn any_frame(random: &mut Random) -> Vec<u8> {
        let stream = random.below(12) as u32;
        match random.below(8) {
            0 | 1 => {
                let flags = *random.choice(&[4, 5, 0, 0x25]);
                let mut fields = FIELDS.to_vec();
                if random.below(3) == 0 {
                    random.mutate(&mut fields, b"\x82\x84\x40\x3f\xe1\xff");
                }
                frame(1, flags, 2 * stream + 1, &fields)
            }
            2 => frame(0, random.number() as u8 & 9, 2 * stream + 1, &random.bytes::<20>()),
            3 => frame(3, 0, stream, &[0, 0, 0, 8]),
            4 => frame(8, 0, stream, &random.bytes::<4>()),
            5 => frame(4, 0, 0, &[&[0, random.below(7) as u8], &random.bytes::<4>()[..]].concat()),
            6 => frame(6, 0, 0, &random.bytes::<8>()),
            _ => {
                let (kind, flags) = (random.below(11) as u8, random.number() as u8);
                let payload = random.text(b"\0\x01\x82\xff", 30);
                frame(kind, flags, stream, &payload)
            }
        }
    }

    async fn serve_pair(hub: &Arc<HubState>) -> (TcpStream, tokio::task::JoinHandle<()>) {
        let (near, far) = pair().await;
        let source = near.peer_addr().unwrap();
        (far, tokio::spawn(serve(hub.clone(), Tcp::new(near), source, false)))
    }

    #[tokio::test]
    async fn any_frames_end_a_stream_or_the_connection_alone() {
        let python = fake::Python::start(|received, _| end_of_head(received).map(|_| OK));
        let hub = HubState::for_tests(&python.path);
        let mut random = Random::new(14);
        for _ in 0..300 {
            let (mut user, served) = serve_pair(&hub).await;
            let mut sent = [PREFACE, &frame(4, 0, 0, &[])].concat();
            for _ in 0..random.below(20) {
                sent.extend(any_frame(&mut random));
            }
            if random.below(4) == 0 {
                random.mutate(&mut sent, b"\0\x01\xff");
            }
            for piece in random.cut(&sent, 200) {
                // It may have ended already.
                let _ = user.write_all(piece).await;
                tokio::task::yield_now().await;
            }
            let _ = user.shutdown().await;
            let _ = user.read_to_end(&mut Vec::new()).await;
            // A panic would be an error.
            served.await.unwrap();
            // Others are served.
            let (user, served) = serve_pair(&hub).await;
            let (sender, connection) = h2::client::handshake(user).await.unwrap();
            let connection = tokio::spawn(connection);
            let mut sender = sender.ready().await.unwrap();
            let request = Request::get("https://a/").body(()).unwrap();
            let (response, _) = sender.send_request(request, true).unwrap();
            assert_eq!(response.await.unwrap().status(), 200);
            connection.abort();
            served.await.unwrap();
        }
        assert_eq!(hub.connections.load(std::sync::atomic::Ordering::Relaxed), 0);
        assert!(locked(&hub.open).is_empty() && locked(&hub.backends).is_empty());
    }

    #[test]
    fn only_so_many_streams_are_reset_in_any_time() {
        let mut random = Random::new(15);
        for _ in 0..50 {
            let start = Instant::now();
            let mut resets = Resets { tokens: RESETS, refilled_at: start };
            let (mut now, mut allowed) = (start, 0_u32);
            for _ in 0..2_000 {
                now += Duration::from_millis(random.below(60) as u64);
                allowed += u32::from(resets.take(now));
                let most = RESETS + (now - start).as_secs_f64() * RESETS_A_SECOND;
                assert!(f64::from(allowed) <= most + 1e-6);
            }
            assert!(f64::from(allowed) >= RESETS);
        }
    }
}
