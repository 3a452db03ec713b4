//! Receive window of one stream. It grows while its reader keeps up with a long line.

use std::time::{Duration, Instant};

/// Bytes that each stream may send at first.
pub const INITIAL_WINDOW: u64 = 512 << 10;
/// Grants while a whole window is written: the sender lacks at most one of these parts.
const GRANTS_PER_WINDOW: u64 = 4;
/// Bytes that a sender may send without a look at grants: the first one comes later.
pub const MAX_BEFORE_GRANT: u64 = INITIAL_WINDOW / GRANTS_PER_WINDOW / 2;
/// Bytes per millisecond on the fastest line that a window is made for: 1 GB/s.
const MAX_BYTES_PER_MS: u64 = 1_000_000;

/// The sender has sent more than it was granted.
#[derive(Debug, PartialEq, Eq)]
pub struct Overrun;

/// Inputs for the size of a window. `round_trip`: zero if it is unknown. `last_needed_size`: see
/// `Window::needed_size`, of the last stream on this line. `is_tight`: memory is nearly used up.
pub struct Conditions {
    pub now: Instant,
    pub round_trip: Duration,
    pub last_needed_size: u64,
    pub is_tight: bool,
}

/// Receive window of one stream. Bytes are counted from the begin of the stream.
pub struct Window {
    size: u64,
    max_size: u64,
    needed_size: u64,
    received: u64,
    written: u64,
    granted: u64,
    /// Value of `written` at the last grant, and the times of the last grants.
    written_at_grant: u64,
    grant_times: [Instant; GRANTS_PER_WINDOW as usize],
}

impl Window {
    pub fn new(max_size: u64, now: Instant) -> Self {
        Self {
            size: INITIAL_WINDOW,
            max_size,
            needed_size: 0,
            received: 0,
            written: 0,
            granted: INITIAL_WINDOW,
            written_at_grant: 0,
            grant_times: [now; GRANTS_PER_WINDOW as usize],
        }
    }

    /// Size that this stream needs on this line; 0: unknown, because it had no more data than the initial window.
    pub fn needed_size(&self) -> u64 {
        self.needed_size
    }

    /// Bytes by which the window exceeds its initial size.
    pub fn extra(&self) -> u64 {
        self.size - INITIAL_WINDOW
    }

    pub fn receive(&mut self, size: usize) -> Result<(), Overrun> {
        self.received += size as u64;
        if self.received > self.granted { Err(Overrun) } else { Ok(()) }
    }

    /// Counts written bytes; reports whether a grant is due.
    pub fn write(&mut self, size: usize) -> bool {
        self.written += size as u64;
        (self.written - self.written_at_grant) * GRANTS_PER_WINDOW >= self.size
    }

