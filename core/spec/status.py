"""Status of a service, as its agent reports it."""

from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from enum import StrEnum

from core.errors import TERMINAL_REASONS
from core.spec.input_checks import InputVerdict
from core.spec.objects import ObjectRef
from core.spec.plan import PlannedChange

RENDER = "render"
"""Source of problems of a render."""
_TERMINAL_IN_CLUSTER = frozenset(
    {
        *("BadRequest", "Conflict", "Forbidden", "Immutable", "Invalid"),
        *("Claimed", "NoImpersonation", "NoServiceAccount", "Untrusted"),
        *("BackoffLimitExceeded", "DeadlineExceeded", "InvalidImageName"),
        "ProgressDeadlineExceeded",
    }
)
"""Reasons of Kubernetes and of the agent for failures that last until a user changes something."""
_GOING_NAMESPACE = "being terminated"


class Phase(StrEnum):
    """Progress of the agent with the desired state that it reports on."""

    FETCHING = "fetching"
    """The agent downloads the bundle."""
    APPLYING = "applying"
    """The agent applies the objects."""
    APPLIED = "applied"
    """All objects are applied; not all of them are healthy yet."""
    HEALTHY = "healthy"
    """All objects are applied and healthy."""
    DEGRADED = "degraded"
    """All objects are applied, but some are failing."""
    FAILED = "failed"
    """The objects could not be applied."""
    REMOVED = "removed"
    """The service is removed from the cluster."""
    AWAITING = "awaiting"
    """A user must confirm deletions."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem that keeps a service from its desired state, for people."""

    message: str
    _: KW_ONLY
    source: str = "sync"
    """Step that failed, such as `render` or `apply`."""
    reason: str = ""
    """Reason for programs: a code such as `NOT_FOUND` for a render, else that of Kubernetes. Empty
    if there is none."""
    ref: ObjectRef | None = None
    """The object; None for the whole service."""

    @property
    def is_lasting(self) -> bool:
        """Returns whether every retry fails until a user changes something."""
        if self.source == RENDER:
            return self.reason in TERMINAL_REASONS
        return self.reason in _TERMINAL_IN_CLUSTER and _GOING_NAMESPACE not in self.message

    def __str__(self) -> str:
        """Returns the message with the object's name before it, unless it begins with that."""
        if self.ref is None or self.message.startswith((f"{self.ref}:", f"{self.ref} ")):
            return self.message
        return f"{self.ref}: {self.message}"


@dataclass(frozen=True, slots=True)
class StageTimes:
    """Completion times of the stages of one sequence; None if not reached."""

    received: datetime | None = None
    fetched: datetime | None = None
    applied: datetime | None = None
    healthy: datetime | None = None


@dataclass(frozen=True, slots=True)
class SyncStatus:
    """Status of one service."""

    service_id: str
    sequence: int
    """Sequence of the desired state that this status describes."""
    digest: str
    """Digest of the desired bundle; empty for a removal."""
    phase: Phase
    problems: tuple[Problem, ...] = ()
    stamps: StageTimes = StageTimes()
    written: int = 0
    """Number of written objects."""
    pruned: int = 0
    """Number of deleted objects."""
    awaiting: tuple[ObjectRef, ...] = ()
    """Deletions that a user must confirm."""
    message: str = ""
    """Present activity, for people."""
    planned: tuple[PlannedChange, ...] | None = None
    """Result of a dry run; None if it is not one or has not finished."""
    drifted: int = 0
    """Number of applied objects that others changed or deleted, and that are not reverted yet."""
    inputs: InputVerdict | None = None
    """Checks of the bundle's inputs; None before the agent has made them, and after its restart."""
