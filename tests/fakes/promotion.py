"""A pipeline over the store in memory: commits, workers and agents in one process."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from controlplane.agents.operations.agents import AgentOperations
from controlplane.delivery.operations.render_reconciler import RenderReconciler
from controlplane.pipelines.gates.kinds import ApprovalRule
from controlplane.pipelines.model.gate_rules import GateRule
from controlplane.pipelines.model.state import StageState, WaitingRelease
from controlplane.pipelines.operations.denied_revisions import RevisionDenials
from controlplane.pipelines.operations.drafts import EdgeDraft, GateDraft, PipelineDraft, StageDraft
from controlplane.pipelines.operations.engine_runner import (
    CLEAN_UP,
    FOLLOW_REQUEST,
    PROMOTE,
    RENDER,
    TICK,
)
from controlplane.pipelines.operations.pipelines import Pipelines
from controlplane.pipelines.operations.promotions import Promotions
from controlplane.pipelines.operations.release_decisions import ReleaseDecisions
from controlplane.pipelines.operations.views import PipelineView
from controlplane.platform.jobs import Job
from controlplane.platform.ports import JobStore, PageQuery
from controlplane.repositories.operations import RepositoryOperations
from controlplane.services.model.service import Service
from controlplane.services.ports import ServiceStore
from core.identity import RepositoryId, ServiceId
from core.spec.edits import Edit, MergeRequest, MergeRequestState
from core.spec.reports.report import Report
from core.spec.status import Phase, Problem, SyncStatus
from tests.fakes.actors import ADMIN
from tests.fakes.manifests import FakeManifests, Folders, config_map
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
class FakeGitWriter:
    """The `GitWriter` port: each edit of `<folder>/…` replaces the objects of this folder.

    `error`: what everything fails with. `beside`: folders that somebody else commits to the base
    at the same time.
    """

    manifests: FakeManifests
    commits: list[tuple[str, str, str]] = field(default_factory=list)
    requests: dict[int, MergeRequest] = field(default_factory=dict)
    opened: list[tuple[str, str, str, str]] = field(default_factory=list)
    deleted: list[tuple[str, str]] = field(default_factory=list)
    error: Exception | None = None
    beside: Folders = field(default_factory=dict)

    async def commit(
        self,
        repository_id: RepositoryId,
        edits: Sequence[Edit],
        *,
        branch: str,
        base: str,
        author: str,
        message: str,
    ) -> str | None:
        self._check()
        heads, commits = self.manifests.heads[repository_id], self.manifests.commits
        start, tip = heads.get(branch, heads[base]), heads[base]
        changed: dict[str, Any] = {
            getattr(edit, "path", "").partition("/")[0]: [config_map("a", v=str(edit))]
            for edit in edits
        }
        if branch != base and {**commits[tip.sha], **changed} == commits[tip.sha]:
            return None
        if {**commits[start.sha], **changed} == commits[start.sha]:
            return start.sha
        self.commits.append((branch, author, message))
        changed |= self.beside if branch == base else {}
        return self.manifests.push(repository_id, {**commits[start.sha], **changed}, branch)

    async def open_request(
        self,
        repository_id: RepositoryId,
        *,
        branch: str,
        base: str,
        title: str,
        body: str = "",
        provider: str = "",
    ) -> MergeRequest:
        self._check()
        number = len(self.requests) + 1
        self.opened.append((branch, base, title, body))
        url = f"https://git.example.org/pulls/{number}"
        self.requests[number] = MergeRequest(number, url, MergeRequestState.OPEN)
        return self.requests[number]

    def merge(self, repository_id: str, number: int) -> str:
        """Somebody merges a request, as a fast forward."""
        branch, base, *_ = self.opened[number - 1]
        heads = self.manifests.heads[repository_id]
        heads[base] = heads[branch]
        self.requests[number] = replace(self.requests[number], state=MergeRequestState.MERGED)
        return heads[base].sha

    async def request(
        self, repository_id: RepositoryId, number: int, provider: str = ""
    ) -> MergeRequest:
        self._check()
        return self.requests[number]

    async def close_request(
        self, repository_id: RepositoryId, number: int, provider: str = ""
    ) -> MergeRequest:
        closed = replace(self.requests[number], state=MergeRequestState.CLOSED)
        self.requests[number] = closed
        return closed

    async def delete_branch(self, repository_id: RepositoryId, branch: str, author: str) -> bool:
        self.deleted.append((branch, author))
        return True

    def _check(self) -> None:
        if self.error is not None:
            raise self.error


@dataclass
class Promotion:
    """dev → prod: commits arrive in dev, prod waits for its gates.

    `workers` does jobs of more kinds.
    """

    memory: MemoryOperations

    def __post_init__(self) -> None:
        self.writer = FakeGitWriter(self.memory.manifests)
        context = replace(self.memory.context, writer=self.writer)
        self.pipelines = Pipelines(context)
        self.decisions = ReleaseDecisions(context, self.pipelines)
        self.denials = RevisionDenials(context, self.pipelines.engine)
        self.repositories = RepositoryOperations(context)
        self.promotions = Promotions(context, self.pipelines.engine)
        self.workers: dict[str, Callable[[Job], Awaitable[None]]] = {}
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
        for view in await self.views():
            await self.pipelines.engine.advance(view.row.id)
        await self.run_jobs()

    async def run_jobs(self) -> None:
        """Does the jobs that are due, and those that follow from them."""
        work: dict[str, Callable[[Job], Awaitable[None]]] = {
            RENDER: self.promotions.render,
            PROMOTE: self.promotions.promote,
            TICK: self.promotions.tick,
            FOLLOW_REQUEST: self.promotions.follow_request,
            CLEAN_UP: self.promotions.clean_up,
            **self.workers,
        }
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
