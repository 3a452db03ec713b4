"""Measures secrets: re-encryption after a key rotation, and the rollout of a new value."""

import asyncio
import tempfile
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from bench.report import BenchReport
from controlplane.authorization import BUILT_IN, INSTALLATION, Actor, ActorKind, Grant, Policy
from controlplane.authorization.roles import BuiltInRole
from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.ports import ClusterStore
from controlplane.platform.bus.memory import MemoryBus
from controlplane.platform.context import OperationContext
from controlplane.platform.store.engine import make_engine
from controlplane.platform.store.transaction import SqlStore
from controlplane.secrets.backends.envelope import EnvelopeSealer
from controlplane.secrets.backends.keks import LocalKek
from controlplane.secrets.model.data_keys import DataKey
from controlplane.secrets.model.rotation import RotationPlan
from controlplane.secrets.operations.keys import ACTIVATION_DELAY, DataKeyOperations
from controlplane.secrets.operations.rotations import Rotations
from controlplane.secrets.operations.secrets import SecretChange, Secrets
from controlplane.secrets.ports import DataKeyStore
from controlplane.services.model.service import Service
from controlplane.services.ports import ServiceStore
from controlplane.store.repositories import REPOSITORIES
from core.identity import ClusterId, ServiceId
from core.spec.status import Phase
from tests import migrated
from tests.fakes.clock import FakeClock
from tests.fakes.manifests import FakeManifests

ADMIN = Actor(
    ActorKind.USER,
    id="root",
    name="root",
    email="root@example.org",
    policy=Policy((Grant(BUILT_IN[BuiltInRole.ADMIN], INSTALLATION),)),
)
FEW, MANY = 500, 4_000
KEYS = 200
CONSUMERS, BATCH = 200, 50


@asynccontextmanager
async def store_with(kek: bytes) -> AsyncGenerator[tuple[OperationContext, DataKeyOperations]]:
    """Creates an empty store with its keys."""
    with tempfile.TemporaryDirectory() as folder:
        store = SqlStore(make_engine(migrated.put_sqlite(Path(folder))), REPOSITORIES)
        ring = EnvelopeSealer(b"k" * 32)
        deps = OperationContext(store, MemoryBus(), FakeClock(), FakeManifests(), ring)
        yield (
            deps,
            DataKeyOperations(
                deps, ring, LocalKek(kek), {LocalKek(b"k" * 32).name: LocalKek(b"k" * 32)}
            ),
        )
        await store.close()


async def sealed_anew(count: int) -> float:
    """Seconds to re-encrypt one value after a rotation of the data key."""
    async with store_with(b"k" * 32) as (deps, keys):
        secrets = Secrets(deps)
        for number in range(count):
            await secrets.save(ADMIN, f"s{number}", SecretChange(b"v" * 64))
        await keys.rotate(ADMIN)
        clock = deps.clock
        assert isinstance(clock, FakeClock)
        await clock.advance(ACTIVATION_DELAY / timedelta(seconds=1))
        await keys.load()
        begun = time.perf_counter()
        done = await keys.reseal()
        took = time.perf_counter() - begun
        assert (done, await keys.reseal()) == (count, 0)
        return took / count


async def wrapped_anew() -> float:
    """Seconds to rewrap one data key after a rotation of the key-encryption key."""
    async with store_with(b"k" * 32) as (deps, _):
        newer, old, now = LocalKek(b"n" * 32), LocalKek(b"k" * 32), deps.clock.now()
        async with deps.store.write() as tx:
            for number in range(KEYS):
                blank = DataKey(f"key-{number}", b"", old.name, now, now)
                wrapped = await old.wrap(b"d" * 32, blank.context)
                await tx[DataKeyStore].add(replace(blank, wrapped=wrapped))
        after = DataKeyOperations(deps, EnvelopeSealer(b"k" * 32), newer, {old.name: old})
        begun = time.perf_counter()
        assert await after.rewrap() == KEYS
        return (time.perf_counter() - begun) / KEYS


async def rolled_out() -> float:
    """Seconds per consumer to roll out a new version in batches, all healthy in between."""
    async with store_with(b"k" * 32) as (deps, _):
        secrets, rotations = Secrets(deps), Rotations(deps)
        secret = await secrets.save(ADMIN, "db", SecretChange(b"first"))
        now = deps.clock.now()
        async with deps.store.write() as tx:
            await tx[ClusterStore].add(Cluster(ClusterId("c"), "c", "c", now, now))
            for number in range(CONSUMERS):
                id = ServiceId(f"s{number}")
                service = Service(id, ClusterId("c"), None, f"s{number}", "shop", now, now)
                await tx[ServiceStore].add(service)
        for number in range(CONSUMERS):
            await secrets.use(ADMIN, f"s{number}", {"password": (secret.id, None)})
        await secrets.save(ADMIN, "db", SecretChange(b"second", plan=RotationPlan(BATCH, 1)))
        begun = time.perf_counter()
        for _ in range(CONSUMERS // BATCH):
            await rotations.advance(secret.id)
            async with deps.store.write() as tx:
                for service in await tx[ServiceStore].select():
                    await tx[ServiceStore].change(
                        service.id,
                        observed_generation=service.desired.generation,
                        phase=Phase.HEALTHY,
                    )
        took = time.perf_counter() - begun
        held = await secrets.consumers(ADMIN, secret.id)
        assert len(held) == CONSUMERS
        return took / CONSUMERS


def main() -> None:
    report = BenchReport("secrets")
    few = [asyncio.run(sealed_anew(FEW)) * 1_000 for _ in range(3)]
    many = asyncio.run(sealed_anew(MANY)) * 1_000
    report.add("re-encrypt one value, of 500", few, "ms")
    report.add(
        "re-encrypt one value, of 4,000",
        [many],
        "ms",
        baseline="of 500",
        baseline_values=few,
        goal=1.5,
    )
    report.add("rewrap one data key", [asyncio.run(wrapped_anew()) * 1_000], "ms")
    report.add("roll out a new version to one consumer", [asyncio.run(rolled_out()) * 1_000], "ms")
    report.write()


if __name__ == "__main__":
    main()
