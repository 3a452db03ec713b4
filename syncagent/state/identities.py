"""The age identities of this cluster, in a file such as a mounted Secret, read when needed."""

from collections.abc import Mapping
from pathlib import Path

from core.age import AgeIdentity, parse_identities
from core.errors import Invalid, Unavailable
from core.sops import SopsFileKey, decrypt_file_key
from syncagent.domain.sops_values import EncryptedValue

_MAX_BYTES = 64 << 10


class AgeIdentities:
    """Implements the port `DecryptionKeys` with a file from `age-keygen`; without a file there are
    none.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._read: tuple[int, list[AgeIdentity]] = (0, [])
        self._newest: tuple[Mapping[str, str], SopsFileKey] | None = None

    def open(self, value: EncryptedValue) -> bytes:
        key = self._key(value.keys)
        if key is None:
            raise Invalid(
                f"a value is encrypted for {', '.join(sorted(value.keys)) or 'no age recipient'}: "
                "neither the control plane nor this cluster's agent has a matching age identity"
            )
        return value.open(key)

    def _key(self, keys: Mapping[str, str]) -> SopsFileKey | None:
        """Returns the key of a SOPS file, cached because one object may have thousands of
        values.
        """
        if self._newest is None or self._newest[0] is not keys:
            key = decrypt_file_key(keys, self._identities())
            self._newest = None if key is None else (keys, key)
        return self._newest[1] if self._newest else None

    def _identities(self) -> list[AgeIdentity]:
        """Reads the identities again after the file has changed."""
        if self._file is None:
            return []
        try:
            stat = self._file.stat()
            if stat.st_mtime_ns != self._read[0]:
                if stat.st_size > _MAX_BYTES:
                    raise Invalid(f"{self._file} is not a file of age identities")
                self._read = stat.st_mtime_ns, parse_identities(self._file.read_text())
        except (OSError, UnicodeDecodeError):
            raise Unavailable(f"the age identities in {self._file} cannot be read") from None
        return self._read[1]
