"""Accepts agents: each opens one call with raw bytes, `/towline.v1.KubeProxy/Tunnel`."""

import asyncio
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from core.errors import Conflict, TowlineError, Unauthenticated, Unavailable
from core.identity import ClusterId, TokenId
from core.links.call_link import make_call_link
from core.links.heartbeat import Heartbeat
from core.mux.budget import ReceiveBudget
from core.mux.codec import FEATURE_ZSTD, Drain, Hello, Open, ProtocolError
from core.mux.link import MuxLink
from core.mux.mux import PROTOCOL_ERROR_PREFIX, Mux, MuxSettings, MuxTime
from core.mux.stream import TunnelStream
from core.native import describe_data_link_versions
from core.rpc.calls import Call
from core.runtime.clock import Clock
from core.runtime.tasks import Tasks
from proxy.ports import AgentAuthenticator, TunnelRegistry
from proxy.tunnel.data_links import DataLinks
from proxy.tunnel.link_table import LinkTable, instance_of
from proxy.tunnel.single_replica import SingleReplicaRegistry

log = structlog.get_logger(__name__)

RECHECK_SECONDS = 30.0
CHECK_BATCH = 100
SPREAD_SECONDS, SPREAD_FRACTION = 5.0, 0.1
CLAIM_SECONDS, CLAIM_PAUSE = 15.0, 1.0
VIOLATION_SECONDS = 10.0


@dataclass(frozen=True, slots=True, eq=False)
class OpenLink:
    """An open call, ready or not, draining or not."""

    mux: Mux
    token_id: TokenId
    call: Call


