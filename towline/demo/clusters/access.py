"""Access to clusters: contexts of kubeconfigs, and the agent's kubeconfig."""

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from core.errors import Invalid, Unavailable
from core.runtime.atomic_files import write_atomically

AGENT = "towline-agent"
_TOKEN_LIFETIME = "720h"
_RBAC = "rbac.authorization.k8s.io"
_ROLE_BINDINGS = {
    "towline:admins": "cluster-admin",
    "towline:editors": "edit",
    "towline:viewers": "view",
}


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
        done = subprocess.run(
            command, input=stdin, capture_output=True, text=True, timeout=timeout, check=False
        )
        if done.returncode:
            raise Unavailable(f"kubectl {' '.join(args)}: {done.stderr.strip()}")
        return done.stdout


def contexts_from_environment() -> list[ClusterAccess]:
    """Contexts of `DEMO_KUBECONFIG`, which replace the local clusters; empty if it is not set.

    Invalid: the file is unreadable, or has fewer than two contexts.
    """
    given = os.environ.get("DEMO_KUBECONFIG")
    if not given:
        return []
    path = Path(given).absolute()
    names = [context["name"] for context in _read(path).get("contexts") or []]
    if len(names) < 2:
        raise Invalid(f"DEMO_KUBECONFIG={given} has {len(names)} contexts; the demo needs two")
    return [ClusterAccess(path, name) for name in names]


def agent_kubeconfig(access: ClusterAccess, path: Path) -> Path:
    """Creates the agent's service account, and writes a kubeconfig with its token to `path`.

    The account is cluster-admin, and can impersonate users. The token is valid for 30 days.
    """
    access.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(_agent_objects()))
    token = access.kubectl(
        "create", "token", AGENT, f"--namespace={AGENT}", f"--duration={_TOKEN_LIFETIME}"
    )
    cluster = _cluster_of(access)
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": access.context, "cluster": cluster}],
        "users": [{"name": AGENT, "user": {"token": token.strip()}}],
        "contexts": [{"name": AGENT, "context": {"cluster": access.context, "user": AGENT}}],
        "current-context": AGENT,
    }
    write_atomically(path, json.dumps(config, indent=2).encode())
    return path


def _agent_objects() -> dict[str, object]:
    account = {"kind": "ServiceAccount", "name": AGENT, "namespace": AGENT}
    return {
        "apiVersion": "v1",
        "kind": "List",
        "items": [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": AGENT}},
            {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"name": AGENT, "namespace": AGENT},
            },
            {
                "apiVersion": f"{_RBAC}/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": AGENT},
                "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": "cluster-admin"},
                "subjects": [account],
            },
            *(_role_binding(group, role) for group, role in _ROLE_BINDINGS.items()),
        ],
    }


def _role_binding(group: str, role: str) -> dict[str, object]:
    """Binds the group of a Towline role to a ClusterRole."""
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": group.replace(":", "-")},
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "Group", "name": group, "apiGroup": _RBAC}],
    }


def _cluster_of(access: ClusterAccess) -> dict[str, Any]:
    """Cluster entry of a context, with embedded files."""
    view = access.kubectl("config", "view", "--minify", "--flatten", "--raw", "-o", "json")
    return json.loads(view)["clusters"][0]["cluster"]


def _read(path: Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError) as error:
        raise Invalid(f"cannot read DEMO_KUBECONFIG={path}: {error}") from error
    return content if isinstance(content, dict) else {}
