//! A connection that gathers small writes of HTTP/2 and sends them together.
//!
//! The library h2 writes each frame with content by itself: a system call and a TLS record for each
//! small response. Here they wait until the task of the connection has nothing more to write.

use std::future::poll_fn;
use std::io::{IoSlice, Result};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::runtime::locked;
use crate::spare;

/// Larger writes are not copied.
const LARGE: usize = 16 << 10;

/// Both handles of a connection: the library reads and writes one, `in_turns` sends with the other.
pub struct Gathering<S>(Arc<Mutex<Gathered<S>>>);

struct Gathered<S> {
    socket: S,
    /// Bytes from `start` to `end` wait to be sent; empty if none wait.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// TLS may hold bytes that it was given.
    unflushed: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Gathering<S> {
    pub fn new(socket: S) -> Self {
        let (buffer, start, end, unflushed) = (Vec::new(), 0, 0, false);
        Self(Arc::new(Mutex::new(Gathered { socket, buffer, start, end, unflushed })))
    }

    /// Returns the handle for the library.
    pub fn handle(&self) -> Self {
        Self(self.0.clone())
    }

    /// Runs a future that writes to the connection; sends what it has written whenever it waits.
    pub async fn in_turns<F: Future>(&self, writing: F) -> F::Output {
        let mut writing = pin!(writing);
        poll_fn(|context| {
            let polled = writing.as_mut().poll(context);
            // A broken connection fails the next read or write of the library.
            let _ = locked(&self.0).poll_send(context);
            polled
        })
        .await
    }
}

impl<S: AsyncWrite + Unpin> Gathered<S> {
    /// Sends all bytes that wait, here and in TLS.
    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        ready!(self.poll_write_waiting(context))?;
        if self.unflushed {
            ready!(Pin::new(&mut self.socket).poll_flush(context))?;
            self.unflushed = false;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_write_waiting(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        if self.buffer.is_empty() {
            return Poll::Ready(Ok(()));
        }
        while self.start < self.end {
            self.unflushed = true;
            let waiting = &self.buffer[self.start..self.end];
            let sent = ready!(Pin::new(&mut self.socket).poll_write(context, waiting))?;
            if sent == 0 {
                return Poll::Ready(Err(std::io::ErrorKind::WriteZero.into()));
            }
            self.start += sent;
        }
        spare::give_back(std::mem::take(&mut self.buffer));
        (self.start, self.end) = (0, 0);
        Poll::Ready(Ok(()))
    }

    /// Copies pieces after the bytes that wait, as far as they fit.
    fn gather(&mut self, pieces: &[IoSlice<'_>]) -> usize {
        if self.buffer.is_empty() {
            self.buffer = spare::take();
        }
        let before = self.end;
        for piece in pieces {
            let size = piece.len().min(spare::SIZE - self.end);
            self.buffer[self.end..self.end + size].copy_from_slice(&piece[..size]);
            self.end += size;
        }
        self.end - before
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Gathering<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        Pin::new(&mut locked(&self.0).socket).poll_read(context, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Gathering<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(data)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let mut own = locked(&self.0);
        let size: usize = pieces.iter().map(|piece| piece.len()).sum();
        if size >= LARGE || own.end + size > spare::SIZE {
            ready!(own.poll_write_waiting(context))?;
        }
        if size >= LARGE {
            own.unflushed = true;
            return Pin::new(&mut own.socket).poll_write_vectored(context, pieces);
        }
        Poll::Ready(Ok(own.gather(pieces)))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Does nothing: the library flushes after each frame, and `in_turns` sends.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let mut own = locked(&self.0);
        ready!(own.poll_send(context))?;
        Pin::new(&mut own.socket).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, BufWriter, DuplexStream, duplex};

    /// Counts the writes that reach a connection.
    struct Counted {
        socket: DuplexStream,
        writes: Arc<Mutex<Vec<usize>>>,
    }

    impl AsyncRead for Counted {
        fn poll_read(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
            into: &mut ReadBuf<'_>,
        ) -> Poll<Result<()>> {
            Pin::new(&mut self.socket).poll_read(context, into)
        }
    }

    impl AsyncWrite for Counted {
        fn poll_write(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
            data: &[u8],
        ) -> Poll<Result<usize>> {
            let written = Pin::new(&mut self.socket).poll_write(context, data);
            if let Poll::Ready(Ok(size)) = written {
                locked(&self.writes).push(size);
            }
            written
        }

        fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
            Pin::new(&mut self.socket).poll_flush(context)
        }

        fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
            Pin::new(&mut self.socket).poll_shutdown(context)
        }
    }

    fn counted(capacity: usize) -> (Gathering<Counted>, DuplexStream, Arc<Mutex<Vec<usize>>>) {
        let (socket, peer) = duplex(capacity);
        let writes = Arc::new(Mutex::new(Vec::new()));
        (Gathering::new(Counted { socket, writes: writes.clone() }), peer, writes)
    }

    #[tokio::test]
    async fn small_writes_of_one_turn_are_sent_together() {
        let (gathering, mut peer, writes) = counted(1 << 20);
        let mut handle = gathering.handle();
        let writing = async {
            for _ in 0..20 {
                handle.write_all(&[7; 100]).await.unwrap();
                handle.flush().await.unwrap();
            }
            std::future::pending::<()>().await;
        };
        let mut received = vec![0; 2000];
        tokio::select! {
            () = gathering.in_turns(writing) => {}
            read = peer.read_exact(&mut received) => assert_eq!(read.unwrap(), 2000),
        }
        assert_eq!(*locked(&writes), [2000]);
        assert!(locked(&gathering.0).buffer.is_empty(), "a connection at rest occupies no buffer");
    }

    #[tokio::test]
    async fn all_bytes_arrive_in_order_through_a_slow_connection() {
        let sizes = [1, 9, LARGE - 1, LARGE, 300, 5 * LARGE, 255, spare::SIZE, 64, LARGE + 1];
        let sent: Vec<u8> = (0..sizes.iter().sum()).map(|at: usize| (at % 251) as u8).collect();
        for capacity in [1, 700, 40_000] {
            let (gathering, mut peer, _) = counted(capacity);
            let (mut handle, rest) = (gathering.handle(), sent.clone());
            let writing = async move {
                let mut start = 0;
                for size in sizes {
                    handle.write_all(&rest[start..start + size]).await.unwrap();
                    start += size;
                }
                handle.shutdown().await.unwrap();
                drop(handle);
            };
            let mut received = Vec::new();
            let reading = async {
                peer.read_to_end(&mut received).await.unwrap();
            };
            let sending = async move {
                gathering.in_turns(writing).await;
            };
            tokio::join!(sending, reading);
            assert!(received == sent, "through a connection of {capacity} bytes");
        }
    }

    #[tokio::test]
    async fn no_byte_waits_in_a_connection_with_a_buffer_of_its_own() {
        for (size, capacity) in [(1, 1 << 20), (LARGE, 1 << 20), (LARGE - 1, 700), (LARGE, 700)] {
            let (socket, mut peer) = duplex(capacity);
            // As TLS does, it takes bytes, and sends those that do not fit when it is flushed.
            let gathering = Gathering::new(BufWriter::with_capacity(1 << 20, socket));
            let mut handle = gathering.handle();
            let writing = async {
                handle.write_all(&vec![7; size]).await.unwrap();
                std::future::pending::<()>().await;
            };
            let mut received = vec![0; size];
            let reading = tokio::time::timeout(Duration::from_secs(10), async {
                for byte in &mut received {
                    *byte = peer.read_u8().await.unwrap();
                }
            });
            tokio::select! {
                () = gathering.in_turns(writing) => {}
                read = reading => assert!(read.is_ok(), "{size} bytes, {capacity} at a time"),
            }
        }
    }

    #[tokio::test]
    async fn a_blocked_connection_accepts_no_more_than_its_buffer() {
        let (gathering, _peer, _) = counted(10);
        let mut handle = gathering.handle();
        let mut accepted = 0;
        let writing = async {
            loop {
                accepted += handle.write(&[1; 1000]).await.unwrap();
            }
        };
        let waited = Duration::from_millis(1);
        assert!(tokio::time::timeout(waited, gathering.in_turns(writing)).await.is_err());
        assert!(accepted <= spare::SIZE + 10, "{accepted}");
    }

    #[tokio::test]
    async fn a_broken_connection_fails_the_next_write() {
        let (gathering, peer, _) = counted(10);
        drop(peer);
        let mut handle = gathering.handle();
        let writing = async {
            loop {
                handle.write_all(&[1; LARGE]).await?;
            }
        };
        let ended: Result<()> = gathering.in_turns(writing).await;
        assert!(ended.is_err());
    }
}
