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
use crate::window::INITIAL_WINDOW;

/// Maximum windows of a stream: of the control plane for responses, of an agent for uploads.
pub const MAX_WINDOW_DOWN: u32 = 8 << 20;
pub const MAX_WINDOW_UP: u32 = 4 << 20;
/// Window of a whole connection: those of the streams bound it, so that one slow reader does not stop
/// the others.
pub const CONNECTION_WINDOW: u32 = (1 << 31) - 1;
/// A frame costs memory beyond its content: h2 counts 256 bytes less the content of each small one
/// that nobody has read. By default it derives the limit from the window, which has none here.
pub const MAX_UNREAD_OVERHEAD: usize = 16 << 20;
/// As on the control link: a ping every 10 s, and dead after 25 s.
const PING_INTERVAL: Duration = Duration::from_secs(10);
const PONG_TIMEOUT: Duration = Duration::from_secs(15);
/// Size of a grant: id of the stream, and the number of bytes that may be sent on it.
const RECORD_SIZE: usize = 4 + 8;

/// Number of bytes that may be sent on a stream, counted from its begin.
pub struct SendLimit {
    total: AtomicU64,
    raised: Notify,
}

impl SendLimit {
    pub fn total(&self) -> u64 {
        self.total.load(Ordering::Acquire)
    }

    /// Waits until the limit may have been raised.
    pub async fn raised(&self) {
        self.raised.notified().await;
    }

    fn raise(&self, total: u64) {
        self.total.fetch_max(total, Ordering::AcqRel);
        self.raised.notify_one();
    }
}

/// The windows of one link, at one of its ends.
#[derive(Default)]
pub struct Windows {
    /// Streams with a grant that was not sent to the other end yet.
    pending_grants: Mutex<HashMap<u32, u64>>,
    grant_added: Notify,
    limits: Mutex<HashMap<u32, Arc<SendLimit>>>,
    /// In microseconds; 0: unknown.
    round_trip: AtomicU64,
    /// See `Window::needed_size`, of the last stream with grants.
    last_needed_size: AtomicU64,
    overrun: Notify,
}

impl Windows {
    // Receiving

    pub fn add_grant(&self, stream: u32, total: u64) {
        locked(&self.pending_grants).insert(stream, total);
        self.grant_added.notify_one();
    }

    /// Handles the end of a stream with grants. `needed_size`: see `Window::needed_size`.
    pub fn on_stream_end(&self, stream: u32, needed_size: u64) {
        locked(&self.pending_grants).remove(&stream);
        if needed_size > 0 {
            self.last_needed_size.store(needed_size, Ordering::Relaxed);
        }
    }

    pub fn last_needed_size(&self) -> u64 {
        self.last_needed_size.load(Ordering::Relaxed)
    }

    /// Handles the other end having sent more than it may.
    pub fn on_overrun(&self) {
        self.overrun.notify_one();
    }

    /// Returns when the other end has sent more than it may.
    pub async fn overrun(&self) {
        self.overrun.notified().await;
    }

    // Sending

    /// Limits a stream, before its receiver can have granted more than the initial window.
    pub fn add_limit(&self, stream: u32) -> Arc<SendLimit> {
        let limit =
            Arc::new(SendLimit { total: AtomicU64::new(INITIAL_WINDOW), raised: Notify::new() });
        locked(&self.limits).insert(stream, limit.clone());
        limit
    }

    pub fn remove_limit(&self, stream: u32) {
        locked(&self.limits).remove(&stream);
    }

    // Both

    /// Exchanges grants until the other end stops.
    pub async fn exchange_grants(&self, from: RecvStream, to: &mut SendStream<Bytes>) {
        tokio::select! {
            () = self.receive_grants(from) => {}
            () = self.send_grants(to) => {}
        }
    }

    /// Sends grants until the other end resets the stream.
    pub async fn send_grants(&self, to: &mut SendStream<Bytes>) {
        loop {
            let records = self.take_grant_records();
            if records.is_empty() {
                self.grant_added.notified().await;
            } else if send_data(to, records, false).await.is_err() {
                return;
            }
        }
    }

    pub async fn receive_grants(&self, mut from: RecvStream) {
        let mut received = BytesMut::new();
        while let Some(Ok(data)) = from.data().await {
            let _ = from.flow_control().release_capacity(data.len());
            received.extend_from_slice(&data);
            self.apply_grant_records(&mut received);
        }
    }

    fn take_grant_records(&self) -> Bytes {
        let mut grants = locked(&self.pending_grants);
        let mut records = BytesMut::with_capacity(RECORD_SIZE * grants.len());
        for (stream, total) in grants.drain() {
            records.put_u32(stream);
            records.put_u64(total);
        }
        records.freeze()
    }

