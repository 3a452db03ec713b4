//! Received bytes that wait for slow readers, over many requests.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use h2::RecvStream;

use crate::runtime::locked;

/// Part of all bytes that one user may hold, as a divisor.
const USERS: usize = 4;
const MAX_IDLE_USERS: usize = 1024;

pub struct Budget {
    limit: usize,
    held: AtomicUsize,
    users: Mutex<HashMap<Bytes, Arc<AtomicUsize>>>,
}

impl Budget {
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, held: AtomicUsize::new(0), users: Mutex::default() })
    }

    /// Returns the share of a user.
    pub fn share(self: &Arc<Self>, user: Bytes) -> Share {
        let mut users = locked(&self.users);
        if users.len() >= MAX_IDLE_USERS {
            users.retain(|_, own| Arc::strong_count(own) > 1);
        }
        let own = users.entry(user).or_default().clone();
        Share { budget: self.clone(), own }
    }
}

pub struct Share {
    budget: Arc<Budget>,
    own: Arc<AtomicUsize>,
}

/// Too many bytes wait.
#[derive(Debug, PartialEq, Eq)]
pub struct Exceeded;

/// The bytes of one stream that wait, while this exists.
struct Held<'a> {
    share: Option<&'a Share>,
    size: usize,
}

impl Held<'_> {
    fn add(&mut self, size: usize) -> Result<(), Exceeded> {
        let Some(Share { budget, own }) = self.share else { return Ok(()) };
        self.size += size;
        let all = budget.held.fetch_add(size, Ordering::Relaxed) + size;
        let own = own.fetch_add(size, Ordering::Relaxed) + size;
        let fits = all <= budget.limit && own <= budget.limit / USERS;
        if fits { Ok(()) } else { Err(Exceeded) }
    }

    fn remove(&mut self, size: usize) {
        let size = size.min(self.size);
        self.size -= size;
        if let Some(Share { budget, own }) = self.share {
            budget.held.fetch_sub(size, Ordering::Relaxed);
            own.fetch_sub(size, Ordering::Relaxed);
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.remove(self.size);
    }
}

/// Why no more data comes.
#[derive(Debug)]
pub enum Cut {
    Reset,
    Exceeded,
}

/// Data of a stream, for one reader. While that is slow, all that arrives is taken and counted: at
/// most the window of the stream.
pub struct Incoming<'a> {
    body: &'a mut RecvStream,
    waiting: VecDeque<Bytes>,
    held: Held<'a>,
    has_ended: bool,
}

impl<'a> Incoming<'a> {
    /// `share` None: the memory of a whole window was reserved.
    pub fn new(body: &'a mut RecvStream, share: Option<&'a Share>) -> Self {
        let held = Held { share, size: 0 };
        Self { body, waiting: VecDeque::new(), held, has_ended: false }
    }

    /// Returns the next data; None: the stream has ended cleanly.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Cut> {
        if let Some(data) = self.waiting.pop_front() {
            return Ok(Some(data));
        }
        if self.has_ended {
            return Ok(None);
        }
        match self.body.data().await {
            Some(Ok(data)) => {
                self.held.add(data.len()).map_err(|Exceeded| Cut::Exceeded)?;
                Ok(Some(data))
            }
            Some(Err(_)) => Err(Cut::Reset),
            None => {
                self.has_ended = true;
                Ok(None)
            }
        }
    }

    /// Writes data that `next` has returned, and takes what arrives meanwhile.
    pub async fn write<F: Future>(&mut self, size: usize, writing: F) -> Result<F::Output, Cut> {
        let mut writing = pin!(writing);
        loop {
            let data = tokio::select! {
                biased;
                output = &mut writing => {
                    self.held.remove(size);
                    let _ = self.body.flow_control().release_capacity(size);
                    return Ok(output);
                }
                data = self.body.data(), if !self.has_ended && self.held.share.is_some() => data,
            };
            match data {
                Some(Ok(data)) => {
                    self.held.add(data.len()).map_err(|Exceeded| Cut::Exceeded)?;
                    self.waiting.push_back(data);
                }
                Some(Err(_)) => return Err(Cut::Reset),
                None => self.has_ended = true,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(share: &Share) -> Held<'_> {
        Held { share: Some(share), size: 0 }
    }

    #[test]
    fn a_user_holds_a_quarter_and_all_together_the_limit() {
        let budget = Budget::new(100);
        let shares: Vec<_> =
            (0..5_u8).map(|user| budget.share(Bytes::copy_from_slice(&[user]))).collect();
        let mut first = held(&shares[0]);
        assert_eq!((first.add(20), first.add(5)), (Ok(()), Ok(())));
        let same = budget.share(Bytes::from_static(&[0]));
        let mut second = held(&same);
        assert_eq!(second.add(1), Err(Exceeded));
        drop(second);
        first.remove(5);
        assert_eq!(held(&same).add(5), Ok(()));
        let mut others: Vec<_> = shares[1..4].iter().map(held).collect();
        assert!(others.iter_mut().all(|other| other.add(25) == Ok(())));
        assert_eq!(held(&shares[4]).add(6), Err(Exceeded));
        assert_eq!(held(&shares[4]).add(5), Ok(()));
        drop((first, others));
        assert_eq!(budget.held.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn users_without_requests_are_forgotten() {
        let budget = Budget::new(100);
        let kept = budget.share(Bytes::from_static(b"kept"));
        for user in 0..2 * MAX_IDLE_USERS {
            budget.share(Bytes::from(user.to_string()));
        }
        let users = locked(&budget.users);
        assert!(users.len() <= MAX_IDLE_USERS && Arc::strong_count(&kept.own) == 2);
    }
}
