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
    """Name, unique in the pipeline. Limit: 255 characters."""
    services: Sequence[str] = ()
    selector: pipeline.ServiceSelector | None = None
    rollout: Rollout = field(default_factory=Rollout)
    """Rollout settings. Default: all services at once."""
    verification: pipeline.Verification | None = None
    """Verification of new bundles. Default: none."""
    git: GitWrite | None = None
    """Changes to write for each release. Default: none."""
    workflow: GateDraft | None = None


@dataclass(frozen=True, slots=True)
class EdgeDraft:
    """An edge between two stages, given by their names."""

    source: str
    """Name of the source stage."""
    target: str
    """Name of the target stage."""
    gates: Sequence[GateDraft] = ()


@dataclass(frozen=True, slots=True, repr=False)
class TriggerDraft:
    """A trigger as a user defines it."""

    name: str
    """Name, unique in the pipeline. Limit: 255 characters."""
    rule: TriggerRule
    write: GitWrite | None = None
    """Changes to write for each finding. Required with IMAGE and CHART. With TAG and no changes,
    services follow the tag."""
    webhook_secret: str = ""
    """Secret that signs webhooks which cause a poll. 16 to 256 characters. Never returned. Empty
    keeps the current one."""


@dataclass(frozen=True, slots=True)
class PipelineDraft:
    """A pipeline as a user defines it: stages, and edges between them by stage name."""

    name: str
    stages: Sequence[StageDraft]
    """Stages. Limit: 100."""
    edges: Sequence[EdgeDraft] = ()
    """Edges between stages. Limit: 500."""
    project_id: str | None = None
    """ID of the project. Default: the default project."""
    on_commit: bool = True
    """True lets new commits start releases. Default: true."""
    triggers: Sequence[TriggerDraft] = ()
    """Triggers that start releases in addition to new commits. Limit: 50."""
