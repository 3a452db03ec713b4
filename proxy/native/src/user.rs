//! A user's connection. A request whose head has a verdict is served here. All other bytes go to
//! Python unread, which parses them, and says when no request is open any more.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes, BytesMut};
use h2::RecvStream;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::{sleep, timeout};

use crate::hub::{Backend, End, HubState, OpenRequest};
use crate::link::{self, HubLink};
use crate::observer::{ResponseObserver, end_of_head};
use crate::runtime::locked;
use crate::sockets::Socket;
use crate::verdicts::Verdict;
use crate::wire;

const PIECE: usize = 16 << 10;
const BACKLOG: usize = 64 << 10;
/// Python closes a connection at rest after a while: one that may be about to close is not used.
const FRESH: Duration = Duration::from_secs(30);

struct PythonConnection {
    hub: Arc<HubState>,
    socket: UnixStream,
    number: u64,
    known: Arc<Backend>,
    sent: u64,
    received: u64,
    used: Instant,
}

impl PythonConnection {
    /// Reports whether Python has answered everything that it got, and expects a request.
    fn rests(&self) -> bool {
        *locked(&self.known.rest) == Some((self.sent, self.received))
    }
}

impl Drop for PythonConnection {
    fn drop(&mut self) {
        locked(&self.hub.backends).remove(&self.number);
    }
}

struct User<S> {
    hub: Arc<HubState>,
    socket: S,
    source: SocketAddr,
    tls: bool,
    received: BytesMut,
    python: Option<PythonConnection>,
}

enum Served {
    Done,
    /// Nothing of a response was sent: Python serves the request.
    Declined,
    Closed,
}

pub async fn serve<S: Socket>(
    hub: Arc<HubState>,
    mut socket: S,
    source: SocketAddr,
    tls: bool,
    full: bool,
) -> Option<(S, Arc<HubLink>)> {
    if full {
        let _ = timeout(hub.settings.answer, socket.write_all(&hub.settings.full)).await;
        let _ = socket.shutdown().await;
        return None;
    }
    let received = BytesMut::new();
    User { hub, socket, source, tls, received, python: None }.run().await
}

impl<S: Socket> User<S> {
    /// Serves the user; returns the connection if it turns out to be an agent's data link.
    async fn run(mut self) -> Option<(S, Arc<HubLink>)> {
        let mut draining = self.hub.draining.subscribe();
        loop {
            if self.received.is_empty() {
                self.received.reserve(PIECE / 4);
                let arrived = tokio::select! {
                    arrived = timeout(self.hub.settings.idle, self.socket.read_buf(&mut self.received)) => arrived,
                    _ = draining.wait_for(|draining| *draining) => break,
                };
                if !matches!(arrived, Ok(Ok(1..))) {
                    break;
                }
            }
            if self.received.starts_with(link::REQUEST)
                && let Some(link) = self.hub.links.redeem(&self.received)
            {
                return Some((self.socket, link));
            }
            match self.serve_known().await {
                Served::Done => continue,
                Served::Declined => {}
                Served::Closed => return None,
            }
            if !self.ask_python().await {
                return None;
            }
        }
        let _ = timeout(self.hub.settings.answer, self.socket.shutdown()).await;
        None
    }

    // Requests with a verdict

    async fn serve_known(&mut self) -> Served {
        let Some(end) = end_of_head(&self.received) else { return Served::Declined };
        let Some(verdict) = self.hub.admit(&self.received[..end]) else { return Served::Declined };
        let Some(id) = self.hub.ids.take() else { return Served::Declined };
        let head = self.received.split_to(end);
        let request = self.hub.enter(verdict, id, self.source);
        let mut guard = Leaving { hub: self.hub.clone(), request: request.clone(), end: None };
        let served = self.exchange(&request, &mut guard.end).await;
        drop(guard);
        if matches!(served, Served::Declined) {
            self.hub.verdicts.decline(Bytes::copy_from_slice(&head));
            let rest = self.received.split();
            self.received = head;
            self.received.extend_from_slice(&rest);
        }
        served
    }

