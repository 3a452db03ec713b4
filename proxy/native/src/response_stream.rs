//! The response on one HTTP/2 stream, made from the bytes of an HTTP/1.1 response.

use std::future::poll_fn;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, SendStream};
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use tokio::time::timeout;

use crate::exchange::{Stop, User};
use crate::flow::Flow;
use crate::observer::{BadResponse, Parts, ResponseObserver};
use crate::request_head::is_of_connection;

/// Heads before the final one. No window limits them, so their number is limited here.
const MAX_INFORMATIONAL: usize = 16;
/// A smaller piece is copied: while it is unsent, it would keep the whole buffer it was read into.
const SHARED: usize = 8 << 10;

/// The parts of a response that were read and not sent yet. `informational`: number of heads before
/// the final one that were read.
#[derive(Default)]
struct Unsent {
    informational: usize,
    heads: Vec<(StatusCode, HeaderMap)>,
    content: Vec<Bytes>,
    trailers: HeaderMap,
}

impl Parts for Unsent {
    fn head(&mut self, status: u16, fields: &[httparse::Header]) -> Result<(), BadResponse> {
        let status = StatusCode::from_u16(status)
            .map_err(|_| BadResponse("the response head is malformed"))?;
        self.informational += usize::from(status.is_informational());
        if self.informational > MAX_INFORMATIONAL {
            return Err(BadResponse("too many informational responses"));
        }
        let mut map = HeaderMap::with_capacity(fields.len());
        for field in fields {
            add_field(&mut map, field.name.as_bytes(), field.value)?;
        }
        self.heads.push((status, map));
        Ok(())
    }

    fn content(&mut self, data: &Bytes, piece: Range<usize>) {
        let is_small = piece.len() < SHARED;
        let kept = if is_small { Bytes::copy_from_slice(&data[piece]) } else { data.slice(piece) };
        self.content.push(kept);
    }

    fn trailer(&mut self, line: &[u8]) -> Result<(), BadResponse> {
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let (name, value) = line.split_at(colon);
        add_field(&mut self.trailers, name, value.get(1..).unwrap_or_default())
    }
}

fn add_field(map: &mut HeaderMap, name: &[u8], value: &[u8]) -> Result<(), BadResponse> {
    let malformed = BadResponse("a field of the response is malformed");
    let (Ok(name), Ok(value)) =
        (HeaderName::from_bytes(name), HeaderValue::from_bytes(value.trim_ascii()))
    else {
        return Err(malformed);
    };
    if !is_of_connection(&name) {
        map.append(name, value);
    }
    Ok(())
}

/// Sends the response. `begun`: its final head was sent.
pub struct ResponseStream {
    pub begun: bool,
    pub observer: ResponseObserver,
    head_request: bool,
    unsent: Unsent,
    respond: SendResponse<Bytes>,
    body: Option<SendStream<Bytes>>,
    stalled: Duration,
}

impl ResponseStream {
    /// `stalled`: how long the user may leave data unread.
    pub fn new(respond: SendResponse<Bytes>, head_request: bool, stalled: Duration) -> Self {
        Self {
            begun: false,
            observer: ResponseObserver::new(head_request),
            head_request,
            unsent: Unsent::default(),
            respond,
            body: None,
            stalled,
        }
    }

    /// Drops the read part of a response that has not begun, so that another one can be sent.
    pub fn restart(&mut self) {
        self.observer = ResponseObserver::new(self.head_request);
        self.unsent = Unsent::default();
    }

    pub fn reset(&mut self, reason: Reason) {
        self.respond.send_reset(reason);
    }

    /// Waits until the user has reset the stream, or has left.
    pub async fn disconnected(&mut self) {
        poll_fn(|context| match &mut self.body {
            Some(body) => body.poll_reset(context).map(drop),
            None => self.respond.poll_reset(context).map(drop),
        })
        .await;
    }

    /// Passes on bytes of an HTTP/1.1 response; reports whether it is complete.
    pub async fn pass_on(&mut self, data: Bytes) -> Result<bool, Stop> {
        self.observer.split(data, &mut self.unsent).map_err(|_| Stop::Failed)?;
        self.send().await?;
        Ok(self.observer.complete)
    }

    /// Ends a response that its sender has ended cleanly.
    pub async fn finish(&mut self) -> Result<(), Stop> {
        let ended = self.observer.complete;
        self.observer.end().map_err(|_| Stop::Failed)?;
        if ended { Ok(()) } else { self.send().await }
    }

    /// Ends a response that has begun, before its sender ends it.
    pub fn cut(&mut self) {
        if let Some(body) = &mut self.body {
            let _ = body.send_data(Bytes::new(), true);
        }
    }

    async fn send(&mut self) -> Result<(), Stop> {
        let content = joined(std::mem::take(&mut self.unsent.content));
        let trailers = std::mem::take(&mut self.unsent.trailers);
        let complete = self.observer.complete;
        let only_head = complete && content.is_empty() && trailers.is_empty();
        for (status, fields) in std::mem::take(&mut self.unsent.heads) {
            self.send_head(status, fields, only_head)?;
        }
        if only_head && self.body.is_none() {
            return Ok(());
        }
        if !content.is_empty() {
            self.send_content(content, complete && trailers.is_empty()).await?;
        } else if only_head {
            self.body()?.send_data(Bytes::new(), true).map_err(user_left)?;
        }
        if complete && !trailers.is_empty() {
            self.body()?.send_trailers(trailers).map_err(user_left)?;
        }
        Ok(())
    }

