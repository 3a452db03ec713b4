//! The header of the PROXY protocol (v1 and v2), in which a load balancer names its client.
//! `core/proxy_protocol.py` reads it for the ports that Python serves, by the same rules.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use tokio::io::{AsyncRead, AsyncReadExt};

const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
const MAX_V1: usize = 107;
const MAX_V2: usize = 2048;
const LOCAL: u8 = 0x20;
const PROXY: u8 = 0x21;
const MALFORMED: &str = "the header is malformed";

/// An IP network.
#[derive(Debug, PartialEq, Eq)]
pub struct Network(IpAddr, u32);

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("{text:?} is no IP network");
        let (address, bits) = text.split_once('/').ok_or_else(bad)?;
        let address: IpAddr = address.parse().map_err(|_| bad())?;
        let bits = bits.parse().map_err(|_| bad())?;
        let max_bits = if address.is_ipv4() { 32 } else { 128 };
        if bits > max_bits { Err(bad()) } else { Ok(Self(address, bits)) }
    }
}

impl Network {
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.0, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let different = own.to_bits() ^ other.to_bits();
                different.checked_shr(32 - self.1).unwrap_or(0) == 0
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let different = own.to_bits() ^ other.to_bits();
                different.checked_shr(128 - self.1).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

/// Reads the header of a connection and not a byte more; returns the client. None: the load
/// balancer names no client, as for its own health checks.
pub async fn read(from: &mut (impl AsyncRead + Unpin)) -> Result<Option<SocketAddr>, &'static str> {
    let mut start = [0; SIGNATURE.len()];
    exactly(from, &mut start).await?;
    if start == *SIGNATURE {
        let mut fixed = [0; 4];
        exactly(from, &mut fixed).await?;
        let [command, family, high, low] = fixed;
        let size = usize::from(u16::from_be_bytes([high, low]));
        if size > MAX_V2 {
            return Err("the header is too long");
        }
        let mut rest = vec![0; size];
        exactly(from, &mut rest).await?;
        return client_of_v2(command, family, &rest);
    }
    if !start.starts_with(b"PROXY ") {
        return Err("the connection does not begin with a header of the PROXY protocol");
    }
    let mut line = start.to_vec();
    while !line.ends_with(b"\n") && line.len() < MAX_V1 {
        let mut byte = [0];
        exactly(from, &mut byte).await?;
        line.push(byte[0]);
    }
    client_of_v1(&line).ok_or(MALFORMED)
}

async fn exactly(from: &mut (impl AsyncRead + Unpin), into: &mut [u8]) -> Result<(), &'static str> {
    let read = from.read_exact(into).await;
    read.map(drop).map_err(|_| "the connection ended in its header")
}

/// None: the line is malformed. Some(None): it names no client.
fn client_of_v1(line: &[u8]) -> Option<Option<SocketAddr>> {
    let line = std::str::from_utf8(line.strip_suffix(b"\r\n")?).ok()?;
    if let Some(rest) = line.strip_prefix("PROXY UNKNOWN") {
        let printable = rest.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        return (rest.is_empty() || rest.starts_with(' ') && printable).then_some(None);
    }
    let mut parts = line.split(' ');
    let (Some("PROXY"), Some(family)) = (parts.next(), parts.next()) else { return None };
    let (source, target) = (parts.next()?, parts.next()?);
    let (port, _) = (port(parts.next()?)?, port(parts.next()?)?);
    let source: IpAddr = source.parse().ok()?;
    let target: IpAddr = target.parse().ok()?;
    let agrees = match family {
        "TCP4" => source.is_ipv4() && target.is_ipv4(),
        "TCP6" => source.is_ipv6() && target.is_ipv6(),
        _ => false,
    };
    (agrees && parts.next().is_none()).then(|| Some(SocketAddr::new(source.to_canonical(), port)))
}

fn port(text: &str) -> Option<u16> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit());
    let canonical = text == "0" || !text.starts_with('0');
    if plain && canonical { text.parse().ok() } else { None }
}

