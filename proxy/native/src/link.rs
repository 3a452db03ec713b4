//! The control plane's end of data links, which agents open with a ticket.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::client::SendRequest;
use h2::{Ping, PingPong};
use tokio::io::AsyncWriteExt;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use crate::gather::Gathering;
use crate::runtime::locked;
use crate::sockets::{Socket, tune_link};
use crate::wire;

/// First line of the request with which an agent joins.
pub const REQUEST: &[u8] = b"GET /k8s/data-link HTTP/1.1\r\n";
const TICKET: Duration = Duration::from_secs(30);
const HANDSHAKE: Duration = Duration::from_secs(10);
/// As on the control link: a ping after 10 s, and dead after 25 s.
const PING: Duration = Duration::from_secs(10);
const PONG: Duration = Duration::from_secs(15);
/// A frame costs memory beyond its content: h2 counts 256 bytes less the content of each small one
/// that nobody has read. By default it derives the limit from the window, which has none here.
const UNREAD_OVERHEAD: usize = 16 << 20;
const ACCEPTED: &[u8] =
    b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: towline-data\r\n\r\n";

/// The data link of one control link; it has no connection until the agent uses the ticket.
#[derive(Default)]
pub struct HubLink {
    pub sender: Mutex<Option<SendRequest<Bytes>>>,
    /// Open requests that Python has handed over.
    pub spliced: AtomicUsize,
    closed: AtomicBool,
    closing: Notify,
}

impl HubLink {
    pub fn is_open(&self) -> bool {
        !self.closed.load(Ordering::Acquire) && locked(&self.sender).is_some()
    }

    pub fn sender(&self) -> Option<SendRequest<Bytes>> {
        locked(&self.sender).clone()
    }

    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        locked(&self.sender).take();
        self.closing.notify_waiters();
        self.closing.notify_one();
    }
}

#[derive(Default)]
pub struct HubLinks {
    links: Mutex<HashMap<u64, Arc<HubLink>>>,
    tickets: Mutex<HashMap<String, (Instant, Arc<HubLink>)>>,
    last_id: AtomicU64,
}

impl HubLinks {
    /// Makes a link, and the ticket that opens it once.
    pub fn offer(&self) -> Option<(u64, String)> {
        let secret: [u8; 16] = wire::random()?;
        let ticket = String::from_utf8_lossy(&wire::hex(&secret)).into_owned();
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let link = Arc::new(HubLink::default());
        let now = Instant::now();
        let mut tickets = locked(&self.tickets);
        tickets.retain(|_, (until, _)| now < *until);
        tickets.insert(ticket.clone(), (now + TICKET, link.clone()));
        locked(&self.links).insert(id, link);
        Some((id, ticket))
    }

    pub fn find(&self, id: u64) -> Option<Arc<HubLink>> {
        locked(&self.links).get(&id).filter(|link| link.is_open()).cloned()
    }

    pub fn close(&self, id: u64) {
        let removed = locked(&self.links).remove(&id);
        if let Some(link) = removed {
            link.close();
        }
    }

    pub fn close_all(&self) {
        for (_, link) in locked(&self.links).drain() {
            link.close();
        }
    }

    /// Takes the link of a request that upgrades its connection; None: it has no valid ticket.
    pub fn redeem(&self, head: &[u8]) -> Option<Arc<HubLink>> {
        let mut fields = [httparse::EMPTY_HEADER; 16];
        let mut request = httparse::Request::new(&mut fields);
        request.parse(head).ok()?.is_complete().then_some(())?;
        let ticket = request.headers.iter().find(|field| field.name == "Authorization")?;
        let ticket = std::str::from_utf8(ticket.value.strip_prefix(b"Bearer ")?).ok()?;
        let (until, link) = locked(&self.tickets).remove(ticket)?;
        (Instant::now() < until && !link.closed.load(Ordering::Acquire)).then_some(link)
    }
}

