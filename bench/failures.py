"""Measures recovery of the git cache after failures: `python -m bench.failures`.

Three replicas of the git cache run with default leases, Redis and a Git server. Each scenario
freezes, kills or damages one of them, and measures the time until the next commit is rendered.
"""

import asyncio
import os
import signal
import tempfile
import time
from pathlib import Path

from bench.git_harness.git_server_process import git_server
from bench.git_harness.replicas import NAMES, GitCacheReplicas
from bench.gitcache import MAIN, manifest, spec, wait_for_commit
from bench.harness.load_generator import percentile
from bench.report import BenchReport
from core.identity import RepositoryId
from core.spec.source import RenderRequest
from gitcache.peers.remote import RemoteGitCache
from towline.demo.git_server import ServedRepository

NAME = RepositoryId("shop")
FROZEN_SECONDS = 6.0
PAUSED_SECONDS = 8.0
READS = 200


class WatchedRepository:
    """Repository with one service, and a control plane's client for it."""

    def __init__(self, repository: ServedRepository, client: RemoteGitCache) -> None:
        self.client = client
        self._repository = repository
        self._number = 0
        self.sha = ""

    async def follow(self) -> None:
        """Waits until the first commit is rendered."""
        self._commit()
        self.client.follow(spec(NAME, self._repository))
        await self._wait_until_rendered()

    async def commit_and_wait(self) -> float:
        """Seconds until another commit, with a webhook hint, is fetched and rendered."""
        await asyncio.to_thread(self._commit)
        started = time.perf_counter()
        await self.client.request_poll(NAME, {MAIN: self.sha})
        await self._wait_until_rendered()
        return time.perf_counter() - started

    async def read(self) -> float:
        """Milliseconds to read a bundle."""
        started = time.perf_counter()
        await self._read()
        return (time.perf_counter() - started) * 1000

    def _commit(self) -> None:
        self._number += 1
        self.sha = self._repository.commit({"web/a.yaml": manifest("web", self._number)})

    async def _wait_until_rendered(self) -> None:
        await wait_for_commit(self.client, NAME, self.sha)
        await self._read()

    async def _read(self) -> None:
        rendered = await self.client.render(RenderRequest(NAME, self.sha, "web"))
        await self.client.bundle(rendered.digest)


async def redis_frozen(
    report: BenchReport, tier: GitCacheReplicas, shop: WatchedRepository
) -> None:
    """Frozen Redis: no replica may fetch, but known bundles are served."""
    os.kill(tier.redis_pid, signal.SIGSTOP)
    try:
        started = time.perf_counter()
        reads = [await shop.read() for _ in range(READS)]
        await asyncio.sleep(FROZEN_SECONDS - (time.perf_counter() - started))
    finally:
        os.kill(tier.redis_pid, signal.SIGCONT)
    report.add("Redis frozen: a bundle is asked for, p99", [percentile(reads, 0.99)], "ms")
    report.add(
        "  after it goes on, until the next commit is rendered", [await shop.commit_and_wait()], "s"
    )


async def pack_damaged(
    report: BenchReport, tier: GitCacheReplicas, shop: WatchedRepository
) -> None:
    """Damaged clone of the owner."""
    clone = tier.folder / tier.owner(NAME) / "git" / "repositories"
    for path in [*clone.glob("*/objects/??/*"), *clone.glob("*/objects/pack/*.pack")]:
        path.chmod(0o644)
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    report.add(
        "copy damaged: until the next commit is rendered", [await shop.commit_and_wait()], "s"
    )


async def owner_paused(
    report: BenchReport, tier: GitCacheReplicas, shop: WatchedRepository
) -> None:
    """Paused owner, which still believes to own the repository when it resumes."""
    owner = tier.owner(NAME)
    os.kill(tier.pids[owner], signal.SIGSTOP)
    report.add(
        "owner paused: until the next commit is rendered", [await shop.commit_and_wait()], "s"
    )
    newest = shop.sha
    os.kill(tier.pids[owner], signal.SIGCONT)
    await asyncio.sleep(PAUSED_SECONDS)
    state = shop.client.state(NAME)
    if state is None or state.commits["main"].sha != newest:
        raise RuntimeError("the paused replica has reverted a newer state")


async def owner_killed(
    report: BenchReport, tier: GitCacheReplicas, shop: WatchedRepository
) -> None:
    """Killed owner: bundles have a second copy, but fetching waits for the lease."""
    os.kill(tier.pids[tier.owner(NAME)], signal.SIGKILL)
    report.add(
        "owner killed: until the next commit is rendered", [await shop.commit_and_wait()], "s"
    )


async def main() -> None:
    """Runs all scenarios in sequence on the same replicas."""
    report = BenchReport("failures")
    with tempfile.TemporaryDirectory() as folder, git_server() as server:
        repository = server.create_repository("shop")
        with GitCacheReplicas(Path(folder)) as tier:
            shop = WatchedRepository(repository, tier.client(*NAMES))
            await shop.client.start()
            await shop.follow()
            report.add(
                "nothing fails: until the next commit is rendered",
                [await shop.commit_and_wait()],
                "s",
            )
            await redis_frozen(report, tier, shop)
            await pack_damaged(report, tier, shop)
            await owner_paused(report, tier, shop)
            await owner_killed(report, tier, shop)
            await shop.client.stop()
    report.write()


if __name__ == "__main__":
    asyncio.run(main())
