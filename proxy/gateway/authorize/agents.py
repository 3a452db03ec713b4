"""Routes to the agents of clusters, for new requests."""

from core.errors import LimitExceeded, Unavailable
from core.identity import ClusterId
from core.runtime.clock import Clock
from proxy.gateway.error_response import age
from proxy.ports import AgentPresence, AgentRoute, AgentRouter

_NEXT_STEP = (
    "look at its log in that cluster: kubectl -n towline-agent logs deployment/towline-agent"
)


class AgentLocator:
    """Finds the route to the agent of a cluster, if the agent can take another request.
    `per_agent`: maximum number of open requests to one agent.
    """

    def __init__(
        self, router: AgentRouter, presence: AgentPresence, clock: Clock, per_agent: int
    ) -> None:
        self._router, self._presence = router, presence
        self._clock, self._per_agent = clock, per_agent

    def find(self, cluster_id: ClusterId) -> AgentRoute | None:
        """Returns a route that is already known and has room; None: call `reach`."""
        route = self._router.find(cluster_id)
        return route if route is not None and self._has_room(route) else None

    async def reach(self, cluster_id: ClusterId, handle: str) -> AgentRoute:
        """Returns the route after a lookup.
        Unavailable: the agent is not connected. LimitExceeded: too many requests are open on it.
        """
        route = await self._router.reach(cluster_id)
        if route is None or not route.accepts_streams:
            raise Unavailable(await self._describe_absence(cluster_id, handle))
        if not self._has_room(route):
            raise LimitExceeded(f'too many requests are open on cluster "{handle}"')
        return route

    def _has_room(self, route: AgentRoute) -> bool:
        return route.accepts_streams and not route.crowded and len(route.streams) < self._per_agent

    async def _describe_absence(self, cluster_id: ClusterId, handle: str) -> str:
        contact = await self._presence.last_seen(cluster_id)
        prefix = f'cluster "{handle}" is not connected: agent '
        if contact is None:
            return f"{prefix}never seen yet; {_NEXT_STEP}"
        status = f"{prefix}last seen {age(self._clock.now() - contact.at)} ago"
        return "; ".join(filter(None, (status, contact.problem, _NEXT_STEP)))