    /// Returns the number of bytes that the sender may have sent from now on; None: as before.
    /// `extend` occupies memory for a larger window, if there is some.
    pub fn grant(
        &mut self,
        conditions: &Conditions,
        mut extend: impl FnMut(u64) -> bool,
    ) -> Option<u64> {
        // The time in which about as many bytes were written as the window has.
        let span = conditions.now - self.grant_times[0];
        self.grant_times.rotate_left(1);
        self.grant_times[GRANTS_PER_WINDOW as usize - 1] = conditions.now;
        self.written_at_grant = self.written;
        // With a sender that waits for grants, it is up to 4/3 of a round trip.
        let span_of_full_line = conditions.round_trip * 7 / 4;
        let growth = span_of_full_line.as_secs_f64() / span.as_secs_f64().max(1e-6);
        if self.written > INITIAL_WINDOW {
            self.needed_size = ((self.size as f64 * growth) as u64).min(self.max_size);
        }
        let line_capacity = conditions.round_trip.as_micros() as u64 * MAX_BYTES_PER_MS / 1000;
        let max_size = line_capacity.clamp(INITIAL_WINDOW, self.max_size);
        if conditions.is_tight || span > 6 * conditions.round_trip {
            self.size = (self.size / 2).max(INITIAL_WINDOW);
        } else if self.size < max_size && span <= span_of_full_line {
            let doubled = (2 * self.size).min(max_size);
            let preferred = conditions.last_needed_size.clamp(doubled, max_size);
            let larger = [preferred, doubled].into_iter().find(|size| extend(size - self.size));
            self.size = larger.unwrap_or(self.size);
        }
        let granted = self.written + self.size;
        // A smaller window cannot take back a grant: it gives no new one until that is used up.
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

    const MAX_SIZE: u64 = 8 << 20;
    const TICK: Duration = Duration::from_micros(500);

    /// A line and its reader. `rate`, `reader`: bytes per second; `burst`: bytes that the reader
    /// takes at once into its buffers.
    struct Line {
        round_trip: Duration,
        rate: u64,
        reader: u64,
        burst: u64,
    }

    #[derive(Default)]
    struct Measured {
        /// Bytes per second in the second half of the time.
        rate: f64,
        max_waiting: u64,
        largest: u64,
        extra: u64,
        total: u64,
    }

    /// Simulates a sender with enough data, whose bytes and grants travel for half a round trip.
    fn simulate(line: &Line, seconds: u64, (last_needed_size, is_tight): (u64, bool)) -> Measured {
        let start = Instant::now();
        let mut window = Window::new(MAX_SIZE, start);
        let (mut data_in_flight, mut grants_in_flight) =
            (VecDeque::new(), VecDeque::from([(start, INITIAL_WINDOW)]));
        let (mut allowed, mut sent, mut waiting, mut written_at_half) = (0, 0, 0, 0);
        let (mut burst, mut measured) = (line.burst, Measured::default());
        let ticks = seconds * 1_000_000 / TICK.as_micros() as u64;
        for tick in 0..ticks {
            let now = start + TICK * tick as u32;
            let per_tick = |rate: u64| rate * TICK.as_micros() as u64 / 1_000_000;
            while grants_in_flight.front().is_some_and(|(at, _)| *at <= now) {
                allowed = grants_in_flight.pop_front().unwrap().1;
            }
            let size = per_tick(line.rate).min(allowed - sent);
            sent += size;
            data_in_flight.push_back((now + line.round_trip / 2, size));
            while data_in_flight.front().is_some_and(|(at, _)| *at <= now) {
                let size = data_in_flight.pop_front().unwrap().1;
                window.receive(size as usize).unwrap();
                waiting += size;
            }
            measured.max_waiting = measured.max_waiting.max(waiting);
            let size = waiting.min(per_tick(line.reader) + burst);
            burst = burst.saturating_sub(size);
            waiting -= size;
            let conditions =
                Conditions { now, round_trip: line.round_trip, last_needed_size, is_tight };
            let before = window.extra();
            if window.write(size as usize)
                && let Some(granted) = window.grant(&conditions, |extra| {
                    measured.extra += extra;
                    true
                })
            {
                grants_in_flight.push_back((now + line.round_trip / 2, granted));
            }
            measured.extra -= before.saturating_sub(window.extra());
            measured.largest = measured.largest.max(window.size);
            if tick == ticks / 2 {
                written_at_half = window.written;
            }
        }
        assert_eq!(measured.extra, window.extra());
        measured.total = window.written;
        measured.rate = (window.written - written_at_half) as f64 * 2.0 / seconds as f64;
        measured
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
            let measured = simulate(&line, 10, (0, false));
            let max_rate = (line.rate as f64).min(MAX_SIZE as f64 / line.round_trip.as_secs_f64());
            assert!(
                measured.rate > 0.9 * max_rate,
                "{round_trip} ms: {} of {max_rate}",
                measured.rate
            );
            let line_capacity = line.rate as f64 * line.round_trip.as_secs_f64();
            assert!(measured.largest <= MAX_SIZE);
            assert!(measured.largest as f64 <= (4.0 * line_capacity).max(INITIAL_WINDOW as f64));
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
                assert!(simulate(&line, 5, (MAX_SIZE, false)).max_waiting <= INITIAL_WINDOW);
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
        let measured = simulate(&line, 30, (0, false));
        assert!(measured.largest > INITIAL_WINDOW && measured.extra == 0);
    }

    #[test]
    fn a_line_without_delay_and_occupied_memory_keep_the_window_small() {
        let mut line = Line { round_trip: TICK, rate: 1 << 30, reader: 1 << 30, burst: 0 };
        assert_eq!(simulate(&line, 2, (MAX_SIZE, false)).largest, INITIAL_WINDOW);
        line.round_trip = milliseconds(2);
        assert_eq!(simulate(&line, 2, (MAX_SIZE, false)).largest, 2 * MAX_BYTES_PER_MS);
        line.round_trip = milliseconds(100);
        assert_eq!(simulate(&line, 2, (MAX_SIZE, true)).largest, INITIAL_WINDOW);
    }

    #[test]
    fn a_stream_begins_with_what_the_last_one_needed() {
        let line =
            Line { round_trip: milliseconds(100), rate: 50_000_000, reader: 1 << 30, burst: 0 };
        let [alone, after] =
            [0, MAX_SIZE].map(|last_needed_size| simulate(&line, 1, (last_needed_size, false)));
        assert!(after.total > alone.total + MAX_SIZE / 2);
    }

    #[test]
    fn no_order_of_events_grants_more_than_the_window_beyond_what_was_written() {
        let mut random = Random::new(12);
        for _ in 0..2_000 {
            let mut now = Instant::now();
            let mut window = Window::new(MAX_SIZE, now);
            let (mut granted, mut waiting, mut extra) = (INITIAL_WINDOW, 0_u64, 0_u64);
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
                    last_needed_size: u64::from(step[0]) << 16,
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
                assert!(window.size >= INITIAL_WINDOW && window.size <= MAX_SIZE);
                assert_eq!((window.extra(), window.granted), (extra, granted));
                assert!(granted - window.written <= MAX_SIZE);
                // The sender can always go on once everything is written.
                assert!(waiting > 0 || granted > window.received);
            }
            assert_eq!(window.receive((granted - window.received + 1) as usize), Err(Overrun));
        }
    }
}
