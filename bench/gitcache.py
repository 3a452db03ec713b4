"""Measures the git cache against a real Git server: `python -m bench.gitcache`.

Figures and their baselines are measured in the same run.
"""

import asyncio
import gc
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from pathlib import Path

from bench.report import BenchReport
from core.identity import RepositoryId
from core.runtime.clock import SystemClock
from core.spec.source import RenderRequest, RepositorySpec
from gitcache.compose import build_git_cache
from gitcache.mirror.mirror import GitMirror, MirrorOptions
from gitcache.peers.remote import RemoteGitCache
from gitcache.settings import GitCacheSettings, PollSettings
from gitcache.sync.cache import GitCache
from towline.demo.git_server import GitServer, ServedRepository

SERVICES = 200
FOLDERS = 10_000
POLLS = 300
COMMITS = 20
MANY = 300
COPIES = 60
MAIN = "refs/heads/main"


def manifest(name: str, value: int) -> str:
    """A small Deployment and a ConfigMap."""
    return (
        f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{v: '{value}'}}\n"
        f"---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}}}\nspec:\n"
        f"  selector: {{matchLabels: {{app: {name}}}}}\n  template:\n"
        f"    metadata: {{labels: {{app: {name}}}}}\n"
        f"    spec: {{containers: [{{name: a, image: 'x:{value}'}}]}}\n"
    )


def spec(name: str, repository: ServedRepository, folders: Iterable[str] = ()) -> RepositorySpec:
    """Specification that follows main; `folders`: folders of services."""
    refs, used = frozenset({"main"}), frozenset(folders)
    return RepositorySpec(RepositoryId(name), repository.url, refs, folders=used)


def cpu(scope: int) -> float:
    """CPU seconds of this process, or of its ended children."""
    usage = resource.getrusage(scope)
    return usage.ru_utime + usage.ru_stime


async def polls(report: BenchReport, repository: ServedRepository) -> None:
    """CPU time of the client per poll, compared with `git ls-remote`."""
    folder = tempfile.TemporaryDirectory()
    mirror = GitMirror(Path(folder.name), MirrorOptions(per_second=10_000), SystemClock())
    lister = mirror.lister
    follow = spec("poll", repository)
    await lister.list_refs(follow, [MAIN])
    before, backend = time.thread_time(), cpu(resource.RUSAGE_CHILDREN)
    for _ in range(POLLS):
        await lister.list_refs(follow, [MAIN])
    ours = (time.thread_time() - before) / POLLS
    backend = (cpu(resource.RUSAGE_CHILDREN) - backend) / POLLS
    await mirror.close()
    folder.cleanup()
    before = cpu(resource.RUSAGE_CHILDREN)
    for _ in range(20):
        command = ["git", "ls-remote", repository.url, MAIN]
        await asyncio.to_thread(subprocess.run, command, check=True, capture_output=True)
    theirs = (cpu(resource.RUSAGE_CHILDREN) - before) / 20 - 2 * backend
    report.add(
        "client CPU per poll",
        [ours * 1000],
        "ms",
        baseline="git ls-remote",
        baseline_values=[theirs * 1000],
        goal=1 / 20,
    )


async def timed(work: Callable[[], Awaitable[object]]) -> float:
    """Milliseconds of some work."""
    started = time.perf_counter()
    await work()
    return (time.perf_counter() - started) * 1000


async def wait_for_commit(cache: GitCache | RemoteGitCache, name: str, sha: str) -> None:
    """Waits until the cache knows a commit of main."""
    arrived = asyncio.Event()
    cache.on_state(lambda state: _set_if_arrived(state, name, sha, arrived))
    state = cache.state(RepositoryId(name))
    if state is not None:
        _set_if_arrived(state, name, sha, arrived)
    await arrived.wait()


def _set_if_arrived(state, name: str, sha: str, arrived: asyncio.Event) -> None:
    commit = state.commits.get("main")
    if state.repository_id == name and commit is not None and commit.sha == sha:
        arrived.set()


async def keys(report: BenchReport, cache: GitCache, server: GitServer) -> None:
    """Computes the keys of 10,000 folders after a commit that changes one."""
    repository = server.create_repository("mono")
    files = {f"services/s{n:05}/a.yaml": f"n: {n}\n" for n in range(FOLDERS)}
    sha = await asyncio.to_thread(repository.commit, files)
    cache.follow(spec("mono", repository))
    await wait_for_commit(cache, "mono", sha)
    folders = [f"services/s{n:05}" for n in range(FOLDERS)]
    cold = await timed(lambda: cache.trees(RepositoryId("mono"), sha, folders))
    times = []
    for number in range(5):
        sha = await asyncio.to_thread(
            repository.commit, {"services/s00007/a.yaml": f"n: x{number}\n"}
        )
        await cache.request_poll(RepositoryId("mono"), {MAIN: sha})
        await wait_for_commit(cache, "mono", sha)
        read_keys = partial(cache.trees, RepositoryId("mono"), sha, folders)
        times.append(await timed(read_keys))
    report.add(f"keys of {FOLDERS:,} folders, cold", [cold], "ms")
    report.add(f"keys of {FOLDERS:,} folders after a commit", times, "ms", goal=20)


