//! Data that arrives on a stream of a data link, for one reader.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use h2::RecvStream;

use crate::budget::{Exceeded, Held, Share};
use crate::window::{Conditions, Overrun, Window};
use crate::windows::Windows;

/// Reasons why no more data comes.
#[derive(Debug)]
pub enum Cut {
    Reset,
    Exceeded,
    Overrun,
}

impl From<Exceeded> for Cut {
    fn from(_: Exceeded) -> Self {
        Self::Exceeded
    }
}

/// While the reader is slow, this takes and counts all data that arrives: at most the window of the
/// stream.
pub struct Incoming {
    body: RecvStream,
    windows: Arc<Windows>,
    window: Window,
    has_granted: bool,
    waiting: VecDeque<Bytes>,
    held: Held,
    has_ended: bool,
}

impl Incoming {
    /// `largest`: maximum of the window.
    pub fn new(body: RecvStream, windows: Arc<Windows>, share: Share, largest: u32) -> Self {
        Self {
            body,
            windows,
            window: Window::new(largest.into(), Instant::now()),
            has_granted: false,
            waiting: VecDeque::new(),
            held: Held::new(share),
            has_ended: false,
        }
    }

    /// Puts data before the rest that was taken off the stream already.
    pub fn put_back(&mut self, data: Bytes) -> Result<(), Cut> {
        if !data.is_empty() {
            self.receive(data.len())?;
            self.waiting.push_back(data);
        }
        Ok(())
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
                self.receive(data.len())?;
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
                    self.on_written(size);
                    return Ok(output);
                }
                data = self.body.data(), if !self.has_ended => data,
            };
            match data {
                Some(Ok(data)) => {
                    self.receive(data.len())?;
                    self.waiting.push_back(data);
                }
                Some(Err(_)) => return Err(Cut::Reset),
                None => self.has_ended = true,
            }
        }
    }

    fn receive(&mut self, size: usize) -> Result<(), Cut> {
        if self.window.receive(size) == Err(Overrun) {
            self.windows.on_overrun();
            return Err(Cut::Overrun);
        }
        Ok(self.held.add(size)?)
    }

    fn on_written(&mut self, size: usize) {
        self.held.remove(size);
        let _ = self.body.flow_control().release_capacity(size);
        if !self.window.write(size) || self.has_ended {
            return;
        }
        let conditions = Conditions {
            now: Instant::now(),
            round_trip: self.windows.round_trip(),
            last_needed_size: self.windows.last_needed_size(),
            is_tight: self.held.is_tight(),
        };
        let granted = self.window.grant(&conditions, |extra| self.held.extend(extra as usize));
        self.held.reduce(self.window.extra() as usize);
        if let Some(total) = granted {
            self.has_granted = true;
            self.windows.add_grant(self.body.stream_id().as_u32(), total);
        }
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        if self.has_granted {
            self.windows.on_stream_end(self.body.stream_id().as_u32(), self.window.needed_size());
        }
    }
}
