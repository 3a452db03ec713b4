//! Items for Python, whose event loop waits for a file descriptor meanwhile.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, OnceLock};

use crate::runtime::locked;

/// Python takes the items when the descriptor is readable.
pub struct Inbox<T> {
    items: Mutex<VecDeque<T>>,
    /// Our end and Python's; nothing is open before Python asks for it.
    sockets: OnceLock<(UnixStream, UnixStream)>,
}

impl<T> Default for Inbox<T> {
    fn default() -> Self {
        Self { items: Mutex::default(), sockets: OnceLock::new() }
    }
}

impl<T> Inbox<T> {
    /// Returns the descriptor that is readable while items wait.
    pub fn descriptor(&self) -> io::Result<RawFd> {
        if let Some((_, python_end)) = self.sockets.get() {
            return Ok(python_end.as_raw_fd());
        }
        let (own_end, python_end) = UnixStream::pair()?;
        own_end.set_nonblocking(true)?;
        python_end.set_nonblocking(true)?;
        Ok(self.sockets.get_or_init(|| (own_end, python_end)).1.as_raw_fd())
    }

    pub fn len(&self) -> usize {
        locked(&self.items).len()
    }

    /// Adds an item; false: Python does not wait for any.
    pub fn put(&self, item: T) -> bool {
        let Some((own_end, _)) = self.sockets.get() else { return false };
        let mut items = locked(&self.items);
        items.push_back(item);
        let is_first = items.len() == 1;
        drop(items);
        if is_first {
            wake(own_end);
        }
        true
    }

    /// Takes up to `most` items; the descriptor stays readable while more wait.
    pub fn take(&self, limit: usize) -> Vec<T> {
        let Some((own_end, python_end)) = self.sockets.get() else { return Vec::new() };
        let mut bytes = [0; 64];
        while matches!((&mut &*python_end).read(&mut bytes), Ok(1..)) {}
        let mut items = locked(&self.items);
        let size = limit.min(items.len());
        let taken_items = items.drain(..size).collect();
        if !items.is_empty() {
            wake(own_end);
        }
        taken_items
    }
}

/// Makes the other end readable. Fails if its buffer is full, so that it already is.
fn wake(mut own_end: &UnixStream) {
    let _ = own_end.write(&[0]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn is_readable(inbox: &Inbox<u32>) -> bool {
        let (_, python_end) = inbox.sockets.get().unwrap();
        let mut byte = [0];
        let read = (&mut &*python_end).read(&mut byte);
        // A byte that was looked at is put back.
        read.is_ok_and(|size| size > 0).then(|| wake(&inbox.sockets.get().unwrap().0)).is_some()
    }

    #[test]
    fn no_order_of_puts_and_takes_loses_an_item_or_leaves_it_unseen() {
        let (mut random, inbox) = (Random::new(10), Inbox::default());
        inbox.descriptor().unwrap();
        let (mut put, mut taken) = (0, 0);
        for _ in 0..20_000 {
            if random.below(3) > 0 {
                assert!(inbox.put(put));
                put += 1;
            } else {
                let items = inbox.take(random.below(3));
                let size = items.len() as u32;
                assert!(items.into_iter().eq(taken..taken + size));
                taken += size;
            }
            assert_eq!(inbox.len() as u32, put - taken);
            // It may also be readable without items.
            assert!(taken == put || is_readable(&inbox));
        }
        // More wakes than its buffer holds.
        assert!(put - taken > 1_000);
        while !inbox.take(64).is_empty() {}
        assert!(!is_readable(&inbox));
    }

    #[test]
    fn the_descriptor_is_readable_while_items_wait() {
        let inbox = Inbox::default();
        assert!(!inbox.put(0));
        let descriptor = inbox.descriptor().unwrap();
        assert_eq!(inbox.descriptor().unwrap(), descriptor);
        assert!(!is_readable(&inbox));
        for item in 1..=5 {
            assert!(inbox.put(item));
        }
        assert!(is_readable(&inbox));
        assert_eq!(inbox.take(2), [1, 2]);
        assert!(is_readable(&inbox));
        assert_eq!(inbox.take(9), [3, 4, 5]);
        assert!(!is_readable(&inbox));
        assert!(inbox.put(6) && is_readable(&inbox));
        assert_eq!((inbox.len(), inbox.take(9).len()), (1, 1));
    }
}
