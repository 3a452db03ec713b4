"""A pipeline over the store in memory: commits, workers and agents in one process."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from controlplane.agents.operations.agents import AgentOperations
from controlplane.delivery.operations.render_reconciler import RenderReconciler
from controlplane.pipelines.gates.kinds import ApprovalRule
from controlplane.pipelines.model.gate_rules import GateRule
from controlplane.pipelines.model.state import StageState, WaitingRelease
from controlplane.pipelines.operations.drafts import EdgeDraft, GateDraft, PipelineDraft, StageDraft
from controlplane.pipelines.operations.overrides import ReleaseDecisions
from controlplane.pipelines.operations.pipelines import PROMOTE, RENDER, TICK, Pipelines
from controlplane.pipelines.operations.promotions import Promotions
from controlplane.pipelines.operations.views import PipelineView
from controlplane.platform.jobs import Job
from controlplane.platform.ports import JobStore, PageQuery
from controlplane.repositories.operations import RepositoryOperations
from controlplane.services.model.service import Service
from controlplane.services.ports import ServiceStore
from core.identity import ServiceId
from core.spec.reports.report import Report
from core.spec.status import Phase, Problem, SyncStatus
from tests.fakes.actors import ADMIN
from tests.fakes.manifests import config_map
from tests.fakes.operations import (
    MemoryOperations,
    make_cluster,
    make_repository,
    make_service,
    operations_over_memory,
)

DEV, PROD = make_cluster("dev"), make_cluster("prod")
FLEET = make_repository("fleet")
IN_DEV, IN_PROD = (
    make_service("shop", cluster, ref="main", folder=cluster.id).changed(repository_id="fleet")
    for cluster in (DEV, PROD)
)


@dataclass
class Promotion:
    """dev → prod: commits arrive in dev, prod waits for its gates."""

    memory: MemoryOperations

    def __post_init__(self) -> None:
        context = self.memory.context
        self.pipelines = Pipelines(context)
        self.decisions = ReleaseDecisions(context, self.pipelines)
        self.repositories = RepositoryOperations(context)
        self.promotions = Promotions(context, self.pipelines, self.repositories)
        self._delivery, self._agents = RenderReconciler(context), AgentOperations(context)
        self._reports: dict[str, int] = {}

    async def save(
        self, *gates: GateRule, name: str = "shop", actor: Any = ADMIN, **fields: Any
    ) -> PipelineView:
        """Saves the pipeline with these gates; without any, with one approval."""
        drafts = [GateDraft(f"gate {n}", gate) for n, gate in enumerate(gates or (ApprovalRule(),))]
        stages = [StageDraft("dev", [IN_DEV.id]), StageDraft("prod", [IN_PROD.id])]
        edges = [EdgeDraft("dev", "prod", drafts)]
        draft = replace(PipelineDraft(name, stages, edges), **fields)
        return await self.pipelines.save(actor, draft)

    async def push(self, value: str) -> str:
        """A commit arrives in dev, where it is healthy; its sha."""
        objects = [config_map("a", v=value)]
        sha = self.memory.manifests.push("fleet", {"dev": objects, "prod": objects})
        await self.deliver()
        return sha

    async def deliver(self) -> None:
        """The newest commit arrives in dev, and is healthy there."""
        await self._delivery.deliver("fleet")
        await self.report(IN_DEV)
        await self.settle()

    async def report(
        self, service: Service, phase: Phase = Phase.HEALTHY, problems: tuple[Problem, ...] = ()
    ) -> None:
        """The agent reports on the newest desired state of a service."""
        now = await self.service(service)
        number = self._reports[now.cluster_id] = self._reports.get(now.cluster_id, 0) + 1
        desired = now.desired
        body = SyncStatus(now.id, desired.generation, desired.digest or "", phase, problems)
        report = Report(number, self.memory.clock.now(), body)
        await self._agents.record_reports(now.cluster_id, [report])

    async def settle(self) -> None:
        """Lets the engine and its workers come to rest."""
        work: dict[str, Callable[[Job], Awaitable[None]]] = {
            RENDER: self.promotions.render,
            PROMOTE: self.promotions.promote,
            TICK: self.promotions.tick,
        }
        for view in await self.views():
            await self.pipelines.advance(view.row.id)
        for _ in range(20):
            async with self.memory.store.write() as tx:
                jobs = await tx[JobStore].claim(work, "test", self.memory.clock.now(), 10)
            for job in jobs:
                await work[job.kind](job)
                async with self.memory.store.write() as tx:
                    await tx[JobStore].finish(job)
            if not jobs:
                return

    async def views(self) -> Sequence[PipelineView]:
        return (await self.pipelines.page(ADMIN, PageQuery())).items

    async def view(self) -> PipelineView:
        return await self.pipelines.get(ADMIN, None, "shop")

    async def gate(self, number: int = 0) -> str:
        """The id of a gate before prod."""
        return (await self.view()).spec.edges[0].gates[number].id

    async def candidate(self) -> WaitingRelease | None:
        """The release that waits before prod."""
        view = await self.view()
        return view.state.candidates.get(view.spec.edges[0].id)

    async def digests(self) -> dict[ServiceId, str]:
        """The digests that wait before prod."""
        waiting, state = await self.candidate(), await self.state("prod")
        rendered = state.rendered.get(waiting.release, {}) if waiting else {}
        return {id: revision.digest for id, revision in rendered.items()}

    async def state(self, stage: str) -> StageState:
        view = await self.view()
        ids = {stage.name: stage.id for stage in view.spec.stages}
        return view.state.stages.get(ids[stage], StageState())

    async def service(self, service: Service) -> Service:
        """A service as it is now."""
        found = await self.memory.row(ServiceStore, service.id)
        assert found is not None
        return found


async def promotion() -> Promotion:
    """Two clusters with a service each, from one repository; no pipeline yet."""
    line = Promotion(operations_over_memory())
    await line.memory.given(DEV, PROD, FLEET, IN_DEV, IN_PROD)
    await line.repositories.update_followed_refs(FLEET.id)
    return line
