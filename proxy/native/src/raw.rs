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
