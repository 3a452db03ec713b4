"""Measures rendering in real workers: `python -m bench.rendering`.

Each figure is one job of the git cache's pool with a warm worker.
"""

import asyncio
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from pathlib import Path

import yaml

from bench.gitcache import MAIN, spec, wait_for_commit
from bench.report import BenchReport
from core.errors import Unavailable
from core.identity import RepositoryId
from core.runtime.clock import SystemClock
from core.spec.renderers import HelmRelease
from core.spec.source import RenderRequest
from gitcache.compose import build_git_cache
from gitcache.domain.renders import RenderJob
from gitcache.render.pool import JobLimits, WorkerPool
from gitcache.settings import GitCacheSettings, PollSettings
from gitcache.sync.cache import GitCache
from towline.demo.git_server import GitServer

OBJECTS = 20
RUNS = 40
CLUSTERS = 1_000
GROUPS = 3


def deployment(name: str, replicas: str) -> str:
    """Deployment of typical size."""
    return (
        f"apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {name}\n"
        f"  labels: {{app: {name}}}\nspec:\n  replicas: {replicas}\n"
        f"  selector: {{matchLabels: {{app: {name}}}}}\n  template:\n"
        f"    metadata: {{labels: {{app: {name}}}}}\n    spec:\n      containers:\n"
        "      - name: main\n        image: registry.example.org/shop:1.2.3\n"
        "        resources: {requests: {cpu: 100m, memory: 64Mi}}\n"
    )


def plain() -> dict[str, bytes]:
    """Plain manifests."""
    return {f"web/d{n}.yaml": deployment(f"d{n}", "2").encode() for n in range(OBJECTS)}


def chart() -> dict[str, bytes]:
    """The same objects as a chart."""
    files = {
        f"web/templates/d{n}.yaml": deployment(
            "{{ .Release.Name }}-" + str(n), "{{ .Values.replicas }}"
        ).encode()
        for n in range(OBJECTS)
    }
    about = b"apiVersion: v2\nname: web\nversion: 1.0.0\n"
    return {**files, "web/Chart.yaml": about, "web/values.yaml": b"replicas: 2\n"}


def kustomization() -> dict[str, bytes]:
    """The same objects as a kustomization with a prefix."""
    names = ", ".join(f"d{n}.yaml" for n in range(OBJECTS))
    text = f"namePrefix: prod-\nresources: [{names}]\n".encode()
    return {**plain(), "web/kustomization.yaml": text}


def large() -> dict[str, bytes]:
    """148 CustomResourceDefinitions, 14 MB of YAML."""
    line = '          field{}: {{type: string, description: "{}"}}\n'
    text = "".join(line.format(n, "what this field is for, in many words " * 3) for n in range(560))
    head = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n"
    head += "metadata: {{name: r{0}s.example.org}}\nspec:\n  versions:\n  - name: v1\n"
    head += "    schema:\n      openAPIV3Schema:\n        properties:\n"
    return {f"web/{n}.yaml": (head.format(n) + text).encode() for n in range(148)}


def _parse(files: dict[str, bytes]) -> None:
    """Parses the files, which every tool must do."""
    for data in files.values():
        list(yaml.load_all(data, yaml.CSafeLoader))


async def times(work: Callable[[], Awaitable[object]], runs: int = RUNS) -> list[float]:
    """Milliseconds of each run, after one warm-up run."""
    await work()
    found = []
    for _ in range(runs):
        started = time.perf_counter()
        await work()
        found.append((time.perf_counter() - started) * 1000)
    return found


async def renderers(report: BenchReport, folder: Path) -> None:
    """Renders 20 objects with each renderer."""
    pool = WorkerPool(1, JobLimits(30, 768 << 20, 4 << 30, 128 << 20, 10_000), folder / "scratch")
    await pool.start()
    release = HelmRelease("shop", "shop", values="replicas: 3")
    jobs = {
        "plain manifests": RenderJob("web", "web", plain(), renderer="raw"),
        "a chart": RenderJob("web", "web", chart(), settings=asdict(release), renderer="helm"),
    }
    for name, goal in (("plain manifests", None), ("a chart", 5)):
        try:
            values = await times(lambda job=jobs[name]: pool.render(job))
        except Unavailable as error:
            print(f"{name}: {error.message}")
            continue
        report.add(f"{name} of {OBJECTS} objects, warm", values, "ms", goal=goal)
    files = large()
    megabytes = sum(map(len, files.values())) / 1e6
    report.add(
        f"a folder of {megabytes:.0f} MB",
        await times(lambda: pool.render(RenderJob("web", "web", files, renderer="raw")), 2),
        "ms",
        baseline="libyaml alone",
        baseline_values=await times(lambda: asyncio.to_thread(_parse, files), 2),
    )
    job = RenderJob("web", "web", kustomization(), renderer="kustomize")
    ours = await times(lambda: pool.render(job), 10)
    theirs = await times(lambda: asyncio.to_thread(_kustomize, folder / "k"), 10)
    report.add(
        f"a kustomization of {OBJECTS} objects",
        ours,
        "ms",
        baseline="the tool alone",
        baseline_values=theirs,
        goal=1.6,
    )
    await pool.stop()


def _kustomize(folder: Path) -> None:
    """Runs the kustomize tool from the command line."""
    if not folder.exists():
        (folder / "web").mkdir(parents=True)
        for path, data in kustomization().items():
            (folder / path).write_bytes(data)
    command = ["kubectl", "kustomize", str(folder / "web")]
    subprocess.run(command, check=True, capture_output=True)


async def groups(report: BenchReport, cache: GitCache, server: GitServer) -> None:
    """Renders a templated service for 1,000 clusters with three different inputs."""
    repository = server.create_repository("fleet")
    text = deployment("web", "{{ cluster.tags.size }}")
    sha = await asyncio.to_thread(repository.commit, {"web/a.yaml": text})
    cache.follow(spec("fleet", repository))
    await cache.request_poll(RepositoryId("fleet"), {MAIN: sha})
    await wait_for_commit(cache, "fleet", sha)

    async def render(number: int, count: int) -> bool:
        tags = {"size": str(number % count)}
        cluster = {"handle": f"c{number}", "name": f"Cluster {number}", "tags": tags}
        request = RenderRequest(
            RepositoryId("fleet"),
            sha,
            "web",
            "raw",
            templated=True,
            parameters={"cluster": cluster},
        )
        return not (await cache.render(request)).cached

    for count, name in ((GROUPS, f"in {GROUPS} groups"), (CLUSTERS, "that all differ")):
        started = time.perf_counter()
        made = await asyncio.gather(*(render(number, count) for number in range(CLUSTERS)))
        took = (time.perf_counter() - started) * 1000
        goal = GROUPS if count == GROUPS else None
        report.add(f"renders for {CLUSTERS:,} clusters {name}", [sum(made)], "", goal=goal)
        report.add(f"  time for all of them, {name}", [took], "ms")


async def main() -> None:
    """Runs all measurements."""
    with GitServer() as server, tempfile.TemporaryDirectory() as name:
        report = BenchReport("rendering")
        await renderers(report, Path(name))
        settings = GitCacheSettings(data_dir=Path(name) / "d", poll=PollSettings(seconds=3600))
        cache = build_git_cache(settings, SystemClock())
        await cache.start()
        await groups(report, cache, server)
        await cache.stop()
        report.write()


if __name__ == "__main__":
    asyncio.run(main())
