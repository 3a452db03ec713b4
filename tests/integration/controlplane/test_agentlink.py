"""The agents' calls, by our own server; agents that only talk, by grpcio."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from controlplane.access.operations.identity import CredentialAuthenticator
from controlplane.agents.link.server import AgentLink
from controlplane.agents.link.session import SMALL_BUNDLE_BYTES
from controlplane.agents.operations.agents import AgentOperations
from controlplane.clusters.model.agent_settings import AgentSpec
from controlplane.clusters.operations.agent_settings import (
    AgentSettingsChange,
    AgentSettingsOperations,
)
from controlplane.clusters.operations.bootstrap_tokens import BootstrapTokens
from controlplane.clusters.operations.clusters import ClusterChange
from controlplane.delivery.operations.diffs import Diffs
from controlplane.platform.parts import given
from controlplane.services.model.ledger import LedgerStage
from controlplane.services.model.parts import SecretValue
from controlplane.services.model.service import Service
from controlplane.services.model.status_codes import ServiceStatus
from controlplane.services.operations.services import ServiceChange
from controlplane.services.ports import ComponentStore, LedgerStore, ServiceStore
from core.errors import NotFound, Unavailable
from core.identity import ClusterId, local_id
from core.rpc.calls import CallFailed, CallStatus, MessageCall, ServerLimits
from core.rpc.grpcio import GrpcioChannel
from core.rpc.http2_server import Http2Server
from core.rpc.methods import FETCH, SYNC
from core.runtime.clock import Clock, SystemClock
from core.sealing import SealingKey
from core.spec.bundle import digest_of
from core.spec.sealed_secrets import SealedSecret
from core.spec.statements.attestation import AttestationStatement, Signer, TrustedKeys
from core.spec.statements.orders import verify_order
from core.spec.statements.signing_keys import public_key, rotate
from core.wire.codec import attestation_from_message
from core.wire.orders import order_for_command, order_for_desired
from core.wire.v1 import agent_pb2 as wire
from gitcache.render.signing import RenderSigner
from tests.fakes.manifests import config_map
from tests.integration.controlplane.conftest import World

PATIENCE = 30
STORM = 50


class TalkingAgent:
    """An agent's end of Sync."""

    def __init__(self, port: int, token: str) -> None:
        self.channel = GrpcioChannel(f"127.0.0.1:{port}", secure=False)
        self.metadata = (("authorization", f"Bearer {token}"),)
        self.call: MessageCall[wire.AgentMessage, wire.HubMessage]

    async def begin(self) -> None:
        self.call = await SYNC.begin(self.channel, self.metadata)

    async def hello(self, held: dict[str, int] | None = None, **given: Any) -> wire.Welcome:
        facts = wire.ClusterFacts(kubernetes_version="v1.36.3", distribution="k3s", nodes=2)
        body: dict[str, Any] = {
            "lowest_protocol": 1,
            "highest_protocol": 1,
            "instance_id": "i",
            "facts": facts,
        }
        hello = wire.Hello(
            **{**body, **given},
            held=[wire.Held(service_id=k, sequence=v) for k, v in (held or {}).items()],
        )
        await self.call.write(wire.AgentMessage(hello=hello))
        return (await self.read("welcome")).welcome

    async def read(self, kind: str) -> wire.HubMessage:
        """The next message of this kind; others are passed over."""
        async with asyncio.timeout(PATIENCE):
            while True:
                message = await self.call.read()
                if message is None:
                    raise EOFError
                if message.WhichOneof("body") == kind:
                    return message

    async def difference(self) -> list[wire.Desired]:
        """Everything up to DesiredEnd."""
        found = []
        async with asyncio.timeout(PATIENCE):
            while True:
                message = await self.call.read()
                if message is None or message.WhichOneof("body") == "desired_end":
                    return found
                if message.WhichOneof("body") == "desired":
                    found.append(message.desired)

    async def report(self, number: int, **body: Any) -> None:
        report = wire.Report(number=number, at_ms=1_767_225_600_000 + number, **body)
        await self.call.write(wire.AgentMessage(report=report))

    async def pulse(self, problem: str) -> None:
        await self.call.write(wire.AgentMessage(pulse=wire.Pulse(problem=problem)))

    async def close(self) -> None:
        self.call.cancel()
        await self.channel.close()


class Hub:
    """A server with the agents' service, and agents that talk to it."""

    def __init__(self, world: World, port: int, link: AgentLink) -> None:
        self.world, self.port, self.link = world, port, link
        self.agents: list[TalkingAgent] = []

    async def agent(self, token: str) -> TalkingAgent:
        agent = TalkingAgent(self.port, token)
        await agent.begin()
        self.agents.append(agent)
        return agent


