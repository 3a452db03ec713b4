"""A control plane in enemy hands, on a cluster that requires proofs and has a freeze key.

The test is the attacker: it owns the agent's link and tunnel, and says what the control plane would
say. The API server's own audit log tells what it let anybody do.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import orjson
import pytest

from core.mux.codec import FLAG_NOBODY, FLAG_PASSTHROUGH, FLAG_UPGRADE, Open, add_proof
from core.runtime.clock import SystemClock
from core.spec.statements.freeze import FreezeAction
from core.wire.v1 import agent_pb2 as pb
from proxy.domain.access import Impersonation, identity_block
from syncagent.compose import build
from syncagent.settings import (
    FreezeSettings,
    HubSettings,
    IdentitySettings,
    KubernetesSettings,
    Settings,
    StateSettings,
)
from syncagent.tunnel.proof import UNPROVEN
from tests.fakes.clock import FakeClock
from tests.fakes.issuer import FakeIssuer
from tests.fakes.kube_proxy import CLUSTER
from tests.fakes.tls import TestAuthority
from tests.fakes.tunnel import RecordingOwner
from tests.integration.syncagent.proxies import AGENT_TOKEN, ProxyHub, proxy_hub
from tests.integration.syncagent.test_freeze import SECONDS, FreezeKey
from tests.integration.syncagent.test_tunnel import until_connected
from towline.agent_identity import open_proofs
from towline.demo.clusters.agent_access import agent_kubeconfig
from towline.demo.clusters.cluster import LocalCluster

RBAC = "rbac.authorization.k8s.io"
POLICY = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n"
ADMINISTRATORS = (
    Impersonation("root", ("towline:admins",)),
    Impersonation("admin", ("system:masters",)),
    Impersonation("system:serviceaccount:kube-system:namespace-controller"),
    Impersonation("ada@example.org", ("oidc:platform", "towline:admins")),
)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> TestAuthority:
    """Certificates for 127.0.0.1."""
    return TestAuthority(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def audited(kubernetes: Path, tmp_path: Path) -> Iterator[LocalCluster]:
    """A cluster of the test's own whose API server writes an audit log."""
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    flags = [f"--audit-policy-file={policy}", f"--audit-log-path={tmp_path / 'audit.log'}"]
    with LocalCluster("audited", kubernetes, apiserver_flags=flags) as running:
        yield running


def impersonated(tmp_path: Path) -> list[dict[str, str]]:
    """The requests as another user that the API server has answered, from its audit log."""
    lines = (tmp_path / "audit.log").read_bytes().splitlines()
    events = [orjson.loads(line) for line in lines]
    return [
        {
            "user": event["impersonatedUser"].get("username", ""),
            "groups": ",".join(event["impersonatedUser"].get("groups", ())),
            "verb": event["verb"],
            "resource": (event.get("objectRef") or {}).get("resource", ""),
            "code": str(event["responseStatus"]["code"]),
        }
        for event in events
        if event["stage"] == "ResponseComplete" and "impersonatedUser" in event
    ]


def _bind(name: str, role: str, group: str) -> dict[str, object]:
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "Group", "name": group, "apiGroup": RBAC}],
    }


class Attacker:
    """The control plane's end of the agent's links."""

    def __init__(self, hub: ProxyHub) -> None:
        self.hub = hub

    def open(self, identity: bytes, request: str, flags: int = FLAG_NOBODY) -> RecordingOwner:
        """Open a stream to the agent with whatever identity."""
        link = self.hub.proxy.tunnels.find(CLUSTER)
        assert link is not None
        owner = RecordingOwner()
        fields = "Accept: application/json\r\n"
        if flags & FLAG_UPGRADE:
            fields += "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
        if flags & FLAG_PASSTHROUGH:
            fields += "Authorization: Bearer stolen\r\n"
        head = f"{request} HTTP/1.1\r\n{fields}\r\n".encode()
        owner.stream = link.open(owner, Open(head, identity, b"r" * 16, flags), tenant=b"t")
        return owner

    async def ask(self, identity: bytes, request: str, flags: int = FLAG_NOBODY) -> RecordingOwner:
        """The same, to the end of the answer."""
        owner = self.open(identity, request, flags)
        await until(lambda: owner.ended is not None or owner.reset is not None)
        return owner


async def until(condition: Callable[[], object], seconds: float = 20.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)


@asynccontextmanager
async def running(settings: Settings) -> AsyncGenerator[None]:
    """The whole agent."""
    stop = asyncio.Event()
    clock = SystemClock()
    async with open_proofs(settings.identity, clock) as proofs, asyncio.TaskGroup() as tasks:
        tasks.create_task(build(settings, clock, proofs=proofs).run(stop))
        try:
            yield
        finally:
            stop.set()


