"""Coordination for a single replica."""

from collections.abc import Callable, Mapping, Sequence

from core.identity import RepositoryId
from core.spec.source import RepositoryState
from gitcache.ports import (
    HintForwarded,
    PlacementChanged,
    ReplicaEvent,
    ReplicaMember,
    StatePublished,
)


class SoleReplica:
    """The only replica: owns every repository that it claims, and gets its own events at once."""

    def __init__(self) -> None:
        self.me = ReplicaMember("sole", "")
        self._owned: set[RepositoryId] = set()
        self._listen: Callable[[ReplicaEvent], None] = lambda news: None

    async def start(self, listen: Callable[[ReplicaEvent], None]) -> None:
        """Implements `Replicas.start`."""
        self._listen = listen
        listen(PlacementChanged())

    async def stop(self) -> None:
        """Implements `Replicas.stop`."""
        self._owned.clear()

    def members(self) -> Sequence[ReplicaMember]:
        """Implements `Replicas.members`: this replica."""
        return (self.me,)

    def owner(self, repository_id: RepositoryId) -> ReplicaMember | None:
        """Implements `Replicas.owner`."""
        return self.me if repository_id in self._owned else None

    def holds_lease(self, repository_id: RepositoryId) -> bool:
        """Implements `Replicas.holds_lease`."""
        return repository_id in self._owned

    async def claim(self, repository_id: RepositoryId) -> bool:
        """Implements `Coordinator.claim`: always succeeds."""
        self._owned.add(repository_id)
        return True

    async def release(self, repository_id: RepositoryId) -> None:
        """Implements `Coordinator.release`."""
        self._owned.discard(repository_id)

    def prepared_replica(self, repository_id: RepositoryId) -> str | None:
        """Implements `Replicas.prepared_replica`: no other replica exists."""
        return None

    async def announce_prepared(self, repository_id: RepositoryId) -> None:
        """Implements `Replicas.announce_prepared`: no other replica exists."""

    async def publish(self, state: RepositoryState) -> bool:
        """Implements `Replicas.publish`."""
        if state.repository_id not in self._owned:
            return False
        self._listen(StatePublished(state))
        return True

    async def forward_hint(
        self, repository_id: RepositoryId, announced: Mapping[str, str] | None
    ) -> None:
        """Implements `Replicas.forward_hint`."""
        self._listen(HintForwarded(repository_id, announced))
