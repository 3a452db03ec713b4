"""Background jobs as rows: at-least-once execution, one worker at a time, with fencing."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from core.json_object import JsonMapping

LEASE = timedelta(seconds=60)
"""A worker renews it while the job runs."""
MAX_RUN = timedelta(minutes=10)
"""A job that runs longer is taken for one that hangs: its lease ends, and it starts again."""
MAX_ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class Job:
    """A job that becomes due at `run_at`. A request with the same `key` returns the existing job.

    `fence` grows with each claim; only the holder of the newest fence may finish the job.
    """

    id: str
    kind: str
    key: str
    run_at: datetime
    payload: JsonMapping = field(default_factory=dict)
    attempts: int = 0
    fence: int = 0
    error: str | None = None


def retry_delay(attempts: int) -> timedelta:
    """Returns the delay after a failed attempt: 1 s, doubling up to 5 minutes."""
    return timedelta(seconds=min(300, 2 ** min(attempts, 9)))
