//! A request with a verdict, over the data link of its agent, for users of both HTTP versions.

use std::sync::Arc;

use bytes::Bytes;
use h2::RecvStream;
use tokio::time::sleep;

use crate::hub::{End, HubState, OpenRequest};
use crate::runtime::locked;
use crate::wire;

/// Reasons why a request ends before its response is complete.
pub enum Stop {
    UserLeft,
    Failed,
    Late,
    /// Python ended it.
    Ended,
}

/// The user of one request.
pub trait User {
    /// Returns when the user has left.
    async fn left(&mut self);
    /// Passes on bytes of the response; reports whether it is complete.
    async fn pass_on(&mut self, data: Bytes, request: &OpenRequest) -> Result<bool, Stop>;
    /// Ends the response, whose sender has ended it cleanly.
    async fn finish(&mut self) -> Result<(), Stop>;
}

/// Sends the request to the agent, and the API server's response to the user.
pub async fn exchange(
    hub: &HubState,
    request: &OpenRequest,
    user: &mut impl User,
) -> Result<(), Stop> {
    let mut body = ask(hub, request, user).await?;
    loop {
        let data = tokio::select! {
            biased;
            () = request.end.notified() => return Err(Stop::Ended),
            data = body.data() => data,
            () = user.left() => return Err(Stop::UserLeft),
        };
        let Some(data) = data else { return user.finish().await };
        let data = data.map_err(|_| Stop::Failed)?;
        let size = data.len();
        let complete = tokio::select! {
            biased;
            passed = user.pass_on(data, request) => passed?,
            () = request.end.notified() => return Err(Stop::Ended),
        };
        let _ = body.flow_control().release_capacity(size);
        if complete {
            return Ok(());
        }
    }
}

/// Returns the body with the API server's response.
async fn ask(
    hub: &HubState,
    request: &OpenRequest,
    user: &mut impl User,
) -> Result<RecvStream, Stop> {
    let verdict = &request.verdict;
    let packed = wire::pack(&verdict.identity, &verdict.before, &verdict.after, &request.id);
    let sender = verdict.link.sender().ok_or(Stop::Failed)?;
    let mut sender = sender.ready().await.map_err(|_| Stop::Failed)?;
    let (response, mut body) =
        sender.send_request(http::Request::new(()), false).map_err(|_| Stop::Failed)?;
    body.send_data(packed, true).map_err(|_| Stop::Failed)?;
    tokio::select! {
        biased;
        response = response => {
            let response = response.map_err(|_| Stop::Failed)?;
            let served = response.status() == http::StatusCode::OK;
            if served { Ok(response.into_body()) } else { Err(Stop::Failed) }
        }
        () = request.end.notified() => Err(Stop::Ended),
        () = sleep(hub.settings.answer) => Err(Stop::Late),
        () = user.left() => Err(Stop::UserLeft),
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
    /// began, and notes its status.
    pub fn refuse(&mut self, stop: Stop) -> Bytes {
        let (response, why) = match stop {
            Stop::Late => (self.request.verdict.late.clone(), End::Timeout),
            _ => (locked(&self.request.ending).take().unwrap_or_default(), End::Ended),
        };
        let status = response.get(9..12).and_then(|code| std::str::from_utf8(code).ok());
        self.end = Some((status.and_then(|code| code.parse().ok()).unwrap_or(0), why));
        response
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.hub.leave(&self.request, self.end);
    }
}
