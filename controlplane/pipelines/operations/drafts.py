"""Drafts of pipelines, as users write them."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from controlplane.pipelines.model import pipeline
from controlplane.pipelines.model.gate_rules import GateRule, Patience
from controlplane.pipelines.model.git_writes import GitWrite
from controlplane.pipelines.model.rollout import Rollout
from controlplane.pipelines.model.triggers import TriggerRule


@dataclass(frozen=True, slots=True)
class GateDraft:
    """A gate as a user defines it."""

    name: str
    rule: GateRule
    patience: Patience = field(default_factory=Patience)


@dataclass(frozen=True, slots=True)
class StageDraft:
    """A stage as a user defines it: the ids of its services, or a selector."""

    name: str
    services: Sequence[str] = ()
    selector: pipeline.ServiceSelector | None = None
    rollout: Rollout = field(default_factory=Rollout)
    verification: pipeline.Verification | None = None
    git: GitWrite | None = None
    workflow: GateDraft | None = None


@dataclass(frozen=True, slots=True)
class EdgeDraft:
    """An edge between two stages, given by their names."""

    source: str
    target: str
    gates: Sequence[GateDraft] = ()


@dataclass(frozen=True, slots=True, repr=False)
class TriggerDraft:
    """A trigger as a user defines it; an empty webhook secret keeps the present one."""

    name: str
    rule: TriggerRule
    write: GitWrite | None = None
    webhook_secret: str = ""


@dataclass(frozen=True, slots=True)
class PipelineDraft:
    """A pipeline as a user defines it: stages, and edges between them by stage name."""

    name: str
    stages: Sequence[StageDraft]
    edges: Sequence[EdgeDraft] = field(default=())
    project_id: str | None = None
    on_commit: bool = True
    triggers: Sequence[TriggerDraft] = ()
