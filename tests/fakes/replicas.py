"""Several replicas in one process, without a server between them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from core.errors import Unavailable
from core.identity import RepositoryId
from core.spec.source import RenderedBundle, RenderRequest, RepositoryState
from gitcache.domain.messages import Operation, Query, Result
from gitcache.peers.api import PeerApi
from gitcache.ports import (
    HintForwarded,
    PeerUnavailable,
    PlacementChanged,
    ReplicaEvent,
    ReplicaMember,
    StatePublished,
)
from gitcache.sync.cache import GitCache
from tests.fakes.gitcache import FakeContent


@dataclass
class Hub:
    """State that Redis would hold; `away` makes it fail."""

    listeners: dict[str, Callable[[ReplicaEvent], None]] = field(default_factory=dict)
    owners: dict[RepositoryId, str] = field(default_factory=dict)
    ready: dict[RepositoryId, str] = field(default_factory=dict)
    states: dict[RepositoryId, RepositoryState] = field(default_factory=dict)
    away: bool = False

    def tell(self, news: ReplicaEvent) -> None:
        """To everyone."""
        for listen in tuple(self.listeners.values()):
            listen(news)

    def kill(self, name: str) -> None:
        """A replica is gone, and its leases with it."""
        del self.listeners[name]
        self.owners = {id: owner for id, owner in self.owners.items() if owner != name}
        self.tell(PlacementChanged())

    def check(self) -> None:
        """Unavailable, if it is away."""
        if self.away:
            raise Unavailable("away")


class HubReplicas:
    """One of them; fills `Replicas`."""

    def __init__(self, hub: Hub, name: str) -> None:
        self.me = ReplicaMember(name, name)
        self._hub = hub

    async def start(self, listen: Callable[[ReplicaEvent], None]) -> None:
        self._hub.listeners[self.me.name] = listen
        for state in self._hub.states.values():
            listen(StatePublished(state))
        self._hub.tell(PlacementChanged())

    async def stop(self) -> None:
        if self.me.name in self._hub.listeners:
            self._hub.kill(self.me.name)

    def members(self) -> Sequence[ReplicaMember]:
        return [ReplicaMember(name, name) for name in self._hub.listeners]

    def owner(self, repository_id: RepositoryId) -> ReplicaMember | None:
        name = self._hub.owners.get(repository_id)
        return ReplicaMember(name, name) if name else None

    def holds_lease(self, repository_id: RepositoryId) -> bool:
        return self._hub.owners.get(repository_id) == self.me.name

    async def claim(self, repository_id: RepositoryId) -> bool:
        if self.holds_lease(repository_id):
            return True
        self._hub.check()
        return self._hub.owners.setdefault(repository_id, self.me.name) == self.me.name

    async def release(self, repository_id: RepositoryId) -> None:
        if self.holds_lease(repository_id):
            del self._hub.owners[repository_id]
            self._hub.ready.pop(repository_id, None)
            self._hub.tell(PlacementChanged())

    def prepared_replica(self, repository_id: RepositoryId) -> str | None:
        return self._hub.ready.get(repository_id)

    async def announce_prepared(self, repository_id: RepositoryId) -> None:
        self._hub.ready[repository_id] = self.me.name
        self._hub.tell(PlacementChanged())

    async def publish(self, state: RepositoryState) -> bool:
        self._hub.check()
        if not self.holds_lease(state.repository_id):
            return False
        self._hub.states[state.repository_id] = state
        self._hub.tell(StatePublished(state))
        return True

    async def forward_hint(
        self, repository_id: RepositoryId, announced: Mapping[str, str] | None
    ) -> None:
        self._hub.check()
        self._hub.tell(HintForwarded(repository_id, announced))


class HubPeers:
    """Calls from one cache to another; `asked` counts them."""

    def __init__(self) -> None:
        self.caches: dict[str, GitCache] = {}
        self.asked: list[str] = []

    def _cache(self, member: ReplicaMember) -> GitCache:
        self.asked.append(member.name)
        if member.name not in self.caches:
            raise PeerUnavailable(f"{member.name} is away")
        return self.caches[member.name]

    async def call(
        self, member: ReplicaMember, operation: Operation[Query, Result], query: Query
    ) -> Result:
        api = PeerApi(self._cache(member), FakeContent(), lambda digests: None)
        body = operation.query.encode(query)
        return operation.result.decode(await api.answer(operation.path, body, is_hop=True))

    async def render(self, member: ReplicaMember, request: RenderRequest) -> RenderedBundle:
        return await self._cache(member).render(request, local_only=True)