/// Carries a data link to its end. No agent is trusted: `window` bounds what one of its responses
/// may occupy here, and the caller bounds the number of open ones.
pub async fn carry(mut socket: impl Socket, link: Arc<HubLink>, window: u32) {
    tune_link(socket.tcp());
    let accepting = async {
        socket.write_all(ACCEPTED).await.ok()?;
        socket.flush().await.ok()
    };
    let Ok(Some(())) = timeout(HANDSHAKE, accepting).await else { return };
    let gathering = Gathering::new(socket);
    let opening = async {
        h2::client::Builder::new()
            .initial_window_size(window)
            // The windows of the streams bound it: one slow reader must not stop the others.
            .initial_connection_window_size((1 << 31) - 1)
            .data_frame_budget(UNREAD_OVERHEAD)
            .max_frame_size(64 << 10)
            .max_header_list_size(4096)
            .enable_push(false)
            .handshake::<_, Bytes>(gathering.handle())
            .await
            .ok()
    };
    let opened = timeout(HANDSHAKE, gathering.in_turns(opening)).await;
    let Ok(Some((sender, mut connection))) = opened else { return };
    let pings = connection.ping_pong();
    *locked(&link.sender) = Some(sender);
    tokio::select! {
        _ = gathering.in_turns(connection) => {}
        () = keep_alive(pings, PING, PONG) => {}
        () = link.closing.notified() => {}
    }
    link.close();
}

/// Sends a ping after each `pause`, because load balancers end connections without data; returns
/// when no pong arrives within `wait`.
async fn keep_alive(pings: Option<PingPong>, pause: Duration, wait: Duration) {
    let Some(mut pings) = pings else { return std::future::pending().await };
    loop {
        sleep(pause).await;
        if !matches!(timeout(wait, pings.ping(Ping::opaque())).await, Ok(Ok(_))) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::Tcp;
    use tokio::net::{TcpListener, TcpStream};

    const FRAMES: usize = 200_000;

    /// Serves one request with frames of one byte.
    async fn flood(tcp: TcpStream) {
        let mut connection = h2::server::handshake(tcp).await.unwrap();
        let (_, mut respond) = connection.accept().await.unwrap().unwrap();
        let mut body = respond.send_response(http::Response::new(()), false).unwrap();
        for _ in 0..FRAMES {
            body.send_data(Bytes::from_static(b"a"), false).unwrap();
        }
        while connection.accept().await.is_some() {}
    }

    #[tokio::test]
    async fn a_link_lives_as_long_as_its_agent_answers_pings() {
        let moment = Duration::from_millis(1);
        for answers in [true, false] {
            let (ours, theirs) = tokio::io::duplex(1 << 16);
            let (_sender, mut connection) = h2::client::handshake(ours).await.unwrap();
            let pings = connection.ping_pong();
            let carried = tokio::spawn(connection);
            let agent = tokio::spawn(async move {
                let mut theirs = h2::server::handshake(theirs).await.unwrap();
                while answers && theirs.accept().await.is_some() {}
                std::future::pending::<()>().await;
            });
            let wait = if answers { HANDSHAKE } else { moment };
            let alive = timeout(100 * moment, keep_alive(pings, moment, wait)).await.is_err();
            assert_eq!(alive, answers);
            agent.abort();
            carried.abort();
        }
    }

    #[tokio::test]
    async fn an_agent_that_sends_tiny_frames_loses_its_link() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let agent = tokio::spawn(async move {
            let mut tcp = TcpStream::connect(address).await.unwrap();
            let mut accepted = vec![0; ACCEPTED.len()];
            tokio::io::AsyncReadExt::read_exact(&mut tcp, &mut accepted).await.unwrap();
            flood(tcp).await;
        });
        let link = Arc::new(HubLink::default());
        let tcp = Tcp::new(listener.accept().await.unwrap().0);
        let carried = tokio::spawn(carry(tcp, link.clone(), 512 << 10));
        while link.sender().is_none() {
            tokio::task::yield_now().await;
        }
        let mut sender = link.sender().unwrap().ready().await.unwrap();
        let (response, _) = sender.send_request(http::Request::new(()), true).unwrap();
        // Nobody reads the body.
        let _body = response.await.unwrap();
        timeout(HANDSHAKE, carried).await.unwrap().unwrap();
        agent.abort();
    }
}
