"""Coordination where there is only one replica."""

from fleet.identity import RepositoryId


class SoleOwner:
    """This replica owns everything."""

    async def claim(self, repository_id: RepositoryId) -> bool:
        """Always."""
        return True

    async def release(self, repository_id: RepositoryId) -> None:
        """Nobody else waits for it."""
