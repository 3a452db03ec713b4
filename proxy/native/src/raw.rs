//! The bytes of a connection that was upgraded, in both directions.

use std::future::pending;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use crate::exchange::{Channel, Stop};
use crate::flow::Flow;
use crate::incoming::Incoming;
use crate::outgoing::Outgoing;
use crate::sockets::{Socket, read_piece};

/// The user's side of an upgraded connection. `tls`: it cannot end one direction alone. `stalled`:
/// how long the user may leave data unread.
pub struct RawUser<'a, S> {
    pub socket: &'a mut S,
    pub received: Bytes,
    pub tls: bool,
    pub stalled: Duration,
}

/// Moves bytes between the user and the agent until one of them ends the connection.
pub async fn splice_user<S: Socket>(
    user: RawUser<'_, S>,
    channel: Channel,
    flow: &Flow,
) -> Result<(), Stop> {
    let Channel { mut from_agent, mut to_agent } = channel;
    let (mut from_user, mut to_user) = tokio::io::split(user.socket);
    let down = async {
        while let Some(data) = from_agent.next().await.map_err(|_| Stop::Failed)? {
            flow.bytes_out.fetch_add(data.len() as u64, Ordering::Relaxed);
            let writing = timeout(user.stalled, write_all(&mut to_user, &data));
            match from_agent.write(data.len(), writing).await {
                Ok(Ok(Ok(()))) => {}
                Ok(_) => return Err(Stop::UserLeft),
                Err(_) => return Err(Stop::Failed),
            }
        }
        Ok(())
    };
    let up = async {
        let mut data = user.received;
        loop {
            flow.bytes_in.fetch_add(data.len() as u64, Ordering::Relaxed);
            if to_agent.send(data, false).await.is_err() {
                // The other direction says how it has ended.
                return pending().await;
            }
            data = match read_piece(&mut from_user).await {
                Ok(data) => data,
                Err(_) => return Stop::UserLeft,
            };
            if data.is_empty() && user.tls {
                return Stop::UserLeft;
            }
            if data.is_empty() {
                let _ = to_agent.send(data, true).await;
                return pending().await;
            }
        }
    };
    tokio::select! {
        biased;
        () = flow.ended() => Err(Stop::Ended),
        ended = down => ended,
        stop = up => Err(stop),
    }
}

/// Moves bytes between the control plane and the API server until one of them ends the connection.
/// Err: the control plane has reset the stream.
pub async fn splice_server(
    socket: impl Socket,
    tls: bool,
    mut incoming: Incoming,
    outgoing: &mut Outgoing,
) -> Result<(), ()> {
    let (mut from_server, mut to_server) = tokio::io::split(socket);
    let down = async {
        loop {
            let data = read_piece(&mut from_server).await.unwrap_or_default();
            let is_last = data.is_empty();
            outgoing.send(data, is_last).await?;
            if is_last {
                return Ok(());
            }
        }
    };
    let up = async {
        while let Some(data) = incoming.next().await.map_err(drop)? {
            let written = incoming.write(data.len(), write_all(&mut to_server, &data)).await;
            // If the API server takes no more, the other direction says how it has ended.
            if written.map_err(drop)?.is_err() {
                return pending().await;
            }
        }
        if !tls {
            let _ = to_server.shutdown().await;
        }
        pending().await
    };
    tokio::select! {
        ended = down => ended,
        ended = up => ended,
    }
}