async def test_nobody_is_impersonated_without_their_proof_and_a_freeze_ends_all(
    audited: LocalCluster, authority: TestAuthority, tmp_path: Path
) -> None:
    """No Secret is read, no object changes; the audit log knows unproven users and one proof."""
    bindings = [
        _bind("admins", "cluster-admin", "towline:admins"),
        _bind("platform", "edit", "oidc:platform"),
        _bind("unproven", "view", UNPROVEN),
    ]
    items = json.dumps({"apiVersion": "v1", "kind": "List", "items": bindings})
    await asyncio.to_thread(audited.kubectl, "apply", "-f", "-", stdin=items)
    await asyncio.to_thread(
        audited.kubectl, "create", "secret", "generic", "s", "--from-literal=k=canary"
    )
    kubeconfig = await asyncio.to_thread(
        agent_kubeconfig, audited.access, tmp_path / "agent.kubeconfig"
    )
    key, pinned = FreezeKey(), tmp_path / "freeze.pem"
    pinned.write_bytes(key.pem)
    issuer = FakeIssuer(FakeClock(SystemClock().now()))
    issuer.claims["aud"] = "dev"
    async with issuer.serve(), proxy_hub(authority) as hub:
        settings = Settings(
            HubSettings(hub.hub.address, AGENT_TOKEN),
            KubernetesSettings(kubeconfig),
            StateSettings(tmp_path / "state"),
            identity=IdentitySettings(issuer.url, "dev"),
            freeze=FreezeSettings(pinned, "dev"),
        )
        async with running(settings):
            await until_connected(hub)
            attacker = Attacker(hub)
            await _claim_everybody(attacker, issuer)
            await _use_a_live_proof(attacker, issuer)
            await _freeze(attacker, key)
    seen = impersonated(tmp_path)
    users = {row["user"] for row in seen}
    assert users == {"towline:unproven:root", "towline:unproven:ada@example.org", "ada@example.org"}
    for row in seen:
        assert row["groups"] in (f"{UNPROVEN},system:authenticated", PROVEN), row
        assert row["resource"] != "secrets" or row["user"] == "ada@example.org", row
        if row["user"] != "ada@example.org":
            assert row["verb"] in ("get", "list", "watch") or row["code"] == "403", row


PROVEN = "oidc:platform,system:authenticated"


async def _claim_everybody(attacker: Attacker, issuer: FakeIssuer) -> None:
    """Whoever is claimed, and whatever proof is forged, nothing changes and no Secret is read."""
    forger = FakeIssuer(issuer.clock)
    forger.url, forger.claims = issuer.url, issuer.claims
    for who in ADMINISTRATORS:
        claimed = identity_block(who)
        for identity in (claimed, add_proof(claimed, forger.token().encode())):
            for request, flags in (
                ("GET /api/v1/secrets", FLAG_NOBODY),
                ("GET /api/v1/namespaces/default/%73ecrets/s?watch=1", FLAG_NOBODY),
                ("DELETE /api/v1/namespaces/default/secrets/s", FLAG_NOBODY),
                ("DELETE /api/v1/namespaces/default/serviceaccounts/default", FLAG_NOBODY),
                ("POST /api/v1/namespaces/default/pods/p/exec?command=sh", FLAG_UPGRADE),
                ("GET /api/v1/nodes/n/proxy/", FLAG_NOBODY),
                ("GET /api/v1/secrets", FLAG_NOBODY | FLAG_PASSTHROUGH),
            ):
                owner = await attacker.ask(identity, request, flags)
                assert b"canary" not in owner.received
                assert owner.reset is not None or b"HTTP/1.1 403" in owner.received[:12], request
    assert (await attacker.ask(b"", "GET /api/v1/secrets")).reset is not None


async def _use_a_live_proof(attacker: Attacker, issuer: FakeIssuer) -> None:
    """A live token of a user is that user and no more, whatever stands beside it."""
    proof = issuer.token().encode()
    block = add_proof(identity_block(ADMINISTRATORS[0]), proof)
    read = await attacker.ask(block, "GET /api/v1/namespaces/default/secrets/s")
    assert b"HTTP/1.1 200" in read.received
    refused = await attacker.ask(block, "DELETE /api/v1/namespaces/default")
    assert b"HTTP/1.1 403" in refused.received[:12]


async def _freeze(attacker: Attacker, key: FreezeKey) -> None:
    """Open watches end within 5 s; afterwards the agent passes on nothing and takes no order."""
    claimed = identity_block(ADMINISTRATORS[0])
    watches = [
        attacker.open(claimed, "GET /api/v1/namespaces/default/configmaps?watch=1")
        for _ in range(20)
    ]
    await until(lambda: all(owner.received for owner in watches))
    thaw = key.sign(FreezeAction.THAW)
    order = pb.FreezeOrder(statement=key.sign(FreezeAction.FREEZE))
    attacker.hub.hub.send(pb.HubMessage(command=pb.Command(id="freeze", freeze=order)))
    clock = SystemClock()
    sent = clock.monotonic()
    await until(lambda: all(owner.reset is not None for owner in watches))
    assert clock.monotonic() - sent < SECONDS
    after = await attacker.ask(claimed, "GET /api/v1/namespaces/default/configmaps")
    assert after.reset is not None and "frozen" in after.reset[1]
    replayed = pb.Command(id="thaw", freeze=pb.FreezeOrder(statement=thaw))
    attacker.hub.hub.send(pb.HubMessage(command=replayed))
    job = pb.RunJob(namespace="default", manifest=b"{}")
    attacker.hub.hub.send(pb.HubMessage(command=pb.Command(id="job", run_job=job)))
    await attacker.hub.hub.until(lambda: {"thaw", "job"} <= attacker.hub.hub.results().keys())
    results = attacker.hub.hub.results()
    assert results["thaw"].outcome == results["job"].outcome == pb.OUTCOME_REFUSED
    assert "serial" in results["thaw"].message
