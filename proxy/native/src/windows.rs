//! Flow control of the streams of a data link, below that of HTTP/2.
//!
//! HTTP/2 could give one stream a larger window than others, but the library h2 cannot. So its
//! windows have the largest size, and the receiver of each stream tells its sender here how many
//! bytes it may send. These grants are records on a stream of their own.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use h2::{Ping, PingPong, RecvStream, SendStream};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use crate::outgoing::send_data;
use crate::runtime::locked;
use crate::window::FIRST;

/// Largest windows of the control plane for responses, and of an agent for uploads.
pub const LARGEST_DOWN: u32 = 8 << 20;
pub const LARGEST_UP: u32 = 4 << 20;
/// As on the control link: a ping after 10 s, and dead after 25 s.
const PING: Duration = Duration::from_secs(10);
const PONG: Duration = Duration::from_secs(15);
/// A stream, and the number of bytes that may be sent on it.
const RECORD: usize = 4 + 8;

/// Bytes that may be sent on a stream since its begin.
pub struct Limit {
    total: AtomicU64,
    more: Notify,
}

impl Limit {
    pub fn total(&self) -> u64 {
        self.total.load(Ordering::Acquire)
    }

    /// Returns when it may have been raised.
    pub async fn changed(&self) {
        self.more.notified().await;
    }

    fn raise(&self, total: u64) {
        self.total.fetch_max(total, Ordering::AcqRel);
        self.more.notify_one();
    }
}

/// The windows of one link, at one of its ends.
#[derive(Default)]
pub struct Windows {
    /// Streams of which the other end shall know that it may send more.
    grants: Mutex<HashMap<u32, u64>>,
    has_grants: Notify,
    limits: Mutex<HashMap<u32, Arc<Limit>>>,
    /// In microseconds; 0: unknown.
    round_trip: AtomicU64,
    /// Size of a window that the last stream with grants needed.
    usual: AtomicU64,
    overrun: Notify,
}

impl Windows {
    // Receiving

    pub fn grant(&self, stream: u32, total: u64) {
        locked(&self.grants).insert(stream, total);
        self.has_grants.notify_one();
    }

    /// Handles the end of a stream with grants. `need`: see `Window::need`.
    pub fn forget(&self, stream: u32, need: u64) {
        locked(&self.grants).remove(&stream);
        if need > 0 {
            self.usual.store(need, Ordering::Relaxed);
        }
    }

    pub fn usual(&self) -> u64 {
        self.usual.load(Ordering::Relaxed)
    }

    /// The other end has sent more than it may.
    pub fn on_overrun(&self) {
        self.overrun.notify_one();
    }

    /// Returns when the other end has sent more than it may.
    pub async fn overrun(&self) {
        self.overrun.notified().await;
    }

    // Sending

    /// Begins to limit a stream, before its receiver can have granted more than at first.
    pub fn limit(&self, stream: u32) -> Arc<Limit> {
        let limit = Arc::new(Limit { total: AtomicU64::new(FIRST), more: Notify::new() });
        locked(&self.limits).insert(stream, limit.clone());
        limit
    }

    pub fn unlimit(&self, stream: u32) {
        locked(&self.limits).remove(&stream);
    }

    // Both

    /// Exchanges grants; returns when the other end has ended that.
    pub async fn exchange(&self, from: RecvStream, to: &mut SendStream<Bytes>) {
        tokio::select! {
            () = self.receive(from) => {}
            () = self.send(to) => {}
        }
    }

    /// Sends grants until the other end has ended that.
    pub async fn send(&self, to: &mut SendStream<Bytes>) {
        loop {
            let records = self.take_records();
            if records.is_empty() {
                self.has_grants.notified().await;
            } else if send_data(to, records, false).await.is_err() {
                return;
            }
        }
    }

    pub async fn receive(&self, mut from: RecvStream) {
        let mut received = BytesMut::new();
        while let Some(Ok(data)) = from.data().await {
            let _ = from.flow_control().release_capacity(data.len());
            received.extend_from_slice(&data);
            self.read_records(&mut received);
        }
    }

    fn take_records(&self) -> Bytes {
        let mut grants = locked(&self.grants);
        let mut records = BytesMut::with_capacity(RECORD * grants.len());
        for (stream, total) in grants.drain() {
            records.put_u32(stream);
            records.put_u64(total);
        }
        records.freeze()
    }

    /// Takes whole records.
    fn read_records(&self, received: &mut BytesMut) {
        let limits = locked(&self.limits);
        while received.len() >= RECORD {
            let (stream, total) = (received.get_u32(), received.get_u64());
            if let Some(limit) = limits.get(&stream) {
                limit.raise(total);
            }
        }
    }