    async fn exchange(&mut self, request: &OpenRequest, end: &mut Option<(u16, End)>) -> Served {
        let verdict = &request.verdict;
        let mut answer =
            Answer { observer: ResponseObserver::new(verdict.head_request), begun: false };
        let result = match self.body_of(verdict, request).await {
            Ok(body) => self.pass_on(body, &mut answer, request).await,
            Err(stop) => Err(stop),
        };
        let status = answer.observer.status.unwrap_or(0);
        match result {
            Ok(()) => {
                *end = Some((status, End::Done));
                if answer.observer.keep_alive {
                    return Served::Done;
                }
                let _ = timeout(self.hub.settings.answer, self.socket.shutdown()).await;
            }
            Err(Stop::UserLeft) => *end = Some((status, End::UserLeft)),
            Err(Stop::Failed) if !answer.begun => return Served::Declined,
            Err(Stop::Failed) => {
                *end = Some((status, End::Upstream));
                self.socket.reset_on_close();
            }
            Err(Stop::Late) => {
                let late = verdict.late.clone();
                return self.refuse(late, End::Timeout, end).await;
            }
            Err(Stop::Ended) => {
                let response = locked(&request.ending).take().unwrap_or_default();
                if !answer.begun {
                    return self.refuse(response, End::Ended, end).await;
                }
                *end = Some((status, End::Ended));
                self.socket.reset_on_close();
            }
        }
        Served::Closed
    }

    /// Sends a response of the proxy itself, and closes the connection.
    async fn refuse(&mut self, response: Bytes, why: End, end: &mut Option<(u16, End)>) -> Served {
        let status = response.get(9..12).and_then(|code| std::str::from_utf8(code).ok());
        *end = Some((status.and_then(|code| code.parse().ok()).unwrap_or(0), why));
        let _ = timeout(self.hub.settings.answer, self.socket.write_all(&response)).await;
        let _ = timeout(self.hub.settings.answer, self.socket.shutdown()).await;
        Served::Closed
    }

    /// Sends the request to the agent and returns the body with the API server's response.
    async fn body_of(
        &mut self,
        verdict: &Verdict,
        request: &OpenRequest,
    ) -> Result<RecvStream, Stop> {
        let packed = wire::pack(&verdict.identity, &verdict.before, &verdict.after, &request.id);
        let sender = verdict.link.sender().ok_or(Stop::Failed)?;
        let mut sender = sender.ready().await.map_err(|_| Stop::Failed)?;
        let (response, mut body) =
            sender.send_request(http::Request::new(()), false).map_err(|_| Stop::Failed)?;
        body.send_data(packed, true).map_err(|_| Stop::Failed)?;
        let late = sleep(self.hub.settings.answer);
        tokio::pin!(response, late);
        loop {
            tokio::select! {
                biased;
                response = &mut response => {
                    let response = response.map_err(|_| Stop::Failed)?;
                    let served = response.status() == http::StatusCode::OK;
                    return if served { Ok(response.into_body()) } else { Err(Stop::Failed) };
                }
                () = request.end.notified() => return Err(Stop::Ended),
                () = &mut late => return Err(Stop::Late),
                arrived = self.socket.read_buf(&mut self.received),
                    if self.received.len() < BACKLOG => on_arrived(arrived)?,
            }
        }
    }

    async fn pass_on(
        &mut self,
        mut body: RecvStream,
        answer: &mut Answer,
        request: &OpenRequest,
    ) -> Result<(), Stop> {
        loop {
            let data = tokio::select! {
                biased;
                () = request.end.notified() => return Err(Stop::Ended),
                data = body.data() => data,
                arrived = self.socket.read_buf(&mut self.received),
                    if self.received.len() < BACKLOG => { on_arrived(arrived)?; continue; }
            };
            let Some(data) = data else {
                return answer.observer.end().map_err(|_| Stop::Failed);
            };
            let data = data.map_err(|_| Stop::Failed)?;
            let size = data.len();
            let ready = answer.observer.feed(data).map_err(|_| Stop::Failed)?;
            if !ready.is_empty() && answer.observer.status.is_some() {
                answer.begun = true;
                self.write(&ready, request).await?;
                request.bytes_out.fetch_add(ready.len() as u64, Ordering::Relaxed);
            }
            let _ = body.flow_control().release_capacity(size);
            if answer.observer.complete {
                return Ok(());
            }
        }
    }

    async fn write(&mut self, data: &[u8], request: &OpenRequest) -> Result<(), Stop> {
        let writing = async {
            self.socket.write_all(data).await?;
            self.socket.flush().await
        };
        tokio::select! {
            biased;
            written = timeout(self.hub.settings.stalled, writing) => match written {
                Ok(Ok(())) => Ok(()),
                _ => {
                    self.socket.reset_on_close();
                    Err(Stop::UserLeft)
                }
            },
            () = request.end.notified() => Err(Stop::Ended),
        }
    }

    // All other requests

