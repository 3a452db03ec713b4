"""Rollout strategies for the services of one stage: waves, and the next services.

Pure functions. The wave plan is made when the services of a stage are known; the next services
follow from the stage's reports so far.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from controlplane.platform.limits import check_count, check_range
from core.errors import Invalid
from core.identity import ServiceId

MAX_PAUSE_SECONDS = 30 * 86_400
MAX_DEADLINE_SECONDS = 30 * 86_400
MAX_NAMES = 1_000
MAX_COUNT = 1_000
_BUDGET_RECHECK_INTERVAL = timedelta(seconds=60)
"""Fallback interval, in case the wake-up for a free slot is missed."""


class Strategy(StrEnum):
    """Strategy of a rollout."""

    ALL = "ALL"
    """All services at once."""
    ROLLING = "ROLLING"
    """At most `maxUnavailable` services at a time."""
    CANARY = "CANARY"
    """The canary clusters first, then all others."""
    WAVES = "WAVES"
    """One wave after another."""


class Progress(StrEnum):
    """Progress of one service of a stage with its release."""

    GIVEN = "GIVEN"
    HEALTHY = "HEALTHY"
    FAILED = "FAILED"
    LEFT_OUT = "LEFT_OUT"
    """The wave goes on without it: its agent was silent after the deadline. Until it catches up."""


@dataclass(frozen=True, slots=True)
class Rollout:
    """Limits and order of a rollout."""

    strategy: Strategy = Strategy.ALL
    """Strategy. Default: `ALL`."""
    max_unavailable: int = 0
    """Maximum number of services updated at the same time. Default: 0, no limit. Limit: 1,000."""
    max_per_group: int = 0
    """Maximum number of services updated at the same time in each cluster group. Default: 0, no
    limit. Limit: 1,000."""
    max_failed: int = 0
    """Number of services that may fail before the rollout stops. Default: 0. Limit: 1,000."""
    pause_seconds: int = 0
    """Seconds between two waves. Default: 0. Limit: 2,592,000 (30 days)."""
    canaries: tuple[str, ...] = ()
    """CANARY: handles of the canary clusters. Limit: 1,000."""
    canary_count: int = 0
    """CANARY: number of canary clusters, chosen by handle. Used without `canaries`. Limit: 1,000.
    """
    groups: tuple[str, ...] = ()
    """IDs of cluster groups, in the order of the waves; clusters of no group come last. Limit:
    1,000."""
    wave_size: int = 0
    """WAVES: number of services in a wave. Used without `groups`. Limit: 1,000."""
    silent_deadline_seconds: int = 1_800
    """Seconds after the begin of a wave until it goes on without clusters whose agent is silent.
    Default: 1800 (30 minutes). Limit: 2,592,000 (30 days)."""
    max_silent_percent: int = 50
    """Largest share of the services of the stage, in percent, that the rollout leaves out because
    of silent clusters. Above it, the stage waits for them. Default: 50. 0: never leaves any out.
    """

    def check(self, field: str) -> None:
        """Raises Invalid for fields that do not fit the strategy or exceed a limit."""
        counts = (self.max_unavailable, self.max_per_group, self.max_failed)
        for count in (*counts, self.canary_count, self.wave_size):
            check_range(count, field, 0, MAX_COUNT)
        check_range(self.pause_seconds, f"{field}.pauseSeconds", 0, MAX_PAUSE_SECONDS)
        self._check_silence(field)
        check_count(len(self.canaries), f"{field}.canaries", MAX_NAMES)
        check_count(len(self.groups), f"{field}.groups", MAX_NAMES)
        if self.strategy is Strategy.ROLLING and not self.max_unavailable:
            raise Invalid("ROLLING needs maxUnavailable", field=f"{field}.maxUnavailable")
        if self.strategy is Strategy.CANARY and not (self.canaries or self.canary_count):
            raise Invalid("CANARY needs canaries or canaryCount", field=f"{field}.canaries")
        if self.strategy is Strategy.WAVES and not (self.groups or self.wave_size):
            raise Invalid("WAVES needs groups or waveSize", field=f"{field}.groups")
        if self.max_per_group and not self.groups:
            raise Invalid("maxPerGroup needs groups", field=f"{field}.groups")

    def _check_silence(self, field: str) -> None:
        deadline = self.silent_deadline_seconds
        check_range(deadline, f"{field}.silentDeadlineSeconds", 0, MAX_DEADLINE_SECONDS)
        check_range(self.max_silent_percent, f"{field}.maxSilentPercent", 0, 100)


@dataclass(frozen=True, slots=True)
class StageMember:
    """A service of a stage, its cluster, and the rollout's groups that contain the cluster."""

    service: ServiceId
    cluster: str
    groups: tuple[str, ...] = ()


Waves = tuple[tuple[ServiceId, ...], ...]


