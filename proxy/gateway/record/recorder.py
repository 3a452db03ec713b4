"""Records requests: audit rows, metrics, counts of open requests, terminal sessions."""

from collections.abc import Sequence

from core.errors import Forbidden, Unavailable
from core.open_streams import RequestEnd
from proxy.domain.access import RecordingPolicy
from proxy.domain.audit import RequestRecord
from proxy.domain.terminal import TerminalSession, reaches_kubelet, terminal_session
from proxy.gateway.authorize.authorizer import AuthorizedRequest
from proxy.gateway.parse.parsed_request import ParsedRequest
from proxy.gateway.record.metrics import ProxyMetrics
from proxy.gateway.record.open_requests import OpenRequests
from proxy.ports import RequestAudit, SessionRecorder, TerminalRecording

SPDY = b"spdy/3.1"


class RequestRecorder:
    """Records the start and the end of requests."""

    def __init__(
        self,
        audit: RequestAudit,
        sessions: SessionRecorder,
        open_requests: OpenRequests,
        metrics: ProxyMetrics,
    ) -> None:
        self._audit, self._sessions = audit, sessions
        self.open_requests, self.metrics = open_requests, metrics

    # Start

    def add_authorization(
        self, record: RequestRecord, parsed: ParsedRequest, authorized: AuthorizedRequest
    ) -> None:
        """Adds the authorization to the record."""
        grant = authorized.grant
        record.identity = authorized.identity
        record.cluster_id, record.rule = grant.cluster_id, grant.rule
        record.grant_ids, record.stream_limits = grant.grant_ids, grant.stream_limits
        record.acting_as = authorized.acting_as.user
        if parsed.head.impersonation:
            record.acting_groups = authorized.acting_as.groups

    def enter(self, record: RequestRecord) -> None:
        """Counts a new request. LimitExceeded: too many are open."""
        self.open_requests.enter(
            _user_name(record), record.handle, upgrade=record.upgrade, projects=record.stream_limits
        )
        self.metrics.opened(record)

    async def start_session(
        self, record: RequestRecord, parsed: ParsedRequest, policy: RecordingPolicy
    ) -> TerminalRecording | None:
        """Starts a recording if the policy requires one. Unavailable: recording is impossible.
        Forbidden: the request could open a terminal without one.
        """
        upgrade, attributes = parsed.head.upgrade, record.attributes
        if policy is RecordingPolicy.OFF or attributes is None:
            return None
        if reaches_kubelet(attributes):
            raise Forbidden(
                "nodes/proxy can open terminals without a recording, which your role requires: "
                "use pods/exec and pods/log"
            )
        if upgrade is None:
            return None
        session = terminal_session(
            attributes,
            parsed.route.target.decode("latin-1").partition("?")[2],
            spdy=upgrade.lower() == SPDY,
            keep_input=policy is RecordingPolicy.ALL,
        )
        return await self._sessions.begin(record, session) if session is not None else None

    async def commit_start(self, record: RequestRecord) -> None:
        """Commits the audit row of a write or an upgrade, before it starts.
        Unavailable: the row cannot be stored.
        """
        attributes = record.attributes
        if record.upgrade or (attributes is not None and attributes.writes):
            await self._audit.opened(record)

    def began(self, record: RequestRecord) -> None:
        """Records the start of a long-running read."""
        attributes = record.attributes
        if attributes is not None and attributes.long_running and not attributes.writes:
            self._audit.began(record)

    def upgraded(self, record: RequestRecord) -> None:
        """Stops counting a request as an unanswered upgrade."""
        self.open_requests.upgraded(_user_name(record))

    # End

    def end(self, record: RequestRecord, *, entered: bool, upgraded: bool) -> None:
        """Records the end of a request. `entered`, `upgraded`: the calls that counted it."""
        if entered:
            if record.upgrade and not upgraded:
                self.upgraded(record)
            self.open_requests.leave(_user_name(record), record.handle, record.stream_limits)
        self.metrics.closed(record, entered=entered)
        self._audit.closed(record)

    def repeated(self, record: RequestRecord, ends: Sequence[RequestEnd]) -> None:
        """Records requests that were served by the decision on an earlier one. `record` is that of
        each, but for its end.
        """
        self.metrics.repeated(record, ends)
        self._audit.repeated(record, ends)

    def refuse_head(self, status: int, record: RequestRecord | None) -> None:
        """Records a refused head. `record`: None if the head names no cluster."""
        self.metrics.refused(status)
        if record is not None:
            self._audit.closed(record)


class NoSessionRecorder:
    """Recorder without storage: refuses every session that must be recorded."""

    async def begin(self, record: RequestRecord, session: TerminalSession) -> TerminalRecording:
        raise Unavailable(
            f"{session.title} must be recorded, but no folder for recordings is configured"
        )


def _user_name(record: RequestRecord) -> str:
    return record.identity.name if record.identity else ""
