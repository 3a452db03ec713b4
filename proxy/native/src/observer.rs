//! Observes the bytes of a response without changing them: status, framing and end.
//! Both ends use it: the agent to reuse a connection, the control plane because it trusts no agent.

use std::mem::MaybeUninit;
use std::ops::Range;

use bytes::{Bytes, BytesMut};
use memchr::{memchr2_iter, memmem};

const MAX_HEAD: usize = 64 << 10;
const MAX_FIELDS: usize = 256;
const MAX_LINE: usize = 4096;
const MAX_TRAILERS: usize = 16 << 10;

/// The bytes are not exactly one response to the request.
#[derive(Debug, PartialEq, Eq)]
pub struct BadResponse(pub &'static str);

/// Takes the parts of a response, as they are read.
pub trait Parts {
    /// Takes a head, which is the final one from status 200.
    fn head(&mut self, status: u16, fields: &[httparse::Header]) -> Result<(), BadResponse>;
    /// Takes a piece of the content, at this place of the data.
    fn content(&mut self, data: &Bytes, piece: Range<usize>);
    /// Takes a line of the trailers, without its end.
    fn trailer(&mut self, line: &[u8]) -> Result<(), BadResponse>;
}

/// Needs no parts: the bytes are forwarded as they are.
impl Parts for () {
    fn head(&mut self, _: u16, _: &[httparse::Header]) -> Result<(), BadResponse> {
        Ok(())
    }

    fn content(&mut self, _: &Bytes, _: Range<usize>) {}

    fn trailer(&mut self, _: &[u8]) -> Result<(), BadResponse> {
        Ok(())
    }
}

#[derive(Debug)]
enum Body {
    Unknown,
    Counted(u64),
    Chunked(Chunks),
    UntilClose,
}

/// Observes the response to one request.
/// `status` is the final one. `keep_alive`: the connection can be reused. `upgraded`: raw bytes
/// follow the head.
#[derive(Debug)]
pub struct ResponseObserver {
    pub status: Option<u16>,
    pub complete: bool,
    pub keep_alive: bool,
    pub upgraded: bool,
    head_request: bool,
    may_upgrade: bool,
    /// The content is JSON that is not encoded.
    json: bool,
    partial: BytesMut,
    body: Body,
}

impl ResponseObserver {
    pub fn new(head_request: bool) -> Self {
        Self {
            status: None,
            complete: false,
            keep_alive: false,
            upgraded: false,
            head_request,
            may_upgrade: false,
            json: false,
            partial: BytesMut::new(),
            body: Body::Unknown,
        }
    }

    /// Observes the response to a request that asks for an upgrade.
    pub fn of_upgrade() -> Self {
        Self { may_upgrade: true, ..Self::new(false) }
    }

    /// Returns the bytes that may be forwarded now; a head only once it is complete.
    pub fn feed(&mut self, data: Bytes) -> Result<Bytes, BadResponse> {
        self.split(data, &mut ())
    }

    /// Does the same as `feed`, and passes on the parts.
    pub fn split(&mut self, data: Bytes, parts: &mut impl Parts) -> Result<Bytes, BadResponse> {
        if self.status.is_some() {
            self.read_body(&data, parts)?;
            return Ok(data);
        }
        let Some(text) = self.with_partial(data)? else { return Ok(Bytes::new()) };
        let mut offset = 0;
        while self.status.is_none() {
            let end = end_of_head(&text[offset..]);
            check_size(end.unwrap_or(text.len() - offset))?;
            let Some(end) = end else {
                self.partial.extend_from_slice(&text[offset..]);
                return Ok(text.slice(..offset));
            };
            self.read_head(&text[offset..offset + end], parts)?;
            offset += end;
        }
        self.read_body(&text.slice(offset..), parts)?;
        Ok(text)
    }

    /// Returns the data with the part of a head that was read before; None: the head is still
    /// incomplete. No byte is searched again for each piece: an agent may send them one by one.
    fn with_partial(&mut self, data: Bytes) -> Result<Option<Bytes>, BadResponse> {
        if self.partial.is_empty() {
            return Ok(Some(data));
        }
        let searched = self.partial.len().saturating_sub(3);
        self.partial.extend_from_slice(&data);
        if end_of_head(&self.partial[searched..]).is_some() {
            return Ok(Some(self.partial.split().freeze()));
        }
        check_size(self.partial.len())?;
        Ok(None)
    }

    /// Reports whether a stream of JSON lines is at the end of a line, and can be ended here.
    pub fn is_between_events(&self) -> bool {
        let Body::Chunked(chunks) = &self.body else { return false };
        self.json && !self.complete && chunks.is_between_lines()
    }

    /// Ends the input, which the sender has ended cleanly.
    pub fn end(&mut self) -> Result<(), BadResponse> {
        match self.body {
            _ if self.complete => Ok(()),
            Body::UntilClose if self.status.is_some() => {
                self.complete = true;
                Ok(())
            }
            _ => Err(BadResponse("the response was cut off")),
        }
    }

    fn read_head(&mut self, head: &[u8], parts: &mut impl Parts) -> Result<(), BadResponse> {
        // The parser also accepts empty lines before the head, and lines that end in LF alone.
        if !head.starts_with(b"HTTP/1.") || !lines_end_in_crlf(head) {
            return Err(BadResponse("the response head is malformed"));
        }
        // Not cleared for each response, few of which have many fields.
        let mut fields = [const { MaybeUninit::uninit() }; MAX_FIELDS];
        let mut parsed = httparse::Response::new(&mut []);
        let parser = httparse::ParserConfig::default();
        match parser.parse_response_with_uninit_headers(&mut parsed, head, &mut fields) {
            Ok(httparse::Status::Complete(size)) if size == head.len() => {}
            _ => return Err(BadResponse("the response head is malformed")),
        }
        let status = parsed.code.unwrap_or(0);
        if status == 101 {
            return self.switch();
        }
        if !(100..=999).contains(&status) {
            return Err(BadResponse("the response head is malformed"));
        }
        parts.head(status, parsed.headers)?;
        if status < 200 {
            return Ok(());
        }
        let framing = Framing::of(&parsed)?;
        self.status = Some(status);
        self.keep_alive = framing.keep_alive;
        self.json = framing.json && !framing.encoded;
        if self.head_request || status == 204 || status == 304 {
            (self.body, self.complete) = (Body::Counted(0), true);
        } else if framing.chunked {
            self.body = Body::Chunked(Chunks::default());
        } else if let Some(length) = framing.length {
            (self.body, self.complete) = (Body::Counted(length), length == 0);
        } else {
            (self.body, self.keep_alive) = (Body::UntilClose, false);
        }
        Ok(())
    }

    fn switch(&mut self) -> Result<(), BadResponse> {
        if !self.may_upgrade {
            return Err(BadResponse("unrequested upgrade"));
        }
        (self.status, self.upgraded, self.body) = (Some(101), true, Body::UntilClose);
        Ok(())
    }

    fn read_body(&mut self, data: &Bytes, parts: &mut impl Parts) -> Result<(), BadResponse> {
        if data.is_empty() {
            return Ok(());
        }
        let excess = BadResponse("bytes beyond the end of the response");
        match &mut self.body {
            Body::Unknown => Err(BadResponse("the response does not start with a head")),
            Body::UntilClose => {
                parts.content(data, 0..data.len());
                Ok(())
            }
            Body::Counted(remaining) => {
                *remaining = remaining.checked_sub(data.len() as u64).ok_or(excess)?;
                self.complete = *remaining == 0;
                parts.content(data, 0..data.len());
                Ok(())
            }
            Body::Chunked(chunks) => {
                let used = chunks.take(data, parts)?;
                self.complete = chunks.done;
                if used == data.len() { Ok(()) } else { Err(excess) }
            }
        }
    }
}

struct Framing {
    length: Option<u64>,
    chunked: bool,
    keep_alive: bool,
    json: bool,
    encoded: bool,
}

impl Framing {
    fn of(head: &httparse::Response) -> Result<Self, BadResponse> {
        let keep_alive = head.version == Some(1);
        let mut found =
            Self { length: None, chunked: false, keep_alive, json: false, encoded: false };
        for field in head.headers.iter() {
            if field.name.eq_ignore_ascii_case("content-length") {
                let digits = field.value.trim_ascii();
                let length = std::str::from_utf8(digits).ok().filter(|_| is_number(digits));
                let length = length.and_then(|text| text.parse().ok());
                if found.length.is_some() || length.is_none() {
                    return Err(BadResponse("the length of the response is ambiguous"));
                }
                found.length = length;
            } else if field.name.eq_ignore_ascii_case("transfer-encoding") {
                if found.chunked || !field.value.trim_ascii().eq_ignore_ascii_case(b"chunked") {
                    return Err(BadResponse(
                        "unsupported transfer encoding: only chunked is supported",
                    ));
                }
                found.chunked = true;
            } else if field.name.eq_ignore_ascii_case("content-type") {
                found.json = field.value.starts_with(b"application/json");
            } else if field.name.eq_ignore_ascii_case("content-encoding") {
                found.encoded = true;
            } else if field.name.eq_ignore_ascii_case("connection") {
                let options = field.value.split(|byte| *byte == b',');
                found.keep_alive &= !options
                    .into_iter()
                    .any(|option| option.trim_ascii().eq_ignore_ascii_case(b"close"));
            }
        }
        if found.chunked && found.length.is_some() {
            return Err(BadResponse("the length of the response is ambiguous"));
        }
        Ok(found)
    }
}

#[derive(Debug, Default, Clone, Copy)]
enum Step {
    #[default]
    Size,
    ChunkEnd,
    Trailer,
}

/// Reads a chunked body (RFC 9112 section 7.1) exactly to its end.
#[derive(Debug, Default)]
struct Chunks {
    done: bool,
    step: Step,
    remaining: u64,
    line: Vec<u8>,
    trailers: usize,
    /// The last byte of content does not end a line.
    in_line: bool,
}

impl Chunks {
    fn is_between_lines(&self) -> bool {
        let between_chunks = matches!(self.step, Step::Size) && self.remaining == 0;
        between_chunks && self.line.is_empty() && !self.in_line
    }

    /// Returns the number of bytes that belong to the body.
    fn take(&mut self, data: &Bytes, parts: &mut impl Parts) -> Result<usize, BadResponse> {
        let mut offset = 0;
        while offset < data.len() && !self.done {
            if self.remaining > 0 {
                let size = self.remaining.min((data.len() - offset) as u64);
                self.remaining -= size;
                parts.content(data, offset..offset + size as usize);
                offset += size as usize;
                self.in_line = data[offset - 1] != b'\n';
                continue;
            }
            let rest = &data[offset..];
            let end = rest.iter().position(|byte| *byte == b'\n').map(|end| end + 1);
            let piece = &rest[..end.unwrap_or(rest.len())];
            if self.line.len() + piece.len() > MAX_LINE {
                return Err(BadResponse("a line of the chunked body is too long"));
            }
            self.line.extend_from_slice(piece);
            offset += piece.len();
            if end.is_some() {
                let line = std::mem::take(&mut self.line);
                self.on_line(
                    line.strip_suffix(b"\r\n")
                        .ok_or(BadResponse("a line of the chunked body does not end in CRLF"))?,
                    parts,
                )?;
            }
        }
        Ok(offset)
    }

    fn on_line(&mut self, line: &[u8], parts: &mut impl Parts) -> Result<(), BadResponse> {
        match self.step {
            Step::Size => {
                self.remaining =
                    chunk_size(line).ok_or(BadResponse("a chunk has no valid size"))?;
                self.step = if self.remaining > 0 { Step::ChunkEnd } else { Step::Trailer };
            }
            Step::ChunkEnd if line.is_empty() => self.step = Step::Size,
            Step::ChunkEnd => return Err(BadResponse("a chunk is longer than its size")),
            Step::Trailer if line.is_empty() => self.done = true,
            Step::Trailer => {
                self.trailers += line.len();
                if self.trailers > MAX_TRAILERS || !is_text(line) || !line.contains(&b':') {
                    return Err(BadResponse("bad trailers after a chunked body"));
                }
                parts.trailer(line)?;
            }
        }
        Ok(())
    }
}

fn chunk_size(line: &[u8]) -> Option<u64> {
    let end = line.iter().position(|byte| !byte.is_ascii_hexdigit()).unwrap_or(line.len());
    let (digits, rest) = line.split_at(end);
    let rest = rest.trim_ascii_start();
    if !(1..=15).contains(&digits.len()) || !(rest.is_empty() || rest[0] == b';' && is_text(rest)) {
        return None;
    }
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

fn is_number(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(u8::is_ascii_digit)
}

fn is_text(line: &[u8]) -> bool {
    line.iter().all(|byte| *byte == b'\t' || *byte >= b' ' && *byte != 0x7f)
}

/// Reports whether each CR is followed by LF, and each LF follows a CR.
fn lines_end_in_crlf(head: &[u8]) -> bool {
    let mut ends = memchr2_iter(b'\r', b'\n', head);
    while let Some(at) = ends.next() {
        if head[at] != b'\r' || ends.next() != Some(at + 1) || head[at + 1] != b'\n' {
            return false;
        }
    }
    true
}

fn check_size(head: usize) -> Result<(), BadResponse> {
    if head > MAX_HEAD { Err(BadResponse("the response head is too long")) } else { Ok(()) }
}

/// Returns the size of the head at the start of `data`; None: it is incomplete.
pub fn end_of_head(data: &[u8]) -> Option<usize> {
    memmem::find(data, b"\r\n\r\n").map(|at| at + 4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn observed(text: &[u8], piece: usize) -> Result<ResponseObserver, BadResponse> {
        let mut observer = ResponseObserver::new(false);
        let mut forwarded = Vec::new();
        for part in text.chunks(piece) {
            forwarded.extend_from_slice(&observer.feed(Bytes::copy_from_slice(part))?);
        }
        if observer.status.is_some() {
            assert_eq!(forwarded, text);
        }
        Ok(observer)
    }

    const GOOD: [&[u8]; 6] = [
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nA: b\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.1 404 Not Found\r\nContent-Length: 1\r\nConnection: close\r\n\r\nx",
    ];

    #[test]
    fn a_response_ends_where_its_framing_says_however_it_is_cut() {
        for text in GOOD {
            for piece in 1..=text.len() {
                assert!(observed(text, piece).unwrap().complete, "{piece}");
            }
        }
    }

    #[test]
    fn bytes_behind_the_end_are_refused_however_they_are_cut() {
        for text in GOOD {
            let more = [text, b"HTTP/1.1 200 OK\r\n".as_slice()].concat();
            for piece in 1..=more.len() {
                assert!(observed(&more, piece).is_err(), "{piece}");
            }
        }
    }

    #[test]
    fn ambiguous_and_malformed_responses_are_refused() {
        for text in [
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello".as_slice(),
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
            b"HTTP/1.1 200 OK\nContent-Length: 0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n",
            b"\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: a\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello!\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\nhello",
            b"hello\r\n\r\n",
        ] {
            assert!(observed(text, text.len()).is_err(), "{}", String::from_utf8_lossy(text));
        }
    }

    #[test]
    fn a_response_without_length_ends_with_its_connection_and_a_cut_one_does_not() {
        let mut open = observed(b"HTTP/1.1 200 OK\r\n\r\nhello", 7).unwrap();
        assert!(!open.complete && !open.keep_alive);
        assert!(open.end().is_ok() && open.complete);
        let mut cut = observed(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", 7).unwrap();
        assert!(cut.end().is_err());
        assert!(ResponseObserver::new(false).end().is_err());
    }

    #[test]
    fn a_watch_can_end_after_its_head_and_after_each_whole_line() {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json;a=b\r\n\
            Transfer-Encoding: chunked\r\n";
        let body = "\r\n3\r\n{}\n\r\n2\r\n{}\r\n1;a=b\r\n\n\r\n0\r\n\r\n";
        let text = format!("{head}{body}");
        // After the head, the first chunk and the third one, but not after the second or the last.
        let ends = [head.len() + 2, head.len() + 10, text.len() - 5];
        let mut observer = ResponseObserver::new(false);
        for (at, byte) in text.bytes().enumerate() {
            observer.feed(Bytes::copy_from_slice(&[byte])).unwrap();
            assert_eq!(observer.is_between_events(), ends.contains(&(at + 1)), "{at}");
        }
        for other in [
            text.replace("json", "yaml"),
            text.replacen("Transfer", "Content-Encoding: gzip\r\nTransfer", 1),
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{}\n".into(),
        ] {
            let mut observer = ResponseObserver::new(false);
            for byte in other.bytes() {
                observer.feed(Bytes::copy_from_slice(&[byte])).unwrap();
                assert!(!observer.is_between_events());
            }
        }
    }

    #[test]
    fn raw_bytes_follow_an_upgrade_however_it_is_cut() {
        let text = b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n\
            HTTP/1.1 101 Switching Protocols\r\nUpgrade: a\r\n\r\nHTTP/1.1 raw\r\n\r\n";
        for piece in 1..=text.len() {
            let mut observer = ResponseObserver::of_upgrade();
            let mut forwarded = Vec::new();
            for part in text.chunks(piece) {
                let ready = observer.feed(Bytes::copy_from_slice(part)).unwrap();
                forwarded.extend_from_slice(&ready);
            }
            assert_eq!(forwarded, text);
            assert_eq!((observer.status, observer.upgraded), (Some(101), true));
            assert!(!observer.complete && !observer.is_between_events());
        }
        for text in GOOD {
            let mut observer = ResponseObserver::of_upgrade();
            observer.feed(Bytes::from_static(text)).unwrap();
            assert!(observer.complete && !observer.upgraded);
        }
    }

    #[test]
    fn the_response_to_a_head_request_has_no_body() {
        let mut observer = ResponseObserver::new(true);
        let head = Bytes::from_static(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n");
        assert!(observer.feed(head).is_ok() && observer.complete && observer.keep_alive);
        assert!(observer.feed(Bytes::from_static(b"h")).is_err());
    }

    #[test]
    fn no_change_of_a_response_is_read_in_two_ways() {
        let (mut random, mut good, mut bad) = (Random::new(1), 0, 0);
        for _ in 0..20_000 {
            let mut text = random.choice(&GOOD).to_vec();
            random.mutate(&mut text, b"\r\n:;, 0a\0\xff");
            let whole = observed(&text, text.len()).map(|seen| (seen.status, seen.complete)).ok();
            let cut = observed(&text, 1 + random.below(text.len()));
            assert_eq!(cut.map(|seen| (seen.status, seen.complete)).ok(), whole);
            *if whole.is_some() { &mut good } else { &mut bad } += 1;
        }
        assert!(good > 1_000 && bad > 1_000, "{good} {bad}");
    }

    #[test]
    fn a_head_has_a_largest_size_however_it_is_cut() {
        let empty = "HTTP/1.1 200 OK\r\nA: \r\n\r\n".len();
        for before in ["", "HTTP/1.1 103 Early Hints\r\n\r\n"] {
            for more in [0, 1, 40_000] {
                let value = "a".repeat(MAX_HEAD - empty + more);
                let text = format!("{before}HTTP/1.1 200 OK\r\nA: {value}\r\n\r\n");
                for piece in [1, 1 << 15, text.len() - 1, text.len()] {
                    assert_eq!(observed(text.as_bytes(), piece).is_ok(), more == 0, "{piece}");
                }
            }
        }
    }
}
