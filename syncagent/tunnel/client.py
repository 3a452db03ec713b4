"""The agent's tunnel to the control plane, for the duration of one call."""

import asyncio
import secrets
from collections.abc import Callable

import structlog

from core.errors import HTTP_STATUS, TowlineError
from core.links.call_link import make_call_link
from core.links.heartbeat import Heartbeat
from core.mux.budget import ReceiveBudget
from core.mux.codec import (
    FEATURE_PROOF,
    FEATURE_TCP,
    FEATURE_ZSTD,
    FLAG_PASSTHROUGH,
    KIND_DATA_LINK,
    KIND_HTTP,
    KIND_TCP,
    Drain,
    Hello,
    Open,
)
from core.mux.mux import Mux, MuxSettings, MuxTime
from core.mux.stream import TunnelStream
from core.native import data_link_version, describe_data_link_versions
from core.rpc.calls import CallChannel, CallFailed, Metadata
from core.rpc.methods import TUNNEL
from core.runtime.clock import Clock
from core.runtime.tasks import Tasks
from syncagent.tunnel.data_link import ControlPlaneHost, DataLink, native_upstream
from syncagent.tunnel.egress import EgressPolicy, EgressStream
from syncagent.tunnel.guard import ForwardingRefused, Guard, ImpersonationPolicy
from syncagent.tunnel.proof import ADMITTED, ProofVerifier, RequestIdentity
from syncagent.tunnel.upstream import Upstream, UpstreamPool
from syncagent.tunnel.upstream_request import UpstreamRequest

log = structlog.get_logger(__name__)

MEMORY = 32 << 20
INITIAL_WINDOW, MAX_WINDOW = 1 << 20, 4 << 20
FORBIDDEN, NOT_SERVED, FROZEN = 403, 501, 503
NO_EGRESS = EgressPolicy()
GRACE_SECONDS, LINGER_SECONDS, POLL_SECONDS = 60.0, 1.0, 0.2
_REFUSES = "refuses all requests"
_BAD_GATEWAY = 502


