"""`make world`: prints a table for each part; fails if Towline differs from other tools."""

import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from core.errors import Invalid, TowlineError
from core.identity import RepositoryId
from gitcache.sync.cache import GitCache
from tests.integration.gitcache.stand import Stand, spec, until
from tests.world import first_hour, installs
from tests.world.clients import matrix
from tests.world.compare import Comparison, Result, compare, table
from tests.world.corpus import fetch, name_of, packages, sources
from tests.world.page import PARTS, publish
from tests.world.specs import compare as compare_specs
from towline.demo.git_server import GitServer

_FAILED = {Result.DIFFERENT, Result.ONLY_WE_REFUSE}


def main(part: str = "", wanted: str = "") -> int:
    """Runs one part or all, for packages, applications and clients whose name has `wanted`."""
    if part and part not in PARTS:
        raise Invalid(f"{part!r} is no part; there are {', '.join(PARTS)}")
    failed = False
    if part in ("", "render"):
        failed |= asyncio.run(_render(wanted))
    if part in ("", "install"):
        installed = installs.install(wanted)
        publish("install", installs.table(installed), whole=not wanted)
        failed |= any(installation.failed for installation in installed)
    if part in ("", "clients"):
        rows = matrix.run_matrix(wanted)
        publish("clients", matrix.table(rows), whole=not wanted)
        # A client that could not be installed has shown nothing.
        failed |= any(row.differences or not row.operations for row in rows)
    if part in ("", "specs"):
        runs = compare_specs.run(wanted)
        publish("specs", compare_specs.table(runs), whole=not wanted)
        failed |= any(run.failed for run in runs)
    if part in ("", "readme"):
        publish("readme", first_hour.table(first_hour.measure()), whole=True)
    return int(failed)


async def _render(wanted: str) -> bool:
    found: dict[str, list[Comparison]] = {}
    with tempfile.TemporaryDirectory(prefix="towline-world-") as folder:
        stand = Stand(Path(folder) / "cache")
        cache = await stand.start(poll=1, render_seconds=120, memory=1 << 30)
        with GitServer(Path(folder) / "git") as server:
            for package in packages(wanted):
                compared = [each async for each in _compared(cache, server, package)]
                found[name_of(package)] = compared
        await stand.close()
    publish("render", table(found), whole=not wanted)
    compared = [comparison for comparisons in found.values() for comparison in comparisons]
    return any(comparison.result in _FAILED for comparison in compared)


async def _compared(cache: GitCache, server: GitServer, package: str) -> AsyncIterator[Comparison]:
    top = fetch(package)
    # Programs render nothing, and some modules have thousands of their files.
    files = (path for path in top.rglob("*") if path.is_file() and path.suffix != ".go")
    name = package.strip("/").replace("/", "-").replace(":", "-")
    repository = server.create_repository(name)
    sha = repository.commit({path.relative_to(top).as_posix(): path.read_bytes() for path in files})
    cache.follow(spec(repository.url, repository_id=name))
    await until(cache, lambda state: state.commits, repository_id=name)
    for source in sources(package, top):
        comparison = await compare(cache, RepositoryId(name), sha, top, source)
        if comparison.result is not Result.SAME:
            place = f"{package}/{source.path}"
            print(f"{comparison.result}: {place}: {comparison.detail}", flush=True)
        yield comparison


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:3]))
    except TowlineError as error:
        sys.exit(error.message)