class TunnelServer:
    """The control plane's end of every agent's link; implements the port `AgentRouter`."""

    def __init__(
        self,
        authenticate: AgentAuthenticator,
        clock: Clock,
        budget: ReceiveBudget,
        settings: MuxSettings,
        registry: TunnelRegistry | None = None,
        data_links: DataLinks | None = None,
    ) -> None:
        self._authenticate, self._clock = authenticate, clock
        self._budget, self._settings = budget, settings
        self._data_links = data_links
        instance = secrets.token_bytes(16)
        self._data_link_version = data_links.version if data_links is not None else 0
        self._hello = Hello(
            instance,
            settings.window,
            features=FEATURE_ZSTD,
            data_link=self._data_link_version,
        )
        self._heartbeat = Heartbeat(clock)
        self._registry: TunnelRegistry = registry or SingleReplicaRegistry(clock)
        self._link_table = LinkTable()
        self._claimed: dict[Mux, int] = {}
        self._refusals: dict[Mux, TowlineError] = {}
        self._open: set[OpenLink] = set()
        self._violations: dict[ClusterId, tuple[float, str]] = {}
        self._revocations = 0
        self.tasks = Tasks("tunnels")

    def start(self) -> None:
        """Starts the background check of agents' tokens."""
        self.tasks.forever("recheck", self._recheck())

    def find(self, cluster_id: ClusterId) -> Mux | None:
        """Returns the link for new requests to a cluster."""
        return self._link_table.find(cluster_id)

    async def reach(self, cluster_id: ClusterId) -> Mux | None:
        """Returns the same link: every agent is connected to this process."""
        return self.find(cluster_id)

    def find_epoch(self, cluster_id: ClusterId, epoch: int) -> Mux | None:
        """Returns the link to a cluster if it was claimed with this epoch and is still current."""
        return self._link_table.find_epoch(cluster_id, epoch)

    async def drop_lost_links(self) -> None:
        """Drops links that another replica has claimed since. Unavailable: the registry cannot be
        reached.
        """
        moved = await self._registry.moved_links(self._link_table.epochs)
        for cluster_id, location in moved.items():
            self._link_table.supersede(cluster_id, location.epoch, location.instance)

    def is_connected(self, cluster_id: ClusterId) -> bool:
        """Reports whether requests can reach the cluster now."""
        link = self._link_table.find(cluster_id)
        return link is not None and link.accepts_streams

    @property
    def incompatible_agents(self) -> int:
        """Number of agents whose data link has another version than this control plane's."""
        peers = [link.peer for link in self._link_table.links if link.peer is not None]
        own = self._data_link_version
        return sum(bool(describe_data_link_versions(own, peer.data_link)) for peer in peers)

    def revoke(self, token_id: str) -> None:
        """Closes every link that this token has opened, with the requests on it."""
        self._revocations += 1
        for link in tuple(self._open):
            if link.token_id == token_id:
                link.mux.close("the deploy token was revoked")

    def drain(self, grace: float, text: str) -> None:
        """Asks all agents to connect to another replica, spread over a part of `grace` (seconds),
        so that they do not all arrive at once.
        """
        links = self._link_table.links
        for link in links[:1]:
            link.drain(int(grace * 1000), text)
        self.tasks.spawn("drain", self._drain_spread(links[1:], grace, text))

    def stop(self) -> None:
        """Closes every link."""
        for link in tuple(self._open):
            link.mux.close("the control plane is stopping")

    async def serve(self, call: Call) -> None:
        """Serves an agent's link until it ends. TowlineError: the agent was refused."""
        try:
            await self._serve_link(call)
        except TowlineError as error:
            log.info("agent refused", peer=call.peer, why=error.message)
            raise

    async def _serve_link(self, call: Call) -> None:
        """Serves a link. A revocation closes the links in the set of open ones; after a revocation
        during the authentication, the server authenticates the token again.
        """
        revocations = self._revocations
        cluster_id, token_id = await self._identify(call)
        self._check_violation(cluster_id)
        link = make_call_link(call)
        owner = _LinkOwner(cluster_id, self, call.peer)
        mux = owner.mux = self._make_mux(link, owner)
        open_link = OpenLink(mux, token_id, call)
        self._open.add(open_link)
        try:
            if revocations != self._revocations:
                await self._identify(call)
            await link.carry(mux, self._heartbeat)
        finally:
            self._open.discard(open_link)
            # A cycle would keep the link's memory until the next full garbage collection.
            del owner.mux
            refusal = self._refusals.pop(mux, None)
        if refusal is not None:
            raise refusal

    def claim_in_background(self, cluster_id: ClusterId, link: Mux, peer: str) -> None:
        """Claims a ready link in the background; it serves requests once claimed."""
        self.tasks.spawn("claim", self._claim(cluster_id, link, peer))

    def check_data_link(self, cluster_id: ClusterId, hello: Hello) -> None:
        """Logs that an agent can open no data link because its version is another one."""
        if why := describe_data_link_versions(self._data_link_version, hello.data_link):
            log.warning("no data link", cluster=cluster_id, why=why)

    def forget(self, cluster_id: ClusterId, link: Mux) -> None:
        """Removes a link that has ended, and releases its claim."""
        self._link_table.remove(cluster_id, link)
        if self._data_links is not None:
            self._data_links.forget(link)
        epoch = self._claimed.pop(link, None)
        if epoch is not None:
            self.tasks.spawn("release", self._release(cluster_id, epoch))

    def record_violation(self, cluster_id: ClusterId, reason: str) -> None:
        """Records a protocol violation of an agent, and refuses the agent for 10 seconds."""
        self._violations[cluster_id] = (self._clock.monotonic() + VIOLATION_SECONDS, reason)

    def _check_violation(self, cluster_id: ClusterId) -> None:
        until, reason = self._violations.get(cluster_id, (0.0, ""))
        if self._clock.monotonic() < until:
            raise Unavailable(f"{reason}; try again in {VIOLATION_SECONDS:.0f} s")
        self._violations.pop(cluster_id, None)

    async def _claim(self, cluster_id: ClusterId, link: Mux, peer: str) -> None:
        try:
            epoch = await self._claim_epoch(cluster_id, instance_of(link), peer)
        except TowlineError as error:
            log.warning("link refused", cluster=cluster_id, peer=peer, why=error.message)
            if not link.closed:
                self._refusals[link] = error
            link.close(error.message)
            return
        if link.closed:
            await self._release(cluster_id, epoch)
        else:
            self._claimed[link] = epoch
            self._link_table.add(cluster_id, link, epoch)

    async def _claim_epoch(self, cluster_id: ClusterId, instance: str, peer: str) -> int:
        """Claims a new epoch, with retries for some seconds while the registry is not reachable."""
        deadline = self._clock.monotonic() + CLAIM_SECONDS
        while True:
            try:
                return await self._registry.claim(cluster_id, instance, peer)
            except (Unavailable, Conflict):
                if self._clock.monotonic() >= deadline:
                    raise
            await self._clock.sleep(CLAIM_PAUSE)

    async def _release(self, cluster_id: ClusterId, epoch: int) -> None:
        try:
            await self._registry.release(cluster_id, epoch)
        except TowlineError as error:
            log.warning("link not released", cluster=cluster_id, why=error.message)

    def _make_mux(self, link: MuxLink, owner: "_LinkOwner") -> Mux:
        return Mux(
            link,
            owner,
            hub=True,
            hello=self._hello,
            time=MuxTime(self._clock, asyncio.get_running_loop()),
            budget=self._budget,
            settings=self._settings,
        )

    async def _identify(self, call: Call) -> tuple[ClusterId, TokenId]:
        scheme, _, token = call.metadata.get("authorization", "").partition(" ")
        return await self._authenticate(token if scheme.lower() == "bearer" else "")

    async def _drain_spread(self, links: Sequence[Mux], grace: float, text: str) -> None:
        pause = min(SPREAD_SECONDS, grace * SPREAD_FRACTION) / max(1, len(links))
        for link in links:
            await self._clock.sleep(pause)
            link.drain(int(grace * 1000), text)

    async def _recheck(self) -> None:
        """Checks open links regularly, in case a token expired without a call of `revoke`."""
        while True:
            await self._clock.sleep(RECHECK_SECONDS)
            links = tuple(self._open)
            for start in range(0, len(links), CHECK_BATCH):
                await asyncio.gather(*map(self._check_token, links[start : start + CHECK_BATCH]))

    async def _check_token(self, link: OpenLink) -> None:
        try:
            await self._identify(link.call)
        except Unauthenticated as error:
            link.mux.close(error.message)
        except TowlineError as error:
            log.warning("could not check a deploy token", error=error.message)


class _LinkOwner:
    """Keeps the registry up to date with one link."""

    __slots__ = ("_cluster_id", "_peer", "_server", "mux")

    def __init__(self, cluster_id: ClusterId, server: TunnelServer, peer: str) -> None:
        self.mux: Mux
        self._cluster_id, self._server, self._peer = cluster_id, server, peer

    def on_ready(self, hello: Hello) -> None:
        log.info("agent connected", cluster=self._cluster_id, peer=self._peer)
        self._server.check_data_link(self._cluster_id, hello)
        self._server.claim_in_background(self._cluster_id, self.mux, self._peer)

    def on_open(self, stream: TunnelStream, request: Open) -> None:
        raise ProtocolError("an agent must not open streams")

    def on_peer_draining(self, drain: Drain) -> None:
        log.info("agent is moving to another replica", cluster=self._cluster_id, why=drain.text)

    def on_closed(self, reason: str) -> None:
        log.info("agent disconnected", cluster=self._cluster_id, why=reason)
        if reason.startswith(PROTOCOL_ERROR_PREFIX):
            self._server.record_violation(self._cluster_id, reason)
        self._server.forget(self._cluster_id, self.mux)