class TunnelClient:
    """Serves requests of the control plane over a channel.
    `metadata` must contain the agent's token. `instance`, 16 bytes chosen once per process,
    distinguishes a reconnect from a second agent. `draining` is set when the control plane asks for
    a new connection: dial again, and `finish` this one meanwhile. `egress`: hosts that the control
    plane may reach through this agent, besides the API server. `proofs`: verifies the identity of
    users; None: the agent accepts the identities that the control plane sends. `frozen` returns the
    reason why all requests are refused now; empty: they are not. `control_plane`: host to open a
    data link to; None: never open one. `is_open`: the control plane has answered.
    """

    def __init__(
        self,
        channel: CallChannel,
        metadata: Metadata,
        upstream: Upstream,
        clock: Clock,
        allow: ImpersonationPolicy,
        *,
        instance: bytes | None = None,
        egress: EgressPolicy = NO_EGRESS,
        proofs: ProofVerifier | None = None,
        frozen: Callable[[], str] = str,
        control_plane: ControlPlaneHost | None = None,
    ) -> None:
        self.draining = asyncio.Event()
        self.is_open = False
        self._channel, self._metadata = channel, metadata
        self._clock = clock
        self._instance = instance or secrets.token_bytes(16)
        self._guard = Guard(allow, below_prefix=bool(upstream.prefix))
        self._identity = RequestIdentity(self._guard, proofs)
        self._egress, self._frozen = egress, frozen
        self._pool = UpstreamPool(upstream, clock)
        self._tasks = Tasks("tunnel")
        self._mux: Mux | None = None
        self._grace_seconds = GRACE_SECONDS
        self._data_link: DataLink | None = None
        # With proofs, each request's identity depends on a token that expires.
        native = native_upstream(upstream) if control_plane and proofs is None else None
        if native is not None and control_plane is not None:
            self._data_link = DataLink(
                native, control_plane, self._pool, clock, self._tasks, self._allows
            )

    async def run(self) -> str:
        """Serves until the link ends; returns the reason, for people."""
        try:
            call = await self._channel.call(TUNNEL, self._metadata)
        except CallFailed as error:
            log.warning("no tunnel", why=error.message)
            return error.message
        link = make_call_link(call)
        settings = MuxSettings(window=INITIAL_WINDOW, max_window=MAX_WINDOW)
        mux = self._mux = Mux(
            link,
            self,
            hub=False,
            hello=Hello(
                self._instance,
                settings.window,
                features=self._features,
                data_link=self._data_link_version,
            ),
            time=MuxTime(self._clock, asyncio.get_running_loop()),
            budget=ReceiveBudget(MEMORY, links=1, tenants=2),
            settings=settings,
        )
        try:
            return await link.carry(mux, Heartbeat(self._clock))
        finally:
            call.cancel()
            if self._data_link is not None:
                self._data_link.close()
            # Before any await: this task may be cancelled once more.
            self._pool.close()
            await self._tasks.stop()

    async def finish(self) -> None:
        """Drains the link: new requests go elsewhere, open ones continue to their end, then `run`
        ends.
        The control plane's grace period limits this, but it is at least `GRACE_SECONDS`.
        """
        mux = self._mux
        if mux is None:
            return
        mux.drain(int(self._grace_seconds * 1000), "connected again")
        deadline = self._clock.monotonic() + self._grace_seconds
        # Requests that were sent before the control plane reads this are still served.
        await self._clock.sleep(LINGER_SECONDS)
        while self._has_open_requests(mux) and self._clock.monotonic() < deadline:
            await self._clock.sleep(POLL_SECONDS)
        mux.close("handed over to a newer connection")

    def end_streams(self, reason: str) -> None:
        """Ends all open requests at once."""
        mux, data_link = self._mux, self._data_link
        if data_link is not None:
            data_link.clear()
        for stream in [*mux.streams.values()] if mux is not None else ():
            stream.fail(FROZEN, f"{_REFUSES}: {reason}")

    # Events of the mux (see `core.mux.mux.MuxOwner`)

    def on_ready(self, hello: Hello) -> None:
        self.is_open = True
        log.info("tunnel open")
        if why := describe_data_link_versions(hello.data_link, self._data_link_version):
            log.warning("no data link", why=why)

    def on_open(self, stream: TunnelStream, request: Open) -> None:
        if request.kind == KIND_DATA_LINK and self._data_link is not None:
            self._data_link.open(stream, request)
        elif reason := self._frozen():
            stream.reset(FROZEN, f"{_REFUSES}: {reason}")
        elif request.kind == KIND_TCP:
            self._open_tcp(stream, request)
        else:
            self._open_http(stream, request)

    def on_peer_draining(self, drain: Drain) -> None:
        log.info("asked to reconnect", why=drain.text)
        self._grace_seconds = max(GRACE_SECONDS, drain.grace_ms / 1000)
        self.draining.set()

    def on_closed(self, reason: str) -> None:
        self.is_open = False
        log.info("tunnel closed", why=reason)

    # Inside

    @property
    def _features(self) -> int:
        proof = FEATURE_PROOF if self._identity.proofs is not None else 0
        tcp = FEATURE_TCP if self._egress.allowed else 0
        return FEATURE_ZSTD | proof | tcp

    @property
    def _data_link_version(self) -> int:
        return data_link_version() if self._data_link is not None else 0

    def _has_open_requests(self, mux: Mux) -> bool:
        """Reports whether requests are open on either link."""
        return bool(mux.streams) or (self._data_link is not None and self._data_link.is_busy)

    def _allows(self, request: Open) -> bool:
        """Checks a request of the data link as one of this link."""
        try:
            self._identity.admit(request)
        except ForwardingRefused:
            return False
        return not self._frozen()

    def _open_tcp(self, stream: TunnelStream, request: Open) -> None:
        target = self._egress.target(request.head)
        egress_stream = EgressStream(stream, target or ("", 0))
        stream.owner = egress_stream
        if target is None:
            log.warning("egress refused", target=request.head[:300].decode("ascii", "replace"))
            stream.reset(
                FORBIDDEN, "the agent's egress.allow setting does not list this host and port"
            )
        else:
            self._tasks.spawn("egress", egress_stream.start())

    def _open_http(self, stream: TunnelStream, request: Open) -> None:
        if request.kind != KIND_HTTP:
            stream.reset(NOT_SERVED, "does not support this kind of request")
            return
        admitted = ADMITTED
        try:
            if request.flags & FLAG_PASSTHROUGH:
                self._guard.check_passthrough(request.identity, request.head)
            else:
                admitted = self._identity.admit(request)
            if self._data_link is not None:
                self._data_link.admit(request)
            upstream_request = UpstreamRequest(
                stream, request, self._pool, admitted.response_fields
            )
        except ForwardingRefused as refused:
            log.warning("request refused", why=str(refused))
            stream.reset(FORBIDDEN, f"refused the request: {refused}")
            return
        upstream_request.on_retry = self._start_in_background
        stream.owner = upstream_request
        if admitted.proof:
            self._tasks.spawn(
                "proof", self._prove(stream, request, upstream_request, admitted.proof)
            )
        elif not upstream_request.try_start():
            self._start_in_background(upstream_request)

    async def _prove(
        self, stream: TunnelStream, request: Open, upstream_request: UpstreamRequest, token: bytes
    ) -> None:
        """Verifies a proof that is not cached, then starts its request."""
        try:
            request.identity = await self._identity.prove(token)
        except TowlineError as error:
            log.warning("proof of identity refused", why=error.message)
            if not stream.closed:
                status = HTTP_STATUS[error.code]
                stream.fail(status, f"does not accept the proof of identity: {error.message}")
            return
        except Exception:
            log.exception("proof of identity not checked")
            if not stream.closed:
                stream.fail(_BAD_GATEWAY, "could not check the proof of identity; see its log")
            return
        if not stream.closed:
            await upstream_request.start()

    def _start_in_background(self, upstream_request: UpstreamRequest) -> None:
        self._tasks.spawn("request", upstream_request.start())
