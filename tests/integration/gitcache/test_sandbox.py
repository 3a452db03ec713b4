"""Limits of workers, and jobs whose worker dies."""

import asyncio
import errno
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from core.errors import Invalid
from gitcache.domain.renders import RenderInputError, RenderJob
from gitcache.render import sandbox
from gitcache.render.pool import JobLimits, WorkerPool
from tests.integration.gitcache.manifests import config_map

PLAIN = RenderJob("web", "web", {"web/a.yaml": config_map("a").encode()}, renderer="raw")
BEGUN_SECONDS = 0.2
"""CPU time after which a worker computes its job: it has said long before that it is ready."""


def computing(numbers: int, turns: int) -> RenderJob:
    """A job that sorts so many numbers so often."""
    text = (
        f"{{% assign all = (1..{numbers}) %}}{{% for i in (1..300) %}}{{% for j in (1..{turns}) %}}"
        "{% assign sorted = all | sort %}{% endfor %}{% endfor %}"
    )
    files = {"web/a.yaml": (text + config_map("slow")).encode()}
    return RenderJob("web", "web", files, templated=True, renderer="raw")


SLOW = computing(2000, 30)
# Less than a template's limit of iterations, but for longer than a job's limit of time.
ENDLESS = computing(100_000, 300)
TRIES = """
import ctypes, errno, socket, os
from gitcache.render import sandbox
assert sandbox.filter_system_calls()
libc = ctypes.CDLL(None, use_errno=True)

def refusal(call):
    try:
        call()
    except OSError as error:
        return error.errno

def ptrace():
    if libc.ptrace(0, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "")

def unshare():
    if libc.unshare(0x10000000) != 0:
        raise OSError(ctypes.get_errno(), "")

socket.socket(socket.AF_UNIX).close()
for family in (socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK):
    print(refusal(lambda: socket.socket(family)))
print(refusal(ptrace), refusal(unshare))
"""


@pytest.fixture
async def pool(tmp_path: Path) -> AsyncIterator[WorkerPool]:
    """One worker at a time."""
    pool = WorkerPool(1, JobLimits(20, 768 << 20, 4 << 30, 128 << 20, 1000), tmp_path / "scratch")
    await pool.start()
    yield pool
    await pool.stop()


