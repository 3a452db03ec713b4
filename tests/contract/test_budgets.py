"""Budgets of cluster groups: two pipelines at once never change more clusters than a group lets."""

import asyncio
from collections.abc import AsyncIterator

from controlplane.clusters.operations.groups import ClusterGroupChange, ClusterGroups
from controlplane.pipelines.operations.drafts import EdgeDraft, PipelineDraft, StageDraft
from controlplane.pipelines.operations.engine_runner import PROMOTE, RENDER, TICK
from controlplane.pipelines.ports import PipelineServiceStore
from controlplane.platform.bus.memory import MemoryBus
from controlplane.platform.context import PIPELINE, OperationContext
from controlplane.platform.ports import JobStore, Store, Wake
from controlplane.secrets.backends.envelope import EnvelopeSealer
from controlplane.services.model.ledger import LedgerStage
from controlplane.services.model.service import Service
from controlplane.services.ports import LedgerStore
from tests.fakes.clock import FakeClock
from tests.fakes.manifests import FakeManifests, config_map
from tests.integration.controlplane.conftest import World

NAMES = ("shop", "web")
CLUSTERS, AT_ONCE, ROUNDS = 3, 2, 4


class Fleet:
    """Clusters with two services each, which two pipelines bring out; all are of one group."""

    def __init__(self, store: Store) -> None:
        clock, manifests = FakeClock(), FakeManifests()
        deps = OperationContext(store, MemoryBus(), clock, manifests, EnvelopeSealer(b"k" * 32))
        self.world = World(deps, manifests, clock)
        self.groups = ClusterGroups(deps)
        self.pipelines: list[str] = []
        self.services: list[Service] = []

    async def prepare(self, at_once: int) -> None:
        world = self.world
        repository = await world.repository()
        clusters = [await world.cluster(f"c{n}") for n in range(CLUSTERS + 1)]
        ids = [one.id for one in clusters[1:]]
        change = ClusterGroupChange(name="eu", cluster_ids=ids, max_changing=at_once)
        self.group = await self.groups.create(world.admin, change)
        firsts = []
        for name in NAMES:
            made = [await world.service(one, repository, name) for one in clusters]
            stages = [
                StageDraft("dev", [made[0].id]),
                StageDraft("prod", [one.id for one in made[1:]]),
            ]
            draft = PipelineDraft(name, stages, [EdgeDraft("dev", "prod")])
            self.pipelines.append((await world.pipelines.save(world.admin, draft)).row.id)
            firsts.append(made[0])
            self.services += made[1:]
        objects = [config_map("a", v="1")]
        world.manifests.push(repository.id, dict.fromkeys(NAMES, objects))
        await world.delivery.deliver(repository.id)
        for one in firsts:
            await world.report(one)

    async def go_on(self) -> None:
        """Both pipelines are looked at beside each other, and workers do what they ask for."""
        world = self.world
        await asyncio.gather(*(world.pipelines.engine.advance(one) for one in self.pipelines))
        works = {
            RENDER: world.promotions.render,
            PROMOTE: world.promotions.promote,
            TICK: world.promotions.tick,
        }
        while True:
            async with world.deps.store.write() as tx:
                jobs = await tx[JobStore].claim(works, "test", world.clock.now(), 100)
            await asyncio.gather(*(works[job.kind](job) for job in jobs))
            async with world.deps.store.write() as tx:
                for job in jobs:
                    await tx[JobStore].finish(job)
            if not jobs:
                break

    async def changing(self) -> list[Service]:
        """Services with a generation that their agents have not reported yet."""
        rows = [await self.world.get(one) for one in self.services]
        return [one for one in rows if one.desired.generation > one.observed.observed_generation]

    async def reason(self, pipeline: str) -> str:
        view = await self.world.pipelines.get(self.world.admin, pipeline)
        return view.state.stages[view.spec.stages[1].id].rollout_reason

    async def reasons(self) -> set[str]:
        return {await self.reason(one) for one in self.pipelines}


async def test_no_more_clusters_of_a_group_change_than_it_lets(store: Store) -> None:
    """Whatever pipeline changes them; two services of one cluster count once; all come through.

    Lifted amid roll-outs, the budget holds nobody any longer.
    """
    fleet, reasons = Fleet(store), set()
    await fleet.prepare(AT_ONCE)
    for _ in range(ROUNDS):
        await fleet.go_on()
        changing = await fleet.changing()
        assert 0 < len({one.cluster_id for one in changing}) <= AT_ONCE
        reasons |= await fleet.reasons()
        await fleet.world.report(changing[0])
        await fleet.world.clock.advance(60)
    assert "cluster group 'eu': its limit of 2 changing clusters is reached" in reasons
    change = ClusterGroupChange(max_changing=0)
    await fleet.groups.update(fleet.world.admin, fleet.group.id, change)
    await fleet.go_on()
    async with store.read() as tx:
        promoted = await tx[LedgerStore].select(stage=LedgerStage.PROMOTED)
        assert await tx[PipelineServiceStore].changing() == []
    assert sorted(one.service_id or "" for one in promoted) == sorted(s.id for s in fleet.services)


async def test_a_place_that_frees_wakes_who_waits_for_it(store: Store) -> None:
    """Whether a service came through or its whole pipeline went; nobody waits for a clock."""
    fleet = Fleet(store)
    await fleet.prepare(at_once=1)
    await fleet.go_on()
    shop, web = fleet.pipelines
    assert "eu" in await fleet.reason(shop) and "eu" in await fleet.reason(web)
    heard = fleet.world.deps.bus.subscribe(PIPELINE)
    (given,) = [one for one in await fleet.changing() if one.name == "shop"]
    await fleet.world.report(given)
    await fleet.world.pipelines.engine.advance(shop)
    assert await is_woken(heard, web)
    await fleet.world.pipelines.delete(fleet.world.admin, web)
    assert await is_woken(heard, shop)


async def is_woken(heard: AsyncIterator[Wake], pipeline: str) -> bool:
    async with asyncio.timeout(30):
        async for _, key in heard:
            if key == pipeline:
                return True
    return False
