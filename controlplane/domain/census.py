"""What there is and what waits, counted for those who watch an installation."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum

RECENT = timedelta(minutes=15)
DELIVERY_BOUNDS = (1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0)


class Liveness(StrEnum):
    """How a cluster's agent is heard of."""

    CONNECTED = "connected"
    AWAY = "away"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Waiting:
    """How many wait, and for how many seconds the oldest one has."""

    count: int = 0
    oldest: float = 0.0


@dataclass(frozen=True, slots=True)
class Census:
    """The counts of one moment.

    `services` are by the letter of their `Mark`; `deliveries` by the bound of `DELIVERY_BOUNDS`
    (seconds, the last one None) that they stayed below, of those that became healthy within
    `RECENT` and whose commit is known.
    """

    services: Mapping[str, int] = field(default_factory=dict)
    clusters: Mapping[Liveness, int] = field(default_factory=dict)
    jobs: Waiting = Waiting()
    commands: Waiting = Waiting()
    deliveries: Mapping[float | None, int] = field(default_factory=dict)
    delivery_seconds: float = 0.0