@asynccontextmanager
async def listening(
    world: World, identity: CredentialAuthenticator, clock: Clock
) -> AsyncGenerator[Hub, None]:
    """A hub that listens, and ends after its agents."""
    link = AgentLink(
        world.agents, identity, BootstrapTokens(world.deps), world.deps.bus, world.logs, clock
    )
    server = Http2Server(link.handlers, ServerLimits(), SystemClock())
    port = await server.start(("127.0.0.1", 0), None)
    await link.start()
    running = Hub(world, port, link)
    yield running
    for agent in running.agents:
        await agent.close()
    await link.stop()
    await server.stop()


@pytest.fixture
async def hub(world: World) -> AsyncIterator[Hub]:
    """A listening hub."""
    async with listening(world, world.identity, SystemClock()) as running:
        yield running


async def registered(world: World, name: str = "dev") -> tuple[str, str]:
    """(cluster id, deploy token)."""
    cluster, token = await world.clusters.create(world.admin, ClusterChange(name=name))
    return cluster.id, token


async def a_service(world: World, cluster_id: str) -> str:
    """A delivered service of the cluster."""
    cluster = await world.clusters.get(world.admin, cluster_id)
    repository = await world.repository()
    service = await world.service(cluster, repository)
    world.manifests.push(repository.id, {"shop": [config_map("a")]})
    await world.delivery.deliver(repository.id)
    return service.id


async def test_an_agent_is_welcomed_and_gets_the_difference(hub: Hub) -> None:
    """Hello is answered by Welcome, what differs, and the end of the difference."""
    cluster_id, token = await registered(hub.world)
    service_id = await a_service(hub.world, cluster_id)
    agent = await hub.agent(token)
    welcome = await agent.hello()
    assert (welcome.cluster_id, welcome.handle, welcome.protocol) == (cluster_id, "dev", 1)
    (desired,) = await agent.difference()
    assert (desired.service_id, desired.sequence) == (service_id, 1)
    assert desired.spec.namespace == "shop" and desired.spec.options.create_namespace
    row = await hub.world.clusters.get(hub.world.admin, cluster_id)
    assert (row.kubernetes_version, row.distribution, row.nodes) == ("v1.36.3", "K3S", 2)


async def test_services_that_the_agent_has_are_not_sent_again(hub: Hub) -> None:
    """Equal sequences cost nothing; a service that is unknown here is let go, not deleted."""
    cluster_id, token = await registered(hub.world)
    service_id = await a_service(hub.world, cluster_id)
    agent = await hub.agent(token)
    await agent.hello({service_id: 1, "forgotten": 7})
    (desired,) = await agent.difference()
    assert (desired.service_id, desired.sequence) == ("forgotten", 8)
    assert desired.removal == wire.REMOVAL_ORPHAN


async def test_an_agent_that_is_ahead_of_a_restored_store_hears_what_it_says(hub: Hub) -> None:
    """Its higher sequence is overtaken once; one that nobody can have given is not believed."""
    cluster_id, token = await registered(hub.world)
    service_id = await a_service(hub.world, cluster_id)
    agent = await hub.agent(token)
    await agent.hello({service_id: 50})
    (desired,) = await agent.difference()
    assert (desired.service_id, desired.sequence) == (service_id, 51)
    for held in (51, (1 << 31) - 1):
        again = await hub.agent(token)
        await again.hello({service_id: held})
        assert await again.difference() == []


async def test_a_restored_store_counts_on_what_it_has_counted_anew(hub: Hub) -> None:
    """The same sequence stands for something else since: reports that are missing here tell."""
    cluster_id, token = await registered(hub.world)
    service_id = await a_service(hub.world, cluster_id)
    agent = await hub.agent(token)
    await agent.hello({service_id: 1}, acknowledged=5)
    (desired,) = await agent.difference()
    assert (desired.service_id, desired.sequence) == (service_id, 2)
    await agent.report(6, status=wire.ServiceStatus(service_id=service_id, sequence=2))
    await agent.read("ack")
    again = await hub.agent(token)
    await again.hello({service_id: 2}, acknowledged=6)
    assert await again.difference() == []