def plan_waves(rollout: Rollout, members: Sequence[StageMember]) -> Waves:
    """Plans the services of each wave, sorted by cluster handle.

    Empty waves are dropped, except a canary wave whose named clusters do not exist.
    """
    ordered = sorted(members, key=lambda member: (member.cluster, member.service))
    match rollout.strategy:
        case Strategy.CANARY:
            waves = _canaries_first(rollout, ordered)
        case Strategy.WAVES if rollout.groups:
            waves = _waves_by_group(rollout, ordered)
        case Strategy.WAVES:
            size = rollout.wave_size
            waves = [ordered[n : n + size] for n in range(0, len(ordered), size)]
        case _:
            waves = [ordered]
    is_canary = rollout.strategy is Strategy.CANARY and bool(members)
    nonempty = [wave for number, wave in enumerate(waves) if wave or (is_canary and not number)]
    return tuple(tuple(member.service for member in wave) for wave in nonempty)


@dataclass(frozen=True, slots=True)
class Batch:
    """Services that get the release now; the reason why others wait, at most until `wake`."""

    services: tuple[ServiceId, ...] = ()
    reason: str = ""
    wake: datetime | None = None


@dataclass(frozen=True, slots=True)
class BudgetRoom:
    """Remaining budgets of cluster groups: only these services may begin now; `reason` explains the
    rest.

    Several pipelines share a group's budget; each receives its remaining part.
    """

    free: tuple[ServiceId, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class RolloutState:
    """State of a rollout.

    `wave_done_at`: when the last complete wave became complete. `group_of`: the group of each
    service that counts against `max_per_group`. Without `room` there is no budget.
    """

    waves: Waves
    progress: Mapping[ServiceId, Progress]
    frozen: Collection[ServiceId] = ()
    wave_done_at: datetime | None = None
    group_of: Mapping[ServiceId, str] = field(default_factory=dict)
    room: BudgetRoom | None = None


def next_batch(rollout: Rollout, state: RolloutState, now: datetime) -> Batch:
    """Selects the next services: of the first incomplete wave, as many as the limits allow."""
    progress = state.progress
    number, wave = current_wave(state.waves, progress)
    waiting = [service for service in wave if service not in progress]
    if not waiting:
        return Batch(reason=_progress_text(state, number))
    has_begun = any(service in progress for service in wave)
    if number and not has_begun and state.wave_done_at is not None:
        until = state.wave_done_at + timedelta(seconds=rollout.pause_seconds)
        if now < until:
            return Batch(reason=f"wave {number + 1} begins at {until:%H:%M:%S} UTC", wake=until)
    thawed = [service for service in waiting if service not in state.frozen]
    if not thawed:
        return Batch(reason=f"{len(waiting)} services are in frozen clusters")
    room = state.room
    within_budget = set(thawed if room is None else room.free)
    free = [service for service in thawed if service in within_budget]
    if room is not None and not free:
        return Batch(reason=room.reason, wake=now + _BUDGET_RECHECK_INTERVAL)
    chosen = _within_limits(rollout, state, free)
    return Batch(tuple(chosen), _progress_text(state, number))


def current_wave(
    waves: Waves, progress: Mapping[ServiceId, Progress]
) -> tuple[int, tuple[ServiceId, ...]]:
    """Returns the first incomplete wave, and its zero-based number."""
    for number, wave in enumerate(waves):
        if any(progress.get(service) in (None, Progress.GIVEN) for service in wave):
            return number, wave
    return len(waves), ()


def _canaries_first(rollout: Rollout, ordered: Sequence[StageMember]) -> list[list[StageMember]]:
    clusters = sorted({member.cluster for member in ordered})
    chosen = set(rollout.canaries) or set(clusters[: rollout.canary_count])
    first = [member for member in ordered if member.cluster in chosen]
    return [first, [member for member in ordered if member.cluster not in chosen]]


def _waves_by_group(rollout: Rollout, ordered: Sequence[StageMember]) -> list[list[StageMember]]:
    waves: list[list[StageMember]] = [[] for _ in range(len(rollout.groups) + 1)]
    for member in ordered:
        matching = [n for n, group in enumerate(rollout.groups) if group in member.groups]
        waves[matching[0] if matching else -1].append(member)
    return waves


def _within_limits(
    rollout: Rollout, state: RolloutState, waiting: Sequence[ServiceId]
) -> list[ServiceId]:
    in_progress = [s for s, progress in state.progress.items() if progress is Progress.GIVEN]
    room = rollout.max_unavailable - len(in_progress) if rollout.max_unavailable else len(waiting)
    if not rollout.max_per_group:
        return list(waiting[: max(room, 0)])
    busy = Counter(state.group_of.get(service) for service in in_progress)
    chosen: list[ServiceId] = []
    for service in waiting:
        group = state.group_of.get(service)
        if len(chosen) < room and (group is None or busy[group] < rollout.max_per_group):
            busy[group] += 1
            chosen.append(service)
    return chosen


def _progress_text(state: RolloutState, number: int) -> str:
    total = sum(len(wave) for wave in state.waves)
    healthy = sum(1 for progress in state.progress.values() if progress is Progress.HEALTHY)
    wave = f", wave {number + 1} of {len(state.waves)}" if len(state.waves) > 1 else ""
    left_out = sum(1 for progress in state.progress.values() if progress is Progress.LEFT_OUT)
    silent = f", {left_out} left out because their clusters are silent" if left_out else ""
    return f"{healthy} of {total} services are healthy{silent}{wave}"
