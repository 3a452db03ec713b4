"""How a release is rolled out over the services of one stage: waves, and who is next.

Pure functions: which clusters come first is planned when the services of a stage are known;
who is given the release next follows from what the stage has reported so far.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from fleet.errors import Invalid
from fleet.identity import ServiceId

MAX_PAUSE_SECONDS = 30 * 86_400
MAX_NAMES = 1_000
MAX_COUNT = 1_000
_LOOK_FOR_ROOM = timedelta(seconds=60)
"""The net beneath the wakes that come when a place is free."""


class Strategy(StrEnum):
    """ALL: at once. ROLLING: a limited number at a time. CANARY: some first. WAVES: one wave after
    another.
    """

    ALL = "ALL"
    """All services at once."""
    ROLLING = "ROLLING"
    """At most `maxUnavailable` services at a time."""
    CANARY = "CANARY"
    """The canary clusters first, then all others."""
    WAVES = "WAVES"
    """One wave after another."""


class Progress(StrEnum):
    """How far one service of a stage is with the release that it was given."""

    GIVEN = "GIVEN"
    HEALTHY = "HEALTHY"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True)
class Rollout:
    """How many services of a stage get a release when.

    `max_unavailable`: so many may be under way at a time; 0: all of a wave. `max_per_group`: the
    same within each cluster group of `groups`. `max_failed`: the budget, how many may fail before
    it stops. `pause_seconds` lie between two waves. `canaries` are handles of clusters; without
    them the first `canary_count` by handle. WAVES go by `groups` (ids of cluster groups, then
    the rest), or by `wave_size`.
    """

    strategy: Strategy = Strategy.ALL
    max_unavailable: int = 0
    max_per_group: int = 0
    max_failed: int = 0
    pause_seconds: int = 0
    canaries: tuple[str, ...] = ()
    canary_count: int = 0
    groups: tuple[str, ...] = ()
    wave_size: int = 0

    def check(self, field: str) -> None:
        """Invalid: names what does not fit the strategy, or is out of bounds."""
        counts = (self.max_unavailable, self.max_per_group, self.max_failed)
        if not all(0 <= one <= MAX_COUNT for one in (*counts, self.canary_count, self.wave_size)):
            raise Invalid(f"counts are 0 to {MAX_COUNT:,}", field=field)
        if not 0 <= self.pause_seconds <= MAX_PAUSE_SECONDS:
            raise Invalid(f"0 to {MAX_PAUSE_SECONDS:,} seconds", field=f"{field}.pauseSeconds")
        if max(len(self.canaries), len(self.groups)) > MAX_NAMES:
            raise Invalid(f"{MAX_NAMES:,} names at most", field=field)
        if self.strategy is Strategy.ROLLING and not self.max_unavailable:
            raise Invalid("ROLLING needs a number", field=f"{field}.maxUnavailable")
        if self.strategy is Strategy.CANARY and not (self.canaries or self.canary_count):
            raise Invalid("CANARY needs clusters or their count", field=f"{field}.canaries")
        if self.strategy is Strategy.WAVES and not (self.groups or self.wave_size):
            raise Invalid("WAVES need groups or a size", field=f"{field}.groups")
        if self.max_per_group and not self.groups:
            raise Invalid("a limit for each group needs groups", field=f"{field}.groups")


@dataclass(frozen=True, slots=True)
class Member:
    """A service of a stage, its cluster, and those groups of the roll-out that hold the cluster."""

    service: ServiceId
    cluster: str
    groups: tuple[str, ...] = ()


Waves = tuple[tuple[ServiceId, ...], ...]


def plan(rollout: Rollout, members: Sequence[Member]) -> Waves:
    """The services of each wave, in the order of their clusters' handles.

    Of waves without services only that of canaries stays, where none of the named ones is there.
    """
    ordered = sorted(members, key=lambda one: (one.cluster, one.service))
    match rollout.strategy:
        case Strategy.CANARY:
            waves = _canaries_first(rollout, ordered)
        case Strategy.WAVES if rollout.groups:
            waves = _by_group(rollout, ordered)
        case Strategy.WAVES:
            size = rollout.wave_size
            waves = [ordered[n : n + size] for n in range(0, len(ordered), size)]
        case _:
            waves = [ordered]
    is_canary = rollout.strategy is Strategy.CANARY and bool(members)
    kept = [wave for number, wave in enumerate(waves) if wave or (is_canary and not number)]
    return tuple(tuple(one.service for one in wave) for wave in kept)


@dataclass(frozen=True, slots=True)
class Batch:
    """Who gets the release now, and why nobody else does; `wake`: when that may change."""

    services: tuple[ServiceId, ...] = ()
    reason: str = ""
    wake: datetime | None = None


@dataclass(frozen=True, slots=True)
class Room:
    """What budgets of cluster groups leave: only these services may begin now, and why no others.

    The clusters of a group are changed by many pipelines; each is told what is left for it.
    """

    free: tuple[ServiceId, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a roll-out stands.

    `wave_done_at`: when the newest complete wave became complete. `group_of`: the group of each
    service that counts against `max_per_group`. Without `room` no budget holds anything.
    """

    waves: Waves
    progress: Mapping[ServiceId, Progress]
    frozen: Collection[ServiceId] = ()
    wave_done_at: datetime | None = None
    group_of: Mapping[ServiceId, str] = field(default_factory=dict)
    room: Room | None = None


