"""State of a pipeline: releases in stages and before edges, and the history.

All values are frozen; mappings in them are never changed in place.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NewType

from controlplane.pipelines.model.ids import EdgeId, GateId, StageId
from controlplane.pipelines.model.rollout import BudgetRoom, Progress
from core.identity import ServiceId

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
    """PENDING: not its turn yet. RUNNING: being decided. OPEN: passed. CLOSED: refused."""

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
    """Content of a service: a commit (full sha) and the digest of the bundle rendered from it."""

    commit: str
    digest: str


Revisions = Mapping[ServiceId, RevisionRef]


@dataclass(frozen=True, slots=True)
class Release:
    """The unit of promotion: the revisions that the services of the first stage had together.

    `number` counts the releases of the pipeline; revisions that return later are a new release.
    """

    id: ReleaseId
    number: int
    revisions: Revisions
    author: str
    seen_at: datetime

    @property
    def commits(self) -> Mapping[ServiceId, str]:
        """Returns the commit of each service of the first stage."""
        return {service: revision.commit for service, revision in self.revisions.items()}


@dataclass(frozen=True, slots=True)
class Approval:
    """A user's approval of exactly these digests."""

    actor: str
    at: datetime
    comment: str
    digests: Digests


@dataclass(frozen=True, slots=True)
class ReleaseRefusal:
    """Reason why a release stops before an edge; `gate` is set if one rejected it."""

    actor: str
    at: datetime
    reason: str
    gate: GateId | None = None


@dataclass(frozen=True, slots=True)
class CheckState:
    """State of a gate's step, in the same terms as gates.

    `key` names the newest attempt, `begun_at` is its beginning, `looks` the number of runs. At
    `next_at` it runs again: as a new attempt if it is `pausing` between two attempts. `outputs` are
    results of a job, `job_id` is the last job that it ran in a cluster.
    """

    status: GateStatus = GateStatus.PENDING
    reason: str = ""
    attempt: int = 0
    key: str = ""
    looks: int = 0
    begun_at: datetime | None = None
    next_at: datetime | None = None
    pausing: bool = False
    outputs: Mapping[str, str] = field(default_factory=dict)
    job_id: str = ""


@dataclass(frozen=True, slots=True)
class GateState:
    """A gate's answer for the waiting release.

    `since`: when evaluation began. `skipped`: who skipped the gate, and why. `checks` are the steps
    by name, of gates that workers decide.
    """

    status: GateStatus = GateStatus.PENDING
    reason: str = ""
    approvals: tuple[Approval, ...] = ()
    since: datetime | None = None
    skipped: str = ""
    checks: Mapping[str, CheckState] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WaitingRelease:
    """A release that waits before an edge.

    `reason` says why it still waits. `asked` is the key of the last requested render.
    `render_error` says why the release cannot be rendered for the next stage.
    """

    release: ReleaseId
    attempt: int = 1
    reason: str = ""
    asked: str = ""
    render_error: str = ""
    gates: Mapping[GateId, GateState] = field(default_factory=dict)
    refusal: ReleaseRefusal | None = None


class GitChangeState(StrEnum):
    """OPEN: a request that waits to be merged. LANDED: the branch contains the change."""

    OPEN = "OPEN"
    """A pull or merge request waits to be merged."""
    LANDED = "LANDED"
    """The branch contains the change."""


