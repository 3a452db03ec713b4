"""Stages with silent clusters on each store: left out, announced, audited, caught up."""

from datetime import timedelta

from controlplane.clusters.model.cluster import SILENT_AFTER
from controlplane.clusters.ports import ClusterStore
from controlplane.notifications.ports import NotificationStore
from controlplane.pipelines.model.rollout import Progress, Rollout
from controlplane.pipelines.model.state import Health, PipelineState, StageState
from controlplane.pipelines.operations.drafts import EdgeDraft, PipelineDraft, StageDraft
from controlplane.pipelines.operations.engine_runner import PROMOTE, RENDER, TICK
from controlplane.platform.bus.memory import MemoryBus
from controlplane.platform.context import OperationContext
from controlplane.platform.notification import NotificationKind
from controlplane.platform.ports import JobStore, Store
from controlplane.secrets.backends.envelope import EnvelopeSealer
from controlplane.services.model.service import Service
from tests.fakes.audit_rows import audit_rows
from tests.fakes.clock import FakeClock
from tests.fakes.manifests import FakeManifests, config_map
from tests.integration.controlplane.conftest import World

DEADLINE = timedelta(minutes=20)


class Fleet:
    """dev → prod, prod with three clusters of which agents may fall silent."""

    def __init__(self, store: Store) -> None:
        clock, manifests = FakeClock(), FakeManifests()
        deps = OperationContext(store, MemoryBus(), clock, manifests, EnvelopeSealer(b"k" * 32))
        self.world = World(deps, manifests, clock)
        self.prod: list[Service] = []

    async def prepare(self) -> None:
        world = self.world
        self.repository = (await world.repository()).id
        made = [
            await world.service(
                await world.cluster(name),
                await world.repositories.get(world.admin, self.repository),
                "shop",
            )
            for name in ("dev", "eu-1", "eu-2", "eu-3")
        ]
        self.dev, *self.prod = made
        rollout = Rollout(silent_deadline_seconds=int(DEADLINE.total_seconds()))
        stages = [
            StageDraft("dev", [self.dev.id]),
            StageDraft("prod", [one.id for one in self.prod], rollout=rollout),
        ]
        draft = PipelineDraft("shop", stages, [EdgeDraft("dev", "prod")])
        self.pipeline = (await world.pipelines.save(world.admin, draft)).row.id

    async def push(self, value: str) -> None:
        self.world.manifests.push(self.repository, {"shop": [config_map("a", v=value)]})
        await self.world.delivery.deliver(self.repository)
        await self.world.report(self.dev)
        await self.advance()

    async def heard(self, *services: Service) -> None:
        """The agents of these services are heard now; the others' say nothing."""
        async with self.world.deps.store.write() as tx:
            for service in services:
                at = self.world.clock.now()
                await tx[ClusterStore].change(service.cluster_id, pinged_at=at)

    async def report(self, *services: Service) -> None:
        await self.heard(*services)
        for service in services:
            await self.world.report(service)
        await self.advance()

    async def advance(self) -> None:
        world = self.world
        await world.pipelines.engine.advance(self.pipeline)
        work = {
            RENDER: world.promotions.render,
            PROMOTE: world.promotions.promote,
            TICK: world.promotions.tick,
        }
        while True:
            async with world.deps.store.write() as tx:
                jobs = await tx[JobStore].claim(work, "test", world.clock.now(), 100)
            for job in jobs:
                await work[job.kind](job)
                async with world.deps.store.write() as tx:
                    await tx[JobStore].finish(job)
            if not jobs:
                return

    async def stage(self) -> StageState:
        view = await self.world.pipelines.get(self.world.admin, self.pipeline)
        state: PipelineState = view.state
        return state.stages[view.spec.stages[1].id]

    async def due(self) -> int:
        """The number of jobs that the clock has reached."""
        async with self.world.deps.store.read() as tx:
            due = await tx[JobStore].next_due([TICK, PROMOTE, RENDER])
        return due is not None and due <= self.world.clock.now()


async def test_a_silent_cluster_is_left_out_and_brought_up_to_date(store: Store) -> None:
    """Nobody but the clock wakes the pipeline at the deadline."""
    fleet = Fleet(store)
    await fleet.prepare()
    await fleet.push("1")
    one, two, away = fleet.prod
    await fleet.world.clock.advance(SILENT_AFTER.total_seconds() + 1)
    await fleet.report(one, two)
    stage = await fleet.stage()
    assert stage.health is Health.PROGRESSING
    assert "eu-3 (last seen" in stage.reason
    assert not await fleet.due()
    await fleet.world.clock.advance((DEADLINE - SILENT_AFTER).total_seconds())
    assert await fleet.due(), "the deadline wakes nobody"
    await fleet.heard(fleet.dev, one, two)
    await fleet.advance()
    stage = await fleet.stage()
    assert (stage.health, stage.progress[away.id]) == (Health.HEALTHY, Progress.LEFT_OUT)
    await fleet.push("2")
    newest = (await fleet.world.get(one)).desired.digest
    assert (await fleet.world.get(away)).desired.digest == newest, "it would return to old content"
    await fleet.world.clock.advance(DEADLINE.total_seconds())
    await fleet.report(fleet.dev, one, two)
    assert (await fleet.stage()).health is Health.HEALTHY
    await fleet.report(away)
    stage = await fleet.stage()
    assert (stage.progress[away.id], stage.silence.left_out) == (Progress.HEALTHY, {})


async def test_leaving_out_silent_clusters_is_audited_and_announced(store: Store) -> None:
    fleet = Fleet(store)
    await fleet.prepare()
    await fleet.push("1")
    one, two, away = fleet.prod
    await fleet.world.clock.advance(DEADLINE.total_seconds())
    await fleet.report(fleet.dev, one, two)
    await fleet.report(away)
    async with store.read() as tx:
        entries = await audit_rows(tx)
        announced = [one.kind for one in await tx[NotificationStore].select()]
    actions = [entry.action for entry in entries if entry.actor == "towline"]
    assert actions == ["leaveOutSilentClusters", "takeBackSilentClusters"]
    assert NotificationKind.ROLLOUT_SILENT in announced
    assert NotificationKind.ROLLOUT_CAUGHT_UP in announced


async def test_a_cluster_that_was_never_seen_counts_as_silent(store: Store) -> None:
    fleet = Fleet(store)
    await fleet.prepare()
    async with store.write() as tx:
        await tx[ClusterStore].change(fleet.prod[2].cluster_id, pinged_at=None)
    await fleet.push("1")
    await fleet.advance()
    assert "eu-3 (never seen)" in (await fleet.stage()).reason
