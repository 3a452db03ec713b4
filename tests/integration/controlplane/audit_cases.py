"""Preparations for mutations that find nothing to change on the stage of the matrix.

Each brings the stage to where its mutation changes something, and points the ids there.
"""

from collections.abc import Awaitable, Callable, Mapping

from controlplane.access.operations.access_requests import AccessRequests
from controlplane.access.operations.projects import ProjectChange, Projects
from controlplane.access.operations.role_bindings import BindingDraft, RoleBindings
from controlplane.agents.model.jobs import JobPhase
from controlplane.agents.ports import ClusterJobStore
from controlplane.authorization import SYSTEM, UNRESTRICTED, Scope
from controlplane.pipelines.gates.kinds import ExternalRule
from controlplane.pipelines.operations.drafts import EdgeDraft, GateDraft, PipelineDraft, StageDraft
from controlplane.pipelines.operations.pipelines import Pipelines
from controlplane.services.model.service import Phase
from controlplane.services.model.verification import Verification
from controlplane.services.operations.services import ServiceChange, Services
from controlplane.services.ports import ServiceStore
from core.identity import ClusterId
from core.open_streams import OpenStream
from core.spec.objects import ObjectRef
from core.spec.status import Problem
from tests.fakes.clock import FakeClock
from tests.integration.controlplane.conftest import World
from tests.integration.controlplane.stage import Stage
from tests.integration.controlplane.test_pipelines import Line

CALLER = "admin everywhere"


def world_of(stage: Stage) -> World:
    """The operations of the stage, as other tests use them."""
    clock = stage.plane.context.clock
    assert isinstance(clock, FakeClock)
    return World(stage.plane.context, stage.manifests, clock)


async def an_empty_project(stage: Stage) -> None:
    project = await stage.plane.operations[Projects].create(
        SYSTEM, ProjectChange(name="empty", fence=UNRESTRICTED)
    )
    stage.ids["project"] = project.id


async def a_reader_of_the_cluster(stage: Stage) -> None:
    scope = Scope(f"cluster:{stage.ids['cluster']}")
    draft = BindingDraft("viewer", scope, user=stage.ids["other"])
    await stage.plane.operations[RoleBindings].create(SYSTEM, draft)


async def an_approved_request(stage: Stage) -> None:
    await stage.plane.operations[AccessRequests].approve(
        stage.callers[CALLER], stage.ids["request"]
    )


async def a_deletion_that_waits(stage: Stage) -> None:
    async with stage.store.write() as tx:
        waiting = (ObjectRef("", "v1", "X", "", "x"),)
        await tx[ServiceStore].change(stage.ids["service"], phase=Phase.AWAITING, awaiting=waiting)


async def an_ended_job(stage: Stage) -> None:
    async with stage.store.write() as tx:
        await tx[ClusterJobStore].change(stage.ids["job"], phase=JobPhase.FAILED)


async def an_unused_context(stage: Stage) -> None:
    change = ServiceChange(context_ids=[])
    await stage.plane.operations[Services].update(SYSTEM, stage.ids["service"], change)


async def line_of(stage: Stage) -> Line:
    """A pipeline from dev to prod with one approval."""
    line = await Line.make(world_of(stage))
    stage.ids["pipeline"] = (await line.view()).row.id
    return line


async def point_at_gate(stage: Stage, line: Line) -> None:
    view = await line.view()
    (edge,) = view.spec.edges
    gate, digests = await line.waiting()
    stage.ids |= {
        "gate": gate,
        "release": view.state.candidates[edge.id].release,
        "service": line.prod.id,
        "digest": digests.get(line.prod.id, ""),
    }


async def a_release_at_a_gate(stage: Stage) -> None:
    line = await line_of(stage)
    await line.push("1")
    await point_at_gate(stage, line)


async def a_release_at_the_callers_gate(stage: Stage) -> None:
    line = await line_of(stage)
    gate = GateDraft("ask", ExternalRule(stage.callers[CALLER].email))
    stages = [StageDraft("dev", [line.dev.id]), StageDraft("prod", [line.prod.id])]
    draft = PipelineDraft("shop", stages, [EdgeDraft("dev", "prod", [gate])])
    await line.world.pipelines.save(line.world.admin, draft)
    await line.push("1")
    await point_at_gate(stage, line)


async def a_commit_that_no_release_has(stage: Stage) -> None:
    line = await line_of(stage)
    stages = [StageDraft("dev", [line.dev.id])]
    draft = PipelineDraft("shop", stages, on_commit=False)
    await line.world.pipelines.save(line.world.admin, draft)
    await line.push("1")


async def a_rollout(stage: Stage) -> None:
    line = await line_of(stage)
    await line.push("1")
    await line.approve()


async def a_rollback(stage: Stage) -> None:
    line = await line_of(stage)
    await line.save(watch=Verification(60))
    for value, phase in (("1", Phase.HEALTHY), ("2", Phase.FAILED)):
        await line.push(value)
        await line.approve()
        problems = () if phase is Phase.HEALTHY else (Problem("no"),)
        await line.world.report(line.prod, phase, problems)
        await line.settle()
        await line.world.clock.advance(61)
        await line.settle()


async def a_pause(stage: Stage) -> None:
    pipelines = stage.plane.operations[Pipelines]
    await pipelines.pause(stage.callers[CALLER], stage.ids["pipeline"])


async def a_rejected_release(stage: Stage) -> None:
    line = await line_of(stage)
    await line.push("1")
    gate, _ = await line.waiting()
    await line.world.decisions.reject(line.approver, gate)
    await line.settle()


async def an_open_stream(stage: Stage) -> None:
    cluster = ClusterId(stage.ids["cluster"])
    now = stage.plane.context.clock.now()
    whose = (stage.ids["other"], "other", "")
    what = ("watch pods", "watch", "192.0.2.1", "kubectl")
    stream = OpenStream("stream", now, cluster, "own", *whose, *what, 0, 0, recorded=False)
    stage.sessions.streams.append(stream)
    stage.ids["stream"] = stream.id


CASES: Mapping[str, Callable[[Stage], Awaitable[None]]] = {
    "deleteProject": an_empty_project,
    "updateRbac": a_reader_of_the_cluster,
    "revokeAccess": an_approved_request,
    "confirmDeletions": a_deletion_that_waits,
    "retryClusterJob": an_ended_job,
    "deleteServiceContext": an_unused_context,
    "approveGate": a_release_at_a_gate,
    "rejectGate": a_release_at_a_gate,
    "skipGate": a_release_at_a_gate,
    "answerGate": a_release_at_the_callers_gate,
    "startRelease": a_commit_that_no_release_has,
    "abortRollout": a_rollout,
    "acknowledgeRollback": a_rollback,
    "endStream": an_open_stream,
    "resumePipeline": a_pause,
    "retryPipeline": a_rejected_release,
}
