//! Receive window of one stream. It grows while its reader keeps up with a long line.

use std::time::{Duration, Instant};

/// Bytes that each stream may send at first.
pub const FIRST: u64 = 512 << 10;
/// Grants for each window: the sender lacks at most one of these parts.
const PARTS: u64 = 4;
/// A sender that has sent no more than this can have no grant yet.
pub const UNANSWERED: u64 = FIRST / PARTS / 2;
/// Bytes in a millisecond on the fastest line that a window is made for: 1 GB in a second.
const FASTEST: u64 = 1_000_000;

/// The sender has sent more than it was granted.
#[derive(Debug, PartialEq, Eq)]
pub struct Overrun;

/// What changes a window. `round_trip`: zero if it is unknown. `usual`: `need` of the last stream of
/// this line. `is_tight`: much memory is occupied.
pub struct Conditions {
    pub now: Instant,
    pub round_trip: Duration,
    pub usual: u64,
    pub is_tight: bool,
}

/// Bytes are counted from the begin of the stream.
pub struct Window {
    size: u64,
    largest: u64,
    need: u64,
    received: u64,
    written: u64,
    granted: u64,
    /// Bytes that were written at the last grant, and the times of the last ones.
    at_grant: u64,
    grants: [Instant; PARTS as usize],
}

impl Window {
    pub fn new(largest: u64, now: Instant) -> Self {
        Self {
            size: FIRST,
            largest,
            need: 0,
            received: 0,
            written: 0,
            granted: FIRST,
            at_grant: 0,
            grants: [now; PARTS as usize],
        }
    }

    /// Size that this stream needs on this line; 0: unknown, as all of it was on the line at once.
    pub fn need(&self) -> u64 {
        self.need
    }

    /// Bytes by which it exceeds the first size.
    pub fn extra(&self) -> u64 {
        self.size - FIRST
    }

    pub fn receive(&mut self, size: usize) -> Result<(), Overrun> {
        self.received += size as u64;
        if self.received > self.granted { Err(Overrun) } else { Ok(()) }
    }

    /// Counts written bytes; reports whether a grant is due.
    pub fn write(&mut self, size: usize) -> bool {
        self.written += size as u64;
        (self.written - self.at_grant) * PARTS >= self.size
    }

