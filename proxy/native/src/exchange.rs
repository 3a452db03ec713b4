//! A request over the data link of its agent, for users of both HTTP versions.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use h2::Reason;
use http::StatusCode;
use tokio::time::sleep;

use crate::budget::Share;
use crate::flow::Flow;
use crate::hub::{End, HubState, OpenRequest};
use crate::incoming::Incoming;
use crate::link::HubLink;
use crate::outgoing::Outgoing;
use crate::windows::MAX_WINDOW_DOWN;
use crate::wire;

/// Reasons why a request ends before its response is complete.
pub enum Stop {
    UserLeft,
    /// Nothing was sent to the API server.
    Declined,
    Failed,
    Late,
    /// Python ended it.
    Ended,
    /// Python ended it, and it is between two events.
    EndedBetweenEvents,
}

/// The user of one request.
pub trait User {
    /// Waits until the user has left.
    async fn disconnected(&mut self);
    /// Passes on bytes of the response; reports whether it is complete.
    async fn pass_on(&mut self, data: Bytes, flow: &Flow) -> Result<bool, Stop>;
    /// Ends the response, whose sender has ended it cleanly.
    async fn finish(&mut self) -> Result<(), Stop>;
    /// Returns the status of a response that has begun.
    fn begun_status(&self) -> Option<u16>;
    /// Reports whether a watch can be ended here.
    fn is_between_events(&self) -> bool;
}

/// A packed request and its link. `answer`: how long the user waits for the response; None: it may
/// take any time. `upgrade`: it asks for an upgrade. `share`: memory in which its response waits.
pub struct AgentRequest {
    pub link: Arc<HubLink>,
    pub share: Share,
    pub packed: Bytes,
    pub answer: Option<Duration>,
    pub upgrade: bool,
}

/// Both directions of a request. `to_agent` has ended unless it asks for an upgrade.
pub struct Channel {
    /// On the heap: it moves between states of tasks, each of which would keep room for it.
    pub from_agent: Box<Incoming>,
    pub to_agent: Outgoing,
}

impl AgentRequest {
    pub fn repeated(hub: &HubState, request: &OpenRequest) -> Self {
        let authorized = &request.verdict.authorized;
        Self {
            link: authorized.link.clone(),
            share: authorized.share.clone(),
            packed: wire::pack(
                &authorized.identity,
                &authorized.before,
                &authorized.after,
                &request.id,
            ),
            answer: Some(hub.settings.answer_timeout),
            upgrade: false,
        }
    }
}

/// Sends the request to the agent, and the API server's response to the user. Returns the channel,
/// which is still needed after an upgrade.
pub async fn exchange(
    agent_request: AgentRequest,
    flow: &Flow,
    user: &mut impl User,
) -> Result<Channel, Stop> {
    // Its memory is needed for the start alone.
    let mut channel = Box::pin(open_channel(agent_request, flow, user)).await?;
    pass_response(&mut channel.from_agent, flow, user).await?;
    Ok(channel)
}

async fn pass_response(
    incoming: &mut Incoming,
    flow: &Flow,
    user: &mut impl User,
) -> Result<(), Stop> {
    loop {
        let between_events = flow.ends_between_events();
        if between_events && user.is_between_events() {
            return Err(Stop::EndedBetweenEvents);
        }
        let data = tokio::select! {
            biased;
            () = flow.changed(between_events) => {
                if flow.is_ended() {
                    return Err(Stop::Ended);
                }
                continue;
            }
            data = incoming.next() => data.map_err(|_| Stop::Failed)?,
            () = user.disconnected() => return Err(Stop::UserLeft),
        };
        let Some(data) = data else { return user.finish().await };
        let size = data.len();
        let complete = tokio::select! {
            biased;
            passed = incoming.write(size, user.pass_on(data, flow)) => {
                passed.unwrap_or(Err(Stop::Failed))?
            }
            () = flow.ended() => return Err(Stop::Ended),
        };
        if complete {
            return Ok(());
        }
    }
}

async fn open_channel(
    agent_request: AgentRequest,
    flow: &Flow,
    user: &mut impl User,
) -> Result<Channel, Stop> {
    let sender = agent_request.link.sender().ok_or(Stop::Declined)?;
    let mut sender = sender.ready().await.map_err(|_| Stop::Declined)?;
    let mut request = http::Request::new(());
    let mut data = agent_request.packed;
    if agent_request.upgrade {
        *request.uri_mut() = http::Uri::from_static(wire::UPGRADE_PATH);
        data = wire::prefixed(&data);
    }
    let (response, mut to_agent) =
        sender.send_request(request, false).map_err(|_| Stop::Declined)?;
    to_agent.send_data(data, !agent_request.upgrade).map_err(|_| Stop::Failed)?;
    let late = async {
        match agent_request.answer {
            Some(answer) => sleep(answer).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        response = response => match response {
            Ok(response) => match response.status() {
                StatusCode::OK => {
                    let (body, windows) = (response.into_body(), agent_request.link.windows.clone());
                    let to_agent = Outgoing::new(to_agent, windows.clone());
                    let from_agent = Box::new(Incoming::new(body, windows, agent_request.share, MAX_WINDOW_DOWN));
                    Ok(Channel { from_agent, to_agent })
                }
                StatusCode::MISDIRECTED_REQUEST => Err(Stop::Declined),
                _ => Err(Stop::Failed),
            },
            Err(error) if error.reason() == Some(Reason::REFUSED_STREAM) => Err(Stop::Declined),
            Err(_) => Err(Stop::Failed),
        },
        () = flow.ended() => Err(Stop::Ended),
        () = late => Err(Stop::Late),
        () = user.disconnected() => Err(Stop::UserLeft),
    }
}

/// A request that is open while this exists, however its task ends.
pub struct Entered {
    hub: Arc<HubState>,
    pub request: Arc<OpenRequest>,
    /// Status and reason; without them, Python serves and records the request.
    pub end: Option<(u16, End)>,
}

impl Entered {
    pub fn new(hub: Arc<HubState>, request: Arc<OpenRequest>) -> Self {
        Self { hub, request, end: None }
    }

    /// Returns the response of the proxy itself to a request that was stopped before its response
    /// began, and records its status.
    pub fn refuse(&mut self, stop: Stop) -> Bytes {
        let (response, end) = match stop {
            Stop::Late => (self.request.verdict.authorized.late.clone(), End::Timeout),
            _ => (self.request.flow.take_ending(), End::Ended),
        };
        let status = response.get(9..12).and_then(|code| std::str::from_utf8(code).ok());
        self.end = Some((status.and_then(|code| code.parse().ok()).unwrap_or(0), end));
        response
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.hub.leave(&self.request, self.end);
    }
}
