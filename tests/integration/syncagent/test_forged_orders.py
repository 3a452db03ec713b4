"""A stolen control plane: its process, its store and its keys, but not those of the render tier.

The agent, the API server and the render tier are real. The thief answers the agent in place of the
control plane, and asks the render tier with the key that control planes have.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from core.errors import Invalid
from core.identity import RepositoryId
from core.runtime.clock import SystemClock
from core.spec.bundle import KubeObject, make_bundle
from core.spec.source import RenderedBundle, RenderRequest, RepositorySpec
from core.spec.statements.attestation import AttestationStatement, Signer
from core.spec.statements.orders import OrderSigner
from core.spec.statements.signing_keys import SigningIdentity, rotate
from core.wire.codec import attestation_to_message
from core.wire.orders import order_for_command, order_for_desired
from core.wire.v1 import agent_pb2 as pb
from gitcache import compose_replica
from gitcache.peers.remote import RemoteGitCache
from gitcache.settings import PeerSettings
from syncagent.settings import UpgradeSettings
from tests.fakes.hub import CLUSTER
from tests.integration.syncagent.conftest import Bench
from towline.demo.git_server import GitServer, ServedRepository
from towline.demo.ports import free_ports
from towline.serve.git_cache_process import GitCacheProcess
from towline.settings import ServeSettings

pytestmark = pytest.mark.cluster

KEY = "the key of control plane and replicas"
THIEF = Signer(Ed25519PrivateKey.generate())
KINDS = "configmaps,secrets,jobs,deployments,serviceaccounts,rolebindings"
SERVICE, EVIL = "shop", "evil"
MANIFEST = "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: shop}}\ndata: {{n: '{}'}}\n"


@dataclass
class Stolen:
    """The thief's view: the agent's link, and the client of the render tier."""

    bench: Bench
    tier: RemoteGitCache
    repository: ServedRepository
    id: RepositoryId
    generation: int = 0

    async def render(self) -> RenderedBundle:
        """A genuine render of the newest commit."""
        commit = await self.tier.resolve(self.id, "main")
        return await self.tier.render(RenderRequest(self.id, commit.sha, "web"))

    def wants(self, rendered: RenderedBundle, service: str = SERVICE) -> pb.Desired:
        """Desired state of a bundle that the render tier has made, without an order."""
        self.generation += 1
        assert rendered.attestation is not None
        spec = pb.ServiceSpec(
            name=service,
            namespace=self.bench.namespace,
            digest=rendered.digest,
            bundle_bytes=rendered.size,
            attestation=attestation_to_message(rendered.attestation),
        )
        return pb.Desired(service_id=service, sequence=self.generation, spec=spec)

    def forged(self, objects: list[KubeObject], service: str = EVIL) -> pb.Desired:
        """Desired state of the thief's own objects, signed with the thief's key."""
        self.generation += 1
        bundle = make_bundle(objects)
        attested = THIEF.sign(AttestationStatement(bundle.digest, ()))
        spec = pb.ServiceSpec(
            name=service,
            namespace=self.bench.namespace,
            digest=bundle.digest,
            bundle_bytes=len(bundle.data),
            bundle=bundle.data,
            attestation=attestation_to_message(attested),
        )
        return pb.Desired(service_id=service, sequence=self.generation, spec=spec)

    async def ordered(self, message: pb.Desired, cluster: str = CLUSTER) -> pb.Desired:
        """The message with an order of the render tier, which signs what it is asked to."""
        (order,) = await self.tier.sign_orders([order_for_desired(cluster, message)])
        made = pb.Desired()
        made.CopyFrom(message)
        made.order.CopyFrom(attestation_to_message(order))
        return made

    def deliver(self, message: pb.Desired) -> None:
        self.bench.hub.desired[message.service_id] = message
        self.bench.hub.send(pb.HubMessage(desired=message))

    async def healthy(self, message: pb.Desired) -> None:
        self.deliver(message)
        await self.bench.hub.until_phase(message.service_id, pb.PHASE_HEALTHY)

    async def refused(self, message: pb.Desired, reason: str) -> None:
        """The agent says no, with a reason."""
        count = len(self.bench.hub.reports)
        self.deliver(message)

        def failed() -> bool:
            return any(
                reason in problem.message
                for report in self.bench.hub.reports[count:]
                for problem in report.status.problems
                if report.status.service_id == message.service_id
                and report.status.phase == pb.PHASE_FAILED
            )

        await self.bench.hub.until(failed)

    async def refused_command(self, command: pb.Command, reason: str) -> None:
        self.bench.hub.send(pb.HubMessage(command=command))
        await self.bench.hub.until(lambda: command.id in self.bench.hub.results())
        result = self.bench.hub.results()[command.id]
        assert result.outcome == pb.OUTCOME_REFUSED and reason in result.message

    async def objects(self) -> str:
        """All objects of the namespace with their versions."""
        columns = "custom-columns=:kind,:metadata.name,:metadata.uid,:metadata.resourceVersion"
        return await self.bench.kubectl("get", KINDS, "--no-headers", "-o", columns)


@pytest.fixture
async def stolen(bench: Bench, git_server: GitServer, tmp_path: Path) -> AsyncIterator[Stolen]:
    """A render tier that signs one repository and no acts, and a thief in front of it."""
    repository = git_server.create_repository("shop")
    repository.commit({"web/a.yaml": MANIFEST.format(1)})
    key = tmp_path / "signing.key"
    key.write_bytes(Ed25519PrivateKey.generate().private_bytes_raw())
    where = f"127.0.0.1:{free_ports(1)[0]}"
    signing = {"key": key, "sources": [repository.url], "orders": []}
    tier = GitCacheProcess(
        ServeSettings(
            target="gitcache",
            data=tmp_path / "tier",
            listen_peers=where,
            listen_metrics="off",
            git={
                "poll": {"seconds": 0.2},
                "render": {"workers": 1},
                "peers": {"key": KEY, "name": "a"},
                "signing": signing,
            },
        )
    )
    await tier.start()
    remote = compose_replica.build_remote(PeerSettings(key=KEY, servers=(where,)), SystemClock())
    await remote.start()
    id = RepositoryId("r")
    remote.follow(RepositorySpec(id, repository.url, frozenset({"main"})))
    bench.hub.signer, bench.hub.presents = None, await remote.signing_identity()
    assert bench.hub.presents is not None
    hub = replace(bench.settings.hub, signing_key=bench.hub.presents.key_id, cluster_id=CLUSTER)
    upgrade = UpgradeSettings(bench.namespace, "towline-agent", "towline")
    bench.settings = replace(bench.settings, hub=hub, upgrade=upgrade)
    try:
        async with bench.agent():
            await bench.hub.until(lambda: bench.hub.hellos)
            yield Stolen(bench, remote, repository, id)
    finally:
        await remote.stop()
        await tier.stop()


async def apply_genuine(stolen: Stolen) -> list[pb.Desired]:
    """Two commits in turn, as the control plane delivered them before it was stolen."""
    recorded = []
    for number in (1, 2):
        if number == 2:
            sha = stolen.repository.commit({"web/a.yaml": MANIFEST.format(2)})
            await stolen.tier.request_poll(stolen.id, {"refs/heads/main": sha})
            commit = await stolen.tier.resolve(stolen.id, sha)
            request = RenderRequest(stolen.id, commit.sha, "web")
            rendered = await stolen.tier.render(request)
        else:
            rendered = await stolen.render()
        stolen.bench.hub.bundles[rendered.digest] = await stolen.tier.bundle(rendered.digest)
        message = await stolen.ordered(stolen.wants(rendered))
        await stolen.healthy(message)
        recorded.append(message)
    return recorded


async def test_a_stolen_control_plane_changes_no_object(
    stolen: Stolen, git_server: GitServer
) -> None:
    """Forged desired state, removals, options, jobs, upgrades, replays, and another key."""
    old, new = await apply_genuine(stolen)
    before = await stolen.objects()
    assert "shop" in before
    await _forge_desired_state(stolen)
    await _sign_elsewhere(stolen, git_server)
    await stolen.refused(old, "generation 1; this agent has accepted generation 2")
    await _abuse_service(stolen, new)
    await _command(stolen)
    await _present_other_key(stolen)
    assert await stolen.objects() == before


async def _forge_desired_state(stolen: Stolen) -> None:
    evil: list[KubeObject] = [stolen.bench.config("evil")]
    unsigned = stolen.forged(evil)
    await stolen.refused(unsigned, "the order is not signed")
    thief = stolen.forged(evil)
    request = order_for_desired(CLUSTER, thief)
    (order,) = OrderSigner(THIEF).sign([request], SystemClock().now())
    thief.order.CopyFrom(attestation_to_message(order))
    await stolen.refused(thief, f"signed by the key {THIEF.key_id}")
    # The render tier signs this order; the bundle is still not its own.
    ordered = await stolen.ordered(stolen.forged(evil))
    await stolen.refused(ordered, f"signed by the key {THIEF.key_id}")
    swapped = stolen.wants(await stolen.render(), EVIL)
    swapped.spec.digest = make_bundle(evil).digest
    await stolen.refused(await stolen.ordered(swapped), "belongs to bundle")


async def _sign_elsewhere(stolen: Stolen, git_server: GitServer) -> None:
    """The thief's own repository and bundle: the render tier refuses to sign them."""
    own = git_server.create_repository("evil")
    own.commit({"web/a.yaml": MANIFEST.format(666)})
    id = RepositoryId("evil")
    stolen.tier.follow(RepositorySpec(id, own.url, frozenset({"main"})))
    commit = await stolen.tier.resolve(id, "main")
    with pytest.raises(Invalid, match=r"git\.signing\.sources"):
        await stolen.tier.render(RenderRequest(id, commit.sha, "web"))
    with pytest.raises(Invalid, match="listed sources"):
        await stolen.tier.store_bundle(make_bundle([stolen.bench.config("evil")]).data)


