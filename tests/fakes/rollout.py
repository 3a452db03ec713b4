"""A promotion to many clusters with the real store and ledger, whose workers die at any moment."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence

from controlplane.agents.operations.agents import AgentOperations
from controlplane.authorization import BUILT_IN, INSTALLATION, Actor, ActorKind, Grant, Policy
from controlplane.authorization.roles import BuiltInRole
from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.ports import ClusterStore
from controlplane.delivery.operations.render_reconciler import RenderReconciler
from controlplane.pipelines.model.rollout import Progress, Rollout, Strategy
from controlplane.pipelines.operations.drafts import EdgeDraft, GateDraft, PipelineDraft, StageDraft
from controlplane.pipelines.operations.engine_runner import CHECK, PROMOTE, RENDER, TICK
from controlplane.pipelines.operations.pipelines import Pipelines
from controlplane.pipelines.operations.promotions import Promotions
from controlplane.platform.bus.memory import MemoryBus
from controlplane.platform.context import OperationContext
from controlplane.platform.jobs import LEASE, Job
from controlplane.platform.ports import JobStore, Store
from controlplane.repositories.operations import RepositoryChange, RepositoryOperations
from controlplane.secrets.backends.envelope import EnvelopeSealer
from controlplane.services.model.ledger import LedgerEntry, LedgerStage
from controlplane.services.model.service import Service
from controlplane.services.ports import LedgerStore, ServiceStore
from core.identity import ClusterId, ServiceId
from core.spec.reports.report import Report
from core.spec.status import Phase, SyncStatus
from tests.fakes.clock import FakeClock
from tests.fakes.manifests import FakeManifests, config_map

_ADMIN = Actor(
    ActorKind.USER,
    id="root",
    name="root",
    email="root@example.org",
    policy=Policy((Grant(BUILT_IN[BuiltInRole.ADMIN], INSTALLATION),)),
)
_FOLDER = "shop"
# Of what is done, so much is cut short, or done a second time by one that was thought dead.
_DIES, _LINGERS = 0.3, 0.15
Work = Callable[[Job], Awaitable[None]]


class FleetRollout:
    """dev → so many clusters in waves, behind `gates` that `check` answers.

    `seed` says who dies when; `at_once` is how many jobs are done beside each other. Without a
    seed nobody dies.
    """

    def __init__(
        self,
        store: Store,
        clusters: int,
        wave: int,
        seed: int | None,
        *,
        at_once: int = 2,
        gates: Sequence[GateDraft] = (),
    ) -> None:
        self.clock, self.manifests = FakeClock(), FakeManifests()
        self._store = store
        self._clusters, self._wave = clusters, wave
        self._dice = random.Random(seed)
        self._is_mortal, self._at_once, self._gates = seed is not None, at_once, gates
        sealer = EnvelopeSealer(b"k" * 32)
        self._context = OperationContext(store, MemoryBus(), self.clock, self.manifests, sealer)
        self._agents, self._delivery = (
            AgentOperations(self._context),
            RenderReconciler(self._context),
        )
        self._repositories = RepositoryOperations(self._context)
        self.pipelines = Pipelines(self._context)
        self.check: Work | None = None
        self._reported: dict[ServiceId, int] = {}
        self._lingering: list[Job] = []
        self.pipeline = ""
        self.died = 0

    async def prepare(self) -> None:
        """Clusters with a service each, a pipeline, and a release that is healthy in dev."""
        url = "https://git.example.org/fleet.git"
        repository = await self._repositories.create(_ADMIN, RepositoryChange(url=url))
        now = self.clock.now()
        services = []
        async with self._store.write() as tx:
            for number in range(self._clusters + 1):
                name = f"c{number:04}"
                await tx[ClusterStore].add(Cluster(ClusterId(name), name, name, now, now))
                home, id = ClusterId(name), ServiceId(f"s{number:04}")
                service = Service(id, home, repository.id, "shop", "shop", now, now)
                await tx[ServiceStore].add(service.changed(folder=_FOLDER))
                services.append(id)
        await self._repositories.update_followed_refs(repository.id)
        self.manifests.push(repository.id, {_FOLDER: [config_map("a", v="1")]})
        rollout = Rollout(Strategy.WAVES, wave_size=self._wave)
        stages = [StageDraft("dev", services[:1]), StageDraft("fleet", services[1:], None, rollout)]
        draft = PipelineDraft("shop", stages, [EdgeDraft("dev", "fleet", self._gates)])
        self.pipeline = (await self.pipelines.save(_ADMIN, draft)).row.id
        await self._delivery.deliver(repository.id)
        await self._agents_report()

    async def run(self) -> None:
        """Until every cluster is healthy with the release."""
        while not await self._is_done():
            await self.pipelines.engine.advance(self.pipeline)
            while await self._work():
                pass
            await self._agents_report()
            await self.clock.advance(LEASE.total_seconds() + 1)

    async def services(self) -> list[Service]:
        """Those of the second stage."""
        async with self._store.read() as tx:
            return [one for one in await tx[ServiceStore].all() if one.id != "s0000"]

    async def ledger(self, stage: LedgerStage) -> list[LedgerEntry]:
        """Ledger rows of a stage, in their order."""
        async with self._store.read() as tx:
            rows = await tx[LedgerStore].select(stage=stage)
        return [one for one in rows if one.service_id != "s0000"]

    async def _is_done(self) -> bool:
        view = await self.pipelines.get(_ADMIN, self.pipeline)
        held = view.state.stages.get(view.spec.stages[1].id)
        found = held.progress if held else {}
        return len(found) == self._clusters and set(found.values()) == {Progress.HEALTHY}

    async def _work(self) -> int:
        """Runs the jobs that are due, as several replicas would; returns their number."""
        async with self._store.write() as tx:
            kinds = (RENDER, PROMOTE, TICK, CHECK)
            jobs = await tx[JobStore].claim(kinds, "replica", self.clock.now(), self._at_once)
        late, self._lingering = self._lingering, []
        await asyncio.gather(*(self._do(job, mortal=self._is_mortal) for job in jobs))
        await asyncio.gather(*(self._do(job, mortal=False) for job in late))
        return len(jobs)

    async def _do(self, job: Job, *, mortal: bool) -> None:
        """By a replica of its own, which knows nothing but the store."""
        promotions = Promotions(self._context, self.pipelines.engine)
        works = {RENDER: promotions.render, PROMOTE: promotions.promote, TICK: promotions.tick}
        if self.check is not None:
            works[CHECK] = self.check
        fate = self._dice.random() if mortal else 1.0
        if _DIES <= fate < _DIES + _LINGERS:
            self._lingering.append(job)
            return
        doing = asyncio.ensure_future(works[job.kind](job))
        if fate < _DIES:
            self.died += 1
            for _ in range(self._dice.randrange(400)):
                await asyncio.sleep(0)
            doing.cancel()
        await asyncio.wait([doing])
        if not doing.cancelled() and fate >= _DIES:
            doing.result()
            async with self._store.write() as tx:
                await tx[JobStore].finish(job)

    async def _agents_report(self) -> None:
        """Every agent that has been given something says, once, that it is healthy."""
        async with self._store.read() as tx:
            fresh = [
                one
                for one in await tx[ServiceStore].all()
                if one.desired.generation > one.observed.observed_generation
            ]
        for one in fresh:
            number = self._reported[one.id] = self._reported.get(one.id, 0) + 1
            body = SyncStatus(
                one.id, one.desired.generation, one.desired.digest or "", Phase.HEALTHY, ()
            )
            await self._agents.record_reports(
                one.cluster_id, [Report(number, self.clock.now(), body)]
            )
