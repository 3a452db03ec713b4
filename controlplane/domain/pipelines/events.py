"""What can happen to a pipeline: reports of the fleet, decisions of people, the passing of time."""

from dataclasses import dataclass

from controlplane.domain.pipelines.model import GateId, StageId
from controlplane.domain.pipelines.state import Digests, Health, ReleaseId, Revisions


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
class Approved:
    """Somebody says yes to what they saw: `digests` of each service of the stage behind."""

    gate: GateId
    actor: str
    is_author: bool
    digests: Digests
    comment: str = ""


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
    | Rendered
    | RenderFailed
    | StageHealth
    | Approved
    | Rejected
    | Superseded
    | Retried
    | KnownBad
    | Cleared
    | Paused
    | Resumed
    | Tick
)
