//! A user's HTTP/1.1 connection. A request whose head has a verdict is served here. All other bytes
//! go to Python unread, which parses them, and reports when no request is open any more.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

use crate::backend::{self, PythonConnection};
use crate::exchange::{self, AgentRequest, Channel, Entered, Stop, exchange};
use crate::flow::Flow;
use crate::hub::{End, HubState};
use crate::link::{self, HubLink};
use crate::observer::{ResponseObserver, end_of_head};
use crate::raw::{RawUser, splice_user};
use crate::sockets::{Socket, read_some};
use crate::splice::{HandedOver, Spliced, State};

const BACKLOG: usize = 64 << 10;
const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

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
        let _ = timeout(hub.settings.answer_timeout, socket.write_all(&hub.settings.full_response))
            .await;
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
                self.received = BytesMut::new();
                let reading = read_some(&mut self.socket, &mut self.received);
                let arrived = tokio::select! {
                    arrived = timeout(self.hub.settings.idle_timeout, reading) => arrived,
                    _ = draining.wait_for(|draining| *draining) => break,
                };
                if !matches!(arrived, Ok(Ok(1..))) {
                    break;
                }
            }
            if self.received.starts_with(link::REQUEST_LINE)
                && let Some(link) = self.hub.links.redeem(&self.received)
            {
                return Some((self.socket, link));
            }
            // Its own memory only while it runs.
            match Box::pin(self.serve_known()).await {
                Served::Done => continue,
                Served::Declined => {}
                Served::Closed => return None,
            }
            if !self.ask_python().await {
                return None;
            }
        }
        let _ = timeout(self.hub.settings.answer_timeout, self.socket.shutdown()).await;
        None
    }

    // Requests with a verdict

    async fn serve_known(&mut self) -> Served {
        let Some(end) = end_of_head(&self.received) else { return Served::Declined };
        let Some(verdict) = self.hub.admit(&self.received[..end]) else { return Served::Declined };
        let Some(id) = self.hub.ids.take() else { return Served::Declined };
        let head = self.received.split_to(end);
        let request = self.hub.enter(verdict, id, self.source);
        let mut entered = Entered::new(self.hub.clone(), request);
        let served = self.serve_entered(&mut entered).await;
        drop(entered);
        if matches!(served, Served::Declined) {
            self.hub.verdicts.decline(Bytes::copy_from_slice(&head));
            let rest = self.received.split();
            self.received = head;
            self.received.extend_from_slice(&rest);
        }
        served
    }

    async fn serve_entered(&mut self, entered: &mut Entered) -> Served {
        let request = entered.request.clone();
        let mut answer = Answer {
            hub: &self.hub,
            socket: &mut self.socket,
            received: &mut self.received,
            observer: ResponseObserver::new(request.verdict.authorized.head_request),
            closes: false,
            begun: false,
        };
        let agent_request = AgentRequest::repeated(&self.hub, &request);
        let result = exchange(agent_request, &request.flow, &mut answer).await;
        let begun = answer.begun;
        let keep_alive = answer.observer.keep_alive && !answer.closes;
        let status = answer.observer.status.unwrap_or(0);
        match result {
            Ok(_) => {
                entered.end = Some((status, End::Done));
                if keep_alive {
                    return Served::Done;
                }
                let _ = timeout(self.hub.settings.answer_timeout, self.socket.shutdown()).await;
            }
            Err(Stop::UserLeft) => entered.end = Some((status, End::UserLeft)),
            Err(Stop::Declined | Stop::Failed) if !begun => return Served::Declined,
            Err(Stop::Declined | Stop::Failed) => {
                entered.end = Some((status, End::Upstream));
                self.socket.reset_on_close();
            }
            Err(Stop::Ended) if begun => {
                entered.end = Some((status, End::Ended));
                self.socket.reset_on_close();
            }
            Err(stop) => {
                let response = entered.refuse(stop);
                let _ = timeout(self.hub.settings.answer_timeout, self.socket.write_all(&response))
                    .await;
                let _ = timeout(self.hub.settings.answer_timeout, self.socket.shutdown()).await;
            }
        }
        Served::Closed
    }

    // Requests that Python has handed over

    async fn serve_spliced(&mut self, mut spliced: Box<Spliced>) -> Served {
        let (agent_request, observer) = (spliced.order.take(), spliced.order.observer());
        let flow = spliced.flow.clone();
        let mut answer = Answer {
            hub: &self.hub,
            observer,
            socket: &mut self.socket,
            received: &mut self.received,
            closes: spliced.order.upgrade,
            begun: false,
        };
        let python = &mut self.python;
        let mut user = HandedOver { user: &mut answer, spliced: &mut spliced, python };
        let result = exchange(agent_request, &flow, &mut user).await;
        let (begun, closes, observer) = (answer.begun, answer.closes, answer.observer);
        let result = match result {
            Ok(channel) if observer.upgraded => self.splice_raw(channel, &flow).await,
            result => result.map(drop),
        };
        let keep_alive = observer.keep_alive && spliced.order.keep_alive && !closes;
        self.end_spliced(spliced, result, begun, keep_alive).await
    }

    /// Moves the bytes of an upgraded connection to its end.
    async fn splice_raw(&mut self, channel: Channel, flow: &Flow) -> Result<(), Stop> {
        let user = RawUser {
            socket: &mut self.socket,
            received: self.received.split().freeze(),
            tls: self.tls,
            stalled: self.hub.settings.stall_timeout,
        };
        splice_user(user, channel, flow).await
    }

    async fn end_spliced(
        &mut self,
        mut spliced: Box<Spliced>,
        result: Result<(), Stop>,
        begun: bool,
        keep_alive: bool,
    ) -> Served {
        let last: Bytes = match result {
            Ok(()) => {
                spliced.state = State::Over(End::Done);
                if keep_alive {
                    return Served::Done;
                }
                Bytes::new()
            }
            Err(Stop::UserLeft) => return Served::Closed,
            Err(Stop::Declined) if !begun => {
                spliced.state = State::Declined;
                return Served::Declined;
            }
            // If Python has ended it, it has a response for the user.
            Err(Stop::Failed | Stop::Ended) if !begun => {
                spliced.state = State::Lost;
                return Served::Declined;
            }
            Err(Stop::EndedBetweenEvents) => {
                spliced.state = State::Over(End::Ended);
                Bytes::from_static(LAST_CHUNK)
            }
            Err(stop) => {
                let is_ended = matches!(stop, Stop::Ended);
                spliced.state = State::Over(if is_ended { End::Ended } else { End::Upstream });
                self.socket.reset_on_close();
                return Served::Closed;
            }
        };
        drop(spliced);
        let _ = timeout(self.hub.settings.answer_timeout, self.socket.write_all(&last)).await;
        let _ = timeout(self.hub.settings.answer_timeout, self.socket.shutdown()).await;
        Served::Closed
    }

    // All other requests

    /// Passes bytes to and from Python until no request is open; false: the connection has ended.
    async fn ask_python(&mut self) -> bool {
        self.python.take_if(|python| !python.is_fresh());
        if self.python.is_none() {
            self.python = PythonConnection::open(&self.hub, self.source, self.tls).await;
        }
        while let Some(mut python) = self.python.take() {
            let passed = self.splice(&mut python).await;
            python.used = Instant::now();
            match passed {
                Passed::AtRest => {
                    self.python = Some(python);
                    return true;
                }
                Passed::HandedOver(spliced) => {
                    self.python = Some(python);
                    match Box::pin(self.serve_spliced(spliced)).await {
                        Served::Declined => continue,
                        Served::Done => return true,
                        Served::Closed => {}
                    }
                }
                Passed::Aborted => self.socket.reset_on_close(),
                Passed::Ended => {
                    let _ = timeout(self.hub.settings.answer_timeout, self.socket.shutdown()).await;
                }
            }
            break;
        }
        false
    }

    async fn splice(&mut self, python: &mut PythonConnection) -> Passed {
        let mut answer = BytesMut::new();
        let (mut unflushed, mut user_ended, mut half_closed) = (false, false, false);
        let (mut from_user, mut to_user) = tokio::io::split(&mut self.socket);
        let shared = python.shared.clone();
        loop {
            let (from_python, mut to_python) = python.socket.split();
            let down = async {
                if !answer.is_empty() {
                    Moved::Written(to_user.write(&answer).await)
                } else if unflushed {
                    Moved::Flushed(to_user.flush().await)
                } else {
                    let read = backend::read(&from_python).await;
                    Moved::Read(read.map(|piece| {
                        answer = piece;
                        answer.len()
                    }))
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
                    self.received = BytesMut::new();
                    Moved::Read(read_some(&mut from_user, &mut self.received).await)
                }
            };
            let moved = tokio::select! {
                biased;
                () = shared.news.notified() => None,
                moved = down => Some((true, moved)),
                moved = up => Some((false, moved)),
            };
            let Some(moved) = moved else {
                if shared.is_aborted() {
                    return Passed::Aborted;
                }
                let is_free = answer.is_empty() && !unflushed && !user_ended;
                match shared.take_over() {
                    Some(spliced) if is_free && spliced.is_in_step_with(python) => {
                        return Passed::HandedOver(spliced);
                    }
                    Some(mut spliced) => spliced.state = State::Declined,
                    None => {}
                }
                continue;
            };
            match moved {
                (true, Moved::Read(Ok(size @ 1..))) => python.received += size as u64,
                (true, Moved::Read(_)) if shared.is_aborted() => {
                    return Passed::Aborted;
                }
                (true, Moved::Read(_)) => return Passed::Ended,
                (true, Moved::Written(Ok(size @ 1..))) => {
                    answer.advance(size);
                    unflushed = true;
                }
                (true, Moved::Flushed(Ok(()))) => (unflushed, answer) = (false, BytesMut::new()),
                (true, _) => return Passed::Aborted,
                (false, Moved::Read(Ok(1..))) => {
                    if answer.is_empty() && !unflushed && python.is_idle() {
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

/// Last step of one direction of a connection to Python.
enum Moved {
    Read(std::io::Result<usize>),
    Written(std::io::Result<usize>),
    Flushed(std::io::Result<()>),
}

enum Passed {
    AtRest,
    HandedOver(Box<Spliced>),
    Ended,
    Aborted,
}

/// Adds `Connection: close` to the final head; data begins with whole heads.
fn with_close(data: Bytes) -> Bytes {
    let mut head = 0;
    while data.get(head + 9) == Some(&b'1') {
        head = end_of_head(&data[head..]).map_or(data.len(), |end| head + end);
    }
    let end = data[head..].windows(2).position(|two| two == b"\r\n");
    let (before, rest) = data.split_at(head + end.unwrap_or(0));
    [before, b"\r\nConnection: close", rest].concat().into()
}

/// The response to one request.
struct Answer<'a, S> {
    hub: &'a HubState,
    socket: &'a mut S,
    received: &'a mut BytesMut,
    observer: ResponseObserver,
    /// The connection ends after the response, unless it is an upgrade. It also does if the hub
    /// drains when the response begins.
    closes: bool,
    begun: bool,
}

impl<S: Socket> exchange::User for Answer<'_, S> {
    /// Reads what follows the request meanwhile.
    async fn disconnected(&mut self) {
        while self.received.len() < BACKLOG {
            if !matches!(read_some(self.socket, self.received).await, Ok(1..)) {
                return;
            }
        }
        std::future::pending().await
    }

    async fn pass_on(&mut self, data: Bytes, flow: &Flow) -> Result<bool, Stop> {
        let mut ready = self.observer.feed(data).map_err(|_| Stop::Failed)?;
        if !ready.is_empty() {
            // Heads before the final one are passed on, but begin no response.
            if self.observer.status.is_some() && !self.begun {
                self.closes |= *self.hub.draining.borrow();
                if self.closes && !self.observer.upgraded {
                    ready = with_close(ready);
                }
                self.begun = true;
            }
            // Whoever has read bytes finds them counted.
            flow.bytes_out.fetch_add(ready.len() as u64, Ordering::Relaxed);
            let writing = async {
                self.socket.write_all(&ready).await?;
                self.socket.flush().await
            };
            if !matches!(timeout(self.hub.settings.stall_timeout, writing).await, Ok(Ok(()))) {
                self.socket.reset_on_close();
                return Err(Stop::UserLeft);
            }
        }
        Ok(self.observer.complete || self.observer.upgraded)
    }

    async fn finish(&mut self) -> Result<(), Stop> {
        self.observer.end().map_err(|_| Stop::Failed)
    }

    fn begun_status(&self) -> Option<u16> {
        self.observer.status.filter(|_| self.begun)
    }

    fn is_between_events(&self) -> bool {
        self.observer.is_between_events()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::fake;
    use crate::exchange::User as _;
    use crate::hub::HubState;
    use crate::random::Random;
    use crate::tcp::{Tcp, pair};
    use tokio::io::AsyncReadExt;

    const EARLY: &str = "HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n";
    const REFUSED: &str = "HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno";
    const SWITCHED: &str = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: a\r\n\r\nraw";

    /// Bytes that a user gets of a response in these pieces, and the counted bytes.
    async fn passed_on(pieces: Vec<&[u8]>, closes: bool, drains: bool) -> (String, u64) {
        let (near, mut far) = pair().await;
        let hub = HubState::for_tests("".as_ref());
        hub.draining.send_replace(drains);
        let (mut socket, mut received) = (Tcp::new(near), BytesMut::new());
        let is_upgrade = closes || drains;
        let observer =
            if is_upgrade { ResponseObserver::of_upgrade() } else { ResponseObserver::new(false) };
        let mut answer = Answer {
            hub: &hub,
            socket: &mut socket,
            received: &mut received,
            observer,
            closes,
            begun: false,
        };
        let flow = Flow::default();
        for piece in pieces {
            let passed = answer.pass_on(Bytes::copy_from_slice(piece), &flow).await;
            assert!(passed.is_ok());
            assert_eq!(answer.begun, answer.observer.status.is_some());
        }
        drop(socket);
        let mut text = String::new();
        far.read_to_string(&mut text).await.unwrap();
        (text, flow.bytes_out.load(Ordering::Relaxed))
    }

    #[tokio::test]
    async fn a_user_gets_the_same_response_however_it_is_cut() {
        let mut random = Random::new(2);
        let closing = "Forbidden\r\nConnection: close";
        for (text, closes, expected) in [
            (format!("{EARLY}{REFUSED}"), false, format!("{EARLY}{REFUSED}")),
            (
                format!("{EARLY}{EARLY}{REFUSED}"),
                true,
                format!("{EARLY}{EARLY}{}", REFUSED.replace("Forbidden", closing)),
            ),
            (REFUSED.into(), true, REFUSED.replace("Forbidden", closing)),
            (format!("{EARLY}{SWITCHED}"), true, format!("{EARLY}{SWITCHED}")),
        ] {
            for turn in 0..50 {
                let limit = if turn == 0 { text.len() + 1 } else { 2 + random.below(text.len()) };
                let pieces = random.cut(text.as_bytes(), limit);
                let size = expected.len() as u64;
                let drains = closes && turn % 2 == 1;
                let passed = passed_on(pieces, closes != drains, drains).await;
                assert_eq!(passed, (expected.clone(), size));
            }
        }
    }

    #[tokio::test]
    async fn python_gets_every_byte_of_a_user_however_it_is_cut() {
        let mut random = Random::new(3);
        let mut python = fake::Python::start(|_, has_ended| has_ended.then_some(b"answer"));
        let hub = HubState::for_tests(&python.path);
        for _ in 0..200 {
            let mut sent = b"POST /a HTTP/1.1\r\nHost: b\r\nContent-Length: 9\r\n\r\ncontent\r\n\
                GET /k8s/data-link HTTP/1.1\r\nAuthorization: Bearer c\r\n\r\n"
                .to_vec();
            random.mutate(&mut sent, b"\r\n: /0a\0\xff");
            let (near, mut far) = pair().await;
            let source = near.peer_addr().unwrap();
            let socket = Tcp::new(near);
            let served = tokio::spawn(serve(hub.clone(), socket, source, false, false));
            for piece in random.cut(&sent, 40) {
                far.write_all(piece).await.unwrap();
                tokio::task::yield_now().await;
            }
            far.shutdown().await.unwrap();
            let mut answer = Vec::new();
            far.read_to_end(&mut answer).await.unwrap();
            assert!(served.await.unwrap().is_none());
            assert_eq!((&answer[..], python.next().await), (&b"answer"[..], sent));
        }
    }

    #[test]
    fn only_a_ticket_in_a_whole_head_opens_a_link() {
        let hub = HubState::for_tests("none".as_ref());
        let mut random = Random::new(4);
        for _ in 0..2_000 {
            let (_, ticket) = hub.links.offer().unwrap();
            let line = std::str::from_utf8(link::REQUEST_LINE).unwrap();
            let good = format!("{line}Host: a\r\nAuthorization: Bearer {ticket}\r\n\r\n");
            let mut bad = good.clone().into_bytes();
            random.mutate(&mut bad, b"\r\n: 0a\0\xff");
            let has_ticket = bad.windows(ticket.len()).any(|part| part == ticket.as_bytes());
            let opened = hub.links.redeem(&bad).is_some();
            assert!(has_ticket || !opened);
            let cut = random.below(good.len());
            assert!(hub.links.redeem(&good.as_bytes()[..cut]).is_none());
            assert_eq!(hub.links.redeem(good.as_bytes()).is_some(), !opened);
            assert!(hub.links.redeem(good.as_bytes()).is_none());
        }
    }
}
