"""Git caches on a folder of the test's own, and ways to wait for what they know."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from core.identity import RepositoryId
from core.runtime.clock import SystemClock
from core.spec.source import GitCredentials, RepositorySpec, RepositoryState
from gitcache.compose import build_git_cache
from gitcache.settings import (
    FetchSettings,
    GitCacheSettings,
    PollSettings,
    RenderSettings,
    SigningSettings,
)
from gitcache.sync.cache import GitCache

REPOSITORY = RepositoryId("shop")


class Stand:
    """Starts caches on one data folder, one after another or side by side."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._running: list[GitCache] = []

    async def start(
        self,
        *,
        poll: float = 0.2,
        request_seconds: float = 3.0,
        render_seconds: float = 20.0,
        memory: int = 768 << 20,
        lean_entries: int = 20_000,
        signed: tuple[str, ...] = (),
    ) -> GitCache:
        """A started cache."""
        settings = GitCacheSettings(
            data_dir=self.folder,
            poll=PollSettings(
                seconds=poll, seconds_with_webhook=3600, request_seconds=request_seconds
            ),
            fetch=FetchSettings(lean_entries=lean_entries),
            render=RenderSettings(workers=1, seconds=render_seconds, memory=memory),
            signing=SigningSettings(sources=signed),
        )
        cache = build_git_cache(settings, SystemClock())
        await cache.start()
        self._running.append(cache)
        return cache

    async def stop(self, cache: GitCache) -> None:
        """Stop one of them."""
        self._running.remove(cache)
        await cache.stop()

    async def close(self) -> None:
        """Stop all."""
        for cache in tuple(self._running):
            await self.stop(cache)


def spec(
    url: str,
    *refs: str,
    repository_id: str = REPOSITORY,
    credentials: GitCredentials | None = None,
) -> RepositorySpec:
    """A repository to follow; its ref is `main` if none is named."""
    return RepositorySpec(
        RepositoryId(repository_id), url, frozenset(refs or ("main",)), credentials
    )


async def until(
    cache: GitCache,
    holds: Callable[[RepositoryState], object],
    *,
    repository_id: str = REPOSITORY,
    seconds: float = 60.0,
) -> RepositoryState:
    """Wait until the state of a repository fulfils a condition."""
    async with asyncio.timeout(seconds):
        while True:
            state = cache.state(RepositoryId(repository_id))
            if state is not None and holds(state):
                return state
            await asyncio.sleep(0.01)


async def at_commit(cache: GitCache, sha: str, ref: str = "main") -> RepositoryState:
    """Wait until a ref is known to be at a commit."""
    return await until(cache, lambda state: ref in state.commits and state.commits[ref].sha == sha)
