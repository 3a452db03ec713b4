"""The installation that the agent joined: its signing key and the id of this cluster.

A file of its own: a damaged database must not make the agent trust another key.
"""

import base64
import binascii
from dataclasses import asdict, dataclass
from pathlib import Path

import orjson

from core.errors import Invalid, Unavailable
from core.runtime.atomic_files import write_atomically
from syncagent.ports import PinnedKey


@dataclass(frozen=True, slots=True)
class InstallationFile:
    """Stores the pinned installation."""

    path: Path

    def load(self) -> PinnedKey | None:
        """Reads the pin; None before the first connection. Invalid: the file is damaged."""
        try:
            if not self.path.exists():
                return None
            raw = orjson.loads(self.path.read_bytes())
            key = base64.b64decode(raw.pop("public_key"), validate=True)
            former = tuple(base64.b64decode(old, validate=True) for old in raw.pop("former"))
            return PinnedKey(key, former=former, **raw)
        except OSError as error:
            raise Unavailable(f"{self.path} cannot be read: {error.strerror}") from None
        except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError, binascii.Error):
            raise Invalid(
                f"{self.path} is damaged; set hub.signing_key to the fingerprint of `towline "
                "clusters join`, and delete the file"
            ) from None

    def save(self, pin: PinnedKey) -> None:
        """Writes the pin. Unavailable: the disk failed."""
        raw = asdict(pin) | {
            "public_key": base64.b64encode(pin.public_key).decode(),
            "former": [base64.b64encode(old).decode() for old in pin.former],
        }
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_atomically(self.path, orjson.dumps(raw))
        except OSError as error:
            raise Unavailable(f"the pinned key cannot be stored: {error.strerror}") from error