def next_batch(rollout: Rollout, standing: Standing, now: datetime) -> Batch:
    """Who is next: of the first wave that is not complete, as many as there is room for."""
    progress = standing.progress
    number, wave = current_wave(standing.waves, progress)
    waiting = [one for one in wave if one not in progress]
    if not waiting:
        return Batch(reason=_told(standing, number))
    begun = any(one in progress for one in wave)
    if number and not begun and standing.wave_done_at is not None:
        until = standing.wave_done_at + timedelta(seconds=rollout.pause_seconds)
        if now < until:
            return Batch(reason=f"wave {number + 1} begins at {until:%H:%M:%S} UTC", wake=until)
    thawed = [one for one in waiting if one not in standing.frozen]
    if not thawed:
        return Batch(reason=f"{len(waiting)} services are in frozen clusters")
    room = standing.room
    may = set(thawed if room is None else room.free)
    free = [one for one in thawed if one in may]
    if room is not None and not free:
        return Batch(reason=room.reason, wake=now + _LOOK_FOR_ROOM)
    chosen = _with_room(rollout, standing, free)
    return Batch(tuple(chosen), _told(standing, number))


def current_wave(
    waves: Waves, progress: Mapping[ServiceId, Progress]
) -> tuple[int, tuple[ServiceId, ...]]:
    """The first wave in which something is still to be done, and its number from 0."""
    for number, wave in enumerate(waves):
        if any(progress.get(one) in (None, Progress.GIVEN) for one in wave):
            return number, wave
    return len(waves), ()


def _canaries_first(rollout: Rollout, ordered: Sequence[Member]) -> list[list[Member]]:
    clusters = sorted({one.cluster for one in ordered})
    chosen = set(rollout.canaries) or set(clusters[: rollout.canary_count])
    first = [one for one in ordered if one.cluster in chosen]
    return [first, [one for one in ordered if one.cluster not in chosen]]


def _by_group(rollout: Rollout, ordered: Sequence[Member]) -> list[list[Member]]:
    waves: list[list[Member]] = [[] for _ in range(len(rollout.groups) + 1)]
    for one in ordered:
        places = [n for n, group in enumerate(rollout.groups) if group in one.groups]
        waves[places[0] if places else -1].append(one)
    return waves


def _with_room(
    rollout: Rollout, standing: Standing, waiting: Sequence[ServiceId]
) -> list[ServiceId]:
    under_way = [s for s, how in standing.progress.items() if how is Progress.GIVEN]
    room = rollout.max_unavailable - len(under_way) if rollout.max_unavailable else len(waiting)
    if not rollout.max_per_group:
        return list(waiting[: max(room, 0)])
    busy = Counter(standing.group_of.get(one) for one in under_way)
    chosen: list[ServiceId] = []
    for one in waiting:
        group = standing.group_of.get(one)
        if len(chosen) < room and (group is None or busy[group] < rollout.max_per_group):
            busy[group] += 1
            chosen.append(one)
    return chosen


def _told(standing: Standing, number: int) -> str:
    total = sum(len(wave) for wave in standing.waves)
    healthy = sum(1 for how in standing.progress.values() if how is Progress.HEALTHY)
    wave = f", wave {number + 1} of {len(standing.waves)}" if len(standing.waves) > 1 else ""
    return f"{healthy} of {total} services are healthy{wave}"
