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
        if let Some((_, theirs)) = self.sockets.get() {
            return Ok(theirs.as_raw_fd());
        }
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        theirs.set_nonblocking(true)?;
        Ok(self.sockets.get_or_init(|| (ours, theirs)).1.as_raw_fd())
    }

    pub fn len(&self) -> usize {
        locked(&self.items).len()
    }

    /// Adds an item; false: Python does not wait for any.
    pub fn put(&self, item: T) -> bool {
        let Some((ours, _)) = self.sockets.get() else { return false };
        let mut items = locked(&self.items);
        items.push_back(item);
        let is_first = items.len() == 1;
        drop(items);
        if is_first {
            wake(ours);
        }
        true
    }

    /// Takes up to `most` items; the descriptor stays readable while more wait.
    pub fn take(&self, most: usize) -> Vec<T> {
        let Some((ours, theirs)) = self.sockets.get() else { return Vec::new() };
        let mut bytes = [0; 64];
        while matches!((&mut &*theirs).read(&mut bytes), Ok(1..)) {}
        let mut items = locked(&self.items);
        let size = most.min(items.len());
        let taken = items.drain(..size).collect();
        if !items.is_empty() {
            wake(ours);
        }
        taken
    }
}

/// Makes the other end readable. Fails if its buffer is full, so that it already is.
fn wake(mut ours: &UnixStream) {
    let _ = ours.write(&[0]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn is_readable(inbox: &Inbox<u32>) -> bool {
        let (_, theirs) = inbox.sockets.get().unwrap();
        let mut byte = [0];
        let read = (&mut &*theirs).read(&mut byte);
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
