"""Events of a pipeline: reports from clusters, decisions of users, and the passing of time."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from controlplane.pipelines.model.gate_checks import CheckAnswer
from controlplane.pipelines.model.pipeline import GateId, StageId
from controlplane.pipelines.model.rollout import BudgetRoom
from controlplane.pipelines.model.state import Digests, GitWriteStatus, Health, ReleaseId, Revisions
from controlplane.pipelines.model.triggers import TriggerFinding
from core.identity import ServiceId


@dataclass(frozen=True, slots=True)
class Event:
    """Base class of events; `engine.HANDLERS` lists them."""


@dataclass(frozen=True, slots=True)
class _ReleaseInStage(Event):
    """An event of one release in a stage."""

    stage: StageId
    release: ReleaseId


@dataclass(frozen=True, slots=True)
class _ReleaseAtGate(Event):
    """A decision about the release that waits at a gate."""

    gate: GateId
    release: ReleaseId
    actor: str


@dataclass(frozen=True, slots=True)
class StageObserved(Event):
    """The services of the first stage, which follow git, have these revisions.

    `author` wrote the newest of the commits, as `Name <email>`.
    """

    stage: StageId
    revisions: Revisions
    health: Health
    author: str
    reason: str = ""
    unsettled: tuple[ServiceId, ...] = ()
    """Services that are neither healthy nor failed."""


@dataclass(frozen=True, slots=True)
class Started(Event):
    """A user makes the first stage's revisions a release."""

    actor: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class TriggerFound(Event):
    """A trigger has polled its source; this is the current value."""

    trigger: str
    finding: TriggerFinding


@dataclass(frozen=True, slots=True)
class FindingWritten(Event):
    """A finding was written to the source of the first stage, by a change or as `text` says."""

    trigger: str
    finding: TriggerFinding
    change: GitWriteStatus | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class FindingFailed(Event):
    """A finding could not be written."""

    trigger: str
    finding: TriggerFinding
    reason: str


@dataclass(frozen=True, slots=True)
class StageRendered(_ReleaseInStage):
    """Revisions that a stage's services would run with the release."""

    revisions: Revisions


@dataclass(frozen=True, slots=True)
class StageRenderFailed(_ReleaseInStage):
    """The release cannot be rendered for the stage."""

    reason: str


@dataclass(frozen=True, slots=True)
class ServicesHealth(_ReleaseInStage):
    """Health of each service of a stage that runs its revision of the release.

    `reasons` has entries for services that are not healthy. Services that do not run the release
    are left out.
    """

    healths: Mapping[ServiceId, Health]
    reasons: Mapping[ServiceId, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PromotionFailed(_ReleaseInStage):
    """The release could not be given to services; the rollout stops until a retry."""

    reason: str


@dataclass(frozen=True, slots=True)
class VerificationFailed(_ReleaseInStage):
    """A cluster's agent found the release bad after its promotion, and rolled back on its own."""

    service: ServiceId
    reason: str


@dataclass(frozen=True, slots=True)
class Changed(_ReleaseInStage):
    """State in git of the release that a stage is taking in."""

    change: GitWriteStatus


@dataclass(frozen=True, slots=True)
class ChangeHinted(Event):
    """A repository has changed: pull requests that wait there may have been merged."""

    repository_id: str


@dataclass(frozen=True, slots=True)
class BaseMoved(_ReleaseInStage):
    """Others have changed the branch meanwhile: the result would differ from what was approved."""

    reason: str


@dataclass(frozen=True, slots=True)
class Frozen(Event):
    """Exactly these services are on frozen clusters, with the reasons."""

    services: Mapping[ServiceId, str]


@dataclass(frozen=True, slots=True)
class ClustersSilent(Event):
    """Exactly these services that are not healthy are on clusters whose agent is silent.

    The text names the cluster and the time at which its agent was last seen.
    """

    services: Mapping[ServiceId, str]


@dataclass(frozen=True, slots=True)
class Budgeted(Event):
    """Remaining change budget of the cluster groups; None: no group has a budget."""

    room: BudgetRoom | None


@dataclass(frozen=True, slots=True)
class CheckStarted(Event):
    """An attempt of a check runs as a job in a cluster."""

    gate: GateId
    step: str
    key: str
    job_id: str


@dataclass(frozen=True, slots=True)
class CheckAnswered(Event):
    """Result of an attempt of a check; `key` is that of the attempt.

    `measured` are the values of a metric, for display only: the engine uses the answer.
    """

    gate: GateId
    step: str
    key: str
    answer: CheckAnswer
    reason: str = ""
    outputs: Mapping[str, str] = field(default_factory=dict)
    measured: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class ExternallyAnswered(_ReleaseAtGate):
    """An external program has decided about the release at a gate of kind EXTERNAL.

    `call` identifies a signed call, which counts once even if it is repeated.
    """

    passed: bool
    reason: str = ""
    call: str = ""


@dataclass(frozen=True, slots=True)
class Approved(Event):
    """A user approves `digests`, one for each service of the stage after the gate.

    `groups` are the names of the user's groups.
    """

    gate: GateId
    actor: str
    is_author: bool
    digests: Digests
    comment: str = ""
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ApproversLeft(Event):
    """These users may no longer approve; their approvals of waiting releases become void."""

    actors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Skipped(_ReleaseAtGate):
    """A user lets the release that waits at a gate skip it."""

    reason: str


@dataclass(frozen=True, slots=True)
class Aborted(_ReleaseInStage):
    """The rollout in the stage stops; services that have the release keep it."""

    actor: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Lifted(Event):
    """A user has acknowledged the rollback notice of a stage."""

    stage: StageId
    actor: str


@dataclass(frozen=True, slots=True)
class ReleaseRejected(Event):
    """A user rejects the release that waits at a gate."""

    gate: GateId
    actor: str
    comment: str = ""


@dataclass(frozen=True, slots=True)
class Retried(_ReleaseInStage):
    """A user retries a refused or failed release in a stage."""

    actor: str


@dataclass(frozen=True, slots=True)
class RevisionDenied(Event):
    """A revision (commit or digest) is denied: it must not enter or leave any stage."""

    revision: str
    actor: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class DenialRemoved(Event):
    """A revision is no longer denied."""

    revision: str
    actor: str


@dataclass(frozen=True, slots=True)
class Paused(Event):
    """Nothing may enter a stage until `Resumed`."""

    actor: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Resumed(Event):
    """Releases may move again."""

    actor: str


@dataclass(frozen=True, slots=True)
class Tick(Event):
    """Time has passed; requested by `WakeAt`, harmless at any moment."""
