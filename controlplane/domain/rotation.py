"""Two-phase rotation of a secret: add a version, move its consumers, verify, revoke the old one.

A pure state machine. Both versions stay valid outside until the old one is revoked, so every
consumer can be moved forward and back at any time before that.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from fleet.errors import Conflict, Invalid

_MOST_BATCH = 1000
_LONGEST_SECONDS = 7 * 24 * 3600


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


class Decision(StrEnum):
    """A user's decision about a rotation."""

    RESUME = "resume"
    """Continue a stopped rotation."""
    REVOKE = "revoke"
    """Revoke the old version and complete the rotation."""
    ABORT = "abort"
    """Abort the rotation and return services to the old version."""


@dataclass(frozen=True, slots=True)
class RotationPlan:
    """Plan for moving consumers: `batch` at a time, with `timeout_s` to become healthy.

    All must stay healthy for `soak_s`. Then the old version can be revoked, automatically if
    `automatic`.
    """

    batch: int = 1
    soak_s: int = 60
    timeout_s: int = 900
    automatic: bool = False

    def checked(self) -> "RotationPlan":
        """Returns itself. Raises Invalid, naming the field."""
        if not 1 <= self.batch <= _MOST_BATCH:
            raise Invalid(f"1 to {_MOST_BATCH}", field="batch")
        for name in ("soak_s", "timeout_s"):
            if not 0 <= getattr(self, name) <= _LONGEST_SECONDS:
                raise Invalid(f"0 to {_LONGEST_SECONDS} s", field=name)
        return self


@dataclass(frozen=True, slots=True)
class Rotation:
    """A rotation from version `old` to `new`.

    `moved_at`: consumers were last moved. `quiet_since`: all consumers are on the new version and
    healthy since then. `reason`: cause of a hold.
    """

    old: int
    new: int
    began_at: datetime
    by: str
    plan: RotationPlan = RotationPlan()
    phase: RotationPhase = RotationPhase.ROLLING
    moved_at: datetime | None = None
    quiet_since: datetime | None = None
    reason: str = ""
    ended_at: datetime | None = None

    @property
    def active(self) -> bool:
        """Returns whether the rotation is still running."""
        return self.phase not in ENDED


@dataclass(frozen=True, slots=True)
class Consumer:
    """A service that uses the secret.

    `settled`: its agent applied this version and it is healthy. `failed`: it is not healthy with
    it. `movable`: neither pinned nor in a frozen cluster.
    """

    id: str
    name: str
    version: int
    settled: bool = False
    failed: bool = False
    movable: bool = True


@dataclass(frozen=True, slots=True)
class Step:
    """The next state, and the actions to take in the same transaction."""

    rotation: Rotation
    move: tuple[str, ...] = ()
    revoke: bool = False


def step(rotation: Rotation, consumers: Sequence[Consumer], now: datetime) -> Step:
    """Advances a rotation by time and consumer state; returns the
    same rotation if nothing changes.
    """
    if rotation.phase is RotationPhase.ROLLING:
        return _roll(rotation, consumers, now)
    if rotation.phase is RotationPhase.VERIFYING:
        return _verify(rotation, consumers, now)
    if rotation.phase is RotationPhase.READY and _behind(rotation, consumers):
        return Step(_rolling(rotation, now))
    return Step(rotation)


def decide(
    rotation: Rotation, decision: Decision, consumers: Sequence[Consumer], now: datetime
) -> Step:
    """Applies a user's decision. Raises Conflict if the rotation's phase does not allow it."""
    if not rotation.active:
        raise Conflict(f"this rotation has ended: {rotation.phase.value}")
    if decision is Decision.ABORT:
        ended = replace(rotation, phase=RotationPhase.ABORTED, reason="", ended_at=now)
        return Step(ended)
    if decision is Decision.RESUME:
        if rotation.phase is not RotationPhase.HELD:
            raise Conflict(
                f"only a held rotation can be resumed; this one is {rotation.phase.value}"
            )
        return Step(_rolling(rotation, now))
    if rotation.phase is not RotationPhase.READY:
        raise Conflict(
            "the old version can be revoked only after verification; "
            f"this rotation is {rotation.phase.value}"
        )
    if behind := _behind(rotation, consumers):
        raise Conflict(f"version {rotation.old} is still used by {_names(behind)}")
    return _revoked(rotation, now)


def _roll(rotation: Rotation, consumers: Sequence[Consumer], now: datetime) -> Step:
    new = [consumer for consumer in consumers if consumer.version == rotation.new]
    if failed := [consumer for consumer in new if consumer.failed]:
        return _held(rotation, f"not healthy with version {rotation.new}: {_names(failed)}")
    under_way = [consumer for consumer in new if not consumer.settled]
    if under_way and _waited(rotation.moved_at or rotation.began_at, rotation.plan.timeout_s, now):
        return _held(rotation, f"not healthy in {rotation.plan.timeout_s} s: {_names(under_way)}")
    behind = _behind(rotation, consumers)
    free = sorted(consumer.id for consumer in behind if consumer.movable)
    if room := free[: max(rotation.plan.batch - len(under_way), 0)]:
        return Step(replace(rotation, moved_at=now), move=tuple(room))
    if behind and not free and not under_way:
        return _held(rotation, f"pinned, or in frozen clusters: {_names(behind)}")
    if behind or under_way:
        return Step(rotation)
    return Step(replace(rotation, phase=RotationPhase.VERIFYING, quiet_since=now))


def _verify(rotation: Rotation, consumers: Sequence[Consumer], now: datetime) -> Step:
    if _behind(rotation, consumers):
        return Step(_rolling(rotation, now))
    if failed := [consumer for consumer in consumers if consumer.failed]:
        return _held(rotation, f"not healthy with version {rotation.new}: {_names(failed)}")
    if not all(consumer.settled for consumer in consumers):
        return Step(replace(rotation, quiet_since=None))
    if rotation.quiet_since is None:
        return Step(replace(rotation, quiet_since=now))
    if not _waited(rotation.quiet_since, rotation.plan.soak_s, now):
        return Step(rotation)
    if rotation.plan.automatic:
        return _revoked(rotation, now)
    return Step(replace(rotation, phase=RotationPhase.READY))


def _behind(rotation: Rotation, consumers: Sequence[Consumer]) -> list[Consumer]:
    return [consumer for consumer in consumers if consumer.version != rotation.new]


def _rolling(rotation: Rotation, now: datetime) -> Rotation:
    return replace(rotation, phase=RotationPhase.ROLLING, moved_at=now, quiet_since=None, reason="")


def _held(rotation: Rotation, reason: str) -> Step:
    return Step(replace(rotation, phase=RotationPhase.HELD, quiet_since=None, reason=reason))


def _revoked(rotation: Rotation, now: datetime) -> Step:
    return Step(replace(rotation, phase=RotationPhase.REVOKED, ended_at=now), revoke=True)


def _waited(since: datetime, seconds: int, now: datetime) -> bool:
    return (now - since).total_seconds() >= seconds


def _names(consumers: Sequence[Consumer]) -> str:
    names = sorted(consumer.name for consumer in consumers)
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(names[:5]) + more
