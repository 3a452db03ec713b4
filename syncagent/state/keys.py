"""The agent's own key, generated at its first start."""

from pathlib import Path

from core.errors import Unavailable
from core.runtime.atomic_files import write_atomically
from core.sealing import SealingKey

_BYTES = 32


def load_or_create_sealing_key(path: Path) -> SealingKey:
    """Loads the key from this file, or generates one that only the owner may read.
    If a key is lost, the control plane seals all secrets again once it knows the new one.
    Unavailable: the disk failed.
    """
    try:
        if path.exists() and path.stat().st_size == _BYTES:
            return SealingKey.from_bytes(path.read_bytes())
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        key = SealingKey.generate()
        write_atomically(path, key.private)
    except OSError as error:
        raise Unavailable(f"the agent's key cannot be stored: {error.strerror}") from error
    return key
