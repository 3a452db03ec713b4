"""State of a pipeline: releases in stages and before edges, and the history.

All values are frozen; mappings in them are never changed in place.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NewType

from controlplane.pipelines.model.rollout import BudgetRoom, Progress
from controlplane.pipelines.model.triggers import TriggerFinding
from core.identity import ServiceId

StageId = NewType("StageId", str)
EdgeId = NewType("EdgeId", str)
GateId = NewType("GateId", str)
ReleaseId = NewType("ReleaseId", str)
Digests = Mapping[ServiceId, str]

HISTORY_LENGTH = 200
KNOWN_BAD_LENGTH = 1_000
TEXT_LENGTH = 1_000


class Health(StrEnum):
    """Health of a stage: healthy when all its services are, failed when one has failed."""

    UNKNOWN = "UNKNOWN"
    """No service of the stage has reported yet."""
    PROGRESSING = "PROGRESSING"
    """At least one service is not healthy yet."""
    HEALTHY = "HEALTHY"
    """All services are healthy."""
    FAILED = "FAILED"
    """At least one service failed."""


class GateStatus(StrEnum):
    """State of a gate or of one of its checks."""

    PENDING = "PENDING"
    """The evaluation has not started."""
    RUNNING = "RUNNING"
    """The evaluation is under way."""
    OPEN = "OPEN"
    """Passed."""
    CLOSED = "CLOSED"
    """Rejected or failed."""


@dataclass(frozen=True, slots=True)
class RevisionRef:
    """Content of a service: a commit and the bundle rendered from it."""

    commit: str
    """Full SHA of the commit."""
    digest: str
    """Digest of the bundle rendered from the commit."""


Revisions = Mapping[ServiceId, RevisionRef]


@dataclass(frozen=True, slots=True)
class Release:
    """The unit of promotion: the revisions that the services of the first stage had together.

    Revisions that return later are a new release.
    """

    id: ReleaseId
    number: int
    """Number of the release in the pipeline, from 1."""
    revisions: Revisions
    """Revisions of the first stage's services."""
    author: str
    """Author of the newest commit."""
    seen_at: datetime
    """Time at which the pipeline detected the release."""

    @property
    def commits(self) -> Mapping[ServiceId, str]:
        """Returns the commit of each service of the first stage."""
        return {service: revision.commit for service, revision in self.revisions.items()}


@dataclass(frozen=True, slots=True)
class Approval:
    """A user's approval of exactly these digests."""

    actor: str
    """E-mail address of the approver."""
    at: datetime
    """Time of the approval."""
    comment: str
    """Comment of the approver."""
    digests: Digests


@dataclass(frozen=True, slots=True)
class ReleaseRefusal:
    """Reason why a gate stops a release before its edge."""

    actor: str
    at: datetime
    reason: str
    gate: GateId


@dataclass(frozen=True, slots=True)
class CheckState:
    """State of a gate's step, in the same terms as gates."""

    status: GateStatus = GateStatus.PENDING
    """State of the check."""
    reason: str = ""
    """Reason of the state."""
    attempt: int = 0
    """Number of the current attempt, from 1."""
    key: str = ""
    """Name of the newest attempt."""
    looks: int = 0
    """Number of runs of the attempt."""
    begun_at: datetime | None = None
    """Start of the attempt."""
    next_at: datetime | None = None
    """Time of the next run, or of the next attempt if `pausing`."""
    pausing: bool = False
    """True between two attempts."""
    outputs: Mapping[str, str] = field(default_factory=dict)
    """Outputs of the job. Limit: 64."""
    job_id: str = ""
    """ID of the cluster job. Empty for other checks."""


@dataclass(frozen=True, slots=True)
class GateState:
    """A gate's answer for the waiting release."""

    status: GateStatus = GateStatus.PENDING
    """State of the gate for the current release."""
    reason: str = ""
    """Reason of the state."""
    approvals: tuple[Approval, ...] = ()
    """Approvals of the current release."""
    since: datetime | None = None
    """Start of the evaluation."""
    skipped: str = ""
    """User and reason if the gate was skipped. Empty otherwise."""
    checks: Mapping[str, CheckState] = field(default_factory=dict)
    """State of each automated check, by step."""


