"""Jobs that an agent runs."""

from enum import StrEnum


class JobPhase(StrEnum):
    """Progress of a job; the last three phases are final."""

    PENDING = "PENDING"
    """The agent has not started the job yet."""
    RUNNING = "RUNNING"
    """The job is running."""
    SUCCEEDED = "SUCCEEDED"
    """The job completed. This phase is final."""
    FAILED = "FAILED"
    """The job failed or timed out. This phase is final."""
    CANCELLED = "CANCELLED"
    """A user cancelled the job. This phase is final."""

    @property
    def final(self) -> bool:
        return self in (JobPhase.SUCCEEDED, JobPhase.FAILED, JobPhase.CANCELLED)
