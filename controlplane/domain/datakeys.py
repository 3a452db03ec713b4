"""Data keys that encrypt sealed columns; the installation's key wraps each of them.

A key begins some time after its creation, so that every replica can decrypt its values. Data keys
are never removed, because backups contain values that they encrypt.
"""

from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True)
class DataKey:
    """A data key. The key-encryption key with the name `kek` unwraps `wrapped`."""

    id: str
    wrapped: bytes = field(repr=False)
    kek: str
    inserted_at: datetime
    begins_at: datetime

    @property
    def context(self) -> str:
        """Returns the associated data that the wrapped key is bound to."""
        return f"data-key:{self.id}"