async def test_each_delivery_has_an_order_of_the_present_key(hub: Hub) -> None:
    """While the render tier is away, nothing is sent; then it signs for the next delivery. The
    attestation of a key that was replaced is signed again."""
    world = hub.world
    old, new = (Signer(Ed25519PrivateKey.generate()) for _ in range(2))
    world.manifests.signer = RenderSigner(new, SystemClock(), rotations=(rotate(old, new),))
    keys = TrustedKeys(())
    keys.pin(public_key(new.public_raw))
    cluster_id, token = await registered(world)
    service_id = await a_service(world, cluster_id)
    async with world.deps.store.write() as tx:
        service = await tx[ServiceStore].get(service_id)
        assert service is not None and service.desired.digest
        attested = old.sign(AttestationStatement(service.desired.digest, ()))
        await tx[ServiceStore].change(service_id, attestation=attested)
    agent = await hub.agent(token)
    world.manifests.away = Unavailable("the render tier is away")
    welcome = await agent.hello()
    assert welcome.signing_key == new.public_raw and len(welcome.rotations) == 1
    assert await agent.difference() == []
    world.manifests.away = None
    desired = (await agent.read("desired")).desired
    request = order_for_desired(cluster_id, desired)
    assert request.subject == service_id
    verify_order(keys, attestation_from_message(desired.order), request, SystemClock().now())
    keys.verify(desired.spec.digest, attestation_from_message(desired.spec.attestation))
    await world.services.sync(world.admin, service_id)
    command = (await agent.read("command")).command
    request = order_for_command(cluster_id, command)
    verify_order(keys, attestation_from_message(command.order), request, SystemClock().now())


async def test_changes_come_as_they_happen(hub: Hub) -> None:
    """A commit while the agent is connected is pushed without being asked for."""
    cluster_id, token = await registered(hub.world)
    agent = await hub.agent(token)
    await agent.hello()
    assert await agent.difference() == []
    service_id = await a_service(hub.world, cluster_id)
    desired = (await agent.read("desired")).desired
    assert (desired.service_id, desired.sequence) == (service_id, 1)
    await hub.world.services.sync(hub.world.admin, service_id)
    command = (await agent.read("command")).command
    assert command.sync_now.service_id == service_id
    result = wire.CommandResult(command_id=command.id, outcome=wire.OUTCOME_SUCCEEDED)
    await agent.report(1, result=result)
    assert (await agent.read("ack")).ack.number == 1
    assert (await hub.world.agents.desired_state(ClusterId(cluster_id))).commands == []


async def test_an_agent_is_asked_for_the_version_of_its_settings(hub: Hub) -> None:
    """Its refusal is shown at the cluster, and it is not asked again."""
    world = hub.world
    settings = AgentSettingsOperations(world.deps)
    image = "registry.example.org/towline:9.9.9"
    change = AgentSettingsChange("all", given(AgentSpec, version="9.9.9", image=image))
    await settings.create(world.admin, change)
    cluster_id, token = await registered(world)
    agent = await hub.agent(token)
    await agent.hello(agent_version="1.0.0")
    await agent.difference()
    await world.agents.upgrade_outdated()
    command = (await agent.read("command")).command
    assert (command.upgrade.version, command.upgrade.image) == ("9.9.9", image)

    refusal = wire.CommandResult(
        command_id=command.id, outcome=wire.OUTCOME_REFUSED, message="not allowed here"
    )
    await agent.report(1, result=refusal)
    assert (await agent.read("ack")).ack.number == 1
    await world.agents.upgrade_outdated()
    assert (await world.agents.desired_state(ClusterId(cluster_id))).commands == []
    cluster = await world.clusters.get(world.admin, cluster_id)
    shown = (await settings.of_clusters(world.admin, [cluster]))[cluster_id]
    assert (shown.settings.name, shown.problem) == ("all", "not allowed here")


async def test_reports_are_committed_before_they_are_acknowledged(hub: Hub) -> None:
    """Status and inventory reach the store; the acknowledged number survives a reconnect."""
    world = hub.world
    cluster_id, token = await registered(world)
    service_id = await a_service(world, cluster_id)
    agent = await hub.agent(token)
    await agent.hello()
    (desired,) = await agent.difference()
    where = wire.ObjectRef(version="v1", kind="ConfigMap", namespace="shop", name="a")
    component = wire.Component(object=where, uid="u", health=wire.HEALTH_HEALTHY, synced=True)
    inventory = wire.Inventory(service_id=service_id, complete=True, present=[component])
    await agent.report(1, inventory=inventory)
    status = wire.ServiceStatus(
        service_id=service_id,
        sequence=1,
        digest=desired.spec.digest,
        phase=wire.PHASE_HEALTHY,
        applied_ms=1_767_225_600_001,
    )
    await agent.report(2, status=status)
    while (await agent.read("ack")).ack.number < 2:
        pass
    service = await world.services.get(world.admin, service_id)
    assert service.status is ServiceStatus.HEALTHY
    async with world.deps.store.read() as tx:
        (kept,) = await tx[ComponentStore].of_services(service_id)
        stages = [row.stage for row in await tx[LedgerStore].select(service_id=service_id)]
    assert (kept.kind, kept.name, kept.synced) == ("ConfigMap", "a", True)
    assert LedgerStage.HEALTHY in stages
    again = await hub.agent(token)
    assert (await again.hello({service_id: 1})).acknowledged == 2


