"""Builds the programs of a cluster from pinned Go modules, once, into a cache.

A folder of the cache has a fingerprint of all inputs in its name, and appears atomically; a lock
serializes builds. If `KUBEBUILDER_ASSETS` is set, its programs are used, and missing ones are built
(envtest ships only three of them).
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from core.errors import Invalid, Unavailable
from towline.demo.clusters.go_toolchain import find_go
from towline.demo.process_group import ProcessGroup

KUBERNETES = "v1.36.3"
_ASSETS = Path(__file__).with_name("assets")
_MODULES = _ASSETS / "modules"
_MIN_FREE_BYTES = 5 << 30


@dataclass(frozen=True, slots=True)
class Program:
    """A program, with the Go module and package that build it."""

    name: str
    module: str
    package: str


PROGRAMS = (
    Program("kube-apiserver", "kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver"),
    Program(
        "kube-controller-manager", "kubernetes", "k8s.io/kubernetes/cmd/kube-controller-manager"
    ),
    Program("kube-scheduler", "kubernetes", "k8s.io/kubernetes/cmd/kube-scheduler"),
    Program("kubectl", "kubernetes", "k8s.io/kubernetes/cmd/kubectl"),
    Program("etcd", "etcd", "go.etcd.io/etcd/server/v3"),
    Program("kwok", "kwok", "sigs.k8s.io/kwok/cmd/kwok"),
    Program("kubelet", "kubelet", "."),
)


@dataclass(frozen=True, slots=True)
class BuildStep:
    """Progress of a build: program `number` of `total`, `elapsed` seconds after the start."""

    number: int
    total: int
    name: str
    elapsed: float

    def __str__(self) -> str:
        return f"building {self.name} ({self.number} of {self.total}), {self.elapsed:.0f} s"


Progress = Callable[[BuildStep], None]


def ensure(progress: Progress | None = None) -> Path:
    """Returns the folder of all `PROGRAMS`; builds them if needed, in about 7 minutes on two cores.

    Calls `progress` about once a second during a build (default: `PrintedProgress`). Unavailable:
    the build failed. Invalid: KUBEBUILDER_ASSETS is not a folder.
    """
    provided = _provided_programs()
    missing = [program for program in PROGRAMS if program.name not in provided]
    if not missing:
        return next(iter(provided.values())).parent
    folder = cache_folder() / "kubernetes" / f"{KUBERNETES}-{_fingerprint(provided)}"
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    progress = progress or PrintedProgress()
    with _build_lock(folder.with_name(f"{folder.name}.lock"), progress):
        if not folder.is_dir():
            _build_folder(folder, missing, provided, progress)
    return folder


def cache_folder() -> Path:
    """Cache folder of the user for demo and tests."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "towline"


class PrintedProgress:
    """Prints progress to standard error: in place on a terminal, else one line per program."""

    def __init__(self) -> None:
        self._shown = ""

    def __call__(self, step: BuildStep) -> None:
        if sys.stderr.isatty():
            print(f"\r\033[K{step}", end="", file=sys.stderr, flush=True)
        elif step.name != self._shown:
            self._shown = step.name
            print(step, file=sys.stderr, flush=True)


def _provided_programs() -> dict[str, Path]:
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if not assets:
        return {}
    folder = Path(assets).absolute()
    if not folder.is_dir():
        raise Invalid(f"KUBEBUILDER_ASSETS={assets} is not a folder")
    candidates = {program.name: folder / program.name for program in PROGRAMS}
    return {name: path for name, path in candidates.items() if os.access(path, os.X_OK)}


def _fingerprint(provided: dict[str, Path]) -> str:
    digest = hashlib.sha256(" ".join(_flags()).encode())
    for path in sorted(_MODULES.rglob("*")):
        if path.is_file():
            digest.update(path.relative_to(_MODULES).as_posix().encode() + b"\0")
            digest.update(path.read_bytes())
    for path in provided.values():
        digest.update(f"{path}\0".encode())
    return digest.hexdigest()[:12]


def _flags() -> list[str]:
    """Flags of `go build`: small binaries, and the version for `kubectl version`."""
    major, minor, _ = KUBERNETES.removeprefix("v").split(".")
    stamps = {
        "gitVersion": KUBERNETES,
        "gitMajor": major,
        "gitMinor": minor,
        "gitTreeState": "clean",
    }
    linked = " ".join(f"-X k8s.io/component-base/version.{k}={v}" for k, v in stamps.items())
    return ["-trimpath", "-buildvcs=false", "-mod=readonly", "-ldflags", f"-s -w {linked}"]


@contextmanager
def _build_lock(path: Path, progress: Progress) -> Generator[None]:
    """Holds the build lock of a folder; the kernel releases it if the process is killed."""
    started = time.monotonic()
    with path.open("w") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                progress(
                    BuildStep(0, len(PROGRAMS), "in another process", time.monotonic() - started)
                )
                time.sleep(1)
        yield


def _build_folder(
    folder: Path, programs: list[Program], provided: dict[str, Path], progress: Progress
) -> None:
    go = find_go()
    _require_free_space(folder.parent)
    unfinished = folder.with_name(f"{folder.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir()
    for name, path in provided.items():
        (unfinished / name).symlink_to(path)
    _build(go, unfinished, programs, progress)
    unfinished.rename(folder)


def _require_free_space(folder: Path) -> None:
    free = shutil.disk_usage(folder).free
    if free < _MIN_FREE_BYTES:
        raise Unavailable(
            f"building Kubernetes needs {_MIN_FREE_BYTES >> 30} GB for Go's caches, {folder} has "
            f"{free / (1 << 30):.1f} GB; set XDG_CACHE_HOME, GOCACHE and GOMODCACHE to another disk"
        )


def _build(go: Path, out: Path, programs: list[Program], progress: Progress) -> None:
    started = time.monotonic()
    with ProcessGroup() as group:
        for number, program in enumerate(programs, 1):
            log = out.parent / f"{program.name}.log"
            log.unlink(missing_ok=True)
            compiler = group.spawn(
                [str(go), "build", *_flags(), "-o", str(out / program.name), program.package],
                cwd=_MODULES / program.module,
                log=log,
                env=_environment(),
            )
            step = BuildStep(number, len(programs), program.name, 0)
            _wait_for_build(compiler, step, started, progress)
            if compiler.returncode:
                raise Unavailable(f"building {program.name} failed: {_last_line(log)}; see {log}")
            log.unlink()


def _environment() -> dict[str, str]:
    """The caller's Go settings, except those that would change the result.

    Turning off garbage collection below 2 GiB saves about a third of the CPU time.
    """
    quick = {"GOGC": "off", "GOMEMLIMIT": "2GiB"}
    fixed = {"CGO_ENABLED": "0", "GOWORK": "off", "GOFLAGS": "", "GOTOOLCHAIN": "local"}
    return quick | dict(os.environ) | fixed


def _wait_for_build(
    compiler: subprocess.Popen[bytes], step: BuildStep, started: float, progress: Progress
) -> None:
    while True:
        elapsed = time.monotonic() - started
        progress(BuildStep(step.number, step.total, step.name, elapsed))
        try:
            compiler.wait(timeout=1)
            return
        except subprocess.TimeoutExpired:
            continue


def _last_line(log: Path) -> str:
    return log.read_text(errors="replace").strip().rpartition("\n")[2]
