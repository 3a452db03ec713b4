"""Routes to agents that several replicas share."""

import asyncio
from typing import Protocol

import structlog

from core.errors import TowlineError, Unavailable
from core.identity import ClusterId
from core.mux.mux import Mux
from core.runtime.clock import Clock
from core.runtime.tasks import Tasks
from proxy.domain.link_location import LinkLocation
from proxy.ports import AgentRoute, TunnelRegistry
from proxy.replicas.forward import RemoteAgentRoute
from proxy.replicas.links import ReplicaLinks

log = structlog.get_logger(__name__)

CHECK_SECONDS = 5.0
TICK_SECONDS = 1.0
PAUSED_SECONDS = 5.0
HAND_OVER_SECONDS = 8.0
HAND_OVER_PAUSE = 0.2
_MAX_CACHED = 20_000


class LocalLinks(Protocol):
    """The agent links that this replica holds itself."""

    def find(self, cluster_id: ClusterId) -> Mux | None:
        """Returns the link for new requests."""
        ...

    def find_epoch(self, cluster_id: ClusterId, epoch: int) -> Mux | None:
        """Returns the link if it was claimed with this epoch."""
        ...

    async def drop_lost_links(self) -> None:
        """Drops links that another replica has claimed. Unavailable: the registry cannot be
        reached.
        """
        ...


class ReplicaRouter:
    """Implements `AgentRouter`: finds the link here or one hop away.
    It caches the places of other links until a holder refuses a request because of a wrong epoch.
    After a pause of the process it trusts no link until it has asked the registry.
    """

    def __init__(
        self,
        local: LocalLinks,
        registry: TunnelRegistry,
        peers: ReplicaLinks,
        own_id: str,
        clock: Clock,
    ) -> None:
        self._local, self._registry, self._peers = local, registry, peers
        self._own_id, self._clock = own_id, clock
        self._remote_routes: dict[ClusterId, RemoteAgentRoute] = {}
        self._lookups: dict[tuple[ClusterId, int], asyncio.Task[AgentRoute | None]] = {}
        self._moved: dict[ClusterId, float] = {}
        self._ticked = clock.monotonic()
        self._paused_since_check = False
        self.tasks = Tasks("replica router")

    def start(self) -> None:
        """Starts to check whether other replicas have claimed links that are held here."""
        self._ticked = self._clock.monotonic()
        self.tasks.forever("tick", self._tick())
        self.tasks.forever("check", self._check())

    async def stop(self) -> None:
        """Stops the background tasks."""
        await self.tasks.stop()

    @property
    def _was_paused(self) -> bool:
        """Reports whether the process was paused so long that others may have claimed its links."""
        if self._clock.monotonic() - self._ticked > PAUSED_SECONDS:
            self._paused_since_check = True
        return self._paused_since_check

    def find(self, cluster_id: ClusterId) -> AgentRoute | None:
        """See `AgentRouter.find`."""
        if self._was_paused:
            return None
        local_link = self._local.find(cluster_id)
        if local_link is not None and local_link.accepts_streams:
            return local_link
        remote_route = self._remote_routes.get(cluster_id)
        return remote_route if remote_route is not None and remote_route.accepts_streams else None

    def find_epoch(self, cluster_id: ClusterId, epoch: int) -> Mux | None:
        """Returns the link of this epoch, for requests of other replicas."""
        return None if self._was_paused else self._local.find_epoch(cluster_id, epoch)

    async def reach(self, cluster_id: ClusterId) -> AgentRoute | None:
        """See `AgentRouter.reach`. Unavailable: the registry cannot be reached.
        It waits some seconds for an agent that was connected a moment ago.
        """
        if self._was_paused:
            await self.check_claims()
        route = self.find(cluster_id)
        return route if route is not None else await self._lookup_once(cluster_id)

    async def find_again(self, cluster_id: ClusterId, location: LinkLocation) -> AgentRoute | None:
        """Finds another route after a place turned out to be wrong; None: there is none."""
        cached = self._remote_routes.get(cluster_id)
        if cached is not None and cached.location.epoch <= location.epoch:
            self._remote_routes.pop(cluster_id, None)
        route = None
        try:
            route = self.find(cluster_id) or await self._lookup_once(cluster_id, location)
        except TowlineError as error:
            log.warning("no other route to the agent", cluster=cluster_id, why=error.message)
        return route.without_retry() if isinstance(route, RemoteAgentRoute) else route

    async def on_link_moved(self, cluster_id: ClusterId, replica_id: str) -> None:
        """Handles the event that a replica claimed or (without an id) released an agent's link."""
        self._remote_routes.pop(cluster_id, None)
        if len(self._moved) >= _MAX_CACHED:
            self._moved.clear()
        self._moved[cluster_id] = self._clock.monotonic()
        if replica_id not in ("", self._own_id) and self._local.find(cluster_id) is not None:
            await self.check_claims()

    async def check_claims(self) -> None:
        """Drops links that another replica has claimed. Unavailable: the registry cannot be
        reached.
        """
        await self._local.drop_lost_links()
        self._ticked, self._paused_since_check = self._clock.monotonic(), False

    async def _lookup_once(
        self, cluster_id: ClusterId, outdated: LinkLocation | None = None
    ) -> AgentRoute | None:
        """Looks a cluster up, with one lookup at a time for all waiting requests."""
        key = (cluster_id, outdated.epoch if outdated else 0)
        task = self._lookups.get(key)
        if task is None:
            task = self._lookups[key] = self.tasks.spawn(
                "ask", self._wait_for_route(cluster_id, outdated)
            )
            task.add_done_callback(lambda _: self._lookups.pop(key, None))
        await asyncio.wait({task})
        if task.cancelled():
            raise Unavailable("the control plane is restarting", retry_after=1.0)
        return task.result()

    async def _wait_for_route(
        self, cluster_id: ClusterId, outdated: LinkLocation | None
    ) -> AgentRoute | None:
        """Looks the route up, and waits for an agent that is moving between replicas."""
        now = self._clock.monotonic()
        until = now + HAND_OVER_SECONDS
        is_moving = outdated is not None or self._local.find(cluster_id) is not None
        is_moving = is_moving or now - self._moved.get(cluster_id, -until) < HAND_OVER_SECONDS
        while True:
            route = await self._locate(cluster_id, outdated)
            if route is not None or not is_moving or self._clock.monotonic() >= until:
                return route
            await self._clock.sleep(HAND_OVER_PAUSE)

    async def _locate(
        self, cluster_id: ClusterId, outdated: LinkLocation | None
    ) -> AgentRoute | None:
        location = await self._registry.locate(cluster_id)
        if location is None or (outdated is not None and location.epoch <= outdated.epoch):
            return None
        if location.replica_id == self._own_id:
            local_link = self._local.find_epoch(cluster_id, location.epoch)
            return local_link if local_link is not None and local_link.accepts_streams else None
        mux = await self._peers.link(location.address)
        if len(self._remote_routes) >= _MAX_CACHED:
            self._remote_routes.clear()
        remote_route = self._remote_routes[cluster_id] = RemoteAgentRoute(
            mux, cluster_id, location, self.find_again, self.tasks
        )
        return remote_route

    async def _tick(self) -> None:
        while True:
            await self._clock.sleep(TICK_SECONDS)
            if not self._was_paused:
                self._ticked = self._clock.monotonic()

    async def _check(self) -> None:
        while True:
            await self._clock.sleep(TICK_SECONDS if self._was_paused else CHECK_SECONDS)
            try:
                await self.check_claims()
            except TowlineError as error:
                log.warning("agent link registry not reachable", why=error.message)
