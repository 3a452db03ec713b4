"""Builds the e2e suite of Kubernetes from its modules, and runs its specs with a kubeconfig."""

import os
import re
import shutil
import subprocess
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

import orjson

from core.errors import Unavailable
from core.json_object import JsonObject
from towline.demo.clusters.binaries import KUBERNETES, cache_folder
from towline.demo.clusters.go_toolchain import find_go

_SOURCE = Path(__file__).with_name("specs_test.go")
_MODULE = Path(__file__).parents[3] / "towline/demo/clusters/assets/modules/kubernetes"
_BUILD = {"CGO_ENABLED": "0", "GOWORK": "off", "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=mod"}
_FLAGS = ("-p=2", "-trimpath", "-buildvcs=false")
_SECONDS = 3600
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


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a spec: `passed`, or another state of Ginkgo with its reason."""

    state: str
    reason: str = ""

    @property
    def passed(self) -> bool:
        """Reports whether the spec passed."""
        return self.state == "passed"


@dataclass(frozen=True, slots=True)
class Suite:
    """The built programs."""

    specs: Path
    runner: Path

    def run(
        self,
        kubeconfig: Path,
        kubectl: str,
        folder: Path,
        hosts: Path,
        chosen: str | Collection[str],
        processes: int,
    ) -> dict[str, Outcome]:
        """Runs the specs of a pattern, or of these names, in some processes.

        Returns outcomes by name, without skipped specs. The specs see `hosts` as /etc/hosts. Writes
        log and report into `folder`. Unavailable: the suite did not start.
        """
        report, log = folder / "report.json", folder / "specs.log"
        if isinstance(chosen, str):
            options = [f"--focus={chosen}", *(f"--skip={pattern}" for pattern in _SKIP)]
        else:
            options = [f"--focus=^{_SUITE} {_META.sub(_ESCAPED, name)}$" for name in chosen]
        command: list[str | Path] = ["nice", "unshare", "--map-root-user", "--mount"]
        command += ["sh", "-c", _IN_HOSTS, "sh", hosts, self.runner, *options]
        command += [f"--timeout={_SECONDS}s", "--grace-period=5s", "--no-color"]
        command += [f"--procs={processes}"]
        command += [f"--output-dir={folder}", f"--json-report={report.name}", "--silence-skips"]
        command += [self.specs, "--", f"--kubeconfig={kubeconfig}", f"--kubectl-path={kubectl}"]
        command += ["--provider=skeleton", "--disable-log-dump", "--dump-logs-on-failure=false"]
        with log.open("wb") as output:
            subprocess.run(
                [*command, f"--repo-root={folder}"],
                stdout=output,
                stderr=output,
                cwd=folder,
                check=False,
            )
        if not report.exists():
            raise Unavailable(f"the specs did not start: {log.read_text()[-500:]}")
        return outcomes(orjson.loads(report.read_bytes()))


def outcomes(report: Iterable[JsonObject]) -> dict[str, Outcome]:
    """Reads a JSON report of Ginkgo; leaves out skipped specs and hooks of the suite."""
    found = {}
    for spec in (spec for part in report for spec in part["SpecReports"] or ()):
        if spec["LeafNodeType"] == "It" and spec["State"] not in ("skipped", "pending"):
            texts = (*(spec["ContainerHierarchyTexts"] or ()), spec["LeafNodeText"])
            reason = (spec.get("Failure") or {}).get("Message", "")
            found[" ".join(texts)] = Outcome(spec["State"], " ".join(reason.split()))
    return found


def build() -> Suite:
    """Builds the programs once, in some minutes. Unavailable: the build failed."""
    folder = cache_folder() / "world" / f"specs@{KUBERNETES}"
    source = folder / _SOURCE.name
    suite = Suite(folder / "specs.test", folder / "ginkgo")
    if source.exists() and source.read_bytes() == _SOURCE.read_bytes() and suite.specs.exists():
        return suite
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("go.mod", "go.sum"):
        shutil.copy(_MODULE / name, folder / name)
    source.write_bytes(_SOURCE.read_bytes())
    _go(folder, "test", "-c", "-vet=off", *_FLAGS, "-ldflags=-s -w", f"-o={suite.specs}", ".")
    _go(folder, "build", *_FLAGS, f"-o={suite.runner}", "github.com/onsi/ginkgo/v2/ginkgo")
    return suite


def _go(folder: Path, *arguments: str) -> None:
    command = ["nice", find_go(), *arguments]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, env=os.environ | _BUILD
    )
    if done.returncode:
        raise Unavailable(f"go {arguments[0]} failed: {done.stderr.strip()[-300:]}")
