"""Background work as rows: done at least once, by one worker at a time, fenced."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

LEASE = timedelta(seconds=60)
MOST_ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class Job:
    """Work to be done once `run_at` has come. `key` makes a second request the same job.

    `fence` grows with each claim; only the holder of the newest may finish the job.
    """

    id: str
    kind: str
    key: str
    run_at: datetime
    payload: Mapping[str, Any] = field(default_factory=dict)
    attempts: int = 0
    fence: int = 0
    error: str | None = None


def retry_delay(attempts: int) -> timedelta:
    """How long to wait after a failed attempt: 1 s doubling to 5 minutes."""
    return timedelta(seconds=min(300, 2 ** min(attempts, 9)))