    /// Returns the number of bytes that the sender may have sent from now on; None: as before.
    /// `extend` occupies memory for a larger window, if there is some.
    pub fn grant(
        &mut self,
        conditions: &Conditions,
        mut extend: impl FnMut(u64) -> bool,
    ) -> Option<u64> {
        // The time in which about as many bytes were written as the window has.
        let span = conditions.now - self.grants[0];
        self.grants.rotate_left(1);
        self.grants[PARTS as usize - 1] = conditions.now;
        self.at_grant = self.written;
        // With a sender that waits for grants, it is up to 4/3 of a round trip.
        let enough = conditions.round_trip * 7 / 4;
        let part = enough.as_secs_f64() / span.as_secs_f64().max(1e-6);
        if self.written > FIRST {
            self.need = ((self.size as f64 * part) as u64).min(self.largest);
        }
        let on_the_line = conditions.round_trip.as_micros() as u64 * FASTEST / 1000;
        let largest = on_the_line.clamp(FIRST, self.largest);
        if conditions.is_tight || span > 6 * conditions.round_trip {
            self.size = (self.size / 2).max(FIRST);
        } else if self.size < largest && span <= enough {
            let doubled = (2 * self.size).min(largest);
            let usual = conditions.usual.clamp(doubled, largest);
            let larger = [usual, doubled].into_iter().find(|size| extend(size - self.size));
            self.size = larger.unwrap_or(self.size);
        }
        let granted = self.written + self.size;
        // A smaller window takes back no grant, but gives no other until that is used up.
        (granted > self.granted).then(|| {
            self.granted = granted;
            granted
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use std::collections::VecDeque;

    const LARGEST: u64 = 8 << 20;
    const TICK: Duration = Duration::from_micros(500);

    /// A line, its reader, and how much of its buffers a reader fills at once.
    struct Line {
        round_trip: Duration,
        rate: u64,
        reader: u64,
        burst: u64,
    }

    #[derive(Default)]
    struct Seen {
        /// Bytes written in the last half of the time, in seconds of it.
        rate: f64,
        most_waiting: u64,
        largest: u64,
        extra: u64,
        total: u64,
    }

    /// Simulates a sender with enough data, whose bytes and grants travel for half a round trip.
    fn simulate(line: &Line, seconds: u64, (usual, is_tight): (u64, bool)) -> Seen {
        let start = Instant::now();
        let mut window = Window::new(LARGEST, start);
        let (mut there, mut back) = (VecDeque::new(), VecDeque::from([(start, FIRST)]));
        let (mut allowed, mut sent, mut waiting, mut half) = (0, 0, 0, 0);
        let (mut burst, mut seen) = (line.burst, Seen::default());
        let ticks = seconds * 1_000_000 / TICK.as_micros() as u64;
        for tick in 0..ticks {
            let now = start + TICK * tick as u32;
            let per_tick = |rate: u64| rate * TICK.as_micros() as u64 / 1_000_000;
            while back.front().is_some_and(|(at, _)| *at <= now) {
                allowed = back.pop_front().unwrap().1;
            }
            let size = per_tick(line.rate).min(allowed - sent);
            sent += size;
            there.push_back((now + line.round_trip / 2, size));
            while there.front().is_some_and(|(at, _)| *at <= now) {
                let size = there.pop_front().unwrap().1;
                window.receive(size as usize).unwrap();
                waiting += size;
            }
            seen.most_waiting = seen.most_waiting.max(waiting);
            let size = waiting.min(per_tick(line.reader) + burst);
            burst = burst.saturating_sub(size);
            waiting -= size;
            let conditions = Conditions { now, round_trip: line.round_trip, usual, is_tight };
            let before = window.extra();
            if window.write(size as usize)
                && let Some(granted) = window.grant(&conditions, |extra| {
                    seen.extra += extra;
                    true
                })
            {
                back.push_back((now + line.round_trip / 2, granted));
            }
            seen.extra -= before.saturating_sub(window.extra());
            seen.largest = seen.largest.max(window.size);
            if tick == ticks / 2 {
                half = window.written;
            }
        }
        assert_eq!(seen.extra, window.extra());
        seen.total = window.written;
        seen.rate = (window.written - half) as f64 * 2.0 / seconds as f64;
        seen
    }

    fn milliseconds(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    #[test]
    fn a_reader_that_keeps_up_fills_a_long_line() {
        for (round_trip, rate) in [(20, 50), (50, 12), (100, 12), (100, 50), (300, 20)] {
            let line = Line {
                round_trip: milliseconds(round_trip),
                rate: rate * 1_000_000,
                reader: 1 << 30,
                burst: 0,
            };
            let seen = simulate(&line, 10, (0, false));
            let most = (line.rate as f64).min(LARGEST as f64 / line.round_trip.as_secs_f64());
            assert!(seen.rate > 0.9 * most, "{round_trip} ms: {} of {most}", seen.rate);
            let on_the_line = line.rate as f64 * line.round_trip.as_secs_f64();
            assert!(seen.largest <= LARGEST);
            assert!(seen.largest as f64 <= (4.0 * on_the_line).max(FIRST as f64));
        }
    }

    #[test]
    fn a_slow_reader_holds_no_more_than_the_first_window() {
        for round_trip in [0, 1, 20, 100] {
            for reader in [0, 10_000, 100_000, 1_000_000] {
                let line = Line {
                    round_trip: milliseconds(round_trip),
                    rate: 100_000_000,
                    reader,
                    burst: 0,
                };
                assert!(simulate(&line, 5, (LARGEST, false)).most_waiting <= FIRST);
            }
        }
    }

    #[test]
    fn a_reader_that_becomes_slow_gets_a_small_window_again() {
        let line = Line {
            round_trip: milliseconds(100),
            rate: 100_000_000,
            reader: 500_000,
            burst: 8 << 20,
        };
        let seen = simulate(&line, 30, (0, false));
        assert!(seen.largest > FIRST && seen.extra == 0);
    }

    #[test]
    fn a_line_without_delay_and_occupied_memory_keep_the_window_small() {
        let mut line = Line { round_trip: TICK, rate: 1 << 30, reader: 1 << 30, burst: 0 };
        assert_eq!(simulate(&line, 2, (LARGEST, false)).largest, FIRST);
        line.round_trip = milliseconds(2);
        assert_eq!(simulate(&line, 2, (LARGEST, false)).largest, 2 * FASTEST);
        line.round_trip = milliseconds(100);
        assert_eq!(simulate(&line, 2, (LARGEST, true)).largest, FIRST);
    }

    #[test]
    fn a_stream_begins_with_what_the_last_one_needed() {
        let line =
            Line { round_trip: milliseconds(100), rate: 50_000_000, reader: 1 << 30, burst: 0 };
        let [alone, after] = [0, LARGEST].map(|usual| simulate(&line, 1, (usual, false)));
        assert!(after.total > alone.total + LARGEST / 2);
    }

    #[test]
    fn no_order_of_events_grants_more_than_the_window_beyond_what_was_written() {
        let mut random = Random::new(12);
        for _ in 0..2_000 {
            let mut now = Instant::now();
            let mut window = Window::new(LARGEST, now);
            let (mut granted, mut waiting, mut extra) = (FIRST, 0_u64, 0_u64);
            for step in random.bytes::<96>().as_chunks::<3>().0 {
                let arrived = (granted - window.received).min(u64::from(step[0]) << 13);
                window.receive(arrived as usize).unwrap();
                waiting += arrived;
                let written = waiting.min(u64::from(step[1]) << 13);
                waiting -= written;
                now += Duration::from_millis(u64::from(step[2] >> 3));
                let conditions = Conditions {
                    now,
                    round_trip: milliseconds(u64::from(step[2] & 31)),
                    usual: u64::from(step[0]) << 16,
                    is_tight: step[1] & 7 == 0,
                };
                let before = window.extra();
                if window.write(written as usize)
                    && let Some(total) = window.grant(&conditions, |more| {
                        let fits = step[0] & 3 > 0 && (more & 1 << 20) == 0;
                        extra += if fits { more } else { 0 };
                        fits
                    })
                {
                    assert!(total > granted && total == window.written + window.size);
                    granted = total;
                }
                extra -= before.saturating_sub(window.extra());
                assert!(window.size >= FIRST && window.size <= LARGEST);
                assert_eq!((window.extra(), window.granted), (extra, granted));
                assert!(granted - window.written <= LARGEST);
                // The sender can always go on once everything is written.
                assert!(waiting > 0 || granted > window.received);
            }
            assert_eq!(window.receive((granted - window.received + 1) as usize), Err(Overrun));
        }
    }
}