    fn send_head(&mut self, status: StatusCode, fields: HeaderMap, ends: bool) -> Result<(), Stop> {
        let mut head = Response::new(());
        *head.status_mut() = status;
        *head.headers_mut() = fields;
        if status.is_informational() {
            return self.respond.send_informational(head).map_err(user_left);
        }
        let body = self.respond.send_response(head, ends).map_err(user_left)?;
        self.begun = true;
        self.body = (!ends).then_some(body);
        Ok(())
    }

    fn body(&mut self) -> Result<&mut SendStream<Bytes>, Stop> {
        self.body.as_mut().ok_or(Stop::Failed)
    }

    /// Sends content as fast as the user reads it.
    async fn send_content(&mut self, mut content: Bytes, ends: bool) -> Result<(), Stop> {
        let stalled = self.stalled;
        let body = self.body()?;
        while !content.is_empty() {
            body.reserve_capacity(content.len());
            let room = poll_fn(|context| poll_room(body, context));
            let Ok(Some(room)) = timeout(stalled, room).await else { return Err(Stop::UserLeft) };
            let piece = content.split_to(room.min(content.len()));
            body.send_data(piece, ends && content.is_empty()).map_err(user_left)?;
        }
        Ok(())
    }
}

/// Joins pieces of content; copies them only if they are several.
fn joined(mut pieces: Vec<Bytes>) -> Bytes {
    if pieces.len() > 1 { pieces.concat().into() } else { pieces.pop().unwrap_or_default() }
}

/// Returns the number of bytes that may be sent; None: the user has left.
fn poll_room(body: &mut SendStream<Bytes>, context: &mut Context) -> Poll<Option<usize>> {
    while body.capacity() == 0 {
        match ready!(body.poll_capacity(context)) {
            Some(Ok(_)) => {}
            Some(Err(_)) | None => return Poll::Ready(None),
        }
    }
    Poll::Ready(Some(body.capacity()))
}

/// The user has reset a stream on which nothing can be sent any more.
fn user_left(_: h2::Error) -> Stop {
    Stop::UserLeft
}

impl User for ResponseStream {
    async fn disconnected(&mut self) {
        ResponseStream::disconnected(self).await;
    }

    async fn pass_on(&mut self, data: Bytes, flow: &Flow) -> Result<bool, Stop> {
        let size = data.len() as u64;
        self.observer.split(data, &mut self.unsent).map_err(|_| Stop::Failed)?;
        // Whoever has read bytes finds them counted.
        flow.bytes_out.fetch_add(size, Ordering::Relaxed);
        self.send().await?;
        Ok(self.observer.complete)
    }

    async fn finish(&mut self) -> Result<(), Stop> {
        ResponseStream::finish(self).await
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
    use bytes::BytesMut;

    /// Reads a response in pieces of this size.
    fn read(text: &[u8], piece: usize) -> Result<Unsent, BadResponse> {
        let mut observer = ResponseObserver::new(false);
        let mut parts = Unsent::default();
        for part in text.chunks(piece) {
            observer.split(Bytes::copy_from_slice(part), &mut parts)?;
        }
        observer.end().map(|()| parts)
    }

    fn texts(fields: &HeaderMap) -> Vec<(&str, &str)> {
        fields.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect()
    }

    #[test]
    fn a_response_has_the_same_parts_however_it_is_cut() {
        let text = b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 200 OK\r\nServer: b\r\n\
            Transfer-Encoding: chunked\r\nConnection: close\r\nSet-Cookie: c\r\nSet-Cookie: d\r\n\
            \r\n5;e=f\r\nhello\r\n7\r\n, world\r\n0\r\nGrpc-Status: 0\r\nTE: g\r\n\r\n";
        for piece in 1..=text.len() {
            let parts = read(text, piece).unwrap();
            let [(early, hints), (status, fields)] = &parts.heads[..] else { panic!("{piece}") };
            assert_eq!((early.as_u16(), status.as_u16()), (103, 200));
            assert_eq!(texts(hints), [("link", "a")]);
            let kept = [("server", "b"), ("set-cookie", "c"), ("set-cookie", "d")];
            assert_eq!(texts(fields), kept);
            assert_eq!(parts.content.concat(), b"hello, world");
            assert_eq!(texts(&parts.trailers), [("grpc-status", "0")]);
        }
    }

    #[test]
    fn small_pieces_keep_no_large_buffer() {
        for size in [1, 500, SHARED - 1] {
            let mut buffer = BytesMut::with_capacity(16 << 10);
            buffer.extend_from_slice(b"HTTP/1.1 200 OK\r\n\r\n");
            buffer.resize(buffer.len() + size, b'a');
            let mut parts = Unsent::default();
            ResponseObserver::new(false).split(buffer.freeze(), &mut parts).unwrap();
            let content = joined(parts.content);
            assert_eq!(content.len(), size);
            assert!(content.try_into_mut().unwrap().capacity() <= SHARED);
        }
    }

    #[test]
    fn content_without_chunks_is_passed_on_as_it_is() {
        for head in ["Content-Length: 5\r\n", ""] {
            let text = format!("HTTP/1.1 200 OK\r\n{head}\r\nhello");
            for piece in 1..=text.len() {
                assert_eq!(read(text.as_bytes(), piece).unwrap().content.concat(), b"hello");
            }
        }
    }

    #[test]
    fn a_response_that_http2_cannot_express_is_refused() {
        for text in [
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nno colon\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\na b: c\r\n\r\n",
            &format!("{}HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 103\r\n\r\n".repeat(17)),
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n",
        ] {
            assert!(read(text.as_bytes(), text.len()).is_err(), "{text}");
        }
    }
}
