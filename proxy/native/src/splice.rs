//! Requests that Python has authorized, and whose bytes are moved here to their end.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use bytes::Bytes;

use crate::backend::PythonConnection;
use crate::budget::Share;
use crate::exchange::{AgentRequest, Stop, User};
use crate::flow::Flow;
use crate::hub::{End, HubState};
use crate::inbox::Inbox;
use crate::link::HubLink;
use crate::observer::ResponseObserver;
use crate::runtime::locked;

/// More streams of one link are left to Python, so that reads still find some.
const MAX_ON_LINK: usize = 4096;

/// State of a request. Python knows it by its number; smaller numbers are those of `End`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Over(End),
    /// Nothing was sent to the API server: Python serves the request.
    Declined,
    /// No response has begun, but the API server may have got the request.
    Lost,
    /// The response has begun.
    Begun,
}

impl State {
    pub fn number(self) -> u8 {
        match self {
            Self::Over(end) => end as u8,
            Self::Declined => 5,
            Self::Lost => 6,
            Self::Begun => 7,
        }
    }
}

pub struct Report {
    pub number: u64,
    pub state: State,
    pub status: u16,
    pub bytes_in: u64,
    pub bytes_out: u64,
}

#[derive(Default)]
pub struct Splices {
    pub reports: Inbox<Report>,
    pub open: Mutex<HashMap<u64, Arc<Flow>>>,
}

/// A request as Python hands it over, after it has read and written these numbers of bytes of its
/// connection.
pub struct Order {
    pub read: u64,
    pub written: u64,
    pub link: Arc<HubLink>,
    /// The packed request; taken when it is sent.
    pub packed: Bytes,
    pub head_request: bool,
    pub upgrade: bool,
    /// The connection to Python ends when the response begins; otherwise it serves the next request.
    pub long_running: bool,
    pub keep_alive: bool,
    /// Memory of the user in which the response waits.
    pub share: Share,
}

impl Order {
    /// Takes the request to send.
    pub fn take(&mut self) -> AgentRequest {
        let (link, packed) = (self.link.clone(), std::mem::take(&mut self.packed));
        AgentRequest {
            link,
            share: self.share.clone(),
            packed,
            answer: None,
            upgrade: self.upgrade,
        }
    }

    pub fn observer(&self) -> ResponseObserver {
        if self.upgrade {
            ResponseObserver::of_upgrade()
        } else {
            ResponseObserver::new(self.head_request)
        }
    }
}

/// A request that was handed over. However it ends, Python gets a report.
pub struct Spliced {
    hub: Arc<HubState>,
    pub number: u64,
    pub order: Order,
    pub flow: Arc<Flow>,
    begun: bool,
    pub status: u16,
    pub state: State,
}

impl Spliced {
    /// None: the link has too many.
    pub fn new(hub: &Arc<HubState>, order: Order) -> Option<Box<Self>> {
        if order.link.spliced_requests.fetch_add(1, Ordering::Relaxed) >= MAX_ON_LINK {
            order.link.spliced_requests.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        let number = hub.last_number.fetch_add(1, Ordering::Relaxed) + 1;
        let flow = Arc::<Flow>::default();
        locked(&hub.splices.open).insert(number, flow.clone());
        let (hub, state) = (hub.clone(), State::Over(End::UserLeft));
        Some(Box::new(Self { hub, number, order, flow, begun: false, status: 0, state }))
    }

    /// Reports whether all bytes of the connection have arrived at the other side.
    pub fn is_in_step_with(&self, python: &PythonConnection) -> bool {
        (self.order.read, self.order.written) == (python.sent, python.received)
    }

    fn report(&self, state: State, status: u16) {
        self.hub.splices.reports.put(Report {
            number: self.number,
            state,
            status,
            bytes_in: self.flow.bytes_in.load(Ordering::Relaxed),
            bytes_out: self.flow.bytes_out.load(Ordering::Relaxed),
        });
    }
}

impl Drop for Spliced {
    fn drop(&mut self) {
        self.order.link.spliced_requests.fetch_sub(1, Ordering::Relaxed);
        locked(&self.hub.splices.open).remove(&self.number);
        self.report(self.state, self.status);
    }
}

/// The user of a spliced request.
pub struct HandedOver<'a, U> {
    pub user: &'a mut U,
    pub spliced: &'a mut Spliced,
    pub python: &'a mut Option<PythonConnection>,
}

impl<U> HandedOver<'_, U> {
    fn on_begun(&mut self, status: u16) {
        if self.spliced.order.long_running {
            *self.python = None;
        }
        (self.spliced.begun, self.spliced.status) = (true, status);
        self.spliced.report(State::Begun, status);
    }
}

impl<U: User> User for HandedOver<'_, U> {
    async fn disconnected(&mut self) {
        self.user.disconnected().await;
    }

    async fn pass_on(&mut self, data: Bytes, flow: &Flow) -> Result<bool, Stop> {
        let passed = self.user.pass_on(data, flow).await;
        if let Some(status) = self.user.begun_status()
            && !self.spliced.begun
        {
            self.on_begun(status);
        }
        passed
    }

    async fn finish(&mut self) -> Result<(), Stop> {
        self.user.finish().await
    }

    fn begun_status(&self) -> Option<u16> {
        self.user.begun_status()
    }

    fn is_between_events(&self) -> bool {
        self.user.is_between_events()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    fn hub() -> Arc<HubState> {
        let hub = HubState::for_tests("none".as_ref());
        hub.splices.reports.descriptor().unwrap();
        hub
    }

    fn order(hub: &HubState, link: &Arc<HubLink>) -> Order {
        Order {
            read: 0,
            written: 0,
            link: link.clone(),
            packed: Bytes::new(),
            head_request: false,
            upgrade: false,
            long_running: true,
            keep_alive: true,
            share: hub.budget.share(Bytes::from_static(b"ann")),
        }
    }

    fn states(hub: &HubState) -> Vec<State> {
        hub.splices.reports.take(9).into_iter().map(|report| report.state).collect()
    }

    #[test]
    fn python_learns_how_a_request_ends_whoever_drops_it() {
        let (hub, link) = (hub(), Arc::default());
        drop(Spliced::new(&hub, order(&hub, &link)));
        let mut lost = Spliced::new(&hub, order(&hub, &link)).unwrap();
        assert_eq!(locked(&hub.splices.open).len(), 1);
        lost.state = State::Lost;
        drop(lost);
        assert_eq!(states(&hub), [State::Over(End::UserLeft), State::Lost]);
        assert!(locked(&hub.splices.open).is_empty());
    }

    #[test]
    fn a_link_has_room_for_reads_beside_them() {
        let (hub, link) = (hub(), Arc::default());
        let mut open: Vec<_> =
            (0..MAX_ON_LINK).map(|_| Spliced::new(&hub, order(&hub, &link))).collect();
        assert!(open.iter().all(Option::is_some));
        assert!(Spliced::new(&hub, order(&hub, &link)).is_none());
        assert!(Spliced::new(&hub, order(&hub, &Arc::default())).is_some());
        open.pop();
        assert!(Spliced::new(&hub, order(&hub, &link)).is_some());
    }
}
