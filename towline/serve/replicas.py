"""Shares agents between replicas of the control plane: ownership, heartbeats, listener."""

import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import structlog

from controlplane.agents.operations.tunnels import TunnelClaims
from controlplane.platform.context import TUNNEL
from controlplane.platform.ports import LOST_WAKES, Bus
from controlplane.secrets.backends.envelope import load_or_make_key
from core.errors import TowlineError, Unavailable
from core.identity import ClusterId, new_id
from core.runtime.clock import Clock
from core.runtime.tasks import Tasks
from core.spec.tunnels import Tunnel
from gitcache.peers.tls import make_tls_contexts
from proxy.compose import ReplicaConfig
from proxy.domain.link_location import LinkLocation, PeerReplica
from proxy.kube_proxy import KubeProxy
from towline.serve.sockets import address, listen_error
from towline.settings import ServeSettings

log = structlog.get_logger(__name__)

HEARTBEAT_SECONDS = 5.0
TIMEOUT_SECONDS = 15.0
FRESH_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class _ReplicaState:
    """Last known state of a replica; `changed`: monotonic time of its last heartbeat change."""

    address: str
    heartbeat: object
    changed: float


class StoreTunnelRegistry:
    """Implements the Kubernetes proxy's `TunnelRegistry` with rows in the store.

    A replica counts as alive while its heartbeat changes; clocks of other replicas do not matter.
    """

    def __init__(self, tunnels: TunnelClaims, me: str, clock: Clock) -> None:
        self._tunnels, self._clock = tunnels, clock
        self.me = me
        self.address = ""
        self._members: dict[str, _ReplicaState] = {}
        self._read_at = float("-inf")

    async def claim(self, cluster_id: ClusterId, instance: str, peer: str) -> int:
        """See `TunnelRegistry.claim`."""
        return (await self._tunnels.claim(cluster_id, self.me, instance, peer[:255])).epoch

    async def release(self, cluster_id: ClusterId, epoch: int) -> None:
        """See `TunnelRegistry.release`."""
        await self._tunnels.release(cluster_id, epoch)

    async def locate(self, cluster_id: ClusterId) -> LinkLocation | None:
        """See `TunnelRegistry.locate`."""
        row = await self._tunnels.find(cluster_id)
        if row is None:
            return None
        is_known = row.replica_id in self._members
        if not is_known or self._clock.monotonic() - self._read_at > 2 * HEARTBEAT_SECONDS:
            await self.beat()
        return self._link_location(row)

    async def moved_links(self, held: Mapping[ClusterId, int]) -> Mapping[ClusterId, LinkLocation]:
        """See `TunnelRegistry.moved_links`."""
        rows = await self._tunnels.moved_links(self.me, held)
        return {
            row.id: LinkLocation(row.replica_id or "", "", row.epoch, row.instance) for row in rows
        }

    async def other_replicas(self) -> Sequence[PeerReplica]:
        """See `TunnelRegistry.other_replicas`. The older of two at one address has ended."""
        if self._clock.monotonic() - self._read_at > FRESH_SECONDS:
            await self.beat()
        by_address = {
            member.address: PeerReplica(id, member.address)
            for id, member in sorted(self._members.items(), key=lambda item: item[1].changed)
            if member.address not in ("", self.address) and self._is_alive(member)
        }
        return tuple(by_address.values())

    async def beat(self) -> None:
        """Writes this replica's heartbeat and reads the others'. Raises Unavailable."""
        rows = await self._tunnels.beat(self.me, self.address)
        now = self._read_at = self._clock.monotonic()
        before = self._members
        self._members = {}
        for row in rows:
            earlier = before.get(row.id)
            is_unchanged = earlier is not None and earlier.heartbeat == row.heartbeat
            changed = earlier.changed if earlier is not None and is_unchanged else now
            self._members[row.id] = _ReplicaState(row.address, row.heartbeat, changed)

    async def leave(self) -> None:
        """Removes this replica from the store."""
        await self._tunnels.leave(self.me)

    def _link_location(self, row: Tunnel) -> LinkLocation | None:
        member = self._members.get(row.replica_id or "")
        if member is None or not self._is_alive(member):
            return None
        return LinkLocation(row.replica_id or "", member.address, row.epoch, row.instance)

    def _is_alive(self, member: _ReplicaState) -> bool:
        return self._clock.monotonic() - member.changed <= TIMEOUT_SECONDS


class ReplicaMembership:
    """Shares agents with other replicas; built only if Redis is configured."""

    def __init__(
        self, settings: ServeSettings, tunnels: TunnelClaims, bus: Bus, clock: Clock
    ) -> None:
        self._settings, self._bus, self._clock = settings, bus, clock
        self.registry = StoreTunnelRegistry(tunnels, new_id(clock.now()), clock)
        self._tasks = Tasks("replica")

    def proxy_config(self) -> ReplicaConfig:
        """Builds the proxy's settings for connections to other replicas.

        The TLS key derives from the encryption key of the store: anyone with that key can read all
        credentials anyway."""
        server, client = self._tls_contexts()
        return ReplicaConfig(self.registry, self.registry.me, server, client)

    async def start(self, kube_proxy: KubeProxy) -> str:
        """Listens and announces the address; returns it. Unavailable: the port is in use."""
        host, port = address(self._settings.listen_replicas, "listen_replicas")
        try:
            bound = await kube_proxy.listen_for_replicas(host, port)
        except OSError as error:
            raise listen_error((host, port), "replicas", error) from None
        self.registry.address = self._settings.replica_address or f"{host}:{bound}"
        await self.registry.beat()
        self._tasks.forever("beat", self._beat_periodically())
        self._tasks.forever("follow", self._follow_link_moves(kube_proxy))
        return f"{host}:{bound}"

    async def stop(self) -> None:
        """Leaves, and releases all agents of this replica."""
        await self._tasks.stop()
        try:
            await self.registry.leave()
        except TowlineError as error:
            log.warning("could not deregister; other replicas notice by timeout", why=error.message)

    @property
    def tasks(self) -> Tasks:
        """Background tasks that must not end before `stop`."""
        return self._tasks

    async def _beat_periodically(self) -> None:
        while True:
            await self._clock.sleep(HEARTBEAT_SECONDS)
            try:
                await self.registry.beat()
            except TowlineError as error:
                log.warning("heartbeat not written", why=error.message)

    async def _follow_link_moves(self, kube_proxy: KubeProxy) -> None:
        async for topic, key in self._bus.subscribe(TUNNEL, LOST_WAKES):
            try:
                if topic == LOST_WAKES:
                    await kube_proxy.check_moved_links()
                else:
                    cluster_id, _, replica_id = key.partition(" ")
                    await kube_proxy.on_link_moved(ClusterId(cluster_id), replica_id)
            except Unavailable as error:
                log.warning("could not look up agent ownership", why=error.message)

    def _tls_contexts(self) -> tuple[ssl.SSLContext, ssl.SSLContext]:
        key = load_or_make_key(self._settings.data / "encryption.key")
        contexts = make_tls_contexts(key.hex(), f"replica {self.registry.me}", self._clock.now())
        return contexts.server, contexts.client
