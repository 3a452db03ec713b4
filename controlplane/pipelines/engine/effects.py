"""Effects of the engine; the caller stores them with the state and carries them out.

The same request always has the same `key`; a key that was already carried out is skipped.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from controlplane.pipelines.model.gate_rules import CheckRule
from controlplane.pipelines.model.pipeline import GateId, StageId
from controlplane.pipelines.model.state import Digests, ReleaseId, Revisions
from controlplane.pipelines.model.triggers import TriggerFinding
from core.identity import ServiceId


class Topic(StrEnum):
    """Topics of notifications."""

    APPROVAL_WANTED = "APPROVAL_WANTED"
    APPROVAL_VOIDED = "APPROVAL_VOIDED"
    REFUSED = "REFUSED"
    STAGE_FAILED = "STAGE_FAILED"
    STAGE_VERIFIED = "STAGE_VERIFIED"
    ROLLED_BACK = "ROLLED_BACK"
    CLUSTERS_SILENT = "CLUSTERS_SILENT"
    CLUSTERS_BACK = "CLUSTERS_BACK"


@dataclass(frozen=True, slots=True)
class RenderStage:
    """Render the release for the stage; the answer is `StageRendered` or `StageRenderFailed`.

    `commits` are those of the first stage's services: each service of the stage takes the commit of
    its own repository.
    """

    key: str
    stage: StageId
    release: ReleaseId
    commits: Mapping[ServiceId, str]


@dataclass(frozen=True, slots=True)
class Promote:
    """Give services of the stage their revisions; the answer is `ServicesHealth`.

    `back` marks a rollback to earlier revisions, which applies despite later freezes.
    """

    key: str
    stage: StageId
    release: ReleaseId
    revisions: Revisions
    back: bool = False


@dataclass(frozen=True, slots=True)
class FollowChange:
    """Check the state of a pull request; once it is merged, give services their revisions.

    The answer is `Changed`, or `PromotionFailed` if the request was closed.
    """

    key: str
    stage: StageId
    release: ReleaseId
    revisions: Revisions


@dataclass(frozen=True, slots=True)
class WriteFinding:
    """Write a trigger's finding into the source of the first stage; the answer is `FindingWritten`
    or `FindingFailed`.
    """

    key: str
    trigger: str
    finding: TriggerFinding


@dataclass(frozen=True, slots=True)
class RunCheck:
    """Run the check of a gate's step; the answer is `CheckAnswered`.

    `attempt_key` is the same for all runs of one attempt: a job with this key runs once. `digests`
    are those that would enter the stage after the gate; `inputs` fill in templates.
    """

    key: str
    attempt_key: str
    gate: GateId
    step: str
    stage: StageId
    release: ReleaseId
    rule: CheckRule
    commits: Mapping[ServiceId, str]
    digests: Digests
    inputs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class OpenGate:
    """A gate has opened for a release; the caller records it."""

    key: str
    gate: GateId
    release: ReleaseId
    reason: str


@dataclass(frozen=True, slots=True)
class Notify:
    """Notify users; `place` is the id of the stage or gate."""

    key: str
    topic: Topic
    place: str
    release: ReleaseId
    text: str


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Send a `Tick` at this time; a later effect of the same pipeline replaces it."""

    key: str
    at: datetime


@dataclass(frozen=True, slots=True)
class EventIgnored:
    """The event was ignored; the text tells its sender why."""

    key: str
    text: str


Effect = (
    RenderStage
    | Promote
    | FollowChange
    | WriteFinding
    | RunCheck
    | OpenGate
    | Notify
    | WakeAt
    | EventIgnored
)
