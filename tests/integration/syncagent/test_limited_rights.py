"""An agent that may do little: one namespace, one kind."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from core.wire.v1 import agent_pb2 as pb
from syncagent.settings import KubernetesSettings
from tests.integration.syncagent.conftest import Bench

_ACCOUNT = "limited"


@pytest.fixture
async def limited(bench: Bench) -> Bench:
    """The bench with an agent that may only touch ConfigMaps of its own namespace."""
    verbs = "get,list,watch,create,patch,delete"
    await bench.kubectl("create", "serviceaccount", _ACCOUNT)
    await bench.kubectl("create", "role", _ACCOUNT, f"--verb={verbs}", "--resource=configmaps")
    account = f"--serviceaccount={bench.namespace}:{_ACCOUNT}"
    await bench.kubectl("create", "rolebinding", _ACCOUNT, f"--role={_ACCOUNT}", account)
    token = (await bench.kubectl("create", "token", _ACCOUNT)).strip()
    path = _kubeconfig(bench.cluster.kubeconfig, token, bench.state / "kubeconfig")
    return replace(bench, settings=replace(bench.settings, kubernetes=KubernetesSettings(path)))


def _kubeconfig(admin: Path, token: str, path: Path) -> Path:
    """The way to the same cluster as a service account."""
    config = yaml.safe_load(admin.read_text())
    for user in config["users"]:
        user["user"] = {"token": token}
    path.write_text(json.dumps(config))
    return path


async def test_permitted_objects_sync_and_forbidden_ones_are_named(limited: Bench) -> None:
    """Applied, healed at once and pruned within the rights; beyond them the server's own words."""
    hub, place = limited.hub, limited.namespace
    async with limited.agent():
        hub.want("mine", [limited.config("a"), limited.config("b")], namespace=place)
        await hub.until_phase("mine", pb.PHASE_HEALTHY)
        hub.want("secret", [{**limited.config("s"), "kind": "Secret", "data": {}}], namespace=place)
        status = await hub.until_phase("secret", pb.PHASE_FAILED)
        assert f'cannot patch resource "secrets" in API group "" in the namespace "{place}"' in (
            status.problems[0].message
        )
        hub.want("away", [limited.config("a")], namespace="default")
        assert (await hub.until_phase("away", pb.PHASE_FAILED)).problems[0].reason == "Forbidden"
        await limited.kubectl("patch", "configmap", "a", "-p", '{"data":{"key":"edited"}}')
        await hub.until(lambda: hub.drifts("mine"))
        hub.want("mine", [limited.config("a")], namespace=place)
        await hub.until_phase("mine", pb.PHASE_HEALTHY)
    assert await limited.get("configmap", "b") is None
    healed = await limited.get("configmap", "a")
    assert healed is not None and healed["data"] == {"key": "value"}
