//! The request that a control plane sends to an agent over a data link, as the body of one HTTP/2
//! request: two lengths, the audit ID, the identity block, the head before and after the audit ID.
//! The response's body is the API server's response, byte for byte.

use std::sync::Mutex;

use bytes::{BufMut, Bytes, BytesMut};

use crate::runtime::locked;

pub const MAX_REQUEST: usize = 96 << 10;
pub const UPGRADE: &str = "towline-data";
pub const PATH: &str = "/k8s/data-link";
/// Status by which an agent leaves a request to the link that Python serves.
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
        let mut left = locked(&self.0);
        if left.is_empty() {
            left.extend(random::<4096>()?.as_chunks().0);
        }
        left.pop()
    }
}