@dataclass(frozen=True, slots=True)
class GitWriteStatus:
    """The git change of a release or of a trigger's finding.

    `branch` is the target branch, `commit` its commit that contains the change. `number` is that of
    the pull request, if there is one; `url` is its page. An open change is checked at `next_at`; it
    was checked `looks` times, last at `looked_at`.
    """

    state: GitChangeState
    repository_id: str
    branch: str
    commit: str = ""
    number: int = 0
    url: str = ""
    looks: int = 0
    looked_at: datetime | None = None
    next_at: datetime | None = None

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
    """WAITING: blocked. WRITING, DONE, FAILED: state of the last finding."""

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
    """State of a trigger.

    `slot`: time up to which a schedule has run. `value` and `digest` are the last finding, written
    at `at` in the `attempt`-th attempt; `change` is its change in git.
    """

    slot: datetime | None = None
    value: str = ""
    digest: str = ""
    status: FoundStatus = FoundStatus.IDLE
    reason: str = ""
    change: GitWriteStatus | None = None
    attempt: int = 0
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class StageState:
    """State of a stage.

    `verified`: the stage was healthy with this release at least once, first at `verified_at`.
    `rendered`: the revisions of its services for each waiting release. `progress` has the services
    that were given the release, `batches` counts the batches. `wave_done_at` is when the last wave
    was complete. `stopped` says why the rollout stopped. `good_release` and `good` are the last
    verified ones; `hold` says why the stage was rolled back to them. `change` is the release's
    change in git, for stages that are promoted through git. `settled`: the services are healthy
    with the release; a `workflow`, if there is one, decides last.
    """

    release: ReleaseId | None = None
    revisions: Revisions = field(default_factory=dict)
    attempt: int = 1
    entered_at: datetime | None = None
    health: Health = Health.UNKNOWN
    reason: str = ""
    healthy_since: datetime | None = None
    verified: bool = False
    verified_at: datetime | None = None
    progress: Mapping[ServiceId, Progress] = field(default_factory=dict)
    batches: int = 0
    wave_done_at: datetime | None = None
    rollout_reason: str = ""
    stopped: str = ""
    good_release: ReleaseId | None = None
    good: Revisions = field(default_factory=dict)
    hold: str = ""
    rendered: Mapping[ReleaseId, Revisions] = field(default_factory=dict)
    change: GitWriteStatus | None = None
    settled: bool = False
    workflow: GateState | None = None

    @property
    def promoting(self) -> bool:
        """Returns whether a release has entered and has neither become healthy nor failed."""
        return self.release is not None and not self.verified and self.health != Health.FAILED


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """A step that was taken or denied; `place` is the id of a stage, edge or gate, or empty."""

    at: datetime
    place: str
    release: ReleaseId | None
    text: str
    actor: str = ""


@dataclass(frozen=True, slots=True)
class PipelineState:
    """State of a pipeline; the value without arguments is a pipeline that never ran.

    `candidates` has the waiting release of each edge. `known_bad` maps denied commits and digests
    to the reason. `paused` is the reason of a pause, `frozen` has the services on frozen clusters
    with the reason. `room` is the remaining budget of their groups, if any. `history` has the
    newest entry last, and at most `HISTORY_LENGTH` entries. `seen` is the content of the first
    stage that is not a release yet; `triggers` is by id. `calls` are accepted signed calls with
    their time, kept for as long as they could be replayed.
    """

    number: int = 0
    releases: Mapping[ReleaseId, Release] = field(default_factory=dict)
    stages: Mapping[StageId, StageState] = field(default_factory=dict)
    candidates: Mapping[EdgeId, WaitingRelease] = field(default_factory=dict)
    known_bad: Mapping[str, str] = field(default_factory=dict)
    paused: str | None = None
    frozen: Mapping[ServiceId, str] = field(default_factory=dict)
    room: BudgetRoom | None = None
    history: tuple[HistoryEntry, ...] = ()
    seen: UnreleasedState | None = None
    triggers: Mapping[str, TriggerState] = field(default_factory=dict)
    calls: Mapping[str, datetime] = field(default_factory=dict)


def digests_of(revisions: Revisions) -> Digests:
    """Returns the digest of each service."""
    return {service: revision.digest for service, revision in revisions.items()}


def fingerprint(revisions: Revisions) -> str:
    """Returns twelve hex characters that identify exactly these revisions."""
    lines = sorted(
        f"{key}\0{revision.commit}\0{revision.digest}" for key, revision in revisions.items()
    )
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]
