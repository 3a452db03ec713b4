"""Services that a pipeline lets go while somebody else changes them."""

import asyncio
from dataclasses import replace

from controlplane.pipelines.operations.stages import unbind_services
from controlplane.platform.bus.memory import MemoryBus
from controlplane.platform.context import OperationContext
from controlplane.platform.ports import Store
from controlplane.secrets.backends.envelope import EnvelopeSealer
from controlplane.services.ports import ServiceStore
from core.spec.verification import Verification
from tests.fakes.clock import FakeClock
from tests.fakes.manifests import FakeManifests
from tests.fakes.pipelines import make_pipeline
from tests.integration.controlplane.conftest import World


async def test_leaving_a_stage_never_lowers_the_generation(store: Store) -> None:
    """A delivery at the same time raises it, too: the agent hears of both."""
    clock, manifests = FakeClock(), FakeManifests()
    deps = OperationContext(store, MemoryBus(), clock, manifests, EnvelopeSealer(b"k" * 32))
    world = World(deps, manifests, clock)
    service = await world.service(await world.cluster("c"), await world.repository(), "shop")
    spec = make_pipeline({"dev prod": []})
    first, last = spec.stages
    spec = replace(spec, stages=(first, replace(last, services=(service.id,))))

    async def let_go() -> None:
        async with store.write() as tx:
            await unbind_services(tx, spec)

    async with store.write() as tx:
        await tx[ServiceStore].change(
            service.id, stage_verification=Verification(60), digest="d", generation=7
        )
    async with store.write() as tx:
        held = await tx[ServiceStore].get(service.id)
        assert held is not None
        leaving = asyncio.ensure_future(let_go())
        await asyncio.wait([leaving], timeout=0.3)
        await tx[ServiceStore].set_generation(service.id, held.desired.generation + 1)
    await leaving
    after = await world.get(service)
    assert (after.desired.generation, after.desired.stage_verification) == (9, None)