fn client_of_v2(command: u8, family: u8, rest: &[u8]) -> Result<Option<SocketAddr>, &'static str> {
    if command == LOCAL {
        return Ok(None);
    }
    if command != PROXY {
        return Err("the header has an unknown command");
    }
    match family {
        0x00 => Ok(None),
        0x11 => named::<4>(rest, |address| Ipv4Addr::from(address).into()),
        0x21 => named::<16>(rest, |address| Ipv6Addr::from(address).to_canonical()),
        _ => Err("the header names no TCP client"),
    }
}

/// Reads source and destination, each of SIZE bytes, and their ports.
fn named<const SIZE: usize>(
    rest: &[u8],
    address: impl Fn([u8; SIZE]) -> IpAddr,
) -> Result<Option<SocketAddr>, &'static str> {
    let short = "the header is too short for its addresses";
    let rest = rest.get(..2 * SIZE + 4).ok_or(short)?;
    let source = <[u8; SIZE]>::try_from(&rest[..SIZE]).map_err(|_| short)?;
    let port = u16::from_be_bytes([rest[2 * SIZE], rest[2 * SIZE + 1]]);
    Ok(Some(SocketAddr::new(address(source), port)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    const V4: &[u8] = &[203, 0, 113, 9, 10, 0, 0, 1, 0x12, 0x67, 0x01, 0xbb];

    /// The client that a header names; all bytes after the header must be left.
    async fn client(header: &[u8]) -> Result<Option<SocketAddr>, &'static str> {
        let text = [header, b"after"].concat();
        let mut rest = text.as_slice();
        let found = read(&mut rest).await;
        if found.is_ok() {
            assert_eq!(rest, b"after");
        }
        found
    }

    fn v2(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let size = (rest.len() as u16).to_be_bytes();
        [SIGNATURE.as_slice(), &[command, family], &size, rest].concat()
    }

    #[tokio::test]
    async fn both_versions_name_a_client() {
        let v6: &[u8] = &[[0; 10].as_slice(), &[0xff, 0xff, 203, 0, 113, 9], &[0; 16]].concat();
        for (header, expected) in [
            (b"PROXY TCP4 203.0.113.9 10.0.0.1 4711 443\r\n".to_vec(), "203.0.113.9:4711"),
            (b"PROXY TCP6 2001:db8::1 ::1 4711 443\r\n".to_vec(), "[2001:db8::1]:4711"),
            (b"PROXY TCP6 ::ffff:203.0.113.9 ::1 0 0\r\n".to_vec(), "203.0.113.9:0"),
            (v2(PROXY, 0x11, V4), "203.0.113.9:4711"),
            (v2(PROXY, 0x11, &[V4, b"\x03\x00\x04abcd"].concat()), "203.0.113.9:4711"),
            (v2(PROXY, 0x21, &[v6, &[0, 80, 0, 1]].concat()), "203.0.113.9:80"),
        ] {
            assert_eq!(client(&header).await, Ok(Some(expected.parse().unwrap())));
        }
    }

    #[tokio::test]
    async fn a_load_balancer_may_name_no_client() {
        for header in [
            b"PROXY UNKNOWN\r\n".to_vec(),
            b"PROXY UNKNOWN ffff::1 ffff::2 65535 65535\r\n".to_vec(),
            v2(LOCAL, 0, b""),
            v2(LOCAL, 0x11, V4),
            v2(PROXY, 0, &[b'x'; MAX_V2]),
        ] {
            assert_eq!(client(&header).await, Ok(None));
        }
    }

    #[tokio::test]
    async fn all_else_is_refused() {
        let long = [b"PROXY UNKNOWN ".as_slice(), &[b'x'; 200], b"\r\n"].concat();
        for header in [
            b"GET / HTTP/1.1\r\n".to_vec(),
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 TLS".to_vec(),
            b"PROXY TCP4 203.0.113.9 10.0.0.1 4711 443\n".to_vec(),
            b"PROXY TCP4 203.0.113.9 10.0.0.1 4711 443 \r\n".to_vec(),
            b"PROXY TCP4 203.0.113.9 10.0.0.1 04711 443\r\n".to_vec(),
            b"PROXY TCP4 203.0.113.9 10.0.0.1 65536 443\r\n".to_vec(),
            b"PROXY TCP4 203.0.113.9 10.0.0.1 +711 443\r\n".to_vec(),
            b"PROXY TCP4 203.0.113.9 10.0.0.1 4711\r\n".to_vec(),
            b"PROXY TCP4 ::1 ::1 4711 443\r\n".to_vec(),
            b"PROXY TCP6 203.0.113.9 10.0.0.1 4711 443\r\n".to_vec(),
            b"PROXY TCP4 203.0.113 10.0.0.1 4711 443\r\n".to_vec(),
            b"PROXY UDP4 203.0.113.9 10.0.0.1 4711 443\r\n".to_vec(),
            b"PROXY UNKNOWNX\r\n".to_vec(),
            long,
            v2(0x11, 0x11, V4),
            v2(0x22, 0x11, V4),
            v2(PROXY, 0x12, V4),
            v2(PROXY, 0x31, V4),
            v2(PROXY, 0x11, &V4[..11]),
            v2(PROXY, 0x21, V4),
            v2(PROXY, 0x11, &[0; MAX_V2 + 1]),
        ] {
            assert!(client(&header).await.is_err(), "{}", String::from_utf8_lossy(&header));
        }
    }

    #[test]
    fn a_network_contains_its_addresses_alone() {
        let contains = |network: &str, address: &str| {
            network.parse::<Network>().unwrap().contains(address.parse().unwrap())
        };
        for (network, inside, outside) in [
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.1"),
            ("10.1.2.3/32", "10.1.2.3", "10.1.2.2"),
            ("10.1.2.3/32", "::ffff:10.1.2.3", "::a01:203"),
            ("2001:db8::/32", "2001:db8:ffff::1", "2001:db9::1"),
            ("::1/128", "::1", "127.0.0.1"),
        ] {
            assert!(contains(network, inside), "{network} {inside}");
            assert!(!contains(network, outside), "{network} {outside}");
        }
        assert!(contains("0.0.0.0/0", "203.0.113.9") && !contains("0.0.0.0/0", "::1"));
        assert!(contains("::/0", "2001:db8::1"));
        for text in ["10.0.0.1", "10.0.0.0/33", "::/129", "a/8", "10.0.0.0/-1"] {
            assert!(text.parse::<Network>().is_err(), "{text}");
        }
    }

    #[tokio::test]
    async fn any_change_of_a_header_is_read_or_refused_however_it_is_cut() {
        let (mut random, mut refused) = (Random::new(5), 0);
        for _ in 0..20_000 {
            let mut text = random
                .choice(&[
                    b"PROXY TCP4 203.0.113.9 10.0.0.1 4711 443\r\n".to_vec(),
                    b"PROXY TCP6 2001:db8::1 ::1 4711 443\r\n".to_vec(),
                    b"PROXY UNKNOWN ffff::1 ffff::2 65535 65535\r\n".to_vec(),
                    v2(PROXY, 0x11, &[V4, b"\x03\x00\x04abcd"].concat()),
                ])
                .clone();
            random.mutate(&mut text, b"\r\n :.09af\0\x11\x21\xff");
            let mut whole = text.as_slice();
            let client = read(&mut whole).await;
            let size = text.len() - whole.len();
            assert!(size <= MAX_V1.max(SIGNATURE.len() + 4 + MAX_V2));
            let (cut, rest) = text.split_at(random.below(text.len()));
            let mut pieces = cut.chain(rest);
            assert_eq!(read(&mut pieces).await, client);
            let (left, more) = pieces.into_inner();
            assert_eq!(text.len() - left.len() - more.len(), size);
            refused += usize::from(client.is_err());
        }
        assert!((1_000..20_000).contains(&refused), "{refused}");
    }
}
