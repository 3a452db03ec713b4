//! The control plane's end of data links, which agents open with a ticket.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::client::SendRequest;
use tokio::io::AsyncWriteExt;
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::gather::Gathering;
use crate::runtime::locked;
use crate::sockets::{Socket, tune_link};
use crate::windows::{CONNECTION_WINDOW, MAX_UNREAD_OVERHEAD, MAX_WINDOW_DOWN, Windows};
use crate::wire;

/// First line of the request with which an agent joins.
pub const REQUEST_LINE: &[u8] = b"GET /k8s/data-link HTTP/1.1\r\n";
const TICKET_LIFETIME: Duration = Duration::from_secs(30);
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
const ACCEPTED_RESPONSE: &[u8] =
    b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: towline-data\r\n\r\n";

/// The data link of one control link; it has no connection until the agent uses the ticket.
#[derive(Default)]
pub struct HubLink {
    pub sender: Mutex<Option<SendRequest<Bytes>>>,
    /// Number of open requests that Python has handed over.
    pub spliced_requests: AtomicUsize,
    pub windows: Arc<Windows>,
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
    /// Creates a link, and the ticket that opens it once.
    pub fn offer(&self) -> Option<(u64, String)> {
        let secret: [u8; 16] = wire::random()?;
        let ticket = String::from_utf8_lossy(&wire::hex(&secret)).into_owned();
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let link = Arc::new(HubLink::default());
        let now = Instant::now();
        let mut tickets = locked(&self.tickets);
        tickets.retain(|_, (expires_at, _)| now < *expires_at);
        tickets.insert(ticket.clone(), (now + TICKET_LIFETIME, link.clone()));
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

    /// Returns the link of a request with a ticket, and uses the ticket up; None: it is not valid.
    pub fn redeem(&self, head: &[u8]) -> Option<Arc<HubLink>> {
        let mut fields = [httparse::EMPTY_HEADER; 16];
        let mut request = httparse::Request::new(&mut fields);
        request.parse(head).ok()?.is_complete().then_some(())?;
        let ticket = request.headers.iter().find(|field| field.name == "Authorization")?;
        let ticket = std::str::from_utf8(ticket.value.strip_prefix(b"Bearer ")?).ok()?;
        let (expires_at, link) = locked(&self.tickets).remove(ticket)?;
        (Instant::now() < expires_at && !link.closed.load(Ordering::Acquire)).then_some(link)
    }
}

/// Runs a data link until it ends. No agent is trusted: one that ignores a window loses its link.
pub async fn run_link(mut socket: impl Socket, link: Arc<HubLink>) {
    tune_link(socket.tcp());
    let accepting = async {
        socket.write_all(ACCEPTED_RESPONSE).await.ok()?;
        socket.flush().await.ok()
    };
    let Ok(Some(())) = timeout(HANDSHAKE_TIMEOUT, accepting).await else { return };
    let gathering = Gathering::new(socket);
    let opening = async {
        h2::client::Builder::new()
            .initial_window_size(MAX_WINDOW_DOWN)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .data_frame_budget(MAX_UNREAD_OVERHEAD)
            .max_frame_size(64 << 10)
            .max_header_list_size(4096)
            .enable_push(false)
            .handshake::<_, Bytes>(gathering.handle())
            .await
            .ok()
    };
    let opened = timeout(HANDSHAKE_TIMEOUT, gathering.in_turns(opening)).await;
    let Ok(Some((sender, mut connection))) = opened else { return };
    let pings = connection.ping_pong();
    *locked(&link.sender) = Some(sender.clone());
    tokio::select! {
        _ = gathering.in_turns(connection) => {}
        () = link.windows.keep_alive(pings) => {}
        () = link.windows.overrun() => {}
        _ = exchange_grants(&link.windows, sender) => {}
        () = link.closing.notified() => {}
    }
    link.close();
}

/// Opens the stream of grants; returns when the agent has ended it.
async fn exchange_grants(windows: &Windows, sender: SendRequest<Bytes>) -> Option<()> {
    let mut request = http::Request::new(());
    *request.uri_mut() = http::Uri::from_static(wire::GRANTS_PATH);
    let (response, mut to_agent) = sender.ready().await.ok()?.send_request(request, false).ok()?;
    tokio::select! {
        () = windows.send_grants(&mut to_agent) => {}
        () = async {
            if let Ok(response) = response.await {
                windows.receive_grants(response.into_body()).await;
            }
        } => {}
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::{Budget, Share};
    use crate::incoming::{Cut, Incoming};
    use crate::outgoing::{Outgoing, send_data};
    use crate::tcp::Tcp;
    use crate::window::INITIAL_WINDOW;
    use std::collections::VecDeque;
    use std::future::pending;
    use std::net::SocketAddr;
    use tokio::io::{AsyncReadExt, AsyncWrite};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::task::JoinHandle;
    use tokio::time::sleep;

    const SIZE: usize = 12 << 20;

    #[derive(Clone, Copy, PartialEq)]
    enum Agent {
        Honest,
        /// Ignores its windows.
        Greedy,
        /// Sends frames of one byte.
        Tiny,
    }

    fn body() -> Bytes {
        (0..SIZE).map(|at| (at % 251) as u8).collect()
    }

    /// Joins a control plane as an agent, and answers each request with the same body.
    async fn serve(hub: SocketAddr, agent: Agent) {
        let mut tcp = TcpStream::connect(hub).await.unwrap();
        tcp.read_exact(&mut vec![0; ACCEPTED_RESPONSE.len()]).await.unwrap();
        let mut settings = h2::server::Builder::new();
        settings.max_send_buffer_size(64 << 10);
        let mut connection = settings.handshake::<_, Bytes>(tcp).await.unwrap();
        let (windows, body) = (Arc::<Windows>::default(), body());
        while let Some(Ok((request, mut respond))) = connection.accept().await {
            let (windows, body) = (windows.clone(), body.clone());
            tokio::spawn(async move {
                let mut stream = respond.send_response(http::Response::new(()), false).unwrap();
                let _ = match agent {
                    _ if request.uri().path() == wire::GRANTS_PATH => {
                        windows.exchange_grants(request.into_body(), &mut stream).await;
                        Ok(())
                    }
                    Agent::Honest => Outgoing::new(stream, windows).send(body, true).await,
                    Agent::Greedy => send_data(&mut stream, body, true).await,
                    Agent::Tiny => loop {
                        if send_data(&mut stream, Bytes::from_static(b"a"), false).await.is_err() {
                            break Err(());
                        }
                    },
                };
            });
        }
    }

    /// Opens a link; returns it and the task that runs it.
    async fn open(agent: Agent, delay: Option<Duration>) -> (Arc<HubLink>, JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut address = listener.local_addr().unwrap();
        if let Some(delay) = delay {
            address = relay(address, delay).await;
        }
        tokio::spawn(serve(address, agent));
        let link = Arc::new(HubLink::default());
        let tcp = Tcp::new(listener.accept().await.unwrap().0);
        let running = tokio::spawn(run_link(tcp, link.clone()));
        while link.sender().is_none() || link.windows.round_trip().is_zero() {
            tokio::task::yield_now().await;
        }
        (link, running)
    }

    /// Returns the address of a line to another one, with a delay in each direction.
    async fn relay(to: SocketAddr, delay: Duration) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let near = listener.accept().await.unwrap().0.into_split();
            let far = TcpStream::connect(to).await.unwrap().into_split();
            tokio::join!(delayed(near.0, far.1, delay), delayed(far.0, near.1, delay));
        });
        address
    }

    async fn delayed(
        mut from: impl AsyncReadExt + Unpin,
        mut to: impl AsyncWrite + Unpin,
        delay: Duration,
    ) {
        let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
        let sending = async {
            while let Some((due, data)) = receiver.recv().await {
                sleep(due - Instant::now().min(due)).await;
                let data: Vec<u8> = data;
                if to.write_all(&data).await.is_err() {
                    return;
                }
            }
        };
        let reading = async move {
            let mut piece = vec![0; 64 << 10];
            while let Ok(size @ 1..) = from.read(&mut piece).await {
                let _ = sender.send((Instant::now() + delay, piece[..size].to_vec()));
            }
        };
        tokio::join!(sending, reading);
    }

    async fn send_request(link: &HubLink, share: Share) -> Incoming {
        let mut sender = link.sender().unwrap().ready().await.unwrap();
        let (response, _) = sender.send_request(http::Request::new(()), true).unwrap();
        let body = response.await.unwrap().into_body();
        Incoming::new(body, link.windows.clone(), share, MAX_WINDOW_DOWN)
    }

    fn share(budget: &Arc<Budget>, user: &'static [u8]) -> Share {
        budget.share(Bytes::from_static(user))
    }

    #[tokio::test]
    async fn a_download_over_a_long_line_gets_a_larger_window() {
        let (budget, delay) = (Budget::new(256 << 20), Duration::from_millis(40));
        let (link, _carried) = open(Agent::Honest, Some(delay)).await;
        let mut incoming = send_request(&link, share(&budget, b"ann")).await;
        let mut received = Vec::new();
        while let Some(data) = incoming.next().await.unwrap() {
            received.extend_from_slice(&data);
            incoming.write(data.len(), async {}).await.unwrap();
        }
        assert!(received == body());
        drop(incoming);
        assert!(link.windows.last_needed_size() > 2 * INITIAL_WINDOW && budget.is_unused());
    }

    #[tokio::test]
    async fn slow_readers_hold_no_more_than_their_first_windows() {
        let budget = Budget::new(256 << 20);
        let (link, running) = open(Agent::Honest, None).await;
        let mut slow = VecDeque::new();
        for _ in 0..64 {
            let mut incoming = send_request(&link, share(&budget, b"ann")).await;
            let first = incoming.next().await.unwrap().unwrap();
            slow.push_back((incoming, first.len()));
        }
        let mut others = Vec::new();
        for (mut incoming, size) in slow {
            others.push(tokio::spawn(async move { incoming.write(size, pending::<()>()).await }));
        }
        // Another reader is served meanwhile, to the end.
        let mut incoming = send_request(&link, share(&budget, b"bea")).await;
        let mut size = 0;
        while let Some(data) = incoming.next().await.unwrap() {
            size += data.len();
            incoming.write(data.len(), async {}).await.unwrap();
        }
        assert_eq!(size, SIZE);
        drop(incoming);
        assert!(budget.held() <= 64 * INITIAL_WINDOW as usize, "{}", budget.held());
        assert!(!running.is_finished() && others.iter().all(|other| !other.is_finished()));
        for other in &others {
            other.abort();
        }
        for other in others {
            let _ = other.await;
        }
        assert!(budget.is_unused());
    }

    #[tokio::test]
    async fn slow_readers_of_one_user_end_at_the_share_and_others_go_on() {
        let budget = Budget::new(8 << 20);
        let (link, _carried) = open(Agent::Honest, None).await;
        let mut slow = Vec::new();
        for _ in 0..16 {
            let mut incoming = send_request(&link, share(&budget, b"ann")).await;
            slow.push(tokio::spawn(async move {
                let first = incoming.next().await?.unwrap_or_default();
                incoming.write(first.len(), pending::<()>()).await
            }));
        }
        while slow.iter().filter(|reader| reader.is_finished()).count() < 12 {
            assert!(budget.held() <= (2 << 20) + (64 << 10));
            tokio::task::yield_now().await;
        }
        let mut incoming = send_request(&link, share(&budget, b"bea")).await;
        while let Some(data) = incoming.next().await.unwrap() {
            incoming.write(data.len(), async {}).await.unwrap();
        }
        for reader in slow {
            if reader.is_finished() {
                assert!(matches!(reader.await.unwrap(), Err(Cut::Exceeded)));
            } else {
                reader.abort();
            }
        }
    }

    #[tokio::test]
    async fn an_agent_that_ignores_a_window_loses_its_link() {
        let budget = Budget::new(256 << 20);
        let (link, running) = open(Agent::Greedy, None).await;
        let mut incoming = send_request(&link, share(&budget, b"ann")).await;
        let first = incoming.next().await.unwrap().unwrap();
        let cut = incoming.write(first.len(), pending::<()>()).await;
        assert!(matches!(cut, Err(Cut::Overrun)));
        assert!(budget.held() <= INITIAL_WINDOW as usize);
        timeout(HANDSHAKE_TIMEOUT, running).await.unwrap().unwrap();
        assert!(!link.is_open());
    }

    #[tokio::test]
    async fn an_agent_that_sends_tiny_frames_loses_its_link() {
        let (link, running) = open(Agent::Tiny, None).await;
        let mut sender = link.sender().unwrap().ready().await.unwrap();
        let (response, _) = sender.send_request(http::Request::new(()), true).unwrap();
        // Nobody reads the body.
        let _body = response.await.unwrap();
        timeout(HANDSHAKE_TIMEOUT, running).await.unwrap().unwrap();
    }
}
