"""Context of a gate's evaluation: before a stage, or in it as the stage's own workflow."""

from dataclasses import dataclass, replace

from controlplane.pipelines.engine.state_draft import NotApplicable, StateDraft
from controlplane.pipelines.model.pipeline import Gate, GateId, StageId
from controlplane.pipelines.model.state import (
    Digests,
    GateState,
    GateStatus,
    ReleaseId,
    Revisions,
    digests_of,
)


@dataclass(frozen=True, slots=True)
class GateContext:
    """A gate and its context: may this release enter this stage?

    `render` has the revisions that the stage's services run with it, or would run; empty: unknown.
    """

    gate: Gate
    stage: StageId
    release: ReleaseId
    attempt: int
    state: GateState
    render: Revisions

    @property
    def digests(self) -> Digests:
        return digests_of(self.render)


def gate_context(draft: StateDraft, id: GateId, *, unsettled: bool = False) -> GateContext:
    """Returns the context in which a gate is evaluated now. Raises NotApplicable if it is not.

    `unsettled` includes workflows of stages whose services are no longer healthy.
    """
    if id in draft.pipeline.workflow:
        return _workflow_context(draft, id, unsettled=unsettled)
    edge_and_gate = draft.pipeline.gate.get(id)
    if edge_and_gate is None:
        raise NotApplicable(f"gate {id} does not exist")
    edge, gate = edge_and_gate
    candidate = draft.candidates.get(edge.id)
    if candidate is None:
        raise NotApplicable(f"no release is waiting at gate {gate.name}")
    if candidate.refusal is not None:
        raise NotApplicable(candidate.refusal.reason)
    state = candidate.gates.get(id, GateState())
    render = draft.render_of(edge.target, candidate.release) or {}
    return GateContext(gate, edge.target, candidate.release, candidate.attempt, state, render)


def save_gate_state(draft: StateDraft, context: GateContext, **changes: object) -> None:
    """Stores the state of a gate."""
    state = replace(context.state, **changes)
    if context.gate.id in draft.pipeline.workflow:
        draft.change_stage(context.stage, workflow=state)
        return
    edge, gate = draft.pipeline.gate[context.gate.id]
    draft.change_candidate(edge.id, gates={**draft.candidates[edge.id].gates, gate.id: state})


def _workflow_context(draft: StateDraft, id: GateId, *, unsettled: bool) -> GateContext:
    stage, gate = draft.pipeline.workflow[id]
    stage_state = draft.stage(stage.id)
    state = stage_state.workflow or GateState()
    is_settled = stage_state.settled or (unsettled and not stage_state.stopped)
    if stage_state.release is None or not is_settled or state.status is not GateStatus.RUNNING:
        raise NotApplicable(f"the workflow of {stage.name} is not running now")
    return GateContext(
        gate, stage.id, stage_state.release, stage_state.attempt, state, stage_state.revisions
    )