async def path(report: BenchReport, cache: GitCache, server: GitServer) -> None:
    """Time from commit to rendered bundle with a webhook hint, for one of 200 services."""
    name = RepositoryId("shop")
    repository = server.create_repository("shop")
    files = {f"s{n:03}/a.yaml": manifest(f"s{n:03}", 0) for n in range(SERVICES)}
    sha = await asyncio.to_thread(repository.commit, files)
    cache.follow(spec("shop", repository))
    await wait_for_commit(cache, "shop", sha)
    folders = [f"s{n:03}" for n in range(SERVICES)]
    first = await timed(lambda: _render_all(cache, name, sha, folders))
    report.add(f"first render of {SERVICES} services", [first], "ms")
    old_keys = await cache.trees(name, sha, folders)
    stages: dict[str, list[float]] = {"seen": [], "keyed": [], "rendered": [], "all": []}
    for number in range(1, COMMITS + 1):
        change = {f"s{number:03}/a.yaml": manifest(f"s{number:03}", number)}
        sha = await asyncio.to_thread(repository.commit, change)
        marks = [time.perf_counter()]
        await cache.request_poll(name, {MAIN: sha})
        await wait_for_commit(cache, "shop", sha)
        marks.append(time.perf_counter())
        new_keys = await cache.trees(name, sha, folders)
        changed = [folder for folder in folders if new_keys[folder] != old_keys[folder]]
        old_keys = new_keys
        marks.append(time.perf_counter())
        await _render_all(cache, name, sha, changed)
        marks.append(time.perf_counter())
        for stage, start, end in zip(stages, (0, 1, 2, 0), (1, 2, 3, 3), strict=True):
            stages[stage].append((marks[end] - marks[start]) * 1000)
    report.add(f"commit to bundle, one of {SERVICES}, webhook hint", stages.pop("all"), "ms")
    for stage, values in stages.items():
        report.add(f"  stage {stage}", values, "ms")


async def _render_all(cache: GitCache, name: RepositoryId, sha: str, folders: list[str]) -> None:
    await asyncio.gather(*(cache.render(RenderRequest(name, sha, folder)) for folder in folders))


async def three_hundred(report: BenchReport, repository: ServedRepository, folder: Path) -> None:
    """Cost of polling 300 unchanged repositories every second."""
    line = f"{repository.resolve(MAIN)} refs/heads/other\n".encode()
    answer = b"%04x%b0000" % (len(line) + 4, line)
    program = [sys.executable, "-m", "bench.git_harness.canned_server", answer.hex()]
    canned = await asyncio.create_subprocess_exec(*program, stdout=subprocess.PIPE)
    if canned.stdout is None:
        raise RuntimeError("the canned server printed nothing")
    port = int(await canned.stdout.readline())
    poll = PollSettings(seconds=1, requests_per_second=10_000)
    cache = build_git_cache(GitCacheSettings(data_dir=folder, poll=poll), SystemClock())
    await cache.start()
    for number in range(MANY):
        url = f"http://127.0.0.1:{port}/r{number}.git"
        cache.follow(RepositorySpec(RepositoryId(f"r{number}"), url, frozenset({"main"})))
    await asyncio.sleep(3)
    failed = [state.error for state in cache.states() if state.error]
    before, started = time.process_time(), time.perf_counter()
    await asyncio.sleep(10)
    share = (time.process_time() - before) / (time.perf_counter() - started)
    asked = len(cache.states()) - len(failed)
    await cache.stop()
    canned.terminate()
    await canned.wait()
    if asked != MANY:
        raise RuntimeError(f"only {asked} of {MANY} are polled: {failed[:1]}")
    report.add(f"{MANY} repositories polled every second", [share], "cores", goal=0.25)


def own_memory() -> int:
    """Private memory of this process and its children in bytes."""
    found = 0
    children = Path("/proc/self/task").glob("*/children")
    for pid in ["self", *(pid for child in children for pid in child.read_text().split())]:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        found += sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))
    return found << 10


async def open_copies(report: BenchReport, server: GitServer, folder: Path) -> None:
    """Memory of each clone that renders occasionally read."""
    mirror = GitMirror(folder, MirrorOptions(per_second=10_000), SystemClock())
    await mirror.open()
    copies = []
    for number in range(COPIES):
        repository = server.create_repository(f"open{number}")
        sha = await asyncio.to_thread(repository.commit, {"web/a.yaml": manifest("a", number)})
        copies.append((spec(f"open{number}", repository), sha))
        await mirror.clones.fetch(copies[-1][0], {"m": sha})
    sizes = []
    for part in (copies[: COPIES // 2], copies[COPIES // 2 :]):
        for follow, sha in part:
            record = await mirror.reader.commit(follow, sha)
            if record is None or not await mirror.reader.walk(follow, record.tree):
                raise RuntimeError("cannot read a clone")
        sizes.append(own_memory())
    await mirror.close()
    each = (sizes[1] - sizes[0]) / (COPIES - COPIES // 2)
    report.add("memory of one more repository in use", [each / 1e6], "MB", goal=0.1)


async def main() -> None:
    """Runs all measurements with one server and one cache."""
    with GitServer() as server, tempfile.TemporaryDirectory() as folder:
        repository = server.create_repository("small")
        repository.commit({"a.yaml": "a: 1\n"})
        report = BenchReport("gitcache")
        await polls(report, repository)
        settings = GitCacheSettings(data_dir=Path(folder), poll=PollSettings(seconds=3600))
        cache = build_git_cache(settings, SystemClock())
        await cache.start()
        # As the programs do after their start.
        gc.collect()
        gc.freeze()
        await path(report, cache, server)
        await keys(report, cache, server)
        await cache.stop()
        await open_copies(report, server, Path(folder) / "open")
        await three_hundred(report, repository, Path(folder) / "many")
        report.write()


if __name__ == "__main__":
    asyncio.run(main())