@dataclass(frozen=True, slots=True)
class WaitingRelease:
    """A release that waits before an edge."""

    release: ReleaseId
    attempt: int = 1
    reason: str = ""
    """Reason of the wait."""
    render_key: str = ""
    """Key of the last requested render."""
    render_error: str = ""
    """Error of the render for the next stage."""
    gates: Mapping[GateId, GateState] = field(default_factory=dict)
    refusal: ReleaseRefusal | None = None


class GitChangeState(StrEnum):
    """State of a Git change."""

    OPEN = "OPEN"
    """A pull or merge request waits to be merged."""
    LANDED = "LANDED"
    """The branch contains the change."""


@dataclass(frozen=True, slots=True)
class GitWriteStatus:
    """The git change of a release or of a trigger's finding."""

    state: GitChangeState
    """State of the change."""
    repository_id: str
    branch: str
    """Target branch."""
    commit: str = ""
    """Full SHA of the commit of the branch. Empty until it is merged."""
    number: int = 0
    """Number of the pull or merge request. Empty for a direct commit."""
    url: str = ""
    """URL of the pull or merge request. Empty for a direct commit."""
    looks: int = 0
    """Number of checks whether the request is merged."""
    looked_at: datetime | None = None
    """Time of the last check."""
    next_at: datetime | None = None
    """Time of the next check."""

    def __str__(self) -> str:
        if self.state is GitChangeState.OPEN:
            return f"request #{self.number} waits to be merged into {self.branch}: {self.url}"
        request = f"request #{self.number} became " if self.number else ""
        return f"{request}commit {self.commit} of {self.branch}"


@dataclass(frozen=True, slots=True)
class UnreleasedState:
    """The first stage's revisions that are not a release yet."""

    revisions: Revisions
    author: str


class FoundStatus(StrEnum):
    """State of a trigger's last finding."""

    IDLE = "IDLE"
    """Nothing found yet."""
    WAITING = "WAITING"
    """Found a new version, but cannot start a release yet; see `reason`."""
    WRITING = "WRITING"
    """Writing the last finding to Git."""
    DONE = "DONE"
    """Wrote the last finding, or started a release from it."""
    FAILED = "FAILED"
    """Failed to write the last finding."""


@dataclass(frozen=True, slots=True)
class TriggerState:
    """State of a trigger, and its last finding."""

    slot: datetime | None = None
    """Time up to which a schedule has run."""
    finding: TriggerFinding | None = None
    status: FoundStatus = FoundStatus.IDLE
    """State of the last finding."""
    reason: str = ""
    """Reason of the state."""
    change: GitWriteStatus | None = None
    """Git change made for the last finding. None without one."""
    attempt: int = 0
    """Number of attempts to write the finding."""
    at: datetime | None = None
    """Time of the last attempt."""


@dataclass(frozen=True, slots=True)
class StageSilence:
    """Silent clusters that a stage waits for or goes on without, by service."""

    waits_for: Mapping[ServiceId, str] = field(default_factory=dict)
    left_out: Mapping[ServiceId, str] = field(default_factory=dict)
    """The stage goes on without them until they have caught up."""
    reason: str = ""
    """Names of the clusters, and the reason why the stage waits. Empty if there is none."""


