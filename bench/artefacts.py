"""Measures the cost of one artifact: `python -m bench.artefacts`.

One process with two workers renders, signs and stores artifacts without a warm cache. Baselines are
`git archive` of the same folder from the same clone, and Argo CD's procedure. One repository has
10,000 services; the CPU time for detecting that nothing changed is measured too.
"""

import asyncio
import gc
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import uvloop

from bench.git_harness.argocd import ArgoCheckout
from bench.gitcache import FOLDERS, MAIN, spec, timed, wait_for_commit
from bench.monorepo import MEMORY, service, service_folders
from bench.report import BenchReport
from core.identity import RepositoryId
from core.runtime.clock import SystemClock
from core.spec.source import RenderRequest
from gitcache.compose import build_git_cache
from gitcache.settings import GitCacheSettings, PollSettings
from gitcache.sync.cache import GitCache
from towline.demo.git_server import GitServer, ServedRepository

NAME = RepositoryId("fleet")
ONE_BY_ONE = 40
AT_ONCE = 1_000
LARGE = "large"
OBJECTS = 140
"""Number of files of 100 kB each: 14 MB in one folder."""


def large() -> dict[str, str]:
    """Files of a folder of 14 MB."""
    line = "  key-{:04}: " + "x" * 85 + "\n"
    data = "".join(line.format(number) for number in range(1_000))
    head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c{}}}\ndata:\n"
    return {f"{LARGE}/{n:03}.yaml": head.format(n) + data for n in range(OBJECTS)}


class ArtefactBench:
    """The cache with one repository and its clone."""

    def __init__(self, cache: GitCache, repository: ServedRepository, clones: Path) -> None:
        self.cache = cache
        self.repository = repository
        self._clones = clones
        self.sha = ""

    async def push(self, files: dict[str, str]) -> None:
        """Commits files, and waits until the cache has the commit."""
        self.sha = await asyncio.to_thread(self.repository.commit, files)
        await self.follow()

    async def follow(self) -> None:
        """Waits until the cache has the newest commit."""
        await self.cache.request_poll(NAME, {MAIN: self.sha})
        await wait_for_commit(self.cache, NAME, self.sha)

    async def read(self, folder: str) -> None:
        """Reads the bundle of a folder."""
        rendered = await self.cache.render(RenderRequest(NAME, self.sha, folder))
        await self.cache.bundle(rendered.digest)

    async def read_all(self, folders: Sequence[str]) -> None:
        """Reads many bundles concurrently."""
        await asyncio.gather(*map(self.read, folders))

    async def archive(self, folder: str) -> float:
        """Milliseconds of `git archive` for the same folder."""
        (clone,) = self._clones.glob("*.git")
        command = [
            "git",
            f"--git-dir={clone}",
            "archive",
            "--format=tar.gz",
            f"{self.sha}:{folder}",
        ]
        started = time.perf_counter()
        await asyncio.to_thread(subprocess.run, command, check=True, capture_output=True)
        return (time.perf_counter() - started) * 1000


async def small_folders(report: BenchReport, bench: ArtefactBench, folders: Sequence[str]) -> None:
    """Small folders in sequence, and 1,000 concurrently."""
    ours, theirs = [], []
    for folder in folders[:ONE_BY_ONE]:
        ours.append(await timed(lambda folder=folder: bench.read(folder)))
        theirs.append(await bench.archive(folder))
    many = folders[ONE_BY_ONE : ONE_BY_ONE + AT_ONCE]
    together = await timed(lambda: bench.read_all(many)) / len(many)
    for name, values in (
        ("artefact of a small folder", ours),
        (f"  each of {AT_ONCE:,} in parallel", [together]),
    ):
        report.add(name, values, "ms", baseline="git archive", baseline_values=theirs, goal=1 / 5)


async def large_folder(report: BenchReport, bench: ArtefactBench) -> None:
    """A folder with 14 MB of YAML."""
    theirs = [await bench.archive(LARGE)]
    report.add(
        "artefact of a folder of 14 MB",
        [await timed(lambda: bench.read(LARGE))],
        "ms",
        baseline="git archive",
        baseline_values=theirs,
        goal=1 / 1.4,
    )


async def unchanged(report: BenchReport, bench: ArtefactBench, folders: Sequence[str]) -> None:
    """CPU time for an unchanged folder: by its key, and by a render request."""
    await bench.cache.trees(NAME, bench.sha, folders)
    started = time.process_time()
    await bench.cache.trees(NAME, bench.sha, folders)
    keyed = (time.process_time() - started) / len(folders)
    known = folders[:AT_ONCE]
    started = time.process_time()
    await bench.read_all(known)
    read = (time.process_time() - started) / len(known)
    report.add("CPU to say that a folder is unchanged", [keyed * 1e6], "µs", goal=50)
    report.add("  to give its bundle once more", [read * 1e6], "µs")


async def everything(
    report: BenchReport, bench: ArtefactBench, folders: Sequence[str], argo: Path
) -> None:
    """One commit that changes all services."""
    checkout = await asyncio.to_thread(ArgoCheckout, argo, bench.repository.url)
    await asyncio.to_thread(checkout.artefact, folders[0])
    files = {f"{folder}/a.yaml": service(folder, 1) for folder in folders}
    bench.sha = await asyncio.to_thread(bench.repository.commit, files)

    async def ours() -> None:
        await bench.follow()
        await bench.read_all(folders)

    report.add(
        f"commit to artefacts, all {len(folders):,} services changed",
        [await timed(ours) / 1000],
        "s",
        baseline="Argo CD's way",
        baseline_values=[
            await timed(lambda: asyncio.to_thread(checkout.artefacts, folders)) / 1000
        ],
        goal=1 / 3,
    )


async def main() -> None:
    """Runs all measurements."""
    report = BenchReport("artefacts")
    folders = service_folders(FOLDERS)
    with (
        tempfile.TemporaryDirectory(dir=MEMORY) as folder,
        GitServer(Path(folder) / "server") as server,
    ):
        data = Path(folder) / "cache"
        settings = GitCacheSettings(data_dir=data, poll=PollSettings(seconds=3600))
        cache = build_git_cache(settings, SystemClock())
        await cache.start()
        # As the program does after its start.
        gc.freeze()
        gc.set_threshold(20_000, 20, 20)
        bench = ArtefactBench(cache, server.create_repository("fleet"), data / "repositories")
        cache.follow(spec("fleet", bench.repository, folders))
        await bench.push({f"{folder}/a.yaml": service(folder, 0) for folder in folders} | large())
        await small_folders(report, bench, folders)
        await large_folder(report, bench)
        await unchanged(report, bench, folders[:AT_ONCE])
        await everything(report, bench, folders, Path(folder) / "argo")
        await cache.stop()
    report.write()


if __name__ == "__main__":
    uvloop.run(main())
