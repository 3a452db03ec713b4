"""The path of a request to a cluster, after parsing: authorize, record, forward."""

import secrets

import structlog

from core.errors import TowlineError, Unavailable
from core.runtime.clock import Clock
from proxy.domain.access import AuthenticatedUser
from proxy.domain.audit import EndReason, RequestRecord
from proxy.gateway.authorize.authorizer import (
    AuthorizedRequest,
    CachedAuthorization,
    RequestAuthorizer,
)
from proxy.gateway.error_response import ErrorResponse, response_for
from proxy.gateway.forward.open_request import OpenRequest
from proxy.gateway.forward.proxied_request import ClientConnection, ProxiedRequest
from proxy.gateway.parse.bad_head import BadHead
from proxy.gateway.parse.cluster_hosts import ClusterHosts
from proxy.gateway.parse.parsed_request import ParsedRequest
from proxy.gateway.parse.route import claimed_route
from proxy.gateway.record.recorder import RequestRecorder

log = structlog.get_logger(__name__)

_IDS_PER_BATCH = 256


class RequestHandler:
    """Takes requests through the stages. Every failure becomes a response to the user."""

    def __init__(
        self,
        authorizer: RequestAuthorizer,
        recorder: RequestRecorder,
        clock: Clock,
        hosts: ClusterHosts | None = None,
    ) -> None:
        self._authorizer, self._recorder, self._clock = authorizer, recorder, clock
        self._hosts = hosts or ClusterHosts()
        self._ids = _RequestIds()

    def new_request(
        self,
        client: ClientConnection,
        parsed: ParsedRequest,
        source: str,
        identity: AuthenticatedUser | None = None,
    ) -> ProxiedRequest:
        """Creates a request. `identity`: its user, if already authenticated."""
        record = RequestRecord(
            id=self._ids.next(),
            at=self._clock.now(),
            source=source,
            user_agent=parsed.user_agent,
            handle=parsed.route.handle,
            method=parsed.method,
            upgrade=parsed.head.upgrade is not None,
            attributes=parsed.attributes if parsed.plain else None,
            identity=identity,
        )
        return ProxiedRequest(client, self._recorder, self._clock, parsed.head, record)

    def start_cached(
        self,
        request: ProxiedRequest,
        parsed: ParsedRequest,
        last: CachedAuthorization | None,
    ) -> CachedAuthorization | None:
        """Starts a read whose authorization is cached, and returns that; None: call `run`.
        `last`: the previous result for the same head.
        """
        cached = self._authorizer.recall(parsed, last)
        if cached is not None:
            try:
                self._enter(request, parsed, cached.authorized)
                request.forward(parsed, cached.authorized)
            except TowlineError as error:
                request.refuse(response_for(error))
        return cached

    async def run(self, request: ProxiedRequest, parsed: ParsedRequest) -> None:
        """Authorizes, records and forwards a request."""
        try:
            await self._run(request, parsed)
        except BadHead as error:
            request.refuse(ErrorResponse(error.status, error.message))
        except TowlineError as error:
            request.refuse(response_for(error))
        except Exception:
            log.exception("request failed", request=request.record.id)
            request.refuse(ErrorResponse(500, f"internal error; request {request.record.id}"))

    async def reauthorize(self, request: OpenRequest) -> None:
        """Ends a forwarded request if its user has lost the permission."""
        if request.authorized is None:
            return
        try:
            await self._authorizer.reauthorize(request.authorized, request.record)
        except Unavailable:
            return
        except TowlineError as error:
            request.end(response_for(error), EndReason.REVOKED)

    def refuse_head(self, error: BadHead, source: str) -> None:
        """Records a head that was refused before it became a request."""
        record, claimed = None, claimed_route(error.start, self._hosts.claimed_handle(error.start))
        if claimed is not None:
            record = RequestRecord(
                id=self._ids.next(),
                at=self._clock.now(),
                source=source,
                user_agent="",
                handle=claimed.handle,
                method=claimed.method,
                upgrade=False,
                refused=True,
                status=error.status,
                reason=EndReason.REFUSED,
            )
        self._recorder.refuse_head(error.status, record)

    async def _run(self, request: ProxiedRequest, parsed: ParsedRequest) -> None:
        record = request.record
        authorized = await self._authorizer.authorize(parsed, record)
        self._enter(request, parsed, authorized)
        policy = authorized.grant.recording
        recording = await self._recorder.start_session(record, parsed, policy)
        if recording is not None:
            request.record_session(recording)
        await self._recorder.commit_start(record)
        request.forward(parsed, await self._authorizer.confirm(authorized, parsed))

    def _enter(
        self, request: ProxiedRequest, parsed: ParsedRequest, authorized: AuthorizedRequest
    ) -> None:
        """Records the authorization; from here on the request counts as open."""
        self._recorder.add_authorization(request.record, parsed, authorized)
        if not request.over:
            self._recorder.enter(request.record)
            request.entered = True


class _RequestIds:
    """Random ids of 32 hex digits, read from the system in batches."""

    def __init__(self) -> None:
        self._unused: list[str] = []

    def next(self) -> str:
        """Returns an unused id."""
        if not self._unused:
            digits = secrets.token_hex(16 * _IDS_PER_BATCH)
            self._unused = [digits[start : start + 32] for start in range(0, len(digits), 32)]
        return self._unused.pop()
