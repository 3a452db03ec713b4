"""Builds the e2e suite of Kubernetes from its modules, and runs its specs with a kubeconfig."""

import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import orjson

from core.errors import Unavailable
from core.json_object import JsonObject
from tests.world.specs.results import Results
from towline.demo.clusters.binaries import KUBERNETES, cache_folder
from towline.demo.clusters.go_toolchain import find_go

_SOURCE = Path(__file__).with_name("specs_test.go")
_MODULE = Path(__file__).parents[3] / "towline/demo/clusters/assets/modules/kubernetes"
_BUILD = {"CGO_ENABLED": "0", "GOWORK": "off", "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=mod"}
_FLAGS = ("-p=2", "-trimpath", "-buildvcs=false")
_SECONDS = 3600
_MAX_LOAD = 2.0
_IN_HOSTS = 'mount --bind "$1" /etc/hosts && shift && exec "$@"'
_META, _ESCAPED = re.compile(r"([\\.+*?()|\[\]{}^$])"), r"\\\1"
_SUITE = "Kubernetes e2e suite"
# Specs that mostly need an API server, controllers and simulated pods: one run for each pattern.
FOCUS = (
    rf"{_SUITE} \[sig-api-machinery\] [A-F]",
    rf"{_SUITE} \[sig-api-machinery\] [^A-F]",
    rf"{_SUITE} \[sig-(auth|instrumentation)\]",
    rf"{_SUITE} \[sig-cli\]",
    rf"{_SUITE} \[sig-node\] (Ephemeral Containers|Events|Lease|PodTemplates|RuntimeClass"
    "|Pods (Extended|should)|(ConfigMap|Secrets) should (fail|patch|run|update)"
    "|Variable Expansion should fail)",
    rf"{_SUITE} \[sig-storage\] (CSI[INS]|PVC? Protection|PersistentVolumes CSI|StorageClasses"
    "|VolumeAtt|(ConfigMap|Secrets) should be immutable)",
    rf"{_SUITE} \[sig-network\] (API Server|Endpoint|Ingress|Netpol API|Proxy|Service ?CIDR"
    "|Services should (provide|find|complete|test|delete|prevent|check|be (possible|updated)"
    "|create endpoints|release|serve endpoints))",
    rf"{_SUITE} \[sig-apps\]",
    rf"{_SUITE} \[sig-scheduling\] (LimitRange|Scheduler)",
)
# Specs that need programs in pods, a cloud or features that are off.
_SKIP = (
    r"\[(Slow|Disruptive|Feature:[^N][^]]*|Alpha|Deprecated|LinuxOnly|Provider:[^]]+)\]",
    "Webhook|Aggregator|MetricsGrabber|in-cluster|kubectl debug|private image|Networking",
    "should mount|Guestbook|Proxy version|StatefulSet Basic|OIDC",
    "Kubectl logs|Kubectl run|inline execution|Port forwarding|1000 times",
)
_CAUSE = re.compile(r"^(?:panic|fatal error): .*", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Access:
    """The way of specs to a cluster. They see `hosts` as /etc/hosts."""

    kubeconfig: Path
    kubectl: str
    hosts: Path


@dataclass(frozen=True, slots=True)
class Suite:
    """The built programs."""

    specs: Path
    runner: Path

    def names(self, pattern: str) -> list[str]:
        """Lists the specs of a pattern, without running them. Unavailable: the suite failed."""
        options = [f"--focus={pattern}", *(f"--skip={skipped}" for skipped in _SKIP)]
        with tempfile.TemporaryDirectory(prefix="specs-") as folder:
            report = Path(folder) / "report.json"
            options += ["--dry-run", f"--output-dir={folder}", f"--json-report={report.name}"]
            command = ["nice", self.runner, *options, self.specs]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
            if not report.exists():
                raise Unavailable(f"the suite lists no specs: {done.stdout[-500:]}")
            return chosen(orjson.loads(report.read_bytes()))

    def run(
        self,
        access: Access,
        results: Results,
        run: str,
        patience: float,
        specs: Collection[str],
        processes: int,
    ) -> str:
        """Runs specs in some processes; each adds its outcome to the results of a run.

        `patience` makes their deadlines longer, as other load does. Returns what the suite said
        last, or why a process of it ended early.
        """
        folder = Path(tempfile.mkdtemp(prefix="specs-", dir=access.hosts.parent))
        options = [f"--focus=^{_SUITE} {_META.sub(_ESCAPED, name)}$" for name in sorted(specs)]
        command: list[str | Path] = ["nice", "unshare", "--map-root-user", "--mount"]
        command += ["sh", "-c", _IN_HOSTS, "sh", access.hosts, self.runner, *options]
        command += [f"--timeout={_SECONDS}s", "--grace-period=5s", "--no-color"]
        command += [f"--procs={processes}", "--silence-skips", self.specs, "--"]
        command += [f"--kubeconfig={access.kubeconfig}", f"--kubectl-path={access.kubectl}"]
        command += ["--provider=skeleton", "--disable-log-dump", "--dump-logs-on-failure=false"]
        variables = {"SPECS_RUN": run, "SPECS_RESULTS": str(results.path)}
        with (folder / "specs.log").open("wb") as output:
            process = subprocess.Popen(
                [*command, f"--repo-root={folder}"],
                stdout=output,
                stderr=output,
                cwd=folder,
                env=os.environ | variables | {"SPECS_PATIENCE": f"{max(patience, _load()):.1f}"},
                start_new_session=True,
            )
        try:
            process.wait()
        finally:
            # Processes of the suite outlive the one that started them.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        log = (folder / "specs.log").read_text(errors="replace")
        cause = _CAUSE.search(log)
        return cause[0] if cause else log[-300:]


def _load() -> float:
    """Returns how many programs share a processor, with limits."""
    return min(max(os.getloadavg()[0] / (os.cpu_count() or 1), 1.0), _MAX_LOAD)


def chosen(report: Iterable[JsonObject]) -> list[str]:
    """Reads the names of specs from a JSON report of Ginkgo; leaves out skipped ones and hooks."""
    specs = (spec for part in report for spec in part["SpecReports"] or ())
    found = []
    for spec in specs:
        if spec["LeafNodeType"] == "It" and spec["State"] not in ("skipped", "pending"):
            texts = (*(spec["ContainerHierarchyTexts"] or ()), spec["LeafNodeText"])
            found.append(" ".join(text for text in texts if text))
    return found


def build() -> Suite:
    """Builds the programs once, in some minutes. Unavailable: the build failed."""
    folder = cache_folder() / "world" / f"specs@{KUBERNETES}"
    source, built = folder / _SOURCE.name, folder / "built"
    suite = Suite(folder / "specs.test", folder / "ginkgo")
    if built.exists() and built.read_bytes() == _SOURCE.read_bytes():
        return suite
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("go.mod", "go.sum"):
        shutil.copy(_MODULE / name, folder / name)
    source.write_bytes(_SOURCE.read_bytes())
    # Another run may use the programs meanwhile.
    specs, runner = folder / "specs.new", folder / "ginkgo.new"
    _go(folder, "test", "-c", "-vet=off", *_FLAGS, "-ldflags=-s -w", f"-o={specs}", ".")
    _go(folder, "build", *_FLAGS, f"-o={runner}", "github.com/onsi/ginkgo/v2/ginkgo")
    specs.rename(suite.specs)
    runner.rename(suite.runner)
    built.write_bytes(_SOURCE.read_bytes())
    return suite


def _go(folder: Path, *arguments: str) -> None:
    command = ["nice", find_go(), *arguments]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, env=os.environ | _BUILD
    )
    if done.returncode:
        raise Unavailable(f"go {arguments[0]} failed: {done.stderr.strip()[-300:]}")
