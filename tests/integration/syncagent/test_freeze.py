"""A frozen cluster on a real API server: each path of a statement, and everything that it ends."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from core.runtime.clock import SystemClock
from core.spec.statements.freeze import FreezeAction, FreezeStatement
from core.wire.v1 import agent_pb2 as pb
from syncagent.settings import FreezeSettings
from tests.fakes.tls import TestAuthority
from tests.integration.syncagent.conftest import Bench
from tests.integration.syncagent.proxies import ProxyHub, proxy_hub
from tests.integration.syncagent.test_tunnel import (
    User,
    tunnelling,
    until_connected,
    watch_under_way,
)

SECONDS = 5.0
Send = Callable[[Bench, ProxyHub, str], Awaitable[None]]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> TestAuthority:
    """Certificates for 127.0.0.1."""
    return TestAuthority(tmp_path_factory.mktemp("tls"))


class FreezeKey:
    """The key that its holder keeps offline."""

    def __init__(self) -> None:
        self._key = Ed25519PrivateKey.generate()
        self._serial = 0

    @property
    def pem(self) -> bytes:
        return self._key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )

    def sign(self, action: FreezeAction) -> str:
        self._serial += 1
        now = int(SystemClock().now().timestamp())
        statement = FreezeStatement(action, ("dev",), self._serial, now, reason="stolen token")
        return statement.sign(self._key)


def freezable(bench: Bench, key: FreezeKey) -> None:
    """The agent that starts next has the key and all three paths."""
    pinned, file = bench.state / "freeze.pem", bench.state / "statements"
    pinned.write_bytes(key.pem)
    place = f"{bench.namespace}/towline-freeze"
    bench.settings = replace(bench.settings, freeze=FreezeSettings(pinned, "dev", place, file))


async def by_control_plane(bench: Bench, hub: ProxyHub, statement: str) -> None:
    id = f"freeze-{len(hub.hub.results())}"
    order = pb.FreezeOrder(statement=statement)
    hub.hub.send(pb.HubMessage(command=pb.Command(id=id, freeze=order)))
    await hub.hub.until(lambda: hub.hub.results().get(id))
    assert hub.hub.results()[id].outcome == pb.OUTCOME_SUCCEEDED


async def by_configmap(bench: Bench, hub: ProxyHub, statement: str) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "towline-freeze", "namespace": bench.namespace},
        "data": {"statement": statement},
    }
    await asyncio.to_thread(bench.cluster.kubectl, "apply", "-f", "-", stdin=json.dumps(body))


async def by_file(bench: Bench, hub: ProxyHub, statement: str) -> None:
    (bench.state / "statements").write_text(f"# of the security team\n{statement}\n")


PATHS: dict[str, Send] = {
    "control plane": by_control_plane,
    "ConfigMap": by_configmap,
    "file": by_file,
}


async def end_of(process: asyncio.subprocess.Process) -> float:
    """Seconds until a program ends."""
    clock = SystemClock()
    began = clock.monotonic()
    async with asyncio.timeout(30):
        await process.communicate()
    return clock.monotonic() - began


@pytest.mark.parametrize("path", PATHS)
async def test_a_freeze_ends_everything_within_5_s(
    path: str, bench: Bench, authority: TestAuthority, kubernetes: Path, tmp_path: Path
) -> None:
    """Watches and writes of users, syncs and heals; also after a restart, until the thaw."""
    key = FreezeKey()
    freezable(bench, key)
    async with proxy_hub(authority) as hub:
        hub.hub.pulse_ms = 1000
        ann = User(kubernetes / "kubectl", hub.kubeconfig(tmp_path / "ann"))
        async with tunnelling(bench, hub.hub.address):
            await until_connected(hub)
            watch = await watch_under_way(ann, bench.namespace)
            hub.hub.want("web", [bench.config("site")], namespace=bench.namespace)
            await hub.hub.until_phase("web", pb.PHASE_HEALTHY)
            await PATHS[path](bench, hub, key.sign(FreezeAction.FREEZE))
            assert await end_of(watch) < SECONDS
            for arguments in (("get", "pods"), ("create", "configmap", "x")):
                refused = await ann.refusal(*arguments, "-n", bench.namespace)
                assert "refuses all requests: this cluster is frozen" in refused
                assert "stolen token" in refused
            hub.hub.want("web", [bench.config("site", key="changed")], namespace=bench.namespace)
            await hub.hub.until(lambda: frozen_status(hub))
            await hub.hub.until(lambda: any("is frozen" in one for one in hub.hub.problems))
        hellos = len(hub.hub.hellos)
        async with bench.agent():
            # Orders go to the newest connection; the one before may still be open for a moment.
            await hub.hub.until(lambda: len(hub.hub.hellos) > hellos)
            async with asyncio.timeout(30):
                while "is frozen" not in await ann.refusal("get", "pods"):
                    await asyncio.sleep(0.1)
            hub.hub.send(
                pb.HubMessage(command=pb.Command(id="job", run_job=pb.RunJob(namespace="x")))
            )
            await hub.hub.until(lambda: hub.hub.results().get("job"))
            assert hub.hub.results()["job"].outcome == pb.OUTCOME_REFUSED
            live = await bench.get("configmap", "site")
            assert live is not None and live["data"] == {"key": "value"}
            await PATHS[path](bench, hub, key.sign(FreezeAction.THAW))
            await bench.until("configmap", "site", lambda live: live["data"]["key"] == "changed")
            async with asyncio.timeout(SECONDS):
                while "early" not in await ann("get", "configmaps", "-n", bench.namespace):
                    await asyncio.sleep(0.1)


def frozen_status(hub: ProxyHub) -> bool:
    """Whether the newest status names the freeze."""
    status = hub.hub.status("web")
    return status is not None and any("is frozen" in one.message for one in status.problems)
