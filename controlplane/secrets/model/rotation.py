"""Two-phase rotation of a secret: add a version, move its consumers, verify, revoke the old one.

A pure state machine. Both versions stay valid outside until the old one is revoked, so every
consumer can be moved forward and back at any time before that.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from controlplane.platform.limits import check_range
from controlplane.platform.names import join_names
from controlplane.platform.parts import part
from core.errors import Conflict

_MAX_BATCH = 1000
_MAX_SECONDS = 7 * 24 * 3600


class RotationPhase(StrEnum):
    """State of a rotation."""

    ROLLING = "rolling"
    """Services move to the new version batch by batch."""
    VERIFYING = "verifying"
    """All services have the new version and must stay healthy."""
    READY = "ready"
    """Verified. The old version may be revoked."""
    HELD = "held"
    """Stopped, since a service failed with the new version."""
    REVOKED = "revoked"
    """Completed. The old version is destroyed."""
    ABORTED = "aborted"
    """Aborted. Services returned to the old version."""


ENDED = frozenset({RotationPhase.REVOKED, RotationPhase.ABORTED})


class RotationDecision(StrEnum):
    """A user's decision about a rotation."""

    RESUME = "resume"
    """Continue a stopped rotation."""
    REVOKE = "revoke"
    """Revoke the old version and complete the rotation."""
    ABORT = "abort"
    """Abort the rotation and return services to the old version."""


@dataclass(frozen=True, slots=True)
class RotationPlan:
    """Plan for moving services to a new version."""

    batch: int = 1
    """Number of services that move at the same time. Default: 1. Limit: 1,000."""
    soak_s: int = 60
    """Seconds for which all services must stay healthy. Default: 60. Limit: 604,800."""
    timeout_s: int = 900
    """Seconds for a service to become healthy. Default: 900. Limit: 604,800."""
    automatic: bool = False
    """True revokes the old version without a decision. Default: false."""

    def checked(self) -> "RotationPlan":
        """Returns itself. Raises Invalid, naming the field."""
        check_range(self.batch, "batch", 1, _MAX_BATCH)
        for name in ("soak_s", "timeout_s"):
            check_range(getattr(self, name), name, 0, _MAX_SECONDS, "s")
        return self


@dataclass(frozen=True, slots=True)
class Rotation:
    """A rotation of a secret from one version to another."""

    old: int
    """Number of the old version."""
    new: int
    """Number of the new version."""
    started_at: datetime
    """Start of the rotation."""
    by: str
    """E-mail address of the user who started the rotation."""
    plan: RotationPlan = part(RotationPlan)
    phase: RotationPhase = RotationPhase.ROLLING
    """Current phase."""
    waiting: Mapping[str, datetime] = field(default_factory=dict)
    """Time since which each moved service is not healthy, by the ID of its use."""
    healthy_since: datetime | None = None
    """Time since which all services are healthy with the new version. None before that."""
    reason: str = ""
    """Reason for a stop. Empty if the rotation is not stopped."""
    ended_at: datetime | None = None
    """End of the rotation. None while it is active."""

    @property
    def active(self) -> bool:
        """Returns whether the rotation is still running."""
        return self.phase not in ENDED


@dataclass(frozen=True, slots=True)
class SecretConsumer:
    """A service that uses the secret."""

    id: str
    name: str
    version: int
    settled: bool = False
    """True if the agent has applied this version and the service is healthy."""
    failed: bool = False
    """True if the service is not healthy with this version."""
    movable: bool = True
    """True unless the use is pinned or the cluster is frozen."""


@dataclass(frozen=True, slots=True)
class RotationStep:
    """The next state, and the actions to take in the same transaction."""

    rotation: Rotation
    move: tuple[str, ...] = ()
    revoke: bool = False


def advance_rotation(
    rotation: Rotation, consumers: Sequence[SecretConsumer], now: datetime
) -> RotationStep:
    """Advances a rotation by time and consumer state; returns the
    same rotation if nothing changes.
    """
    if rotation.phase is RotationPhase.ROLLING:
        return _roll(rotation, consumers, now)
    if rotation.phase is RotationPhase.VERIFYING:
        return _verify(rotation, consumers, now)
    if rotation.phase is RotationPhase.READY and _outdated_consumers(rotation, consumers):
        return RotationStep(_back_to_rolling(rotation))
    return RotationStep(rotation)


