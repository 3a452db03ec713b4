"""Decisions of users and other systems about releases: approve, reject, retry, skip, abort."""

from controlplane.access.operations.scopes import groups_of
from controlplane.authorization import Actor, ActorKind, Verb, require
from controlplane.pipelines.engine import events as ev
from controlplane.pipelines.engine.state_draft import clip
from controlplane.pipelines.gates.kinds.approval import approval_of
from controlplane.pipelines.gates.kinds.external import ExternalRule
from controlplane.pipelines.model import pipeline
from controlplane.pipelines.model.state import TEXT_LENGTH, Digests, Health, ReleaseId
from controlplane.pipelines.operations.gate_secrets import open_sealed
from controlplane.pipelines.operations.pipelines import Pipelines
from controlplane.pipelines.operations.views import (
    PipelineView,
    find_gate,
    is_author,
    stage_named,
    waiting_release,
)
from controlplane.platform.context import OperationContext
from controlplane.platform.names import check_text
from controlplane.platform.retry import retry_operations
from core.errors import Conflict, Forbidden, Invalid, NotFound


@retry_operations
class ReleaseDecisions:
    """Operations on releases that wait at a gate, roll out, or failed."""

    def __init__(self, context: OperationContext, pipelines: Pipelines) -> None:
        self._context = context
        self._pipelines = pipelines

    async def approve(
        self, actor: Actor, gate_id: str, digests: Digests, comment: str = ""
    ) -> PipelineView:
        """Approves exactly these digests. Conflict: others wait at the gate now."""
        view, gate = await self._pipelines.get_gate(actor, gate_id, Verb.APPROVE)
        approval = approval_of(gate.rule)
        named = approval.people if approval else ()
        if actor.kind is ActorKind.SERVICE_ACCOUNT and actor.email not in named:
            raise Forbidden("a service account can approve only if `people` of the gate names it")
        release, waiting = waiting_release(view, gate.id)
        if not digests:
            raise Invalid(
                "specify the digest of each service that you approve; waiting: "
                + (", ".join(f"{s}={d}" for s, d in waiting.items()) or "nothing"),
                field="digests",
            )
        if release is None:
            raise Conflict("nothing waits at this gate")
        async with self._context.store.read() as tx:
            is_own = await is_author(tx, actor, view.state.releases[release])
            groups = await groups_of(tx, actor.id, is_person=actor.kind is ActorKind.USER)
        event = ev.Approved(
            gate.id,
            actor.email,
            is_own,
            digests,
            clip(comment),
            tuple(group.name for group in groups),
        )
        return await self._pipelines.decide(actor, "approveGate", view, event)

    async def reject(self, actor: Actor, gate_id: str, comment: str | None = None) -> PipelineView:
        """Rejects the release that waits at the gate, until a newer release or a retry."""
        view, gate = await self._pipelines.get_gate(actor, gate_id, Verb.APPROVE)
        event = ev.ReleaseRejected(gate.id, actor.email, clip(comment or ""))
        return await self._pipelines.decide(actor, "rejectGate", view, event)

    async def retry(self, actor: Actor, id: str, stage: str) -> PipelineView:
        """Retries a rejected or failed release of a stage, given by the stage's name."""
        view = await self._pipelines.get(actor, id, verb=Verb.APPROVE)
        target = stage_named(view, stage)
        release = _release_to_retry(view, target.id)
        if release is None:
            raise Conflict(f"stage {stage!r} has no rejected or failed release")
        event = ev.Retried(target.id, release, actor.email)
        return await self._pipelines.decide(actor, "retryPipeline", view, event)

    async def skip(self, actor: Actor, gate_id: str, release: str, reason: str) -> PipelineView:
        """Skips a gate for the waiting release; needs the permission to skip."""
        view, gate = await self._pipelines.get_gate(actor, gate_id, Verb.READ)
        require(actor, Verb.SKIP, view.row.target)
        check_text(reason, "reason", TEXT_LENGTH)
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
            gate.id, ReleaseId(release), actor.email, passed, clip(reason)
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
            clip(reason),
            call_id,
        )
        account = Actor(ActorKind.USER, name=gate.rule.account, email=gate.rule.account)
        await self._pipelines.engine.decide(account, "answerGate", view, event)

    async def abort(self, actor: Actor, id: str, stage: str, reason: str = "") -> PipelineView:
        """Aborts a stage's rollout; clusters keep their present revision."""
        view = await self._pipelines.get(actor, id, verb=Verb.PAUSE)
        target = stage_named(view, stage)
        state = view.state.stages.get(target.id)
        if state is None or state.release is None:
            raise Conflict(f"stage {stage!r} has no release")
        event = ev.Aborted(target.id, state.release, actor.email, clip(reason))
        return await self._pipelines.decide(actor, "abortRollout", view, event)

    async def acknowledge_rollback(self, actor: Actor, id: str, stage: str) -> PipelineView:
        """Acknowledges that a stage was rolled back."""
        view = await self._pipelines.get(actor, id, verb=Verb.APPROVE)
        event = ev.Lifted(stage_named(view, stage).id, actor.email)
        return await self._pipelines.decide(actor, "acknowledgeRollback", view, event)


def _release_to_retry(view: PipelineView, stage: pipeline.StageId) -> ReleaseId | None:
    for edge in view.spec.edges_into[stage]:
        candidate = view.state.candidates.get(edge.id)
        if candidate is not None and (candidate.refusal or candidate.render_error):
            return candidate.release
    state = view.state.stages.get(stage)
    return state.release if state and state.health is Health.FAILED else None