    /// Passes bytes to and from Python until no request is open; false: the connection has ended.
    async fn ask_python(&mut self) -> bool {
        self.python.take_if(|python| python.used.elapsed() > FRESH);
        let mut python = match self.python.take() {
            Some(python) => python,
            None => match self.connect().await {
                Some(python) => python,
                None => return false,
            },
        };
        let passed = self.splice(&mut python).await;
        python.used = Instant::now();
        match passed {
            Passed::AtRest => {
                self.python = Some(python);
                return true;
            }
            Passed::Aborted => self.socket.reset_on_close(),
            Passed::Ended => {
                let _ = timeout(self.hub.settings.answer, self.socket.shutdown()).await;
            }
        }
        false
    }

    async fn connect(&self) -> Option<PythonConnection> {
        let mut socket = UnixStream::connect(&self.hub.settings.backend).await.ok()?;
        let number = self.hub.last_number.fetch_add(1, Ordering::Relaxed) + 1;
        let known = Arc::new(Backend::default());
        locked(&self.hub.backends).insert(number, known.clone());
        let scheme = if self.tls { "https" } else { "http" };
        let (host, port) = (self.source.ip().to_canonical(), self.source.port());
        let preface = format!("{number} {scheme} {host} {port}\n");
        socket.write_all(preface.as_bytes()).await.ok()?;
        Some(PythonConnection {
            hub: self.hub.clone(),
            socket,
            number,
            known,
            sent: 0,
            received: 0,
            used: Instant::now(),
        })
    }

    async fn splice(&mut self, python: &mut PythonConnection) -> Passed {
        let mut answer = BytesMut::new();
        let (mut unflushed, mut user_ended, mut half_closed) = (false, false, false);
        let (mut from_user, mut to_user) = tokio::io::split(&mut self.socket);
        let known = python.known.clone();
        loop {
            let (mut from_python, mut to_python) = python.socket.split();
            let down = async {
                if !answer.is_empty() {
                    Moved::Written(to_user.write(&answer).await)
                } else if unflushed {
                    Moved::Flushed(to_user.flush().await)
                } else {
                    answer.reserve(PIECE);
                    Moved::Read(from_python.read_buf(&mut answer).await)
                }
            };
            let up = async {
                if !self.received.is_empty() {
                    Moved::Written(to_python.write(&self.received).await)
                } else if user_ended {
                    if half_closed {
                        return std::future::pending().await;
                    }
                    Moved::Flushed(to_python.shutdown().await)
                } else {
                    self.received.reserve(PIECE / 4);
                    Moved::Read(from_user.read_buf(&mut self.received).await)
                }
            };
            let (downwards, moved) = tokio::select! {
                biased;
                () = known.abort.notified() => return Passed::Aborted,
                moved = down => (true, moved),
                moved = up => (false, moved),
            };
            match (downwards, moved) {
                (true, Moved::Read(Ok(size @ 1..))) => python.received += size as u64,
                (true, Moved::Read(_)) if known.aborted.load(Ordering::Acquire) => {
                    return Passed::Aborted;
                }
                (true, Moved::Read(_)) => return Passed::Ended,
                (true, Moved::Written(Ok(size @ 1..))) => {
                    answer.advance(size);
                    unflushed = true;
                }
                (true, Moved::Flushed(Ok(()))) => unflushed = false,
                (true, _) => return Passed::Aborted,
                (false, Moved::Read(Ok(1..))) => {
                    if answer.is_empty() && !unflushed && python.rests() {
                        return Passed::AtRest;
                    }
                }
                (false, Moved::Read(Ok(0))) => user_ended = true,
                (false, Moved::Read(Err(_))) => return Passed::Aborted,
                (false, Moved::Written(Ok(size @ 1..))) => {
                    self.received.advance(size);
                    python.sent += size as u64;
                }
                // Python has closed: what it wrote before is still to be passed on.
                (false, _) => {
                    self.received.clear();
                    (user_ended, half_closed) = (true, true);
                }
            }
        }
    }
}

/// What one direction of a connection to Python has done.
enum Moved {
    Read(std::io::Result<usize>),
    Written(std::io::Result<usize>),
    Flushed(std::io::Result<()>),
}

enum Passed {
    AtRest,
    Ended,
    Aborted,
}

enum Stop {
    UserLeft,
    Failed,
    Late,
    Ended,
}

struct Answer {
    observer: ResponseObserver,
    begun: bool,
}

/// Releases the counts of a request, however its task ends.
struct Leaving {
    hub: Arc<HubState>,
    request: Arc<OpenRequest>,
    end: Option<(u16, End)>,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.hub.leave(&self.request, self.end);
    }
}

fn on_arrived(arrived: std::io::Result<usize>) -> Result<(), Stop> {
    match arrived {
        Ok(1..) => Ok(()),
        _ => Err(Stop::UserLeft),
    }
}
