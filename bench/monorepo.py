"""Measures three replicas with one large repository: `python -m bench.monorepo`.

The repository has 100,000 files in 10,000 service folders of 50 teams, as in the goals of the git
cache. Replicas, Redis, Git server, readers and the baseline share this machine.
"""

import asyncio
import os
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from bench.git_harness.argocd import ArgoCheckout, disk
from bench.git_harness.replicas import NAMES, GitCacheReplicas
from bench.gitcache import COMMITS, FOLDERS, MAIN, manifest, spec, timed, wait_for_commit
from bench.report import BenchReport
from core.identity import RepositoryId
from core.spec.source import RenderRequest
from gitcache.peers.remote import RemoteGitCache
from towline.demo.git_server import GitServer, ServedRepository

MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None
LINES = 20
NOTES = 9
"""Number of other files in each folder, which renders do not read."""


def service_folders(count: int = FOLDERS) -> list[str]:
    """Folders of services, grouped by 50 teams."""
    return [f"teams/team-{number % 50:02}/services/svc-{number:05}" for number in range(count)]


def repository_files(folders: Sequence[str]) -> dict[str, str]:
    """Files of the repository: ten per service, about 1 kB each."""
    generator = random.Random(42)
    files: dict[str, str] = {}
    for folder in folders:
        files[f"{folder}/a.yaml"] = service(folder, 0)
        for number in range(NOTES):
            values = generator.randbytes(LINES * 5).hex("\n", 5).split("\n")
            lines = (f"- name: KEY_{n:02}\n  value: {value}\n" for n, value in enumerate(values))
            files[f"{folder}/notes/{number}.md"] = "".join(lines)
    return files


def service(folder: str, value: int) -> str:
    """Manifests of one service."""
    return manifest(folder.rpartition("/")[2], value)


async def replicas(report: BenchReport, server: GitServer, folder: Path) -> None:
    """Measures 10,000 services with three replicas; requests go to a non-owner."""
    repository = server.create_repository("fleet")
    folders = service_folders()
    sha = await asyncio.to_thread(repository.commit, repository_files(folders))
    argo = await asyncio.to_thread(ArgoCheckout, folder / "argo", repository.url)
    await asyncio.to_thread(argo.artefact, folders[0])
    with GitCacheReplicas(folder) as tier:
        first = tier.client(*NAMES)
        await first.start()
        name = RepositoryId("fleet")
        first.follow(spec("fleet", repository, folders))
        await wait_for_commit(first, "fleet", sha)
        owner = tier.owner(name)
        other = next(replica for replica in NAMES if replica != owner)
        client = tier.client(other)
        await client.start()
        client.follow(spec("fleet", repository, folders))
        await wait_for_commit(client, "fleet", sha)
        await client.bundle((await client.render(RenderRequest(name, sha, folders[1]))).digest)
        await _measure_commits(report, server, repository, client, argo, folders)
        clone = disk(folder / owner / "git" / "repositories")
        report.add(
            "disk of a clone of 100,000 files",
            [clone / 1e6],
            "MB",
            baseline="Argo CD's clone",
            baseline_values=[argo.size() / 1e6],
            goal=1 / 8,
        )
        report.add("memory of the owner", [tier.memory(owner) / 1e6], "MB", goal=100)
        await first.stop()
        await client.stop()


async def _run_in_thread(work: Callable[[str], object], folder: str) -> object:
    return await asyncio.to_thread(work, folder)


async def _measure_commits(
    report: BenchReport,
    server: GitServer,
    repository: ServedRepository,
    client: RemoteGitCache,
    argo: ArgoCheckout,
    folders: list[str],
) -> None:
    """Time from commit to artifact at a non-owner, compared with Argo CD's procedure."""
    name = RepositoryId("fleet")
    ours, theirs, seen, packs = [], [], [], []
    for number in range(1, COMMITS // 2 + 1):
        folder = folders[number * 37]
        change = {f"{folder}/a.yaml": service(folder, number)}
        sha = await asyncio.to_thread(repository.commit, change)
        server.packs.clear()
        started = time.perf_counter()
        await client.request_poll(name, {MAIN: sha})
        await wait_for_commit(client, "fleet", sha)
        seen.append((time.perf_counter() - started) * 1000)
        rendered = await client.render(RenderRequest(name, sha, folder))
        await client.bundle(rendered.digest)
        ours.append((time.perf_counter() - started) * 1000)
        packs.append(len(server.packs))
        theirs.append(await timed(partial(_run_in_thread, argo.artefact, folder)))
    report.add(
        f"commit to artefact at another replica, one of {FOLDERS:,}",
        ours,
        "ms",
        baseline="Argo CD's way",
        baseline_values=theirs,
        goal=1 / 8,
    )
    report.add("  of it, until the commit is known there", seen, "ms")
    report.add("  fetches from the git server per commit", packs, "packs", goal=1)


async def main() -> None:
    """Runs all measurements."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        with GitServer(Path(folder) / "server") as server:
            report = BenchReport("monorepo")
            await replicas(report, server, Path(folder))
        report.write()


if __name__ == "__main__":
    asyncio.run(main())
