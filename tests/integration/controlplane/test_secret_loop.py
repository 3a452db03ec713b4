"""Secrets on their way without anybody's word: to connected agents, through rotations, to keys."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta

import pytest

from controlplane.secrets.backends.envelope import EnvelopeSealer
from controlplane.secrets.backends.keks import LocalKek
from controlplane.secrets.loop import SecretLoop
from controlplane.secrets.model.rotation import RotationPhase, RotationPlan
from controlplane.secrets.model.secret_source import ExternalSecretStores
from controlplane.secrets.operations.keys import DataKeyOperations
from controlplane.secrets.operations.refresh import SecretRefresher
from controlplane.secrets.operations.rotations import Rotations
from controlplane.secrets.operations.secrets import SecretChange, Secrets
from controlplane.secrets.sources.environment import EnvironmentSource
from core.runtime.clock import SystemClock
from core.sealing import SealingKey
from core.spec.sealed_secrets import SealedSecret
from core.spec.status import Phase
from tests.integration.controlplane.conftest import World
from tests.integration.controlplane.test_agentlink import a_service, listening, registered

CANARY = b"canary-b7e0-of-the-loop"


class Loop:
    """The loop over a world, and the verbs that people have."""

    def __init__(self, world: World) -> None:
        ring = world.deps.sealer
        assert isinstance(ring, EnvelopeSealer)
        self.environ = {"T_DB": "first"}
        sources = ExternalSecretStores({}, self.environ, "T_", world.identity.actor_of)
        self.keys = DataKeyOperations(world.deps, ring, LocalKek(b"k" * 32))
        refreshing = SecretRefresher(world.deps, sources)
        rotations = Rotations(world.deps)
        self.running = SecretLoop(rotations, refreshing, self.keys, world.deps.bus, world.clock)
        self.secrets = Secrets(world.deps)
        self.world = world

    async def until(self, holds: Callable[[], Awaitable[bool]]) -> None:
        """Let time go on until something holds."""
        async with asyncio.timeout(60):
            while not await holds():
                await self.world.clock.advance(1)
                await asyncio.sleep(0.01)


@pytest.fixture
async def loop(world: World) -> AsyncIterator[Loop]:
    made = Loop(world)
    await made.running.start()
    yield made
    await made.running.stop()


async def test_a_changed_value_reaches_a_connected_agent_at_once(world: World) -> None:
    """Over real gRPC, sealed to its key, under a higher sequence and another version."""
    key, secrets = SealingKey.generate(), Secrets(world.deps)
    secret = await secrets.save(world.admin, "db", SecretChange(CANARY))
    async with listening(world, world.identity, SystemClock()) as hub:
        cluster_id, token = await registered(world)
        service_id = await a_service(world, cluster_id)
        await secrets.use(world.admin, service_id, {"pw": (secret.id, None)})
        agent = await hub.agent(token)
        await agent.hello(sealing_key=key.public)
        (first,) = await agent.difference()
        await secrets.save(world.admin, "db", SecretChange(b"second"))
        second = (await agent.read("desired")).desired
    assert second.sequence > first.sequence
    values = []
    for desired in (first, second):
        (sent,) = desired.spec.secrets
        values.append(key.open(SealedSecret(sent.name, sent.version, sent.box), service_id))
    assert values == [CANARY, b"second"]
    assert first.spec.secrets[0].version != second.spec.secrets[0].version
    assert first.spec.digest == second.spec.digest


async def test_an_automatic_rotation_goes_to_its_end_by_itself(loop: Loop) -> None:
    """With what agents report, and the clock; the old value is gone only then."""
    world, secrets = loop.world, loop.secrets
    secret = await secrets.save(world.admin, "db", SecretChange(CANARY))
    cluster_id, _ = await registered(world)
    id = await a_service(world, cluster_id)
    await secrets.use(world.admin, id, {"pw": (secret.id, None)})
    service = await world.services.get(world.admin, id)
    await world.report(service)
    plan = RotationPlan(soak_s=30, automatic=True)
    await secrets.save(world.admin, "db", SecretChange(b"second", plan=plan))

    async def moved() -> bool:
        (use,) = await secrets.consumers(world.admin, secret.id)
        return use.use.version == 2

    async def revoked() -> bool:
        found = await secrets.get(world.admin, secret.id)
        return found.rotation.phase is RotationPhase.REVOKED

    await loop.until(moved)
    assert not await revoked()
    began = world.clock.now()
    await world.report(service, Phase.HEALTHY)
    await loop.until(revoked)
    assert (world.clock.now() - began).total_seconds() >= 30
    versions = {one.number: one for one in await secrets.versions(world.admin, secret.id)}
    assert versions[1].revoked_at is not None


async def test_sources_are_read_when_they_are_due(loop: Loop) -> None:
    """At once when asked for first, then in time."""
    world = loop.world
    source = EnvironmentSource("DB")
    change = SecretChange(source=source, refresh_s=60)
    secret = await loop.secrets.save(world.admin, "db", change)

    async def read(number: int) -> bool:
        return (await loop.secrets.get(world.admin, secret.id)).current == number

    await loop.until(lambda: read(1))
    first = await loop.secrets.get(world.admin, secret.id)
    loop.environ["T_DB"] = "second"
    await loop.until(lambda: read(2))
    second = await loop.secrets.get(world.admin, secret.id)
    assert first.due_at is not None and second.due_at is not None
    assert second.due_at - first.due_at >= timedelta(seconds=60)


async def test_sealed_values_are_resealed_after_a_rotation(loop: Loop) -> None:
    world = loop.world
    await loop.secrets.save(world.admin, "db", SecretChange(CANARY))
    key = await loop.keys.rotate(world.admin)

    async def settled() -> bool:
        state = await loop.keys.state(world.admin)
        return state.current is not None and state.current.id == key.id and state.outdated == 0

    await loop.until(settled)
