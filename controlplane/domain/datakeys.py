"""The keys that seal what is sealed in the store; each is kept wrapped by the installation's key.

A key begins some time after it was made, so that every replica can open what it seals. None is
ever removed: backups hold what it has sealed.
"""

from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True)
class DataKey:
    """A key that seals. `wrapped` is opened by the key-encryption key whose name is `kek`."""

    id: str
    wrapped: bytes = field(repr=False)
    kek: str
    inserted_at: datetime
    begins_at: datetime

    @property
    def context(self) -> str:
        """What the wrapped key is bound to."""
        return f"data-key:{self.id}"