async def test_reports_about_other_clusters_are_passed_over(hub: Hub) -> None:
    """An agent cannot speak for a service of another cluster."""
    world = hub.world
    victim, _ = await registered(world, "victim")
    _, token = await registered(world, "attacker")
    service_id = await a_service(world, victim)
    agent = await hub.agent(token)
    await agent.hello()
    status = wire.ServiceStatus(service_id=service_id, sequence=9, phase=wire.PHASE_FAILED)
    await agent.report(1, status=status)
    await agent.read("ack")
    assert (await world.services.get(world.admin, service_id)).observed.observed_generation == 0


async def test_bundles_are_fetched_in_chunks_from_an_offset(hub: Hub) -> None:
    """Fetch gives exactly the bytes, resumes, and refuses what the cluster does not use."""
    world = hub.world
    cluster_id, token = await registered(world)
    service_id = await a_service(world, cluster_id)
    agent = await hub.agent(token)
    digest = (await world.services.get(world.admin, service_id)).desired.digest or ""
    whole = world.manifests.bundles[digest].data

    async def fetch(digest: str, offset: int = 0) -> bytes:
        request = wire.FetchRequest(digest=digest, offset=offset)
        chunks = [c async for c in FETCH.stream_responses(agent.channel, agent.metadata, request)]
        assert all(chunk.total == len(whole) for chunk in chunks)
        return b"".join(chunk.data for chunk in chunks)

    assert await fetch(digest) == whole
    assert await fetch(digest, 10) == whole[10:]
    with pytest.raises(CallFailed) as caught:
        await fetch("sha256:" + "0" * 64)
    assert caught.value.status is CallStatus.NOT_FOUND


async def test_a_mirror_report_gives_no_bundle_of_another_cluster(hub: Hub) -> None:
    """An agent names the digests of its mirrored services itself, so they open no bundle."""
    world = hub.world
    victim, _ = await registered(world, "victim")
    cluster_id, token = await registered(world, "attacker")
    service_id = await a_service(world, victim)
    digest = (await world.services.get(world.admin, service_id)).desired.digest or ""
    agent = await hub.agent(token)
    await agent.hello()
    own_id = local_id("cluster", "shop")
    mirrored = wire.MirroredService(
        service_id=own_id, name="shop", namespace="shop", digest=digest, commit="1" * 40, sequence=1
    )
    await agent.report(1, mirrored=mirrored)
    await agent.read("ack")
    with pytest.raises(CallFailed) as caught:
        request = wire.FetchRequest(digest=digest)
        _ = [
            chunk async for chunk in FETCH.stream_responses(agent.channel, agent.metadata, request)
        ]
    assert caught.value.status is CallStatus.NOT_FOUND
    shown = await world.services.get_by_name(world.admin, "attacker", "shop")
    with pytest.raises(NotFound):
        await Diffs(world.deps).of_service(world.admin, shown.id, new=digest)


@pytest.mark.parametrize("token", ["", "twa_wrong", "nonsense"])
async def test_a_wrong_token_is_refused_with_a_reason(hub: Hub, token: str) -> None:
    """No token, no conversation; the code tells the agent to wait and say so."""
    agent = await hub.agent(token)
    with pytest.raises(CallFailed, match="token") as refused:
        await agent.call.read()
    assert refused.value.status is CallStatus.UNAUTHENTICATED


async def test_a_revoked_token_ends_the_stream_at_once(hub: Hub) -> None:
    """Rotation says goodbye to who holds the old token."""
    cluster_id, token = await registered(hub.world)
    agent = await hub.agent(token)
    await agent.hello()
    await hub.world.clusters.rotate_token(hub.world.admin, cluster_id)
    goodbye = (await agent.read("goodbye")).goodbye
    assert goodbye.reason == wire.GOODBYE_REASON_REVOKED


async def test_the_newer_agent_of_a_cluster_wins(hub: Hub) -> None:
    """The older connection gets a goodbye that it was replaced."""
    _, token = await registered(hub.world)
    old, new = await hub.agent(token), await hub.agent(token)
    await old.hello()
    await new.hello()
    assert (await old.read("goodbye")).goodbye.reason == wire.GOODBYE_REASON_REPLACED
    assert await new.difference() == []
    assert len(hub.link.connected()) == 1


