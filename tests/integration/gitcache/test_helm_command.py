"""Charts rendered by a `helm` of the machine: its arguments, its sandbox and its time limit."""

import asyncio
import errno
import os
import sys
from collections.abc import AsyncIterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from core.spec.renderers import HelmRelease
from gitcache.domain.renders import RenderInputError, RenderJob
from gitcache.render.pool import JobLimits, WorkerPool
from gitcache.render.renderer import RenderTool
from gitcache.render.tools import FoundTool, RenderTools

_HELM = """#!{python} -I
import json, os, socket, sys, time
*options, release, chart = sys.argv[1:]
if release == "slow":
    os.fork()
    time.sleep(120)
if release == "broken":
    sys.exit(f"Error: {{chart}}/templates/a.yaml:3: nil pointer")
if release == "endless":
    while True:
        pass
try:
    network = str(socket.socket(socket.AF_INET))
except OSError as error:
    network = str(error.errno)
values = options[options.index("--values") + 1]
seen = {{
    "argv": json.dumps(sys.argv[1:]),
    "environment": json.dumps(dict(os.environ)),
    "values": open(values).read(),
    "files": json.dumps(sorted(os.listdir(chart))),
    "folder": os.getcwd(),
    "socket": network,
}}
made = {{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {{"name": "a"}}, "data": seen}}
print(json.dumps(made))
"""
CHART = {
    "web/Chart.yaml": b"apiVersion: v2\nname: web\nversion: 1.0.0\n",
    "web/values.yaml": b"replicas: 1\n",
    "web/templates/a.yaml": b"{{ .Capabilities.KubeVersion }}",
    "web/prod.yaml": b"replicas: 3\nname: prod\n",
}
JOB = RenderJob(
    "web",
    "web",
    CHART,
    renderer="helm",
    parameters={"cluster": {"currentVersion": "v1.36.3", "apiVersions": ["apps/v1"]}},
    settings=asdict(
        HelmRelease("shop", "prod", values="name: inline\n", values_files=("prod.yaml",))
    ),
)


class OnlyHelm(RenderTools):
    """Knows one program."""

    def __init__(self, program: Path) -> None:
        super().__init__()
        self._program = program

    async def find(self, tool: RenderTool) -> FoundTool:
        return FoundTool((str(self._program),), "helm of a test")


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A `helm` that tells in an object how it was called."""
    path = tmp_path / "helm"
    path.write_text(_HELM.format(python=sys.executable))
    path.chmod(0o755)
    return path


@pytest.fixture
async def pool(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    program: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[WorkerPool]:
    """One worker of a server whose environment would lead helm elsewhere; 20 s by default."""
    monkeypatch.setenv("HELM_PLUGINS", "/somewhere")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.test")
    limits = JobLimits(getattr(request, "param", 20), 768 << 20, 4 << 30, 128 << 20, 1000)
    pool = WorkerPool(1, limits, tmp_path / "scratch", OnlyHelm(program))
    await pool.start()
    yield pool
    await pool.stop()


async def seen(pool: WorkerPool, release: str = "shop") -> dict[str, str]:
    """What the program tells of a call."""
    result = await pool.render(released(release))
    return orjson.loads(result.data)["data"]


def released(name: str) -> RenderJob:
    return replace(JOB, settings={**JOB.settings, "release": name})


def argv(report: dict[str, str]) -> list[Any]:
    return orjson.loads(report["argv"])


async def test_helm_receives_release_values_and_cluster(pool: WorkerPool) -> None:
    report = await seen(pool)
    *options, end, release, chart = argv(report)
    values = options.pop(options.index("--values") + 1)
    assert options == [
        *("template", "--namespace", "prod", "--values"),
        *("--kube-version", "1.36.3", "--api-versions", "apps/v1"),
    ]
    assert (end, release) == ("--", "shop")
    assert Path(chart).parent == Path(values).parent
    assert orjson.loads(report["values"]) == {"replicas": 3, "name": "inline"}
    assert orjson.loads(report["files"]) == ["Chart.yaml", "prod.yaml", "templates", "values.yaml"]


async def test_helm_has_a_home_of_its_own_and_no_way_out(pool: WorkerPool) -> None:
    """No variable of the server, no program beside it, no socket; the home is gone afterwards."""
    report = await seen(pool)
    environment = orjson.loads(report["environment"])
    assert environment.keys() == {"HOME", "TMPDIR", "PATH", "LC_ALL"}
    home = Path(environment["HOME"])
    assert Path(environment["PATH"]).parent == home and not home.exists()
    assert Path(report["folder"]).is_relative_to(home)
    assert report["socket"] == str(errno.EPERM)


async def test_a_release_that_looks_like_an_option_is_none(pool: WorkerPool) -> None:
    report = await seen(pool, "--post-renderer=/bin/sh")
    assert argv(report)[-3:-1] == ["--", "--post-renderer=/bin/sh"]


async def test_helm_errors_contain_no_local_paths(pool: WorkerPool, tmp_path: Path) -> None:
    with pytest.raises(RenderInputError, match=r"^helm: templates/a\.yaml:3: nil pointer$"):
        await pool.render(released("broken"))


@pytest.mark.parametrize("pool", [1], indirect=True)
async def test_a_helm_that_hangs_is_ended_with_its_children(
    pool: WorkerPool, program: Path
) -> None:
    with pytest.raises(RenderInputError, match="did not finish within 1 s"):
        await pool.render(released("slow"))
    assert await gone(program)


@pytest.mark.parametrize("pool", [1], indirect=True)
async def test_a_helm_that_computes_for_ever_is_ended(pool: WorkerPool, program: Path) -> None:
    with pytest.raises(RenderInputError, match=r"did not finish|exceeded the CPU time"):
        await pool.render(released("endless"))
    assert await gone(program)


async def gone(program: Path) -> bool:
    """Whether no process runs a program any more, soon."""
    for _ in range(3000):
        if not any(str(program) in text for text in command_lines()):
            return True
        await asyncio.sleep(0.02)
    return False


def command_lines() -> list[str]:
    found = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            found.append(Path(f"/proc/{name}/cmdline").read_text(errors="replace"))
        except OSError:
            continue
    return found
