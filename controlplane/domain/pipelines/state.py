"""Where a pipeline stands: what each stage holds, what waits before each edge, what happened.

All values are frozen; mappings in them are never changed in place.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NewType

from controlplane.domain.pipelines.model import EdgeId, GateId, StageId
from controlplane.domain.pipelines.rollout import Progress, Room
from fleet.identity import ServiceId

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
class Revision:
    """What a service runs: a commit (full sha) and the digest of the bundle rendered from it."""

    commit: str
    digest: str


Revisions = Mapping[ServiceId, Revision]


@dataclass(frozen=True, slots=True)
class Release:
    """What moves: the revisions that the services of the first stage had together.

    `number` counts the releases of the pipeline; a release seen again later is a new one.
    """

    id: ReleaseId
    number: int
    revisions: Revisions
    author: str
    seen_at: datetime

    @property
    def commits(self) -> Mapping[ServiceId, str]:
        """The commit of each service of the first stage."""
        return {service: one.commit for service, one in self.revisions.items()}


@dataclass(frozen=True, slots=True)
class Approval:
    """Somebody's yes to exactly these digests."""

    actor: str
    at: datetime
    comment: str
    digests: Digests


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a release stops before an edge; `gate` where one was rejected."""

    actor: str
    at: datetime
    reason: str
    gate: GateId | None = None


@dataclass(frozen=True, slots=True)
class CheckState:
    """How far a step of a gate is; the words are those of gates.

    `key` names the newest attempt, `begun_at` is its beginning, `looks` how often it was asked.
    At `next_at` it is asked again: anew if it is `pausing` between two attempts. `outputs` are
    what a job has told, `job_id` is the last job of a cluster that it ran.
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
    """What a gate says to the release in waiting, and why.

    `since`: when it began to decide. `skipped`: who let the release pass without it, and why.
    `checks` are the steps by name, of gates that ask workers.
    """

    status: GateStatus = GateStatus.PENDING
    reason: str = ""
    approvals: tuple[Approval, ...] = ()
    since: datetime | None = None
    skipped: str = ""
    checks: Mapping[str, CheckState] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A release in waiting before an edge.

    `reason` tells why it still waits, `asked` is the key of the render last asked for, and
    `render_error` tells why the release cannot be rendered for the stage behind the edge.
    """

    release: ReleaseId
    attempt: int = 1
    reason: str = ""
    asked: str = ""
    render_error: str = ""
    gates: Mapping[GateId, GateState] = field(default_factory=dict)
    refusal: Refusal | None = None


class ChangeState(StrEnum):
    """OPEN: a request that waits to be merged. LANDED: the branch contains the change."""

    OPEN = "OPEN"
    """A pull or merge request waits to be merged."""
    LANDED = "LANDED"
    """The branch contains the change."""


@dataclass(frozen=True, slots=True)
class Change:
    """What a release, or what a trigger found, became in git.

    `branch` is the one that takes it in, `commit` that with which it has; `number` is that of the
    request, if there is one. `url` is for people's browsers. Until it has landed it is looked at
    at `next_at`, `looks` times so far, last at `looked_at`.
    """

    state: ChangeState
    repository_id: str
    branch: str
    commit: str = ""
    number: int = 0
    url: str = ""
    looks: int = 0
    looked_at: datetime | None = None
    next_at: datetime | None = None

    def __str__(self) -> str:
        if self.state is ChangeState.OPEN:
            return f"request #{self.number} waits to be merged into {self.branch}: {self.url}"
        request = f"request #{self.number} became " if self.number else ""
        return f"{request}commit {self.commit} of {self.branch}"


@dataclass(frozen=True, slots=True)
class Seen:
    """What the first stage holds that is no release yet."""

    revisions: Revisions
    author: str


class FoundStatus(StrEnum):
    """WAITING: blocked. WRITING, DONE, FAILED: state of the last finding."""

    IDLE = "IDLE"
    """Nothing found yet."""
    WAITING = "WAITING"
    """Found a new version and waits for a reason given in `reason`."""
    WRITING = "WRITING"
    """Writing the last finding to Git."""
    DONE = "DONE"
    """Wrote the last finding, or started a release from it."""
    FAILED = "FAILED"
    """Failed to write the last finding."""


@dataclass(frozen=True, slots=True)
class TriggerState:
    """How far a trigger is.

    `slot`: until when a schedule has been kept. `value` and `digest` are what was found last, at
    `at` tried for the `attempt`-th time; `change` is what that became in git.
    """

    slot: datetime | None = None
    value: str = ""
    digest: str = ""
    status: FoundStatus = FoundStatus.IDLE
    reason: str = ""
    change: Change | None = None
    attempt: int = 0
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class StageState:
    """What a stage holds.

    `verified`: it has been healthy with this release since the release entered, first at
    `verified_at`. `rendered`: what its services would run for each release in waiting before it.
    `progress` has the services that were given the release, `batches` counts how often some were;
    `wave_done_at` is when the last wave was complete. `stopped` tells why nobody
    else is given the release. `good_release` and `good` are the last with
    which it was verified; `hold` tells why it was put back to them. `change` is what the release
    became in git, where it is promoted by git. `settled`: its services are healthy with the
    release, and its `workflow`, if it has one, has the last word.
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
    change: Change | None = None
    settled: bool = False
    workflow: GateState | None = None

    @property
    def promoting(self) -> bool:
        """A release has entered and has neither become healthy nor failed."""
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
class State:
    """Where a pipeline stands; the value without arguments is a pipeline never run.

    `candidates` has the release in waiting before each edge that has one. `known_bad` maps
    refused commits and digests to the reason. `paused` is the reason while nothing may move,
    `frozen` has the services whose clusters must stay as they are, with the reason; `room` what
    the budgets of their groups leave, if these have any.
    `history` has the newest entry last and `HISTORY_LENGTH` entries at most. `seen` is what waits
    to be made a release, `triggers` is by their ids. `calls` are signed calls that have counted,
    with their time, for as long as they could be sent again.
    """

    number: int = 0
    releases: Mapping[ReleaseId, Release] = field(default_factory=dict)
    stages: Mapping[StageId, StageState] = field(default_factory=dict)
    candidates: Mapping[EdgeId, Candidate] = field(default_factory=dict)
    known_bad: Mapping[str, str] = field(default_factory=dict)
    paused: str | None = None
    frozen: Mapping[ServiceId, str] = field(default_factory=dict)
    room: Room | None = None
    history: tuple[HistoryEntry, ...] = ()
    seen: Seen | None = None
    triggers: Mapping[str, TriggerState] = field(default_factory=dict)
    calls: Mapping[str, datetime] = field(default_factory=dict)


def digests_of(revisions: Revisions) -> Digests:
    """The digest of each service."""
    return {service: one.digest for service, one in revisions.items()}


def fingerprint(revisions: Revisions) -> str:
    """Twelve hex characters that stand for exactly these revisions."""
    lines = sorted(f"{key}\0{one.commit}\0{one.digest}" for key, one in revisions.items())
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]
