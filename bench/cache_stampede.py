"""Measures many concurrent readers: `python -m bench.cache_stampede`.

Three replicas run as processes, with 2,500 services in one repository. Readers request 1,000
services that are not rendered yet, from a replica that does not own the repository. Replicas,
Redis, Git server and readers share this machine.
"""

import asyncio
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import uvloop

from bench.git_harness.replicas import NAMES, GitCacheReplicas
from bench.gitcache import spec, timed, wait_for_commit
from bench.monorepo import MEMORY, service, service_folders
from bench.report import BenchReport
from core.identity import RepositoryId
from core.spec.source import RenderRequest
from gitcache.peers.remote import RemoteGitCache
from towline.demo.git_server import GitServer, ServedRepository

NAME = RepositoryId("fleet")
SERVICES = 2_500
READERS = 1_000
ARCHIVES = 20


async def read(client: RemoteGitCache, sha: str, folder: str) -> str:
    """Renders a service and reads its bundle, as a control plane does; returns the digest."""
    rendered = await client.render(RenderRequest(NAME, sha, folder))
    await client.bundle(rendered.digest)
    return rendered.digest


def archived(repository: ServedRepository, folders: Sequence[str]) -> list[float]:
    """Milliseconds of `git archive` for each folder."""
    times = []
    for folder in folders:
        archive = ["archive", "--format=tar.gz", f"main:{folder}"]
        started = time.perf_counter()
        subprocess.run(["git", "-C", repository.path, *archive], check=True, capture_output=True)
        times.append((time.perf_counter() - started) * 1000)
    return times


async def stampede(
    report: BenchReport,
    server: GitServer,
    tier: GitCacheReplicas,
    repository: ServedRepository,
    sha: str,
) -> None:
    """Reads from a replica that owns nothing, then from one that rendered nothing."""
    folders = service_folders(SERVICES)
    first = tier.client(*NAMES)
    await first.start()
    first.follow(spec(NAME, repository, folders))
    await wait_for_commit(first, NAME, sha)
    asked, third = (name for name in NAMES if name != tier.owner(NAME))
    client = tier.client(asked)
    await client.start()
    client.follow(spec(NAME, repository, folders))
    await wait_for_commit(client, NAME, sha)
    await read(client, sha, folders[-1])
    distinct, digests = folders[:READERS], []

    async def all_of_them() -> None:
        digests[:] = await asyncio.gather(*(read(client, sha, path) for path in distinct))

    server.packs.clear()
    cold = await timed(all_of_them)
    packs = len(server.packs)
    other = tier.client(third)
    moved = await timed(lambda: asyncio.gather(*map(other.bundle, tuple(digests))))
    again = await timed(all_of_them)
    each = await asyncio.to_thread(archived, repository, distinct[:ARCHIVES])
    report.add(f"{READERS:,} readers of as many services not rendered yet", [cold], "ms", goal=1500)
    report.add(
        "  each of them",
        [cold / READERS],
        "ms",
        baseline="git archive",
        baseline_values=each,
        goal=1 / 5,
    )
    report.add("  fetches from the git server for all of them", [packs], "packs", goal=0)
    report.add(f"{READERS:,} bundles, read where none of them was made", [moved], "ms", goal=1500)
    report.add(f"{READERS:,} readers again", [again], "ms")
    for process in (other, client, first):
        await process.stop()


async def main() -> None:
    """Runs all measurements."""
    report = BenchReport("cache_stampede")
    with (
        tempfile.TemporaryDirectory(dir=MEMORY) as folder,
        GitServer(Path(folder) / "server") as server,
    ):
        repository = server.create_repository("fleet")
        files = {f"{folder}/a.yaml": service(folder, 0) for folder in service_folders(SERVICES)}
        sha = await asyncio.to_thread(repository.commit, files)
        with GitCacheReplicas(Path(folder)) as tier:
            await stampede(report, server, tier, repository, sha)
    report.write()


if __name__ == "__main__":
    uvloop.run(main())
