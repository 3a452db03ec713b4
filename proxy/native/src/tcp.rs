//! A TCP connection that reads all that has arrived at once.

use std::io::{IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::spare;

/// TLS reads 4 KiB at a time, and each read of a socket is a system call: this reads 64 KiB.
pub struct Tcp {
    pub stream: TcpStream,
    ahead: Vec<u8>,
    start: usize,
    end: usize,
}

impl Tcp {
    pub fn new(stream: TcpStream) -> Self {
        Self { stream, ahead: Vec::new(), start: 0, end: 0 }
    }
}

impl AsyncRead for Tcp {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        let own = self.get_mut();
        if own.start == own.end {
            if into.remaining() >= spare::SIZE {
                return Pin::new(&mut own.stream).poll_read(context, into);
            }
            let mut buffer = spare::take();
            let mut read = ReadBuf::new(&mut buffer);
            let polled = Pin::new(&mut own.stream).poll_read(context, &mut read);
            let size = read.filled().len();
            if size == 0 {
                spare::give_back(buffer);
                return polled;
            }
            (own.ahead, own.start, own.end) = (buffer, 0, size);
        }
        let size = into.remaining().min(own.end - own.start);
        into.put_slice(&own.ahead[own.start..own.start + size]);
        own.start += size;
        if own.start == own.end {
            spare::give_back(std::mem::take(&mut own.ahead));
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Tcp {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(context, data)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        // The kernel sends one piece faster than a list of one.
        if let [piece] = pieces {
            return self.poll_write(context, piece);
        }
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

/// Two ends of a connection.
#[cfg(test)]
pub async fn pair() -> (TcpStream, TcpStream) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let far = listener.accept().await.unwrap().0;
    near.set_nodelay(true).unwrap();
    far.set_nodelay(true).unwrap();
    (near, far)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn all_bytes_arrive_in_order_however_few_are_read_at_a_time() {
        let (mut sender, receiver) = pair().await;
        let mut receiver = Tcp::new(receiver);
        let sent: Vec<u8> = (0..300_000_u32).map(|at| (at % 251) as u8).collect();
        let copy = sent.clone();
        let sending = tokio::spawn(async move {
            sender.write_all(&copy).await.unwrap();
            sender.shutdown().await.unwrap();
        });
        let mut received = Vec::new();
        for size in [1, 4096, 100, 2 * spare::SIZE, 7].into_iter().cycle() {
            let mut buffer = vec![0; size];
            let read = receiver.read(&mut buffer).await.unwrap();
            if read == 0 {
                break;
            }
            received.extend_from_slice(&buffer[..read]);
        }
        sending.await.unwrap();
        assert!(received == sent);
        assert!(receiver.ahead.is_empty());
    }
}
