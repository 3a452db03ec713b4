"""Revisions that no service may get."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class DeniedRevision:
    """A denied commit or digest. No service receives it until a user allows it again."""

    id: str
    """Commit or digest."""
    actor: str
    """E-mail address of the user, or name of the pipeline, that denied it."""
    reason: str
    """Reason of the denial."""
    inserted_at: datetime