@dataclass(frozen=True, slots=True)
class StageState:
    """State of a stage, and of the release in it."""

    release: ReleaseId | None = None
    revisions: Revisions = field(default_factory=dict)
    attempt: int = 1
    entered_at: datetime | None = None
    health: Health = Health.UNKNOWN
    """Health of the stage."""
    reason: str = ""
    """Reason of the health."""
    healthy_since: datetime | None = None
    verified: bool = False
    """True if the release passed the verification and the workflow of the stage."""
    verified_at: datetime | None = None
    """Time of the first health with the release."""
    progress: Mapping[ServiceId, Progress] = field(default_factory=dict)
    """Services that received the release."""
    batches: int = 0
    """Number of batches that received a release."""
    wave_begun_at: datetime | None = None
    """Begin of the current wave. None between two waves."""
    wave_done_at: datetime | None = None
    """Completion of the last complete wave."""
    rollout_reason: str = ""
    """Reason of a wait."""
    silence: StageSilence = field(default_factory=StageSilence)
    """Silent clusters that the stage waits for or goes on without."""
    stopped: str = ""
    """Reason of a stopped rollout."""
    good_release: ReleaseId | None = None
    """Last verified release."""
    good: Revisions = field(default_factory=dict)
    """Revisions of the last verified release."""
    hold: str = ""
    """Reason of a rollback to the last good release, until a user acknowledges it. Empty without a
    rollback."""
    rendered: Mapping[ReleaseId, Revisions] = field(default_factory=dict)
    """Revisions of the services for each waiting release."""
    change: GitWriteStatus | None = None
    """Git change made for the current release. None without one."""
    settled: bool = False
    """True if the services are healthy with the release. A workflow decides afterwards."""
    settled_reason: str = ""
    """Reason of the health of the services, such as failures within the limit."""
    workflow: GateState | None = None

    @property
    def promoting(self) -> bool:
        """Returns whether a release has entered and has neither become healthy nor failed."""
        return self.release is not None and not self.verified and self.health != Health.FAILED

    @property
    def cleared(self) -> "StageState":
        """Returns only the renders, the last good release and the number of batches."""
        return StageState(
            batches=self.batches,
            good_release=self.good_release,
            good=self.good,
            rendered=self.rendered,
        )


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """A step that was taken or denied."""

    at: datetime
    """Time of the event."""
    place: str
    """ID of the stage, edge or gate. Empty for the whole pipeline."""
    release: ReleaseId | None
    """ID of the release. None if none is concerned."""
    text: str
    """Description of the event."""
    actor: str = ""
    """E-mail address of the user. Empty for the pipeline itself."""


@dataclass(frozen=True, slots=True)
class PipelineState:
    """State of a pipeline; the value without arguments is a pipeline that never ran."""

    number: int = 0
    """Number of the newest release."""
    releases: Mapping[ReleaseId, Release] = field(default_factory=dict)
    stages: Mapping[StageId, StageState] = field(default_factory=dict)
    candidates: Mapping[EdgeId, WaitingRelease] = field(default_factory=dict)
    """Waiting release of each edge."""
    known_bad: Mapping[str, str] = field(default_factory=dict)
    """Reasons of denied commits and digests."""
    paused: str | None = None
    """Reason of the pause. None if the pipeline is not paused."""
    frozen: Mapping[ServiceId, str] = field(default_factory=dict)
    """Services on frozen clusters, with the reason."""
    silent: Mapping[ServiceId, str] = field(default_factory=dict)
    """Services that are not healthy on clusters whose agent is silent, with cluster and time."""
    room: BudgetRoom | None = None
    """Remaining budget of the cluster groups. None without a budget."""
    history: tuple[HistoryEntry, ...] = ()
    """Latest events, newest last. Limit: 200."""
    seen: UnreleasedState | None = None
    """Content of the first stage that is not a release yet."""
    triggers: Mapping[str, TriggerState] = field(default_factory=dict)
    calls: Mapping[str, datetime] = field(default_factory=dict)
    """Accepted signed calls with their time, as long as they could be replayed."""


def digests_of(revisions: Revisions) -> Digests:
    """Returns the digest of each service."""
    return {service: revision.digest for service, revision in revisions.items()}


def fingerprint(revisions: Revisions) -> str:
    """Returns twelve hex characters that identify exactly these revisions."""
    lines = sorted(
        f"{key}\0{revision.commit}\0{revision.digest}" for key, revision in revisions.items()
    )
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]