    // The line

    pub fn round_trip(&self) -> Duration {
        Duration::from_micros(self.round_trip.load(Ordering::Relaxed))
    }

    /// Measures round trips. Regular pings also keep load balancers from ending connections without
    /// data. Returns when the other end has not answered one in time.
    pub async fn keep_alive(&self, pings: Option<PingPong>) {
        self.ping(pings, PING, PONG).await;
    }

    async fn ping(&self, pings: Option<PingPong>, pause: Duration, wait: Duration) {
        let Some(mut pings) = pings else { return std::future::pending().await };
        loop {
            let sent = Instant::now();
            if !matches!(timeout(wait, pings.ping(Ping::opaque())).await, Ok(Ok(_))) {
                return;
            }
            self.on_round_trip(sent.elapsed());
            sleep(pause).await;
        }
    }

    /// Follows shorter round trips at once, and longer ones slowly: data on the line delays pings.
    fn on_round_trip(&self, seen: Duration) {
        let seen = (seen.as_micros() as u64).max(1);
        let known = self.round_trip.load(Ordering::Relaxed);
        let is_shorter = known == 0 || seen < known;
        let next = if is_shorter { seen } else { known + (seen - known) / 8 };
        self.round_trip.store(next, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn records(windows: &Windows, grants: &[(u32, u64)]) -> Bytes {
        grants.iter().for_each(|(stream, total)| windows.grant(*stream, *total));
        windows.take_records()
    }

    #[test]
    fn grants_reach_their_streams_however_they_are_cut() {
        let (near, far) = (Windows::default(), Windows::default());
        let sent = records(&near, &[(1, FIRST + 5), (3, FIRST + 7), (9, u64::MAX)]);
        assert_eq!((sent.len(), near.take_records().len()), (3 * RECORD, 0));
        for cut in 0..=sent.len() {
            let limits = [1, 3, 5].map(|stream| far.limit(stream));
            let mut received = BytesMut::from(&sent[..cut]);
            far.read_records(&mut received);
            assert!(received.len() < RECORD);
            received.extend_from_slice(&sent[cut..]);
            far.read_records(&mut received);
            assert!(received.is_empty());
            assert_eq!(limits.map(|limit| limit.total()), [FIRST + 5, FIRST + 7, FIRST]);
        }
    }

    #[test]
    fn any_bytes_lower_no_limit_and_leave_less_than_a_record() {
        let windows = Windows::default();
        let limit = windows.limit(0);
        let (mut random, mut received) = (Random::new(11), BytesMut::new());
        for _ in 0..10_000 {
            let before = limit.total();
            let mut bytes = random.bytes::<16>();
            bytes[..4].fill(0);
            received.extend_from_slice(&bytes[..random.below(17)]);
            windows.read_records(&mut received);
            assert!(received.len() < RECORD && limit.total() >= before);
        }
        windows.unlimit(0);
        assert!(locked(&windows.limits).is_empty());
    }

    #[test]
    fn grants_of_streams_wait_once_and_end_with_them() {
        let windows = Windows::default();
        for total in 1..100 {
            windows.grant(1, total);
            windows.grant(3, total);
        }
        windows.forget(3, FIRST);
        let mut sent = windows.take_records();
        assert_eq!((sent.get_u32(), sent.get_u64(), sent.len()), (1, 99, 0));
    }

    #[test]
    fn the_shortest_round_trip_counts() {
        let windows = Windows::default();
        assert_eq!(windows.round_trip(), Duration::ZERO);
        for (seen, known) in [(80, 80), (20, 20), (100, 30), (30, 30)] {
            windows.on_round_trip(Duration::from_micros(seen));
            assert_eq!(windows.round_trip(), Duration::from_micros(known));
        }
    }

    #[tokio::test]
    async fn a_link_lives_as_long_as_its_agent_answers_pings() {
        let moment = Duration::from_millis(1);
        for answers in [true, false] {
            let (ours, theirs) = tokio::io::duplex(1 << 16);
            let (_sender, mut connection) = h2::client::handshake(ours).await.unwrap();
            let pings = connection.ping_pong();
            let carried = tokio::spawn(connection);
            let agent = tokio::spawn(async move {
                let mut theirs = h2::server::handshake(theirs).await.unwrap();
                while answers && theirs.accept().await.is_some() {}
                std::future::pending::<()>().await;
            });
            let windows = Windows::default();
            let wait = if answers { PONG } else { moment };
            let alive = timeout(100 * moment, windows.ping(pings, moment, wait)).await.is_err();
            assert_eq!((alive, !windows.round_trip().is_zero()), (answers, answers));
            agent.abort();
            carried.abort();
        }
    }
}
