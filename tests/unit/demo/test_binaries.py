"""Programs are built once, whole or not at all, and taken from where they are given."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from core.errors import Invalid, Unavailable
from towline.demo.clusters import binaries
from towline.demo.clusters.binaries import KUBERNETES, PROGRAMS, BuildStep

NAMES = {program.name for program in PROGRAMS}


@pytest.fixture
def compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """A stand-in for Go that notes what it compiles; a package named in `broken` fails."""
    folder, notes = tmp_path / "go", tmp_path / "notes"
    folder.mkdir()
    go = folder / "go"
    go.write_text(
        f"""#!/bin/sh
[ "$1" = env ] && {{ echo go1.99.0; exit; }}
while [ "$1" != -o ]; do shift; done
echo "$3" >>{notes}
grep -qsF "$3" {tmp_path}/broken && {{ echo one; echo no such package >&2; exit 1; }}
echo "$3" >"$2" && chmod +x "$2"
"""
    )
    go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    return lambda: notes.read_text().splitlines() if notes.exists() else []


def test_everything_is_built_and_only_once(compiled: Callable[[], list[str]]) -> None:
    """The second call finds what the first has built."""
    folder = binaries.ensure(quiet)
    assert {path.name for path in folder.iterdir()} == NAMES
    assert compiled() == [program.package for program in PROGRAMS]
    assert binaries.ensure(quiet) == folder
    assert len(compiled()) == len(PROGRAMS)


def test_progress_names_each_program_and_its_place(compiled: Callable[[], list[str]]) -> None:
    """Steps count up to the number of programs."""
    steps: list[BuildStep] = []
    binaries.ensure(steps.append)
    seen = list(dict.fromkeys((step.number, step.total, step.name) for step in steps))
    total = len(PROGRAMS)
    assert seen == [(n, total, program.name) for n, program in enumerate(PROGRAMS, 1)]
    assert str(BuildStep(2, 7, "etcd", 61.4)) == "building etcd (2 of 7), 61 s"


def test_builders_take_turns(compiled: Callable[[], list[str]]) -> None:
    """Two at the same time end with one build and the same folder."""
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(binaries.ensure, [quiet, quiet])
    assert first == second
    assert len(compiled()) == len(PROGRAMS)


def test_a_failed_build_is_explained_and_leaves_nothing(
    compiled: Callable[[], list[str]], tmp_path: Path
) -> None:
    """The compiler's last line is in the error; the next call builds the whole."""
    broken = tmp_path / "broken"
    broken.write_text("sigs.k8s.io/kwok/cmd/kwok")
    with pytest.raises(Unavailable, match=r"building kwok failed: no such package; see .*log"):
        binaries.ensure(quiet)
    broken.unlink()
    assert {path.name for path in binaries.ensure(quiet).iterdir()} == NAMES


def test_an_interrupted_build_is_not_taken_for_a_finished_one(
    compiled: Callable[[], list[str]],
) -> None:
    """An interrupt in the middle leaves no folder that a later call would use."""

    def interrupt(step: BuildStep) -> None:
        if step.number == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        binaries.ensure(interrupt)
    assert {path.name for path in binaries.ensure(quiet).iterdir()} == NAMES


def test_given_programs_are_used_as_they_are(
    compiled: Callable[[], list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KUBEBUILDER_ASSETS with all programs means that nothing is built."""
    assets = assets_with(tmp_path, NAMES)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets))
    assert binaries.ensure(quiet) == assets
    assert compiled() == []


def test_programs_missing_from_the_assets_folder_are_built(
    compiled: Callable[[], list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """envtest's three programs are linked, the other four built."""
    assets = assets_with(tmp_path, {"etcd", "kube-apiserver", "kubectl"})
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets))
    folder = binaries.ensure(quiet)
    assert {path.name for path in folder.iterdir()} == NAMES
    assert (folder / "etcd").resolve() == assets / "etcd"
    assert len(compiled()) == len(PROGRAMS) - 3


def test_a_given_folder_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mistyped KUBEBUILDER_ASSETS is named, not ignored."""
    monkeypatch.setenv("KUBEBUILDER_ASSETS", "/no/such/folder")
    with pytest.raises(Invalid, match="KUBEBUILDER_ASSETS=/no/such/folder is not a folder"):
        binaries.ensure(quiet)


def test_simulated_nodes_report_the_version_that_is_built() -> None:
    """The version stands in two places; they agree."""
    simulation = Path(binaries.__file__).with_name("assets") / "simulation.yaml"
    assert f"kubeletVersion: {KUBERNETES}\n" in simulation.read_text()


@pytest.mark.parametrize("module", sorted({program.module for program in PROGRAMS}))
def test_each_module_pins_its_dependencies(module: str) -> None:
    """A build resolves nothing: go.mod and go.sum are there."""
    folder = Path(binaries.__file__).with_name("assets") / "modules" / module
    assert (folder / "go.mod").is_file()
    assert (folder / "go.sum").is_file()


def quiet(_: BuildStep) -> None:
    """Progress that nobody watches."""


def assets_with(folder: Path, names: set[str]) -> Path:
    """A folder of programs."""
    assets = folder / "assets"
    assets.mkdir()
    for name in names:
        (assets / name).touch(mode=0o755)
    return assets
