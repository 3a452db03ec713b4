"""The command line as users install it: as a wheel, as one file, and as a plugin of kubectl."""

import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from deploy.zipapp import build
from tests.fakes.empty_control_plane import empty_control_plane

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program `towline.pyz`."""
    file = tmp_path_factory.mktemp("archive") / "towline.pyz"
    build(file)
    return file


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A home directory of the test's own, signed in to a control plane without resources."""
    with empty_control_plane() as url:
        signed_in = {"TOWLINE_URL": url, "TOWLINE_TOKEN": "a-token"}
        yield {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), **signed_in}


def run(
    environment: Mapping[str, str], *argv: str | Path, code: int = 0
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        argv,
        env=environment,
        cwd=environment["HOME"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == code, f"{argv}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done


def test_one_file_is_the_whole_command_line(archive: Path, environment: dict[str, str]) -> None:
    """The interpreter of the system has no package of Towline."""
    python = Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}"
    run(environment, python, "-I", "-c", "import towline", code=1)
    towline = (python, archive)
    assert "  clusters " in run(environment, *towline, "--help").stdout
    assert json.loads(run(environment, *towline, "services", "list", "-o", "json").stdout) == []
    assert run(environment, *towline, "clusters", "list").stderr == "nothing found\n"
    assert run(environment, *towline, "__complete", "clusters", "ro").stdout == "rotate-token\n"
    assert "needs a terminal" in run(environment, *towline, "ui", code=2).stderr
    lacking = run(environment, *towline, "serve", code=1).stderr
    assert "which towline.pyz does not contain; install the wheel of Towline\n" in lacking


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Programs of an environment into which a new wheel was installed.

    Its dependencies are those of this environment, so that the test needs no package index.
    """
    folder = tmp_path_factory.mktemp("installed")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, env={**os.environ, "CONSOLE_BUILD": "skip"}, check=True)
    (wheel,) = folder.glob("towline-*.whl")
    programs = folder / "bin"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = programs / "python"
    install = ("uv", "pip", "install", "-q", "--offline", "--no-deps", "--python", python, wheel)
    subprocess.run(install, check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return programs


def test_a_wheel_is_the_whole_program(installed: Path, environment: dict[str, str]) -> None:
    """It has data files that only a checkout could have, such as documents of GraphQL."""
    towline = installed / "towline"
    where = run(environment, installed / "python", "-c", "import towline; print(towline.__file__)")
    assert where.stdout.startswith(str(installed.parent))
    assert "  clusters " in run(environment, towline, "--help").stdout
    assert json.loads(run(environment, towline, "services", "list", "-o", "json").stdout) == []
    assert run(environment, towline, "__complete", "clusters", "ro").stdout == "rotate-token\n"
    assert "_towline" in run(environment, towline, "completion", "bash").stdout
    assert "--listen" in run(environment, towline, "serve", "--help").stdout
    assert "needs a terminal" in run(environment, towline, "ui", code=2).stderr


def test_kubectl_runs_and_completes_the_plugin(
    kubernetes: Path, installed: Path, environment: dict[str, str]
) -> None:
    environment["PATH"] = os.pathsep.join((str(installed), str(kubernetes), environment["PATH"]))
    assert "kubectl-towline" in run(environment, "kubectl", "plugin", "list").stdout
    shown = run(environment, "kubectl", "towline", "clusters", "list", "-o", "json").stdout
    assert json.loads(shown) == []
    run(environment, "kubectl", "towline", "version")

    def completed(*words: str) -> list[str]:
        return run(environment, "kubectl", "__complete", "towline", *words).stdout.splitlines()

    assert completed("clusters", "ro") == ["rotate-token", ":4"]
    # Directive 0 lets the shell complete files.
    assert completed("apply", "-f", "") == [":0"]
    assert completed("services", "get", "") == [":4"]
