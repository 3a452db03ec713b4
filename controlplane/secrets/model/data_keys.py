"""Data keys that encrypt sealed columns; the installation's key wraps each of them.

A key begins some time after its creation, so that every replica can decrypt its values. Data keys
are never removed, because backups contain values that they encrypt.
"""

from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True)
class DataKey:
    """A data key, wrapped by a key-encryption key."""

    id: str
    wrapped: bytes = field(repr=False)
    kek: str
    """Name of the key encryption key."""
    inserted_at: datetime
    begins_at: datetime
    """Time from which the key encrypts new values."""

    @property
    def context(self) -> str:
        """Returns the associated data that the wrapped key is bound to."""
        return f"data-key:{self.id}"
