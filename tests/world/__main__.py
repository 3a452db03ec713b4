"""`make world`: prints the differences, and a table of all results; fails if there are any."""

import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from core.errors import TowlineError
from core.identity import RepositoryId
from gitcache.sync.cache import GitCache
from tests.integration.gitcache.stand import Stand, spec, until
from tests.world.compare import Comparison, Result, compare, table
from tests.world.corpus import PACKAGES, fetch, sources
from towline.demo.git_server import GitServer

_FAILED = {Result.DIFFERENT, Result.ONLY_WE_REFUSE}


async def main(wanted: str) -> int:
    """Compares the packages whose name contains `wanted`."""
    found: list[Comparison] = []
    packages = [package for package in PACKAGES if wanted in package]
    with tempfile.TemporaryDirectory(prefix="towline-world-") as folder:
        stand = Stand(Path(folder) / "cache")
        cache = await stand.start(poll=1, render_seconds=120, memory=1 << 30)
        with GitServer(Path(folder) / "git") as server:
            for package in packages:
                found += [each async for each in _compared(cache, server, package)]
        await stand.close()
    print(table(found))
    return int(any(comparison.result in _FAILED for comparison in found))


async def _compared(cache: GitCache, server: GitServer, package: str) -> AsyncIterator[Comparison]:
    top = fetch(package)
    files = (path for path in top.rglob("*") if path.is_file())
    name = package.replace("/", "-")
    repository = server.create_repository(name)
    sha = repository.commit({path.relative_to(top).as_posix(): path.read_bytes() for path in files})
    cache.follow(spec(repository.url, repository_id=name))
    await until(cache, lambda state: state.commits, repository_id=name)
    for source in sources(top):
        comparison = await compare(cache, RepositoryId(name), sha, top, source)
        if comparison.result is not Result.SAME:
            place = f"{package}/{source.path}"
            print(f"{comparison.result}: {place}: {comparison.detail}", flush=True)
        yield comparison


if __name__ == "__main__":
    try:
        sys.exit(asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "")))
    except TowlineError as error:
        sys.exit(error.message)