    /// Takes complete records, and raises the limits of their streams.
    fn apply_grant_records(&self, received: &mut BytesMut) {
        let limits = locked(&self.limits);
        while received.len() >= RECORD_SIZE {
            let (stream, total) = (received.get_u32(), received.get_u64());
            if let Some(limit) = limits.get(&stream) {
                limit.raise(total);
            }
        }
    }

    // Round trips

    pub fn round_trip(&self) -> Duration {
        Duration::from_micros(self.round_trip.load(Ordering::Relaxed))
    }

    /// Measures round trips. Regular pings also keep load balancers from ending connections without
    /// data. Returns when the other end has not answered one in time.
    pub async fn keep_alive(&self, pings: Option<PingPong>) {
        self.ping(pings, PING_INTERVAL, PONG_TIMEOUT).await;
    }

    async fn ping(&self, pings: Option<PingPong>, interval: Duration, patience: Duration) {
        let Some(mut pings) = pings else { return std::future::pending().await };
        loop {
            let sent = Instant::now();
            if !matches!(timeout(patience, pings.ping(Ping::opaque())).await, Ok(Ok(_))) {
                return;
            }
            self.record_round_trip(sent.elapsed());
            sleep(interval).await;
        }
    }

    /// Follows shorter round trips at once, and longer ones slowly: data on the line delays pings.
    fn record_round_trip(&self, measured: Duration) {
        let measured = (measured.as_micros() as u64).max(1);
        let average = self.round_trip.load(Ordering::Relaxed);
        let is_shorter = average == 0 || measured < average;
        let next = if is_shorter { measured } else { average + (measured - average) / 8 };
        self.round_trip.store(next, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn records(windows: &Windows, grants: &[(u32, u64)]) -> Bytes {
        grants.iter().for_each(|(stream, total)| windows.add_grant(*stream, *total));
        windows.take_grant_records()
    }

    #[test]
    fn grants_reach_their_streams_however_they_are_cut() {
        let (near, far) = (Windows::default(), Windows::default());
        let sent =
            records(&near, &[(1, INITIAL_WINDOW + 5), (3, INITIAL_WINDOW + 7), (9, u64::MAX)]);
        assert_eq!((sent.len(), near.take_grant_records().len()), (3 * RECORD_SIZE, 0));
        for cut in 0..=sent.len() {
            let limits = [1, 3, 5].map(|stream| far.add_limit(stream));
            let mut received = BytesMut::from(&sent[..cut]);
            far.apply_grant_records(&mut received);
            assert!(received.len() < RECORD_SIZE);
            received.extend_from_slice(&sent[cut..]);
            far.apply_grant_records(&mut received);
            assert!(received.is_empty());
            assert_eq!(
                limits.map(|limit| limit.total()),
                [INITIAL_WINDOW + 5, INITIAL_WINDOW + 7, INITIAL_WINDOW]
            );
        }
    }

    #[test]
    fn any_bytes_lower_no_limit_and_leave_less_than_a_record() {
        let windows = Windows::default();
        let limit = windows.add_limit(0);
        let (mut random, mut received) = (Random::new(11), BytesMut::new());
        for _ in 0..10_000 {
            let before = limit.total();
            let mut bytes = random.bytes::<16>();
            bytes[..4].fill(0);
            received.extend_from_slice(&bytes[..random.below(17)]);
            windows.apply_grant_records(&mut received);
            assert!(received.len() < RECORD_SIZE && limit.total() >= before);
        }
        windows.remove_limit(0);
        assert!(locked(&windows.limits).is_empty());
    }

    #[test]
    fn grants_of_streams_wait_once_and_end_with_them() {
        let windows = Windows::default();
        for total in 1..100 {
            windows.add_grant(1, total);
            windows.add_grant(3, total);
        }
        windows.on_stream_end(3, INITIAL_WINDOW);
        let mut sent = windows.take_grant_records();
        assert_eq!((sent.get_u32(), sent.get_u64(), sent.len()), (1, 99, 0));
    }

    #[test]
    fn the_shortest_round_trip_counts() {
        let windows = Windows::default();
        assert_eq!(windows.round_trip(), Duration::ZERO);
        for (measured, expected) in [(80, 80), (20, 20), (100, 30), (30, 30)] {
            windows.record_round_trip(Duration::from_micros(measured));
            assert_eq!(windows.round_trip(), Duration::from_micros(expected));
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
            let wait = if answers { PONG_TIMEOUT } else { moment };
            let alive = timeout(100 * moment, windows.ping(pings, moment, wait)).await.is_err();
            assert_eq!((alive, !windows.round_trip().is_zero()), (answers, answers));
            agent.abort();
            carried.abort();
        }
    }
}
