"""Measures polling and fetching: `python -m bench.fetching`; git is the baseline of every figure.

Scenarios: polls of a server with a fixed response, small changes in small and large repositories,
the first clone of a large repository, and a line of 1 GB.
"""

import asyncio
import os
import resource
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import uvloop
from aiohttp import web

from bench.git_harness.git_server_process import git_server
from bench.git_harness.huge_line import push as push_huge_line
from bench.monorepo import repository_files, service_folders
from bench.report import BenchReport
from core.identity import RepositoryId
from core.runtime.clock import SystemClock
from core.spec.source import GitCredentials, RepositorySpec
from gitcache.mirror.mirror import GitMirror, MirrorOptions
from gitcache.mirror.transport import pktline
from towline.certificate_authority import CertificateAuthority, CertificatePair
from towline.demo.git_server import GitServer, ServedRepository
from towline.demo.ports import free_ports

MAIN = "refs/heads/main"
POLLS = 400
LISTINGS = 20
COMMITS = 10
SHA = "1" * 40
ANSWER = pktline.encode(f"{SHA} {MAIN}\n".encode()) + pktline.FLUSH
ADVERTISED = b"".join(
    [
        pktline.encode(b"# service=git-upload-pack\n"),
        pktline.FLUSH,
        *(pktline.encode(line) for line in (b"version 2\n", b"ls-refs\n", b"object-format=sha1\n")),
        pktline.FLUSH,
    ]
)


async def answer(request: web.Request) -> web.Response:
    """Fixed response of a server with one branch: only the client is measured."""
    kind = "advertisement" if request.method == "GET" else "result"
    body = ADVERTISED if request.method == "GET" else ANSWER
    await request.read()
    return web.Response(body=body, content_type=f"application/x-git-upload-pack-{kind}")


def serve(port: int, certificate: str = "", key: str = "") -> None:
    """Runs that server, with TLS if a certificate (PEM files) is given."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    tls = None
    if certificate:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(certificate, key)
    web.run_app(app, host="127.0.0.1", port=port, print=None, ssl_context=tls)


@asynccontextmanager
async def mirror(lean_entries: int = 20_000) -> AsyncGenerator[GitMirror]:
    """Creates a mirror in a temporary folder."""
    options = MirrorOptions(per_second=1e6, lean_entries=lean_entries)
    with tempfile.TemporaryDirectory() as folder:
        git_mirror = GitMirror(Path(folder) / "home", options, SystemClock())
        await git_mirror.open()
        yield git_mirror
        await git_mirror.close()


def spec(name: str, url: str) -> RepositorySpec:
    """Specification of a repository that follows main."""
    return RepositorySpec(RepositoryId(name), url, frozenset({"main"}))


def children() -> float:
    """CPU seconds of ended child processes."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


async def polls(report: BenchReport) -> None:
    """Measures polls without and with TLS."""
    await _compare_polls(report, "canned answers", 1 / 20)
    with tempfile.TemporaryDirectory() as folder:
        now = SystemClock().now()
        authority = CertificateAuthority.create(Path(folder), "bench", now)
        server_certificate = authority.sign("server", "server", now, names=["127.0.0.1"])
        await _compare_polls(
            report, "canned answers by TLS", 1 / 100, authority.certificate, server_certificate
        )


async def _compare_polls(
    report: BenchReport,
    name: str,
    goal: float,
    authority: Path | None = None,
    server_certificate: CertificatePair | None = None,
) -> None:
    """CPU time of the client per poll, compared with `git ls-remote`."""
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "bench.fetching", str(port)]
    command += (
        [str(server_certificate.certificate), str(server_certificate.key)]
        if server_certificate
        else []
    )
    server = await asyncio.create_subprocess_exec(*command)
    url = f"{'https' if server_certificate else 'http'}://127.0.0.1:{port}/x"
    text = await asyncio.to_thread(authority.read_text) if authority else None
    trusted = GitCredentials(authority=text) if text else None
    async with mirror() as git_mirror:
        follow = replace(spec("poll", url), credentials=trusted)
        await _wait_until_up(lambda: git_mirror.lister.list_refs(follow, [MAIN]))
        started = time.thread_time()
        for _ in range(POLLS):
            await git_mirror.lister.list_refs(follow, [MAIN])
        own_time = (time.thread_time() - started) / POLLS
    before = children()
    for _ in range(LISTINGS):
        await asyncio.to_thread(_ls_remote, url, authority)
    git_time = (children() - before) / LISTINGS
    server.kill()
    await server.wait()
    report.add(
        f"client CPU per poll, {name}",
        [own_time * 1000],
        "ms",
        baseline="git ls-remote",
        baseline_values=[git_time * 1000],
        goal=goal,
    )


