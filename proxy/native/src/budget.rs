//! Received bytes that wait for slow readers, over many requests.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;

use crate::runtime::locked;

/// Part of all bytes that one user may hold, as a divisor.
const USER_DIVISOR: usize = 4;
const MAX_IDLE_USERS: usize = 1024;

/// Bytes that wait, and bytes by which windows are larger than at first.
#[derive(Default)]
struct Used {
    held: AtomicUsize,
    extra: AtomicUsize,
}

pub struct Budget {
    limit: usize,
    used: Used,
    users: Mutex<HashMap<Bytes, Arc<Used>>>,
}

impl Budget {
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, used: Used::default(), users: Mutex::default() })
    }

    /// Returns the share of a user.
    pub fn share(self: &Arc<Self>, user: Bytes) -> Share {
        let mut users = locked(&self.users);
        if users.len() >= MAX_IDLE_USERS {
            users.retain(|_, used| Arc::strong_count(used) > 1);
        }
        let used_by_user = users.entry(user).or_default().clone();
        Share { budget: self.clone(), used_by_user }
    }

    #[cfg(test)]
    pub fn held(&self) -> usize {
        self.used.held.load(Ordering::Relaxed)
    }

    /// Reports whether no byte waits, and no window is larger than at first.
    #[cfg(test)]
    pub fn is_unused(&self) -> bool {
        self.used.held.load(Ordering::Relaxed) + self.used.extra.load(Ordering::Relaxed) == 0
    }
}

#[derive(Clone)]
pub struct Share {
    budget: Arc<Budget>,
    used_by_user: Arc<Used>,
}

impl Share {
    /// Reports whether so much waits that windows must not grow, and no further read may begin.
    pub fn is_tight(&self) -> bool {
        let limit = self.budget.limit;
        let all = self.budget.used.held.load(Ordering::Relaxed);
        let user = self.used_by_user.held.load(Ordering::Relaxed);
        4 * all > 3 * limit || 2 * user > limit / USER_DIVISOR
    }
}

/// Too many bytes wait.
#[derive(Debug, PartialEq, Eq)]
pub struct Exceeded;

/// What one stream uses of a share while this exists.
pub struct Held {
    share: Share,
    size: usize,
    extra: usize,
}

impl Held {
    pub fn new(share: Share) -> Self {
        Self { share, size: 0, extra: 0 }
    }

    pub fn is_tight(&self) -> bool {
        self.share.is_tight()
    }

    pub fn add(&mut self, size: usize) -> Result<(), Exceeded> {
        let Share { budget, used_by_user } = &self.share;
        self.size += size;
        let all = budget.used.held.fetch_add(size, Ordering::Relaxed) + size;
        let user = used_by_user.held.fetch_add(size, Ordering::Relaxed) + size;
        let within_limits = all <= budget.limit && user <= budget.limit / USER_DIVISOR;
        if within_limits { Ok(()) } else { Err(Exceeded) }
    }

    pub fn remove(&mut self, size: usize) {
        let size = size.min(self.size);
        self.size -= size;
        self.share.budget.used.held.fetch_sub(size, Ordering::Relaxed);
        self.share.used_by_user.held.fetch_sub(size, Ordering::Relaxed);
    }

    /// Occupies memory for a larger window: all of them get at most half of a limit.
    pub fn extend(&mut self, extra: usize) -> bool {
        let Share { budget, used_by_user } = &self.share;
        let all = budget.used.extra.fetch_add(extra, Ordering::Relaxed) + extra;
        let user = used_by_user.extra.fetch_add(extra, Ordering::Relaxed) + extra;
        self.extra += extra;
        let within_limits = 2 * all <= budget.limit && 2 * user <= budget.limit / USER_DIVISOR;
        if !within_limits {
            self.reduce(self.extra - extra);
        }
        within_limits
    }

    /// Frees all but `extra` bytes of what the window occupies.
    pub fn reduce(&mut self, extra: usize) {
        let freed = self.extra.saturating_sub(extra);
        self.extra -= freed;
        self.share.budget.used.extra.fetch_sub(freed, Ordering::Relaxed);
        self.share.used_by_user.extra.fetch_sub(freed, Ordering::Relaxed);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.remove(self.size);
        self.reduce(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_holds_a_quarter_and_all_together_the_limit() {
        let budget = Budget::new(100);
        let shares: Vec<_> =
            (0..5_u8).map(|user| budget.share(Bytes::copy_from_slice(&[user]))).collect();
        let held = |share: &Share| Held::new(share.clone());
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
        assert!(budget.is_unused());
    }

    #[test]
    fn memory_is_tight_before_it_is_exceeded() {
        let budget = Budget::new(160);
        let share = |user| budget.share(Bytes::from_static(user));
        let (mut own, mut others) =
            (Held::new(share(b"a")), [b"b", b"c", b"d"].map(|user| Held::new(share(user))));
        assert_eq!((own.add(20), own.is_tight()), (Ok(()), false));
        assert_eq!((own.add(1), own.is_tight()), (Ok(()), true));
        own.remove(1);
        for other in &mut others {
            assert!(!own.is_tight());
            assert_eq!(other.add(40), Ok(()));
        }
        assert!(own.is_tight());
    }

    #[test]
    fn larger_windows_get_half_of_each_limit() {
        let budget = Budget::new(160);
        let share = |user| budget.share(Bytes::from_static(user));
        let mut own = Held::new(share(b"a"));
        assert!(own.extend(15) && own.extend(5) && !own.extend(1));
        own.reduce(10);
        assert!(own.extend(10) && !own.extend(1));
        assert!(!Held::new(share(b"a")).extend(1));
        let mut others = [b"b", b"c", b"d"].map(|user| Held::new(share(user)));
        assert!(others.iter_mut().all(|other| other.extend(20)));
        assert!(!Held::new(share(b"e")).extend(1));
        drop(others);
        assert!(Held::new(share(b"e")).extend(20));
        drop(own);
        assert!(budget.is_unused());
    }

    #[test]
    fn users_without_requests_are_forgotten() {
        let budget = Budget::new(100);
        let kept = budget.share(Bytes::from_static(b"kept"));
        for user in 0..2 * MAX_IDLE_USERS {
            budget.share(Bytes::from(user.to_string()));
        }
        let users = locked(&budget.users);
        assert!(users.len() <= MAX_IDLE_USERS && Arc::strong_count(&kept.used_by_user) == 2);
    }
}