async fn write_all(to: &mut (impl AsyncWrite + Unpin), data: &[u8]) -> std::io::Result<()> {
    to.write_all(data).await?;
    to.flush().await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;
    use crate::random::Random;
    use crate::tcp::{Tcp, pair};
    use crate::windows::{MAX_WINDOW_DOWN, MAX_WINDOW_UP, Windows};
    use std::sync::Arc;
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpStream;

    /// Sends and receives bytes in pieces of any size; returns the received ones.
    async fn exchange_bytes(
        tcp: &mut TcpStream,
        sent: &[u8],
        expected_size: usize,
        seed: u64,
    ) -> Vec<u8> {
        let (mut random, mut received) = (Random::new(seed), Vec::new());
        let (mut from, mut to) = tcp.split();
        let pieces = random.cut(sent, 100_000);
        let sending = async {
            for piece in pieces {
                to.write_all(piece).await.unwrap();
            }
        };
        let receiving = async {
            while received.len() < expected_size {
                let mut piece = vec![0; 1 + random.below(200_000)];
                let size = from.read(&mut piece).await.unwrap();
                assert!(size > 0);
                received.extend_from_slice(&piece[..size]);
            }
        };
        tokio::join!(sending, receiving);
        received
    }

    /// Both ends of a stream of a data link.
    async fn stream(budget: &Arc<Budget>) -> (Channel, Incoming, Outgoing) {
        let (near, far) = tokio::io::duplex(1 << 16);
        let (mut hub, mut agent) = (h2::client::Builder::new(), h2::server::Builder::new());
        hub.initial_window_size(MAX_WINDOW_DOWN).initial_connection_window_size(1 << 30);
        agent.initial_window_size(MAX_WINDOW_UP).initial_connection_window_size(1 << 30);
        let (hub, agent) =
            tokio::join!(hub.handshake::<_, Bytes>(near), agent.handshake::<_, Bytes>(far));
        let ((sender, connection), mut agent) = (hub.unwrap(), agent.unwrap());
        tokio::spawn(connection);
        let mut sender = sender.ready().await.unwrap();
        let (grants, mut grants_up) = sender.send_request(http::Request::new(()), false).unwrap();
        let (response, to_agent) = sender.send_request(http::Request::new(()), false).unwrap();
        let (near, far) = (Arc::<Windows>::default(), Arc::<Windows>::default());
        let (request, mut respond) = agent.accept().await.unwrap().unwrap();
        let mut grants_down = respond.send_response(http::Response::new(()), false).unwrap();
        let windows = far.clone();
        tokio::spawn(async move {
            windows.exchange_grants(request.into_body(), &mut grants_down).await
        });
        let (request, mut respond) = agent.accept().await.unwrap().unwrap();
        let from_hub = request.into_body();
        let to_hub = respond.send_response(http::Response::new(()), false).unwrap();
        tokio::spawn(async move { while agent.accept().await.is_some() {} });
        let (windows, grants) = (near.clone(), grants.await.unwrap().into_body());
        tokio::spawn(async move { windows.exchange_grants(grants, &mut grants_up).await });
        let share = budget.share(Bytes::from_static(b"ann"));
        let from_agent = response.await.unwrap().into_body();
        let channel = Channel {
            from_agent: Box::new(Incoming::new(
                from_agent,
                near.clone(),
                share.clone(),
                MAX_WINDOW_DOWN,
            )),
            to_agent: Outgoing::new(to_agent, near),
        };
        let incoming = Incoming::new(from_hub, far.clone(), share, MAX_WINDOW_UP);
        (channel, incoming, Outgoing::new(to_hub, far))
    }

    #[tokio::test]
    async fn both_sides_get_the_same_bytes_however_they_are_cut() {
        for seed in 0..8 {
            let mut random = Random::new(100 + seed);
            let mut random_bytes = || -> Vec<u8> {
                (0..random.below(3 << 20)).map(|_| random.number() as u8).collect()
            };
            let (first, user_sent, server_sent) = (random_bytes(), random_bytes(), random_bytes());
            let first = Bytes::from(first).split_to(9.min(1 + seed as usize));
            let (mut user, near) = pair().await;
            let (mut server, far) = pair().await;
            let budget = Budget::new(64 << 20);
            let (channel, incoming, mut outgoing) = stream(&budget).await;
            let received = first.clone();
            let hub = tokio::spawn(async move {
                let (mut socket, stalled) = (Tcp::new(near), Duration::from_secs(30));
                let user = RawUser { socket: &mut socket, received, tls: false, stalled };
                splice_user(user, channel, &Flow::default()).await.is_ok()
            });
            let agent = tokio::spawn(async move {
                splice_server(Tcp::new(far), false, incoming, &mut outgoing).await
            });
            let all = [&first[..], &user_sent].concat();
            let (received_by_user, received_by_server) = tokio::join!(
                exchange_bytes(&mut user, &user_sent, server_sent.len(), 2 * seed),
                exchange_bytes(&mut server, &server_sent, all.len(), 2 * seed + 1),
            );
            assert!(received_by_user == server_sent && received_by_server == all);
            drop(server);
            assert!(hub.await.unwrap() && agent.await.unwrap() == Ok(()));
            assert_eq!(user.read(&mut [0]).await.unwrap(), 0);
            assert!(budget.is_unused());
        }
    }
}
