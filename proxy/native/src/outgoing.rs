//! Data that is sent on a stream of a data link, within the window of its receiver.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::{Reason, SendStream};

use crate::window::MAX_BEFORE_GRANT;
use crate::windows::{SendLimit, Windows};

/// `sent` bytes count for the window.
pub struct Outgoing {
    stream: SendStream<Bytes>,
    windows: Arc<Windows>,
    sent: u64,
    /// None: it has sent so little that no grant can have come.
    limit: Option<Arc<SendLimit>>,
}

impl Outgoing {
    pub fn new(stream: SendStream<Bytes>, windows: Arc<Windows>) -> Self {
        Self { stream, windows, sent: 0, limit: None }
    }

    pub fn poll_reset(&mut self, context: &mut Context) -> Poll<Result<Reason, h2::Error>> {
        self.stream.poll_reset(context)
    }

    /// Sends data as fast as the other side takes it. Err: it has reset the stream.
    pub async fn send(&mut self, mut data: Bytes, end: bool) -> Result<(), ()> {
        while !data.is_empty() {
            let room = self.room(data.len()).await?;
            let piece = data.split_to(room.min(data.len()));
            self.sent += piece.len() as u64;
            send_data(&mut self.stream, piece, end && data.is_empty()).await?;
            if end && data.is_empty() {
                return Ok(());
            }
        }
        if end { send_data(&mut self.stream, data, true).await } else { Ok(()) }
    }

    /// Waits until something may be sent; returns how much.
    async fn room(&mut self, wanted: usize) -> Result<usize, ()> {
        if self.limit.is_none() && self.sent + wanted as u64 <= MAX_BEFORE_GRANT {
            return Ok(wanted);
        }
        let id = self.stream.stream_id().as_u32();
        let limit = self.limit.get_or_insert_with(|| self.windows.add_limit(id));
        loop {
            let room = limit.total().saturating_sub(self.sent);
            if room > 0 {
                return Ok(usize::try_from(room).unwrap_or(usize::MAX));
            }
            tokio::select! {
                () = limit.raised() => {}
                _ = poll_fn(|context| self.stream.poll_reset(context)) => return Err(()),
            }
        }
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        if self.limit.is_some() {
            self.windows.remove_limit(self.stream.stream_id().as_u32());
        }
    }
}

/// Sends data within HTTP/2's windows. Err: the other side has reset the stream.
pub async fn send_data(
    stream: &mut SendStream<Bytes>,
    mut data: Bytes,
    end: bool,
) -> Result<(), ()> {
    while !data.is_empty() {
        stream.reserve_capacity(data.len());
        while stream.capacity() == 0 {
            poll_fn(|context| stream.poll_capacity(context)).await.ok_or(())?.map_err(drop)?;
        }
        let piece = data.split_to(stream.capacity().min(data.len()));
        let is_last = end && data.is_empty();
        stream.send_data(piece, is_last).map_err(drop)?;
        if is_last {
            return Ok(());
        }
    }
    if end {
        stream.send_data(Bytes::new(), true).map_err(drop)?;
    }
    Ok(())
}