async def _abuse_service(stolen: Stolen, applied: pb.Desired) -> None:
    """Acts on the service that is applied, each with an order that the render tier has signed."""
    elsewhere = stolen.wants(await stolen.render())
    await stolen.refused(await stolen.ordered(elsewhere, "other"), "signed for cluster other")
    moved = pb.Desired()
    moved.CopyFrom(applied)
    moved.service_id = "other"
    await stolen.refused(moved, "signed for subject shop")
    removal = pb.Desired(
        service_id=SERVICE, sequence=stolen.generation + 1, removal=pb.REMOVAL_CASCADE
    )
    await stolen.refused(removal, "not signed")
    await stolen.refused(await stolen.ordered(removal), "does not allow removals")
    orphan = pb.Desired(
        service_id=SERVICE, sequence=stolen.generation + 1, removal=pb.REMOVAL_ORPHAN
    )
    await stolen.refused(await stolen.ordered(orphan), "does not allow removals")
    options = stolen.wants(await stolen.render())
    options.spec.options.replace_immutable = True
    await stolen.refused(await stolen.ordered(options), "does not allow options")


async def _command(stolen: Stolen) -> None:
    """Jobs, upgrades and terminations: unsigned, and with an order without that power."""
    manifest = b'{"apiVersion":"batch/v1","kind":"Job","spec":{"template":{"spec":{}}}}'
    job = pb.RunJob(namespace=stolen.bench.namespace, manifest=manifest, timeout_s=60)
    for number, (command, power) in enumerate(
        (
            (pb.Command(run_job=job), "jobs"),
            (pb.Command(cancel_job=pb.CancelJob(command_id="j")), "jobs"),
            (pb.Command(terminate=pb.Terminate(service_id=SERVICE)), "jobs"),
            (pb.Command(upgrade=pb.UpgradeAgent(version="9", image="towline:9")), "upgrades"),
        )
    ):
        command.id = f"0197a000-0000-7000-8000-0000000000{number}0"
        await stolen.refused_command(command, "not signed")
        command.id = f"0197a000-0000-7000-8000-0000000000{number}1"
        (order,) = await stolen.tier.sign_orders([order_for_command(CLUSTER, command)])
        command.order.CopyFrom(attestation_to_message(order))
        await stolen.refused_command(command, f"does not allow {power}")


async def _present_other_key(stolen: Stolen) -> None:
    """A new connection with the thief's key, also with a rotation that the thief has signed."""
    hub = stolen.bench.hub
    genuine = rotate(Signer(Ed25519PrivateKey.generate()), THIEF)
    forged = replace(genuine, key_id=stolen.bench.settings.hub.signing_key)
    for rotations in ((), (genuine,), (forged,)):
        calls = len(hub.hellos)
        hub.pulse_ms = 500
        hub.presents = SigningIdentity(THIEF.public_raw, rotations)
        hub.drain()
        await hub.until(lambda calls=calls: len(hub.hellos) > calls)
        message = stolen.forged([stolen.bench.config("evil")])
        (order,) = OrderSigner(THIEF).sign(
            [order_for_desired(CLUSTER, message)], SystemClock().now()
        )
        message.order.CopyFrom(attestation_to_message(order))
        await stolen.refused(message, f"it expects {stolen.bench.settings.hub.signing_key}")
    await hub.until(lambda: any("signing key" in said for said in hub.problems))
