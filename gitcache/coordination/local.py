"""Coordination where there is only one replica."""

from collections.abc import Callable, Mapping, Sequence

from fleet.identity import RepositoryId
from fleet.source import RepositoryState
from gitcache.ports import HintNews, Member, News, PlaceNews, StateNews


class SoleReplica:
    """This replica owns what it claims; nobody contends. Its own news come back at once."""

    def __init__(self) -> None:
        self.me = Member("sole", "")
        self._held: set[RepositoryId] = set()
        self._listen: Callable[[News], None] = lambda news: None

    async def start(self, listen: Callable[[News], None]) -> None:
        """As `Replicas.start`."""
        self._listen = listen
        listen(PlaceNews())

    async def stop(self) -> None:
        """As `Replicas.stop`."""
        self._held.clear()

    def members(self) -> Sequence[Member]:
        """This one."""
        return (self.me,)

    def owner(self, repository_id: RepositoryId) -> Member | None:
        """As `Replicas.owner`."""
        return self.me if repository_id in self._held else None

    def holds(self, repository_id: RepositoryId) -> bool:
        """As `Replicas.holds`."""
        return repository_id in self._held

    async def claim(self, repository_id: RepositoryId) -> bool:
        """Always."""
        self._held.add(repository_id)
        return True

    async def release(self, repository_id: RepositoryId) -> None:
        """As `Coordinator.release`."""
        self._held.discard(repository_id)

    def prepared(self, repository_id: RepositoryId) -> str | None:
        """Nobody waits to take over."""
        return None

    async def prepare(self, repository_id: RepositoryId) -> None:
        """Nobody is to be told."""

    async def publish(self, state: RepositoryState) -> bool:
        """As `Replicas.publish`."""
        if state.repository_id not in self._held:
            return False
        self._listen(StateNews(state))
        return True

    async def hint(self, repository_id: RepositoryId, announced: Mapping[str, str] | None) -> None:
        """As `Replicas.hint`."""
        self._listen(HintNews(repository_id, announced))
