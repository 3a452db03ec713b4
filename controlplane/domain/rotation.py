"""Two-phase rotation of a secret: add a version, roll its consumers, verify, revoke the old one.

A pure machine. Both versions are good in the world outside until the old one is revoked, so every
consumer can be moved, and moved back, at any time before that.
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
    """How consumers are moved: `batch` at a time; each has `timeout_s` to become healthy.

    All must stay healthy for `soak_s`; then the old version is revoked, by itself if `automatic`.
    """

    batch: int = 1
    soak_s: int = 60
    timeout_s: int = 900
    automatic: bool = False

    def checked(self) -> "RotationPlan":
        """Itself. Invalid: names the field."""
        if not 1 <= self.batch <= _MOST_BATCH:
            raise Invalid(f"1 to {_MOST_BATCH}", field="batch")
        for name in ("soak_s", "timeout_s"):
            if not 0 <= getattr(self, name) <= _LONGEST_SECONDS:
                raise Invalid(f"0 to {_LONGEST_SECONDS} s", field=name)
        return self


@dataclass(frozen=True, slots=True)
class Rotation:
    """One rotation from version `old` to `new`.

    `moved_at`: when consumers were moved last; `quiet_since`: since when all are on the new
    version and healthy; `reason`: why it is held.
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
        """Whether it still goes on."""
        return self.phase not in ENDED


@dataclass(frozen=True, slots=True)
class Consumer:
    """A service that uses the secret. `settled`: its agent has applied that, and it is healthy.

    `failed`: it is not healthy with it. `movable`: neither pinned nor in a frozen cluster.
    """

    id: str
    name: str
    version: int
    settled: bool = False
    failed: bool = False
    movable: bool = True


@dataclass(frozen=True, slots=True)
class Step:
    """The next state, and what is to be done with it in the same transaction."""

    rotation: Rotation
    move: tuple[str, ...] = ()
    revoke: bool = False


def step(rotation: Rotation, consumers: Sequence[Consumer], now: datetime) -> Step:
    """What time and the state of consumers make of a rotation; without either, nothing changes."""
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
    """What a person's word makes of it. Conflict: it cannot be said now."""
    if not rotation.active:
        raise Conflict(f"this rotation has ended: {rotation.phase.value}")
    if decision is Decision.ABORT:
        ended = replace(rotation, phase=RotationPhase.ABORTED, reason="", ended_at=now)
        return Step(ended)
    if decision is Decision.RESUME:
        if rotation.phase is not RotationPhase.HELD:
            raise Conflict(f"only a held rotation is resumed, this one is {rotation.phase.value}")
        return Step(_rolling(rotation, now))
    if rotation.phase is not RotationPhase.READY:
        raise Conflict(f"revoking waits until all is verified; this is {rotation.phase.value}")
    if behind := _behind(rotation, consumers):
        raise Conflict(f"version {rotation.old} is still used by {_names(behind)}")
    return _revoked(rotation, now)


def _roll(rotation: Rotation, consumers: Sequence[Consumer], now: datetime) -> Step:
    new = [one for one in consumers if one.version == rotation.new]
    if failed := [one for one in new if one.failed]:
        return _held(rotation, f"not healthy with version {rotation.new}: {_names(failed)}")
    under_way = [one for one in new if not one.settled]
    if under_way and _waited(rotation.moved_at or rotation.began_at, rotation.plan.timeout_s, now):
        return _held(rotation, f"not healthy in {rotation.plan.timeout_s} s: {_names(under_way)}")
    behind = _behind(rotation, consumers)
    free = sorted(one.id for one in behind if one.movable)
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
    if failed := [one for one in consumers if one.failed]:
        return _held(rotation, f"not healthy with version {rotation.new}: {_names(failed)}")
    if not all(one.settled for one in consumers):
        return Step(replace(rotation, quiet_since=None))
    if rotation.quiet_since is None:
        return Step(replace(rotation, quiet_since=now))
    if not _waited(rotation.quiet_since, rotation.plan.soak_s, now):
        return Step(rotation)
    if rotation.plan.automatic:
        return _revoked(rotation, now)
    return Step(replace(rotation, phase=RotationPhase.READY))


def _behind(rotation: Rotation, consumers: Sequence[Consumer]) -> list[Consumer]:
    return [one for one in consumers if one.version != rotation.new]


def _rolling(rotation: Rotation, now: datetime) -> Rotation:
    return replace(rotation, phase=RotationPhase.ROLLING, moved_at=now, quiet_since=None, reason="")


def _held(rotation: Rotation, reason: str) -> Step:
    return Step(replace(rotation, phase=RotationPhase.HELD, quiet_since=None, reason=reason))


def _revoked(rotation: Rotation, now: datetime) -> Step:
    return Step(replace(rotation, phase=RotationPhase.REVOKED, ended_at=now), revoke=True)


def _waited(since: datetime, seconds: int, now: datetime) -> bool:
    return (now - since).total_seconds() >= seconds


def _names(consumers: Sequence[Consumer]) -> str:
    names = sorted(one.name for one in consumers)
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(names[:5]) + more
