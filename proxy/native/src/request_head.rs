//! The head of an HTTP/2 request as that of an HTTP/1.1 request (RFC 9113 section 8.3), so that both
//! versions have the same verdicts, and one parser in Python.

use bytes::{Bytes, BytesMut};
use http::header::{
    CONNECTION, CONTENT_LENGTH, COOKIE, HOST, HeaderMap, HeaderName, HeaderValue, TE,
    TRANSFER_ENCODING, UPGRADE,
};
use http::{Method, request};

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");

/// The request is malformed: its stream is to be reset (RFC 9113 section 8.1.1).
#[derive(Debug, PartialEq, Eq)]
pub struct Malformed;

/// How the content of a request is framed in HTTP/1.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    Counted,
    Chunked,
}

/// Reports whether a field describes a connection, and so does not exist in HTTP/2.
pub fn is_of_connection(name: &HeaderName) -> bool {
    [CONNECTION, KEEP_ALIVE, PROXY_CONNECTION, TE, TRANSFER_ENCODING, UPGRADE].contains(name)
}

/// Writes the head. `ended`: the request has no content. The types of `request` hold no character
/// that ends a line.
pub fn write(request: &request::Parts, ended: bool) -> Result<(Bytes, Framing), Malformed> {
    if request.method == Method::CONNECT {
        return Err(Malformed);
    }
    let target = request.uri.path_and_query().ok_or(Malformed)?.as_str();
    let is_path = target.starts_with('/') || target == "*";
    if !is_path || target.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
        return Err(Malformed);
    }
    let mut head = BytesMut::with_capacity(1024);
    for piece in [request.method.as_str(), " ", target, " HTTP/1.1\r\n"] {
        head.extend_from_slice(piece.as_bytes());
    }
    write_host(&mut head, request)?;
    for (name, value) in &request.headers {
        if !(is_of_connection(name) || [HOST, CONTENT_LENGTH, COOKIE].contains(name)) {
            write_field(&mut head, name, value.as_bytes());
        }
    }
    write_cookies(&mut head, &request.headers);
    let framing = write_framing(&mut head, &request.headers, ended)?;
    head.extend_from_slice(b"\r\n");
    Ok((head.freeze(), framing))
}

fn write_field(head: &mut BytesMut, name: &HeaderName, value: &[u8]) {
    for piece in [name.as_str().as_bytes(), b": ", value.trim_ascii(), b"\r\n"] {
        head.extend_from_slice(piece);
    }
}

/// The authority is the Host; a Host field beside it must have the same value.
fn write_host(head: &mut BytesMut, request: &request::Parts) -> Result<(), Malformed> {
    let hosts = request.headers.get_all(HOST);
    let Some(authority) = request.uri.authority() else {
        hosts.iter().for_each(|host| write_field(head, &HOST, host.as_bytes()));
        return Ok(());
    };
    let authority = authority.as_str().as_bytes();
    let differs = |host: &HeaderValue| !host.as_bytes().eq_ignore_ascii_case(authority);
    if authority.contains(&b'@') || hosts.iter().any(differs) {
        return Err(Malformed);
    }
    write_field(head, &HOST, authority);
    Ok(())
}

/// HTTP/2 may split a Cookie field (RFC 9113 section 8.2.3).
fn write_cookies(head: &mut BytesMut, fields: &HeaderMap) {
    let crumbs: Vec<_> = fields.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if !crumbs.is_empty() {
        write_field(head, &COOKIE, &crumbs.join(b"; ".as_slice()));
    }
}