async def test_no_common_protocol_names_both_sides(hub: Hub) -> None:
    """The refusal of a newer agent names the older side."""
    _, token = await registered(hub.world)
    agent = await hub.agent(token)
    with pytest.raises(CallFailed, match="protocol 7 to 9"):
        await agent.hello(lowest_protocol=7, highest_protocol=9)


async def test_oversized_and_misplaced_messages_end_the_call(hub: Hub) -> None:
    """A field beyond its limit, or no Hello first, is INVALID_ARGUMENT with the field named."""
    _, token = await registered(hub.world)
    long = await hub.agent(token)
    with pytest.raises(CallFailed, match="agent_version"):
        await long.hello(agent_version="x" * 65)
    rude = await hub.agent(token)
    await rude.report(1)
    with pytest.raises(CallFailed, match="must be Hello"):
        await rude.read("welcome")


async def test_a_small_bundle_goes_with_its_service_once(hub: Hub) -> None:
    """An option that changes does not bring it again; a large one is left to Fetch."""
    cluster_id, token = await registered(hub.world)
    service_id = await a_service(hub.world, cluster_id)
    agent = await hub.agent(token)
    await agent.hello()
    (first,) = await agent.difference()
    assert digest_of(first.spec.bundle) == first.spec.digest
    await hub.world.services.update(hub.world.admin, service_id, ServiceChange(paused=True))
    again = (await agent.read("desired")).desired
    assert again.spec.digest == first.spec.digest and again.spec.bundle == b""
    async with hub.world.deps.store.write() as tx:
        await tx[ServiceStore].change(service_id, bundle_bytes=SMALL_BUNDLE_BYTES + 1)
    other = await hub.agent(token)
    await other.hello()
    (large,) = await other.difference()
    assert large.spec.bundle == b""


class KeptSecrets:
    """Values of services, in memory."""

    def __init__(self, **values: SecretValue) -> None:
        self.values = values
        self.away = False

    async def of(self, service: Service) -> Mapping[str, SecretValue]:
        if self.away:
            raise Unavailable("the store of secrets is away")
        return self.values


async def test_secrets_of_a_service_go_out_sealed_to_its_agent(world: World) -> None:
    """Only the agent that sent the key opens them, for this service only; without a key, or while
    they cannot be asked for, the service is kept back and says why."""
    kept = KeptSecrets(pw=SecretValue("7", b"canary-0a71-agent"))
    world.agents = AgentOperations(world.deps, kept)
    key = SealingKey.generate()
    async with listening(world, world.identity, SystemClock()) as hub:
        cluster_id, token = await registered(world)
        service_id = await a_service(world, cluster_id)
        old = await hub.agent(token)
        await old.hello()
        assert await old.difference() == []
        kept_back = await world.services.get(world.admin, service_id)
        assert "no key to seal them with" in kept_back.observed.problems[0].message
        new = await hub.agent(token)
        await new.hello(sealing_key=key.public)
        (desired,) = await new.difference()
        (sent,) = desired.spec.secrets
        box = SealedSecret(sent.name, sent.version, sent.box)
        assert (sent.version, key.open(box, service_id)) == ("7", b"canary-0a71-agent")
        kept.away = True
        third = await hub.agent(token)
        await third.hello(sealing_key=key.public)
        assert await third.difference() == []
    assert repr(kept.values["pw"]).count("canary-0a71-agent") == 0


async def test_draining_sends_agents_elsewhere(hub: Hub) -> None:
    """A stopping hub says so to each agent."""
    _, token = await registered(hub.world)
    agent = await hub.agent(token)
    await agent.hello()
    await hub.link.drain()
    assert (await agent.read("goodbye")).goodbye.reason == wire.GOODBYE_REASON_DRAINING


async def test_a_storm_of_agents_is_let_in_whole_and_again_after_it_was_sent_away(
    hub: Hub,
) -> None:
    """All at one moment, twice; none waits for longer than it has patience, none takes the place
    of another."""
    tokens = [(await registered(hub.world, f"c{number}"))[1] for number in range(STORM)]
    for _ in range(2):
        agents = [await hub.agent(token) for token in tokens]
        welcomes = await asyncio.gather(*(agent.hello() for agent in agents))
        assert {one.handle for one in welcomes} == {f"c{number}" for number in range(STORM)}
        assert len(hub.link.connected()) == STORM
        await hub.link.drain()
        goodbyes = await asyncio.gather(*(agent.read("goodbye") for agent in agents))
        assert {one.goodbye.reason for one in goodbyes} == {wire.GOODBYE_REASON_DRAINING}
