"""A running git cache for each test that asks for one."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gitcache.sync.cache import GitCache
from tests.integration.gitcache.stand import Stand


@pytest.fixture
async def stand(tmp_path: Path) -> AsyncIterator[Stand]:
    """A folder for caches; what was started on it is stopped at the end."""
    stand = Stand(tmp_path / "cache")
    yield stand
    await stand.close()


@pytest.fixture
async def cache(stand: Stand) -> GitCache:
    """A running cache that polls five times a second."""
    return await stand.start()
