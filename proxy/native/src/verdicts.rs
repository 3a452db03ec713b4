//! Requests that Python has authorized recently, by the exact bytes of their heads.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::budget::Share;
use crate::link::HubLink;
use crate::runtime::locked;

const MAX_VERDICTS: usize = 20_000;
const MAX_VERDICT_BYTES: usize = 64 << 20;
/// Time for which a head that an agent has declined is left to Python.
const DECLINED_FOR: Duration = Duration::from_secs(5);

/// Open requests of one user on one cluster.
pub type Load = Arc<AtomicUsize>;

/// A request that Python has authorized, and that is repeated. `before` and `after` surround the audit
/// ID in the head to send.
pub struct AuthorizedRequest {
    pub link: Arc<HubLink>,
    pub identity: Bytes,
    pub before: Bytes,
    pub after: Bytes,
    pub head_request: bool,
    /// Response if the API server does not answer in time.
    pub late: Bytes,
    /// Memory of the user in which responses wait.
    pub share: Share,
    /// Requests that the user may have open here on this path.
    pub max_open: usize,
}

/// The authorization of one head, for some time.
pub struct Verdict {
    pub id: u64,
    pub authorized: AuthorizedRequest,
    pub load: Load,
    until: Instant,
    generation: u64,
}

#[derive(Default)]
struct Entries {
    verdicts: HashMap<Bytes, Arc<Verdict>>,
    declined: HashMap<Bytes, Instant>,
    bytes: usize,
}

#[derive(Default)]
pub struct Verdicts {
    entries: Mutex<Entries>,
    loads: Mutex<HashMap<String, Load>>,
    generation: AtomicU64,
    last_id: AtomicU64,
}

impl Verdicts {
    /// Stores a verdict and returns its id; 0: this head is left to Python.
    pub fn teach(
        &self,
        head: Bytes,
        authorized: AuthorizedRequest,
        user: String,
        lifetime: Duration,
    ) -> u64 {
        let now = Instant::now();
        let load = self.load_of(user);
        let mut entries = locked(&self.entries);
        if entries.declined.get(&head).is_some_and(|until| now < *until) {
            return 0;
        }
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let size = size_of_entry(&head, &authorized);
        if entries.verdicts.len() >= MAX_VERDICTS || entries.bytes + size > MAX_VERDICT_BYTES {
            entries.verdicts.clear();
            entries.bytes = 0;
        }
        entries.bytes += size;
        let (until, generation) = (now + lifetime, self.generation.load(Ordering::Acquire));
        let verdict = Verdict { id, authorized, load, until, generation };
        entries.verdicts.insert(head, Arc::new(verdict));
        id
    }

    pub fn find(&self, head: &[u8]) -> Option<Arc<Verdict>> {
        let verdict = locked(&self.entries).verdicts.get(head).cloned()?;
        self.is_valid(&verdict).then_some(verdict)
    }

    /// Reports whether a verdict is still valid.
    pub fn is_valid(&self, verdict: &Verdict) -> bool {
        let current = self.generation.load(Ordering::Acquire) == verdict.generation;
        current && Instant::now() < verdict.until
    }

    /// Leaves a head to Python for a while.
    pub fn decline(&self, head: Bytes) {
        let mut entries = locked(&self.entries);
        entries.verdicts.remove(&head);
        if entries.declined.len() >= MAX_VERDICTS {
            entries.declined.clear();
        }
        entries.declined.insert(head, Instant::now() + DECLINED_FOR);
    }

    /// Drops all verdicts: a permission has changed.
    pub fn forget(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
        let mut entries = locked(&self.entries);
        entries.verdicts.clear();
        entries.bytes = 0;
    }

    /// Drops expired entries.
    pub fn sweep(&self) {
        let now = Instant::now();
        let mut entries = locked(&self.entries);
        entries.verdicts.retain(|_, verdict| now < verdict.until);
        entries.declined.retain(|_, until| now < *until);
        entries.bytes = entries
            .verdicts
            .iter()
            .map(|(head, verdict)| size_of_entry(head, &verdict.authorized))
            .sum();
        locked(&self.loads).retain(|_, load| Arc::strong_count(load) > 1);
    }

    /// Returns the number of open requests of a user on a cluster.
    pub fn load(&self, user: &str) -> usize {
        locked(&self.loads).get(user).map_or(0, |load| load.load(Ordering::Relaxed))
    }

    fn load_of(&self, user: String) -> Load {
        locked(&self.loads).entry(user).or_default().clone()
    }
}

/// Returns the number of bytes that a verdict occupies beside its fixed part.
fn size_of_entry(head: &[u8], authorized: &AuthorizedRequest) -> usize {
    head.len() + authorized.before.len() + authorized.identity.len()
}
