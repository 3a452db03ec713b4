//! The request that a control plane sends to an agent over a data link, as the body of one HTTP/2
//! request: two lengths, the audit ID, the identity block, the head before and after the audit ID.
//! The response's body is the API server's response, byte for byte.

use std::sync::Mutex;

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::runtime::locked;

/// Version of the data link: ends with another one use the control link alone. It changes with each
/// change that the other end has to understand, here, in `windows` or in the settings of HTTP/2.
pub const VERSION: u8 = 1;
pub const MAX_REQUEST: usize = 96 << 10;
pub const UPGRADE: &str = "towline-data";
pub const PATH: &str = "/k8s/data-link";
/// Path of a request that asks for an upgrade. Its body starts with the length of the packed
/// request, and after the 101 it goes on with the user's bytes.
pub const UPGRADE_PATH: &str = "/upgrade";
/// Path of the stream on which both ends grant each other larger windows; see `windows`.
pub const GRANTS_PATH: &str = "/grants";
/// Status with which an agent leaves a request to the link that Python serves.
pub const DECLINED: u16 = 421;

const FIXED: usize = 8 + 16;

/// The parts of a request that are the same each time; `before` and `after` surround the audit ID.
pub fn pack(identity: &[u8], before: &[u8], after: &[u8], id: &[u8; 16]) -> Bytes {
    let mut packed = BytesMut::with_capacity(FIXED + identity.len() + before.len() + after.len());
    packed.put_u32(identity.len() as u32);
    packed.put_u32(before.len() as u32);
    packed.put_slice(id);
    packed.put_slice(identity);
    packed.put_slice(before);
    packed.put_slice(after);
    packed.freeze()
}

/// Puts its length before a packed request.
pub fn prefixed(packed: &[u8]) -> Bytes {
    let mut prefixed = BytesMut::with_capacity(4 + packed.len());
    prefixed.put_u32(packed.len() as u32);
    prefixed.put_slice(packed);
    prefixed.freeze()
}

/// Takes a packed request from what follows its length. Some(None): it is incomplete; None: it is
/// too long.
pub fn take_prefixed(received: &mut BytesMut) -> Option<Option<BytesMut>> {
    let Some(length) = received.first_chunk() else { return Some(None) };
    let size = u32::from_be_bytes(*length) as usize;
    if size > MAX_REQUEST {
        return None;
    }
    if received.len() < 4 + size {
        return Some(None);
    }
    received.advance(4);
    Some(Some(received.split_to(size)))
}

/// Returns the identity, and the head before and after the audit ID; None: malformed.
pub fn parts(packed: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let lengths = packed.get(..8)?.as_chunks::<4>().0;
    let [identity, before] = lengths else { return None };
    let rest = packed.get(FIXED..)?;
    let (identity, rest) = rest.split_at_checked(u32::from_be_bytes(*identity) as usize)?;
    let (before, after) = rest.split_at_checked(u32::from_be_bytes(*before) as usize)?;
    Some((identity, before, after))
}

/// Takes the audit ID out of a packed request, so that the rest can be looked up; None: malformed.
pub fn take_id(packed: &mut [u8]) -> Option<[u8; 16]> {
    let id = packed.get_mut(8..FIXED)?;
    let taken = <[u8; 16]>::try_from(&*id).ok()?;
    id.fill(0);
    Some(taken)
}

pub fn hex(id: &[u8; 16]) -> [u8; 32] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [0; 32];
    for (at, byte) in id.iter().enumerate() {
        text[2 * at] = DIGITS[usize::from(byte >> 4)];
        text[2 * at + 1] = DIGITS[usize::from(byte & 15)];
    }
    text
}

pub fn random<const SIZE: usize>() -> Option<[u8; SIZE]> {
    let mut bytes = [0; SIZE];
    getrandom::fill(&mut bytes).ok()?;
    Some(bytes)
}

/// Random audit IDs; one system call serves many.
#[derive(Default)]
pub struct AuditIds(Mutex<Vec<[u8; 16]>>);

impl AuditIds {
    pub fn take(&self) -> Option<[u8; 16]> {
        let mut unused = locked(&self.0);
        if unused.is_empty() {
            unused.extend(random::<4096>()?.as_chunks().0);
        }
        unused.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn any_request_is_unpacked_as_it_was_packed_however_it_is_cut() {
        let mut random = Random::new(8);
        for _ in 0..2_000 {
            let [identity, before, after] =
                std::array::from_fn(|_| random.text(b"a:\r\n\0\xff", 90));
            let id = random.bytes();
            let sent = prefixed(&pack(&identity, &before, &after, &id));
            let mut received = BytesMut::new();
            let mut taken = None;
            for piece in random.cut(&sent, 60) {
                assert!(taken.is_none());
                received.extend_from_slice(piece);
                taken = take_prefixed(&mut received).unwrap();
            }
            let mut packed = taken.unwrap();
            assert!(received.is_empty());
            assert_eq!(take_id(&mut packed), Some(id));
            assert_eq!(parts(&packed), Some((&identity[..], &before[..], &after[..])));
            assert_eq!(&packed[..], &pack(&identity, &before, &after, &[0; 16])[..]);
        }
    }

    #[test]
    fn any_bytes_are_a_packed_request_wait_for_more_or_are_refused() {
        let mut random = Random::new(9);
        for _ in 0..20_000 {
            let mut received = BytesMut::from(&random.bytes::<40>()[..]);
            received[..2].fill(0);
            received.truncate(random.below(41));
            let before = received.len();
            if let Some(Some(mut packed)) = take_prefixed(&mut received) {
                assert_eq!(4 + packed.len() + received.len(), before);
                let id = take_id(&mut packed);
                assert_eq!(id.is_some(), packed.len() >= FIXED);
                assert!(parts(&packed).is_none() || id.is_some());
            } else {
                assert_eq!(received.len(), before);
            }
        }
    }

    #[test]
    fn a_packed_request_is_taken_however_it_is_cut() {
        let packed = pack(b"Impersonate-User: a\r\n", b"GET /a", b"\r\n\r\n", &[7; 16]);
        let sent = [&prefixed(&packed)[..], b"raw"].concat();
        for cut in 0..=sent.len() {
            let mut received = BytesMut::from(&sent[..cut]);
            let first = take_prefixed(&mut received).unwrap();
            assert_eq!(first.is_some(), cut >= 4 + packed.len());
            received.extend_from_slice(&sent[cut..]);
            let taken = first.or_else(|| take_prefixed(&mut received).unwrap()).unwrap();
            assert_eq!((&taken[..], &received[..]), (&packed[..], &b"raw"[..]));
        }
        let mut long = BytesMut::from(&(MAX_REQUEST as u32 + 1).to_be_bytes()[..]);
        assert!(take_prefixed(&mut long).is_none());
    }

    #[test]
    fn the_parts_of_a_packed_request_are_found_or_it_is_malformed() {
        let packed = pack(b"identity", b"before", b"after", &[7; 16]);
        let expected: (&[u8], &[u8], &[u8]) = (b"identity", b"before", b"after");
        assert_eq!(parts(&packed), Some(expected));
        let mut random = Random::new(7);
        for _ in 0..20_000 {
            let mut changed = packed.to_vec();
            changed[random.below(8)] = random.number() as u8;
            changed.truncate(random.below(packed.len() + 1));
            if let Some((identity, before, after)) = parts(&changed) {
                let size = FIXED + identity.len() + before.len() + after.len();
                assert_eq!(size, changed.len());
            }
        }
    }
}
