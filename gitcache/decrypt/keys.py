"""Implements `Decryptor` with a file of age identities per project."""

import asyncio
import hashlib
from pathlib import Path

from core.age import AgeIdentity, parse_identities
from core.errors import Invalid, Unavailable
from core.identity import DEFAULT_PROJECT
from core.spec.source import RepositorySpec
from gitcache.decrypt import sops

_DEFAULT = "default"
_SUFFIX = ".agekey"
_MAX_BYTES = 64 << 10


class SopsDecryptor:
    """Decrypts SOPS files with the identities of the repository's project.

    The folder holds `<project id>.agekey` for each project and `default.agekey` for the default
    project, in the format of `age-keygen`. Without such a file, encrypted files are rendered
    as they are.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[str, tuple[int, list[AgeIdentity]]] = {}

    def key_fingerprint(self, spec: RepositorySpec) -> str:
        recipients = sorted(identity.recipient for identity in self._identities(spec))
        return hashlib.sha256(" ".join(recipients).encode()).hexdigest()[:32] if recipients else ""

    def is_encrypted(self, path: str, data: bytes) -> bool:
        return sops.is_encrypted(data)

    async def decrypt(self, spec: RepositorySpec, path: str, data: bytes) -> bytes:
        identities = self._identities(spec)
        if not identities:
            return data
        try:
            return await asyncio.to_thread(sops.decrypt, data, path, identities)
        except Invalid as error:
            raise Invalid(f"{path} cannot be decrypted: {error.message}") from None

    def _identities(self, spec: RepositorySpec) -> list[AgeIdentity]:
        """Returns the identities of the repository's project; rereads the file after a change."""
        name = _DEFAULT if spec.project == DEFAULT_PROJECT else spec.project
        file = self._folder / f"{Path(name).name}{_SUFFIX}"
        try:
            stat = file.stat()
            cached = self._read.get(name)
            if cached is not None and cached[0] == stat.st_mtime_ns:
                return cached[1]
            if stat.st_size > _MAX_BYTES:
                raise Invalid(f"{file.name} is too large for a file of age identities")
            identities = parse_identities(file.read_text())
        except FileNotFoundError:
            return []
        except (OSError, UnicodeDecodeError):
            raise Unavailable(f"the age identities {file.name} cannot be read") from None
        self._read[name] = (stat.st_mtime_ns, identities)
        return identities
