"""What can happen to a pipeline: reports of the fleet, decisions of people, the passing of time."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from controlplane.domain.pipelines.checks import Answer
from controlplane.domain.pipelines.model import GateId, StageId
from controlplane.domain.pipelines.rollout import Room
from controlplane.domain.pipelines.state import Change, Digests, Health, ReleaseId, Revisions
from fleet.identity import ServiceId


@dataclass(frozen=True, slots=True)
class StageObserved:
    """The services of the first stage, which follow git, hold these revisions.

    `author` is who made the newest of the commits, as `Name <mail>`.
    """

    stage: StageId
    revisions: Revisions
    health: Health
    author: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Started:
    """Somebody makes what the first stage holds a release."""

    actor: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """A trigger has looked, and this is what counts now."""

    trigger: str
    value: str
    digest: str = ""


@dataclass(frozen=True, slots=True)
class FoundWritten:
    """What was found is where the first stage looks; `text` says how, if not by a change."""

    trigger: str
    value: str
    digest: str = ""
    change: Change | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class FoundFailed:
    """What was found could not be written."""

    trigger: str
    value: str
    digest: str
    reason: str


@dataclass(frozen=True, slots=True)
class Rendered:
    """What the services of a stage would run if the release entered it."""

    stage: StageId
    release: ReleaseId
    revisions: Revisions


@dataclass(frozen=True, slots=True)
class RenderFailed:
    """The release cannot be rendered for the stage."""

    stage: StageId
    release: ReleaseId
    reason: str


@dataclass(frozen=True, slots=True)
class StageHealth:
    """How the services of a stage are with the release that entered it."""

    stage: StageId
    release: ReleaseId
    health: Health
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ServicesHealth:
    """How each service of a stage is that runs what the release gave it.

    `reasons` are of those that are not healthy. Services that do not run it are left out.
    """

    stage: StageId
    release: ReleaseId
    healths: Mapping[ServiceId, Health]
    reasons: Mapping[ServiceId, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PromotionFailed:
    """The release could not be given to services; nobody else is given it until a retry."""

    stage: StageId
    release: ReleaseId
    reason: str


@dataclass(frozen=True, slots=True)
class VerificationFailed:
    """A cluster's agent has found the release bad after its promotion, and gone back by itself."""

    stage: StageId
    release: ReleaseId
    service: ServiceId
    reason: str


@dataclass(frozen=True, slots=True)
class Changed:
    """What has become in git of the release that a stage takes in."""

    stage: StageId
    release: ReleaseId
    change: Change


@dataclass(frozen=True, slots=True)
class ChangeHinted:
    """A repository has moved: requests that wait there may have been merged."""

    repository_id: str


@dataclass(frozen=True, slots=True)
class BaseMoved:
    """Others have changed the branch meanwhile: it comes to something else than was approved."""

    stage: StageId
    release: ReleaseId
    reason: str


@dataclass(frozen=True, slots=True)
class Frozen:
    """Exactly these services are in clusters that must stay as they are, with the reasons."""

    services: Mapping[ServiceId, str]


@dataclass(frozen=True, slots=True)
class Budgeted:
    """What the budgets of cluster groups leave for this pipeline now; None: they have none."""

    room: Room | None


@dataclass(frozen=True, slots=True)
class CheckStarted:
    """An attempt of a check runs as a job of a cluster."""

    gate: GateId
    step: str
    key: str
    job_id: str


@dataclass(frozen=True, slots=True)
class CheckAnswered:
    """What came out of an attempt of a check; `key` is that of the attempt.

    `measured` are the values of a metric, for people: the engine goes by the answer.
    """

    gate: GateId
    step: str
    key: str
    answer: Answer
    reason: str = ""
    outputs: Mapping[str, str] = field(default_factory=dict)
    measured: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class ExternallyAnswered:
    """Somebody else's program has decided about the release at a gate of kind EXTERNAL.

    `call` names a signed call, which counts once however often it comes.
    """

    gate: GateId
    release: ReleaseId
    actor: str
    passed: bool
    reason: str = ""
    call: str = ""


@dataclass(frozen=True, slots=True)
class Approved:
    """Somebody says yes to what they saw: `digests` of each service of the stage behind.

    `groups` are the names of those that the actor is in.
    """

    gate: GateId
    actor: str
    is_author: bool
    digests: Digests
    comment: str = ""
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ApproversLeft:
    """These people may no longer approve; what they have approved and has not moved is void."""

    actors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Skipped:
    """Somebody lets the release that waits at a gate pass without it."""

    gate: GateId
    release: ReleaseId
    actor: str
    reason: str


@dataclass(frozen=True, slots=True)
class Aborted:
    """Nobody else in the stage is given the release; who has it keeps it."""

    stage: StageId
    release: ReleaseId
    actor: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Lifted:
    """The hold of a stage is no longer to be shown: somebody has looked."""

    stage: StageId
    actor: str


@dataclass(frozen=True, slots=True)
class Rejected:
    """Somebody says no; without `digests` to whatever waits at the gate."""

    gate: GateId
    actor: str
    comment: str = ""
    digests: Digests | None = None


@dataclass(frozen=True, slots=True)
class Superseded:
    """The release is withdrawn from a stage: from its queue, or, rolled back, from the stage."""

    stage: StageId
    release: ReleaseId
    actor: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Retried:
    """Somebody wants a release that was refused or has failed to be tried again in a stage."""

    stage: StageId
    release: ReleaseId
    actor: str


@dataclass(frozen=True, slots=True)
class KnownBad:
    """A revision (commit or digest) must not enter or leave any stage."""

    revision: str
    actor: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Cleared:
    """A revision is no longer known to be bad."""

    revision: str
    actor: str


@dataclass(frozen=True, slots=True)
class Paused:
    """Nothing may enter a stage until `Resumed`."""

    actor: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Resumed:
    """Releases may move again."""

    actor: str


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed; asked for by `WakeAt`, harmless at any moment."""


Event = (
    StageObserved
    | Started
    | Found
    | FoundWritten
    | FoundFailed
    | Rendered
    | RenderFailed
    | StageHealth
    | ServicesHealth
    | PromotionFailed
    | VerificationFailed
    | Changed
    | ChangeHinted
    | BaseMoved
    | Frozen
    | Budgeted
    | CheckStarted
    | CheckAnswered
    | ExternallyAnswered
    | Approved
    | ApproversLeft
    | Skipped
    | Aborted
    | Lifted
    | Rejected
    | Superseded
    | Retried
    | KnownBad
    | Cleared
    | Paused
    | Resumed
    | Tick
)
