//! Buffers that no connection needs now: a connection at rest occupies none.

use std::cell::RefCell;

/// Size of each buffer in bytes.
pub const SIZE: usize = 64 << 10;
const MAX_SPARE: usize = 16;

thread_local! {
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Returns a buffer of `SIZE` bytes, with any content.
pub fn take() -> Vec<u8> {
    SPARE.with_borrow_mut(Vec::pop).unwrap_or_else(|| vec![0; SIZE])
}

/// Keeps a buffer of `take` for the next connection, or frees it.
pub fn give_back(buffer: Vec<u8>) {
    SPARE.with_borrow_mut(|spare| {
        if spare.len() < MAX_SPARE {
            spare.push(buffer);
        }
    });
}
