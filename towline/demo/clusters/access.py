"""Access to clusters by contexts of kubeconfigs, with kubectl."""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import yaml

from core.errors import Invalid, Unavailable
from core.json_object import JsonObject


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """A context of a kubeconfig."""

    kubeconfig: Path
    context: str

    def kubectl(
        self,
        *args: str,
        stdin: str | None = None,
        timeout: float = 60,
        program: str | None = None,
    ) -> str:
        """Runs kubectl; returns its output. Unavailable: kubectl is missing or failed."""
        kubectl = program or shutil.which("kubectl")
        if kubectl is None:
            raise Unavailable("kubectl is not installed, but DEMO_KUBECONFIG requires it")
        command = [kubectl, f"--kubeconfig={self.kubeconfig}", f"--context={self.context}", *args]
        # Garbage collection takes a fifth of the time of such a short process.
        result = subprocess.run(
            command,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            env=os.environ | {"GOGC": "off"},
        )
        if result.returncode:
            raise Unavailable(f"kubectl {' '.join(args)}: {result.stderr.strip()}")
        return result.stdout


def contexts_from_environment() -> list[ClusterAccess]:
    """Contexts of `DEMO_KUBECONFIG`, which replace the local clusters; empty if it is not set.

    Invalid: the file is unreadable, or has fewer than two contexts.
    """
    path_text = os.environ.get("DEMO_KUBECONFIG")
    if not path_text:
        return []
    path = Path(path_text).absolute()
    names = [context["name"] for context in _read_kubeconfig(path).get("contexts") or []]
    if len(names) < 2:
        raise Invalid(f"DEMO_KUBECONFIG={path_text} has {len(names)} contexts; the demo needs two")
    return [ClusterAccess(path, name) for name in names]


def _read_kubeconfig(path: Path) -> JsonObject:
    try:
        content = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError) as error:
        raise Invalid(f"cannot read DEMO_KUBECONFIG={path}: {error}") from error
    return content if isinstance(content, dict) else {}