def workers() -> set[int]:
    """Process ids of the workers that this process has started."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
            command = (path.parent / "cmdline").read_bytes()
        except (OSError, ValueError):
            continue
        if parent == os.getpid() and b"gitcache.render.worker" in command:
            found.add(int(path.parent.name))
    return found


def is_ready(pid: int) -> bool:
    """Whether a worker has given up what it may not do, which is the last thing before its job."""
    try:
        return "Seccomp:\t2" in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def cpu_seconds(pid: int) -> float:
    """CPU time that a process has used."""
    try:
        user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    except OSError:
        return 0.0
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


async def begun(gone: set[int]) -> int:
    """A worker, but for those that are gone, once it computes its job."""
    ready: dict[int, float] = {}
    while True:
        for pid in workers() - gone:
            if pid not in ready and is_ready(pid):
                ready[pid] = cpu_seconds(pid)
            if pid in ready and cpu_seconds(pid) >= ready[pid] + BEGUN_SECONDS:
                return pid
        await asyncio.sleep(0.01)


async def killed(
    pool: WorkerPool, times: int, how: signal.Signals, work: RenderJob = ENDLESS
) -> asyncio.Task:
    """A job whose worker is killed so many times."""
    job = asyncio.ensure_future(pool.render(work))
    gone: set[int] = set()
    for _ in range(times):
        pid = await begun(gone)
        os.kill(pid, how)
        gone.add(pid)
    return job


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGBUS])
async def test_a_job_whose_worker_is_killed_is_done_once_more(
    pool: WorkerPool, how: signal.Signals
) -> None:
    job = await killed(pool, 1, how, SLOW)
    assert (await job).count == 1
    assert (await pool.render(PLAIN)).count == 1


async def test_a_job_whose_worker_is_killed_twice_fails_clearly(pool: WorkerPool) -> None:
    job = await killed(pool, 2, signal.SIGKILL)
    with pytest.raises(RenderInputError, match="killed twice"):
        await job
    assert (await pool.render(PLAIN)).count == 1


async def test_a_worker_that_crashes_is_not_tried_again(pool: WorkerPool) -> None:
    job = await killed(pool, 1, signal.SIGSEGV)
    with pytest.raises(Invalid, match="exceeded its memory or size limit"):
        await job


async def test_a_worker_is_bound(pool: WorkerPool) -> None:
    """No new privileges, a filter of system calls, no core files; limits on all it may use."""
    await pool.render(PLAIN)
    (pid,) = workers()
    status = dict(
        line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines()
    )
    assert status["NoNewPrivs"].strip() == "1"
    assert status["Seccomp"].strip() == "2"
    limits = Path(f"/proc/{pid}/limits").read_text()
    for name in ("Max address space", "Max file size", "Max cpu time", "Max open files"):
        (line,) = [one for one in limits.splitlines() if one.startswith(name)]
        assert line.removeprefix(name).split()[0] != "unlimited", name


def test_a_filtered_process_has_no_sockets_but_local_ones() -> None:
    done = subprocess.run(
        [sys.executable, "-c", TRIES], capture_output=True, text=True, cwd=Path(__file__).parents[3]
    )
    assert done.stderr == ""
    assert set(done.stdout.split()) == {str(errno.EPERM)}


BECOME = """
import os, resource, sys
from gitcache.render import sandbox
assert sandbox.switch_user(65534)
print(os.getresuid(), os.getresgid(), os.getgroups())
print(resource.getrlimit(resource.RLIMIT_NPROC)[0] < 10_000)
for call in (lambda: open(sys.argv[1]), lambda: os.setuid(0)):
    try:
        call()
    except OSError as error:
        print(error.errno)
"""


def test_a_worker_of_root_becomes_nobody_for_good(tmp_path: Path) -> None:
    """Where everybody can read the program; this very one may lie in somebody's home."""
    python = Path("/usr/bin/python3")
    if os.geteuid() != 0 or not python.exists():
        pytest.skip("platform: only root can become another user, with a Python for everybody")
    secret = tmp_path / "secret"
    secret.write_text("canary")
    secret.chmod(0o600)
    with tempfile.TemporaryDirectory(prefix="towline-worker-") as name:
        place = Path(name) / "gitcache" / "render"
        place.mkdir(parents=True)
        shutil.copy(sandbox.__file__, place)
        for folder in (Path(name), place.parent, place, place / "sandbox.py"):
            folder.chmod(0o755)
        done = subprocess.run(
            [python, "-S", "-c", BECOME, secret],
            cwd=name,
            env={"PYTHONPATH": name},
            capture_output=True,
            text=True,
        )
    nobody = (65534, 65534, 65534)
    expected = [f"{nobody} {nobody} []", "True", str(errno.EACCES), str(errno.EPERM)]
    assert (done.stdout.splitlines(), done.stderr) == (expected, "")


async def test_a_render_reports_the_parameters_it_read(pool: WorkerPool) -> None:
    text = config_map("{{ cluster.handle }}") + "# {% if cluster.tags.x %}{% endif %}\n"
    parameters = {
        "cluster": {"handle": "eu", "name": "n", "tags": {"x": "1", "y": "2"}},
        "configuration": {"secret": "s"},
    }
    job = RenderJob("", "", {"a.yaml": text.encode()}, True, renderer="raw", parameters=parameters)
    assert (await pool.render(job)).reads == [["cluster", "handle"], ["cluster", "tags", "x"]]
    whole = RenderJob(
        "", "", {"a.yaml": b"{{ cluster.tags }}"}, True, renderer="raw", parameters=parameters
    )
    with pytest.raises(RenderInputError) as caught:
        await pool.render(whole)
    assert caught.value.reads == [["cluster", "tags"]]