fn write_framing(
    head: &mut BytesMut,
    fields: &HeaderMap,
    ended: bool,
) -> Result<Framing, Malformed> {
    let mut lengths = fields.get_all(CONTENT_LENGTH).iter().map(HeaderValue::as_bytes);
    let (first, second) = (lengths.next(), lengths.next());
    let Some(length) = first else {
        if ended {
            return Ok(Framing::Counted);
        }
        write_field(head, &TRANSFER_ENCODING, b"chunked");
        return Ok(Framing::Chunked);
    };
    let is_number = !length.is_empty() && length.iter().all(u8::is_ascii_digit);
    let is_zero = length.iter().all(|digit| *digit == b'0');
    if !is_number || second.is_some() || ended && !is_zero {
        return Err(Malformed);
    }
    write_field(head, &CONTENT_LENGTH, length);
    Ok(Framing::Counted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn parts(method: &str, target: &str, fields: &[(&str, &[u8])]) -> request::Parts {
        let mut request = http::Request::builder().method(method).uri(target);
        for (name, value) in fields {
            request = request.header(*name, HeaderValue::from_bytes(value).unwrap());
        }
        request.body(()).unwrap().into_parts().0
    }

    fn written(fields: &[(&str, &[u8])], ended: bool) -> Result<String, Malformed> {
        let request = parts("GET", "https://proxy.example:8443/api?watch=1", fields);
        write(&request, ended).map(|(head, _)| String::from_utf8(head.to_vec()).unwrap())
    }

    #[test]
    fn a_head_becomes_the_same_bytes_each_time() {
        let fields: [(&str, &[u8]); 2] = [("authorization", b"Bearer a"), ("accept", b" */* ")];
        let expected = "GET /api?watch=1 HTTP/1.1\r\nhost: proxy.example:8443\r\n\
            authorization: Bearer a\r\naccept: */*\r\n\r\n";
        assert_eq!(written(&fields, true).unwrap(), expected);
        assert_eq!(written(&fields, true), written(&fields, true));
    }

    #[test]
    fn crumbs_of_a_cookie_are_joined() {
        let head = written(&[("cookie", b"a=1"), ("accept", b"x"), ("cookie", b"b=2")], true);
        assert!(head.unwrap().ends_with("\r\ncookie: a=1; b=2\r\n\r\n"));
    }

    #[test]
    fn fields_of_the_connection_are_dropped() {
        let fields: Vec<(&str, &[u8])> = vec![
            ("connection", b"upgrade, x-secret"),
            ("upgrade", b"websocket"),
            ("keep-alive", b"1"),
            ("proxy-connection", b"close"),
            ("te", b"trailers"),
            ("transfer-encoding", b"chunked"),
        ];
        let expected = "GET /api?watch=1 HTTP/1.1\r\nhost: proxy.example:8443\r\n\r\n";
        assert_eq!(written(&fields, true).unwrap(), expected);
    }

    #[test]
    fn the_content_is_framed_by_its_length_or_in_chunks() {
        let counted: [(&str, &[u8]); 1] = [("content-length", b"5")];
        assert!(written(&counted, false).unwrap().ends_with("\r\ncontent-length: 5\r\n\r\n"));
        assert!(written(&[], false).unwrap().ends_with("\r\ntransfer-encoding: chunked\r\n\r\n"));
        let zero: [(&str, &[u8]); 1] = [("content-length", b"0")];
        assert!(written(&zero, true).unwrap().ends_with("\r\ncontent-length: 0\r\n\r\n"));
    }

    #[test]
    fn ambiguous_requests_are_malformed() {
        let length: (&str, &[u8]) = ("content-length", b"5");
        for (fields, ended) in [
            (vec![length, length], false),
            (vec![("content-length", b"+5".as_slice())], false),
            (vec![("content-length", b"5, 5".as_slice())], false),
            (vec![("content-length", b"".as_slice())], false),
            (vec![length], true),
            (vec![("host", b"other.example".as_slice())], true),
        ] {
            assert_eq!(written(&fields, ended), Err(Malformed), "{fields:?}");
        }
        let same: [(&str, &[u8]); 1] = [("host", b"PROXY.example:8443")];
        assert!(written(&same, true).is_ok());
        for (method, target) in [
            ("CONNECT", "proxy.example:443"),
            ("GET", "https://user@proxy.example/"),
            ("GET", "proxy.example:443"),
        ] {
            assert_eq!(write(&parts(method, target, &[]), true), Err(Malformed), "{target}");
        }
    }

    #[test]
    fn without_authority_the_host_fields_are_kept() {
        let request = parts("GET", "/", &[("host", b"a"), ("host", b"b")]);
        let (head, _) = write(&request, true).unwrap();
        assert_eq!(&head[..], b"GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n");
    }

    /// Characters that matter to a parser.
    const CHARACTERS: &[u8] = b"abZ09 \t:;,=/?#%@*\"{}\r\n\0\x7f\xc3\xa9";
    const NAMES: [&str; 9] = [
        "x-any",
        "host",
        "cookie",
        "content-length",
        "transfer-encoding",
        "connection",
        "te",
        "authorization",
        "expect",
    ];

    /// A request of any fields; None: no HTTP/2 library would pass it on.
    fn any_request(random: &mut Random) -> Option<request::Parts> {
        let authority = random.choice(&["", "https://a.example", "https://a@b", "https://c:1"]);
        let path = [authority.as_bytes(), b"/", &random.text(CHARACTERS, 8)].concat();
        let method = Method::from_bytes(&random.text(b"GETPOS \r-", 6)).ok()?;
        let mut request = http::Request::builder().method(method).uri(&path[..]);
        for _ in 0..random.below(6) {
            let value = match random.below(3) {
                0 => random.text(b"0159", 4),
                1 => b"a.example".to_vec(),
                _ => random.text(CHARACTERS, 12),
            };
            let value = HeaderValue::from_bytes(&value).ok()?;
            request = request.header(*random.choice(&NAMES), value);
        }
        Some(request.body(()).ok()?.into_parts().0)
    }

    #[test]
    fn any_head_that_is_written_is_read_as_it_was_meant() {
        let (mut random, mut read) = (Random::new(6), 0);
        for _ in 0..50_000 {
            let Some(request) = any_request(&mut random) else { continue };
            let ended = random.below(2) == 0;
            let Ok((head, framing)) = write(&request, ended) else { continue };
            let mut fields = [httparse::EMPTY_HEADER; 16];
            let mut parsed = httparse::Request::new(&mut fields);
            assert_eq!(parsed.parse(&head).unwrap().unwrap(), head.len());
            assert_eq!(parsed.method.unwrap(), request.method.as_str());
            assert_eq!(parsed.path.unwrap(), request.uri.path_and_query().unwrap().as_str());
            let values = |name: &str| -> Vec<&[u8]> {
                let same = parsed.headers.iter().filter(|field| field.name == name);
                same.map(|field| field.value).collect()
            };
            for name in ["x-any", "authorization", "expect"] {
                let meant = request.headers.get_all(name).iter();
                let meant: Vec<_> = meant.map(|value| value.as_bytes().trim_ascii()).collect();
                assert_eq!(values(name), meant);
            }
            assert!(values("connection").is_empty() && values("te").is_empty());
            let (lengths, chunks) = (values("content-length"), values("transfer-encoding"));
            assert!(lengths.len() <= 1 && lengths.iter().all(|length| !length.is_empty()));
            assert_eq!(chunks.len(), usize::from(framing == Framing::Chunked));
            assert!(chunks.is_empty() || lengths.is_empty() && !ended);
            assert!(values("cookie").len() <= 1);
            if let Some(authority) = request.uri.authority() {
                assert_eq!(values("host"), [authority.as_str().as_bytes()]);
            }
            read += 1;
        }
        assert!(read > 2_000, "{read}");
    }
}
