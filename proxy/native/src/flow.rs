//! An open request whose bytes are moved here, as Python sees it: its counts and its end.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use tokio::sync::Notify;

use crate::runtime::locked;

#[derive(Default)]
pub struct Flow {
    pub bytes_in: AtomicU64,
    pub bytes_out: AtomicU64,
    /// Response of Python that ends it, if none has begun.
    ending: Mutex<Option<Bytes>>,
    between_events: AtomicBool,
    news: Notify,
}

impl Flow {
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

    /// Waits until Python has ended the request.
    pub async fn ended(&self) {
        while !self.is_ended() {
            self.news.notified().await;
        }
    }

    /// Waits until Python has ended the request, or until `ends_between_events` differs from `known`.
    pub async fn changed(&self, known: bool) {
        while !self.is_ended() && self.ends_between_events() == known {
            self.news.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
