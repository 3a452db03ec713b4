//! An open request whose bytes are moved here, as Python sees it: counts, and how it ends.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use std::future::{Future, poll_fn};
use std::task::Poll;

use bytes::Bytes;
use tokio::sync::Notify;

use crate::runtime::locked;

/// Part of all stalled requests that one user may have, as a divisor.
const USERS: usize = 4;
const MAX_IDLE_USERS: usize = 1024;

#[derive(Default)]
pub struct Flow {
    pub bytes_in: AtomicU64,
    pub bytes_out: AtomicU64,
    /// Response of Python that ends it, if none has begun.
    ending: Mutex<Option<Bytes>>,
    between_events: AtomicBool,
    news: Notify,
    share: Option<Share>,
}

impl Flow {
    /// A request that reserved no memory: its share bounds what it may occupy.
    pub fn of(share: Share) -> Self {
        Self { share: Some(share), ..Self::default() }
    }

    /// Ends the request, with this response if none has begun.
    pub fn end(&self, response: Bytes) {
        *locked(&self.ending) = Some(response);
        self.news.notify_one();
    }

    /// Ends the request once it is between two events.
    pub fn end_between_events(&self) {
        self.between_events.store(true, Ordering::Release);
        self.news.notify_one();
    }

    pub fn take_ending(&self) -> Bytes {
        locked(&self.ending).take().unwrap_or_default()
    }

    pub fn is_ended(&self) -> bool {
        locked(&self.ending).is_some()
    }

    pub fn ends_between_events(&self) -> bool {
        self.between_events.load(Ordering::Acquire)
    }

    /// Returns when Python has ended the request.
    pub async fn ended(&self) {
        while !self.is_ended() {
            self.news.notified().await;
        }
    }

    /// Returns when Python has ended the request, or wants that now. `known`: it already did.
    pub async fn changed(&self, known: bool) {
        while !self.is_ended() && self.ends_between_events() == known {
            self.news.notified().await;
        }
    }

    /// Runs a write; None: its reader is slow, and so are too many others.
    pub async fn write<F: Future>(&self, writing: F) -> Option<F::Output> {
        let mut writing = pin!(writing);
        let begun = poll_fn(|context| Poll::Ready(writing.as_mut().poll(context))).await;
        let share = match (begun, &self.share) {
            (Poll::Ready(output), _) => return Some(output),
            (Poll::Pending, None) => return Some(writing.await),
            (Poll::Pending, Some(share)) => share,
        };
        let _stalled = Stalled::of(share)?;
        Some(writing.await)
    }
}

/// Requests whose readers are slow, each of which may occupy a window.
pub struct Stalls {
    most: usize,
    all: AtomicUsize,
    users: Mutex<HashMap<Bytes, Arc<AtomicUsize>>>,
}

impl Stalls {
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, all: AtomicUsize::new(0), users: Mutex::default() })
    }

    /// Returns the share of a user.
    pub fn share(self: &Arc<Self>, user: Bytes) -> Share {
        let mut users = locked(&self.users);
        if users.len() >= MAX_IDLE_USERS {
            users.retain(|_, own| Arc::strong_count(own) > 1);
        }
        let own = users.entry(user).or_default().clone();
        Share { stalls: self.clone(), own }
    }
}

pub struct Share {
    stalls: Arc<Stalls>,
    own: Arc<AtomicUsize>,
}

/// A slow reader, while this exists.
struct Stalled<'a>(&'a Share);

impl<'a> Stalled<'a> {
    fn of(share: &'a Share) -> Option<Self> {
        let all = share.stalls.all.fetch_add(1, Ordering::Relaxed);
        let own = share.own.fetch_add(1, Ordering::Relaxed);
        let stalled = Self(share);
        let most = share.stalls.most;
        (all < most && own < (most / USERS).max(1)).then_some(stalled)
    }
}

impl Drop for Stalled<'_> {
    fn drop(&mut self) {
        self.0.stalls.all.fetch_sub(1, Ordering::Relaxed);
        self.0.own.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::{pending, ready};

    async fn is_pending(writing: &mut (impl Future<Output = Option<()>> + Unpin)) -> bool {
        poll_fn(|context| Poll::Ready(pin!(&mut *writing).poll(context).is_pending())).await
    }

    #[tokio::test]
    async fn slow_readers_share_the_memory_and_quick_ones_need_none() {
        let stalls = Stalls::new(8);
        let flow = |user: &'static [u8]| Flow::of(stalls.share(Bytes::from_static(user)));
        let (ann, bob): (Vec<_>, Vec<_>) = (0..3).map(|_| (flow(b"ann"), flow(b"bob"))).unzip();
        let mut first = Box::pin(ann[0].write(pending::<()>()));
        let mut second = Box::pin(ann[1].write(pending::<()>()));
        assert!(is_pending(&mut first).await && is_pending(&mut second).await);
        assert_eq!(ann[2].write(ready(())).await, Some(()));
        assert_eq!(ann[2].write(pending::<()>()).await, None);
        let mut other = Box::pin(bob[0].write(pending::<()>()));
        assert!(is_pending(&mut other).await);
        drop(first);
        let mut third = Box::pin(ann[2].write(pending::<()>()));
        assert!(is_pending(&mut third).await);
        drop((second, other, third));
        assert_eq!(stalls.all.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn all_users_together_have_a_limit() {
        let stalls = Stalls::new(3);
        let users = [b"a", b"b", b"c", b"d"].map(|user| Bytes::copy_from_slice(user));
        let flows = users.map(|user| Flow::of(stalls.share(user)));
        let mut open = Vec::new();
        for flow in &flows[..3] {
            let mut writing = Box::pin(flow.write(pending::<()>()));
            assert!(is_pending(&mut writing).await);
            open.push(writing);
        }
        assert_eq!(flows[3].write(pending::<()>()).await, None);
    }

    #[tokio::test]
    async fn an_end_is_seen_whenever_it_came() {
        let flow = Flow::default();
        flow.end_between_events();
        flow.changed(false).await;
        assert!(flow.ends_between_events() && !flow.is_ended());
        flow.end(Bytes::from_static(b"over"));
        flow.changed(true).await;
        flow.ended().await;
        assert_eq!(flow.take_ending(), "over");
    }
}