def _ls_remote(url: str, authority: Path | None) -> None:
    """Runs `git ls-remote` with the test CA."""
    env = {name: text for name, text in os.environ.items() if not name.startswith("GIT_")}
    trust = ["-c", f"http.sslCAInfo={authority}"] if authority else []
    command = ["git", *trust, "ls-remote", url, MAIN]
    subprocess.run(command, check=True, capture_output=True, env=env)


async def _wait_until_up(work: Callable[[], Awaitable[object]]) -> None:
    for _ in range(100):
        try:
            await work()
        except Exception:
            await asyncio.sleep(0.1)
        else:
            return


async def changes(report: BenchReport, name: str, repository: ServedRepository, path: str) -> None:
    """Fetches a commit of one file with one request, compared with `git fetch --depth=1`."""
    quick, ordinary = [], []
    async with mirror(lean_entries=1_000_000) as git_mirror:
        follow = spec(name, repository.url)
        clone = git_mirror.clones.clone(follow)
        sha = await asyncio.to_thread(repository.commit, {path: "n: 0\n"})
        await git_mirror.clones.fetch(follow, {"m": sha})
        for number in range(COMMITS):
            sha = await asyncio.to_thread(repository.commit, {path: f"a: {number}\n"})
            started = time.perf_counter()
            if not await git_mirror.quick.fetch(follow, clone, {"m": sha}):
                raise RuntimeError("the fast path was not used")
            quick.append((time.perf_counter() - started) * 1000)
            sha = await asyncio.to_thread(repository.commit, {path: f"b: {number}\n"})
            ordinary.append(await _fetch_with_git(clone.path, repository.url, sha))
    report.add(
        f"fetch of one changed file, {name} repository",
        quick,
        "ms",
        baseline="git fetch --depth=1",
        baseline_values=ordinary,
        goal=1 / 3,
    )


async def _fetch_with_git(clone: Path, url: str, sha: str) -> float:
    refspec = f"+{sha}:refs/k/m"
    command = ["git", f"--git-dir={clone}", "fetch", "-q", "--no-tags", "--depth=1", url, refspec]
    started = time.perf_counter()
    await asyncio.to_thread(subprocess.run, command, check=True, capture_output=True)
    return (time.perf_counter() - started) * 1000


async def first_clone(report: BenchReport, repository: ServedRepository) -> None:
    """Clones a large repository, compared with `git clone --depth=1`."""
    sha = repository.resolve(MAIN) or ""
    async with mirror() as git_mirror:
        follow = spec("large", repository.url)
        started = time.perf_counter()
        await git_mirror.clones.fetch(follow, {"m": sha})
        own_time = (time.perf_counter() - started) * 1000
        size = await git_mirror.clones.size(follow) or 0
    with tempfile.TemporaryDirectory() as folder:
        command = ["git", "clone", "-q", "--bare", "--depth=1", repository.url, f"{folder}/x"]
        started = time.perf_counter()
        await asyncio.to_thread(subprocess.run, command, check=True, capture_output=True)
        git_time = (time.perf_counter() - started) * 1000
        whole = await asyncio.to_thread(_size, Path(folder))
    report.add(
        "first clone, lean, 100,000 files",
        [own_time],
        "ms",
        baseline="git clone --depth=1",
        baseline_values=[git_time],
    )
    report.add(
        "its size on disk",
        [size / 1e6],
        "MB",
        baseline="git clone --depth=1",
        baseline_values=[whole / 1e6],
    )


async def huge_line(report: BenchReport, server: GitServer) -> None:
    """Cost of a line of 1 GB until it is rejected."""
    repository = server.create_repository("huge")
    await asyncio.to_thread(repository.commit, {"web/a.yaml": "a: 1\n"})
    await asyncio.to_thread(push_huge_line, repository)
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "bench.git_harness.huge_line", repository.url, folder]
        ran = await asyncio.to_thread(subprocess.run, command, check=True, capture_output=True)
    git, own, seconds = map(float, ran.stdout.split()[:3])
    report.add("a line of 1 GB: memory of git", [git], "MB", goal=110)
    report.add("  memory of the process that refuses it", [own], "MB", goal=110)
    report.add("  time until it is on the disk", [seconds], "s")


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


async def main() -> None:
    """Runs all measurements."""
    report = BenchReport("fetching")
    await polls(report)
    with git_server() as server:
        small = server.create_repository("small")
        await changes(report, "small", small, "a.yaml")
        folders = service_folders()
        middle = server.create_repository("middle")
        await asyncio.to_thread(middle.commit, repository_files(folders[:500]))
        await changes(report, "5,000-file", middle, f"{folders[7]}/a.yaml")
        large = server.create_repository("large")
        await asyncio.to_thread(large.commit, repository_files(folders))
        await changes(report, "100,000-file", large, f"{folders[7]}/a.yaml")
        await first_clone(report, large)
        await huge_line(report, server)
    report.write()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        serve(int(sys.argv[1]), *sys.argv[2:])
    else:
        uvloop.run(main())