def apply_decision(
    rotation: Rotation,
    decision: RotationDecision,
    consumers: Sequence[SecretConsumer],
    now: datetime,
) -> RotationStep:
    """Applies a user's decision. Raises Conflict if the rotation's phase does not allow it."""
    if not rotation.active:
        raise Conflict(f"this rotation has ended: {rotation.phase.value}")
    if decision is RotationDecision.ABORT:
        ended = replace(rotation, phase=RotationPhase.ABORTED, reason="", ended_at=now)
        return RotationStep(ended)
    if decision is RotationDecision.RESUME:
        if rotation.phase is not RotationPhase.HELD:
            raise Conflict(
                f"only a held rotation can be resumed; this one is {rotation.phase.value}"
            )
        return RotationStep(_back_to_rolling(rotation))
    if rotation.phase is not RotationPhase.READY:
        raise Conflict(
            "the old version can be revoked only after verification; "
            f"this rotation is {rotation.phase.value}"
        )
    if outdated := _outdated_consumers(rotation, consumers):
        raise Conflict(f"version {rotation.old} is still used by {_consumer_names(outdated)}")
    return _revoke(rotation, now)


def _roll(rotation: Rotation, consumers: Sequence[SecretConsumer], now: datetime) -> RotationStep:
    new = [consumer for consumer in consumers if consumer.version == rotation.new]
    if failed := [consumer for consumer in new if consumer.failed]:
        return _hold(
            rotation, f"not healthy with version {rotation.new}: {_consumer_names(failed)}"
        )
    under_way = [consumer for consumer in new if not consumer.settled]
    waiting = {consumer.id: rotation.waiting.get(consumer.id, now) for consumer in under_way}
    timeout_s = rotation.plan.timeout_s
    if late := [c for c in under_way if _has_elapsed(waiting[c.id], timeout_s, now)]:
        return _hold(rotation, f"not healthy in {timeout_s} s: {_consumer_names(late)}")
    outdated = _outdated_consumers(rotation, consumers)
    movable = sorted(consumer.id for consumer in outdated if consumer.movable)
    if next_batch := movable[: max(rotation.plan.batch - len(under_way), 0)]:
        waiting |= dict.fromkeys(next_batch, now)
        return RotationStep(replace(rotation, waiting=waiting), move=tuple(next_batch))
    if outdated and not movable and not under_way:
        return _hold(rotation, f"pinned, or in frozen clusters: {_consumer_names(outdated)}")
    rotation = replace(rotation, waiting=waiting)
    if outdated or under_way:
        return RotationStep(rotation)
    return RotationStep(replace(rotation, phase=RotationPhase.VERIFYING, healthy_since=now))


def _verify(rotation: Rotation, consumers: Sequence[SecretConsumer], now: datetime) -> RotationStep:
    if _outdated_consumers(rotation, consumers):
        return RotationStep(_back_to_rolling(rotation))
    if failed := [consumer for consumer in consumers if consumer.failed]:
        return _hold(
            rotation, f"not healthy with version {rotation.new}: {_consumer_names(failed)}"
        )
    if not all(consumer.settled for consumer in consumers):
        return RotationStep(replace(rotation, healthy_since=None))
    if rotation.healthy_since is None:
        return RotationStep(replace(rotation, healthy_since=now))
    if not _has_elapsed(rotation.healthy_since, rotation.plan.soak_s, now):
        return RotationStep(rotation)
    if rotation.plan.automatic:
        return _revoke(rotation, now)
    return RotationStep(replace(rotation, phase=RotationPhase.READY))


def _outdated_consumers(
    rotation: Rotation, consumers: Sequence[SecretConsumer]
) -> list[SecretConsumer]:
    return [consumer for consumer in consumers if consumer.version != rotation.new]


def _back_to_rolling(rotation: Rotation) -> Rotation:
    return replace(rotation, phase=RotationPhase.ROLLING, waiting={}, healthy_since=None, reason="")


def _hold(rotation: Rotation, reason: str) -> RotationStep:
    return RotationStep(
        replace(rotation, phase=RotationPhase.HELD, healthy_since=None, reason=reason)
    )


def _revoke(rotation: Rotation, now: datetime) -> RotationStep:
    return RotationStep(replace(rotation, phase=RotationPhase.REVOKED, ended_at=now), revoke=True)


def _has_elapsed(since: datetime, seconds: int, now: datetime) -> bool:
    return (now - since).total_seconds() >= seconds


def _consumer_names(consumers: Sequence[SecretConsumer]) -> str:
    return join_names(sorted(consumer.name for consumer in consumers))
