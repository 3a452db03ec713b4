"""Revisions that no service may get."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class DeniedRevision:
    """A denied commit or digest (`id`): no service receives it until the entry is removed."""

    id: str
    actor: str
    reason: str
    inserted_at: datetime
