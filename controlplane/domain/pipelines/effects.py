"""What the engine wants done; the caller stores effects with the state and carries them out.

`key` is the same whenever the same thing is wanted: a key already carried out is skipped.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from controlplane.domain.pipelines.model import GateId, StageId
from controlplane.domain.pipelines.rules import CheckRule
from controlplane.domain.pipelines.state import Digests, ReleaseId, Revisions
from fleet.identity import ServiceId


class Topic(StrEnum):
    """What people are told about."""

    APPROVAL_WANTED = "APPROVAL_WANTED"
    APPROVAL_VOIDED = "APPROVAL_VOIDED"
    REFUSED = "REFUSED"
    STAGE_FAILED = "STAGE_FAILED"
    STAGE_VERIFIED = "STAGE_VERIFIED"
    ROLLED_BACK = "ROLLED_BACK"


@dataclass(frozen=True, slots=True)
class RenderStage:
    """Render the release for the stage and answer with `Rendered` or `RenderFailed`.

    `commits` are those of the first stage's services: each service of the stage takes the commit
    of its own repository.
    """

    key: str
    stage: StageId
    release: ReleaseId
    commits: Mapping[ServiceId, str]


@dataclass(frozen=True, slots=True)
class Promote:
    """Give services of the stage their revisions, and answer with `ServicesHealth`.

    `back`: they are those that it held before, and are to be taken whatever was frozen since.
    """

    key: str
    stage: StageId
    release: ReleaseId
    revisions: Revisions
    back: bool = False


@dataclass(frozen=True, slots=True)
class FollowChange:
    """See what has become of a request; once it is merged, give services their revisions.

    Answer with `Changed`, or with `PromotionFailed` if it was closed.
    """

    key: str
    stage: StageId
    release: ReleaseId
    revisions: Revisions


@dataclass(frozen=True, slots=True)
class WriteFound:
    """Write what a trigger has found to where the first stage looks.

    Answer with `FoundWritten` or `FoundFailed`.
    """

    key: str
    trigger: str
    value: str
    digest: str


@dataclass(frozen=True, slots=True)
class RunCheck:
    """Find out what a step of a gate asks, and answer with `CheckAnswered`.

    `attempt_key` is the same for all looks of one attempt: a job of this key runs once.
    `digests` are what would enter the stage behind; `inputs` fill templates.
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
    """A gate has opened for a release; to be put on record."""

    key: str
    gate: GateId
    release: ReleaseId
    reason: str


@dataclass(frozen=True, slots=True)
class Notify:
    """Tell people; `place` is the id of the stage or gate in question."""

    key: str
    topic: Topic
    place: str
    release: ReleaseId
    text: str


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Send a `Tick` at this time; a later one of the same pipeline replaces it."""

    key: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Noted:
    """The event was ignored; the text says why, for the one who sent it."""

    key: str
    text: str


Effect = (
    RenderStage
    | Promote
    | FollowChange
    | WriteFound
    | RunCheck
    | OpenGate
    | Notify
    | WakeAt
    | Noted
)
