"""Manual decisions about releases other than approval: skip gates, abort, deny revisions."""

from controlplane.access.operations.scopes import find_project
from controlplane.authorization import Actor, ActorKind, Resource, ResourceKind, Verb, require
from controlplane.pipelines.engine import events as ev
from controlplane.pipelines.gates.kinds.external import ExternalRule
from controlplane.pipelines.model.state import ReleaseId
from controlplane.pipelines.operations.gate_secrets import open_sealed
from controlplane.pipelines.operations.pipelines import Pipelines
from controlplane.pipelines.operations.views import PipelineView, find_gate, stage_named
from controlplane.pipelines.ports import PipelineStore
from controlplane.platform.context import GENERATORS, PIPELINE, Change, OperationContext
from controlplane.platform.names import check_text
from controlplane.platform.retry import retry_operations
from controlplane.services.model.quarantine import DeniedRevision
from controlplane.services.model.service import Service
from controlplane.services.operations import quarantine
from controlplane.services.operations.generations import publish_render, publish_service
from controlplane.services.ports import DeniedRevisionStore
from core.errors import Conflict, Invalid, NotFound

_MAX_REASON_LENGTH = 1_000
_MIN_REVISION_LENGTH = 12


@retry_operations
class ReleaseDecisions:
    """Operations on releases that wait at a gate, roll out, or are denied."""

    def __init__(self, context: OperationContext, pipelines: Pipelines) -> None:
        self._context = context
        self._pipelines = pipelines

    async def skip(self, actor: Actor, gate_id: str, release: str, reason: str) -> PipelineView:
        """Skips a gate for the waiting release; needs the permission to skip."""
        view, gate = await self._pipelines.get_gate(actor, gate_id, Verb.READ)
        require(actor, Verb.SKIP, view.row.target)
        check_text(reason, "reason", _MAX_REASON_LENGTH)
        event = ev.Skipped(gate.id, ReleaseId(release), actor.email, reason)
        return await self._pipelines.decide(actor, "skipGate", view, event)

    async def answer(
        self, actor: Actor, gate_id: str, release: str, passed: bool, reason: str = ""
    ) -> PipelineView:
        """Decides at an EXTERNAL gate, as the account that the gate names."""
        view, gate = await self._pipelines.get_gate(actor, gate_id, Verb.READ)
        rule = gate.rule
        if not isinstance(rule, ExternalRule) or rule.account != actor.email:
            require(actor, Verb.APPROVE, view.row.target)
            raise Conflict("only the account that the gate names can decide at this gate")
        event = ev.ExternallyAnswered(
            gate.id, ReleaseId(release), actor.email, passed, reason[:_MAX_REASON_LENGTH]
        )
        return await self._pipelines.decide(actor, "answerGate", view, event)

    async def gate_secret(self, gate_id: str) -> str | None:
        """The signing secret of an EXTERNAL gate's answers; None if it has none."""
        async with self._context.store.read() as tx:
            try:
                _, gate = await find_gate(tx, gate_id)
            except NotFound:
                return None
        if not isinstance(gate.rule, ExternalRule) or not gate.rule.sealed:
            return None
        return open_sealed(self._context.sealer, gate.rule.sealed)

    async def answer_signed(
        self, gate_id: str, release: str, passed: bool, reason: str, call_id: str
    ) -> None:
        """Decides at a gate through a signed call; each call counts once.

        Conflict: the engine ignored the decision, with the reason.
        """
        async with self._context.store.read() as tx:
            view, gate = await find_gate(tx, gate_id)
        if not isinstance(gate.rule, ExternalRule):
            raise Conflict("this gate is not of kind EXTERNAL")
        event = ev.ExternallyAnswered(
            gate.id,
            ReleaseId(release[:64]),
            gate.rule.account,
            passed,
            reason[:_MAX_REASON_LENGTH],
            call_id,
        )
        account = Actor(ActorKind.USER, name=gate.rule.account, email=gate.rule.account)
        await self._pipelines.engine.decide(account, "answerGate", view, event)

    async def abort(self, actor: Actor, id: str, stage: str, reason: str = "") -> PipelineView:
        """Aborts a stage's rollout; clusters keep their present revision."""
        view = await self._pipelines.get(actor, id)
        require(actor, Verb.PAUSE, view.row.target)
        target = stage_named(view, stage)
        state = view.state.stages.get(target.id)
        if state is None or state.release is None:
            raise Conflict(f"stage {stage!r} has no release")
        event = ev.Aborted(target.id, state.release, actor.email, reason[:_MAX_REASON_LENGTH])
        return await self._pipelines.decide(actor, "abortRollout", view, event)

    async def acknowledge_rollback(self, actor: Actor, id: str, stage: str) -> PipelineView:
        """Acknowledges that a stage was rolled back."""
        view = await self._pipelines.get(actor, id)
        require(actor, Verb.APPROVE, view.row.target)
        event = ev.Lifted(stage_named(view, stage).id, actor.email)
        return await self._pipelines.decide(actor, "acknowledgeRollback", view, event)

    async def denied_revisions(self, actor: Actor) -> list[DeniedRevision]:
        """Denied commits and digests: those of all projects, and of projects with readable
        pipelines."""
        async with self._context.read(actor) as tx:
            rows = await tx[DeniedRevisionStore].all()
        visible = [
            row for row in rows if row.project_id is None or actor.may(Verb.READ, row.target)
        ]
        return sorted(visible, key=lambda row: row.inserted_at)

    async def deny_revision(
        self, actor: Actor, revision: str, reason: str, project_id: str | None = None
    ) -> DeniedRevision:
        """Denies a commit or digest, so that no service gets it until it is allowed again.

        Without a project, the services of all projects. NotFound: no such project.
        """
        now = self._context.clock.now()
        row = DeniedRevision.of(revision, project_id, actor.email, reason, now)
        async with self._context.change(actor, "denyRevision", (Verb.APPROVE, row.target)) as tx:
            if project_id is not None:
                await find_project(tx, project_id)
            check_text(reason, "reason", _MAX_REASON_LENGTH)
            check_text(revision, "revision", 128)
            if len(revision) < _MIN_REVISION_LENGTH:
                raise Invalid("must be a full commit id or digest", field="revision")
            if await tx[DeniedRevisionStore].get(row.id) is not None:
                raise Conflict("this revision is already denied")
            await tx[DeniedRevisionStore].add(row)
            tx.audit(revision, row.id, reason=reason)
            for pipeline in await tx[PipelineStore].all():
                if row.concerns(pipeline.project_id):
                    tx.publish(PIPELINE, pipeline.id)
        return row

    async def allow_revision(
        self, actor: Actor, revision: str, project_id: str | None = None
    ) -> DeniedRevision:
        """Allows a denied revision again, in one project or in all. NotFound: it is not denied."""
        needs = (Verb.APPROVE, Resource.of_project(ResourceKind.PIPELINE, project_id))
        async with self._context.change(actor, "allowRevision", needs) as tx:
            rows = await tx[DeniedRevisionStore].of_revisions([revision])
            # A decision for all projects ends the denials of each as well.
            ids = [row.id for row in rows if project_id in (None, row.project_id)]
            removed = await tx[DeniedRevisionStore].lock(ids)
            if not removed:
                raise NotFound
            for row in removed:
                await tx[DeniedRevisionStore].remove(row.id)
                tx.audit(revision, row.id)
            for service in await quarantine.lift_quarantine(tx, revision, actor.email):
                _publish_quarantine_lifted(tx, service)
            pipelines = await tx[PipelineStore].all()
        for pipeline in pipelines:
            known_bad = pipeline.state.get("state", {}).get("known_bad", {})
            is_concerned = project_id in (None, pipeline.project_id)
            if revision in known_bad and is_concerned:
                await self._pipelines.engine.advance(
                    pipeline.id, ev.DenialRemoved(revision, actor.email)
                )
        return removed[0]


def _publish_quarantine_lifted(tx: Change, service: Service) -> None:
    """Publishes that a service is no longer quarantined."""
    publish_service(tx, service)
    publish_render(tx, service)
    if service.repository_id is None and service.owner_kind is not None:
        tx.publish(GENERATORS, f"{service.owner_kind.value}/{service.owner_id}")
