"""The port `Decryptor`: age identities in files, one for each project."""

import asyncio
import hashlib
from pathlib import Path

from fleet.age import AgeIdentity, identities_in
from fleet.errors import Invalid, Unavailable
from fleet.source import RepositorySpec
from gitcache.decrypt import sops

DEFAULT = "default"
_SUFFIX = ".agekey"
_MOST_BYTES = 64 << 10


class SopsDecryptor:
    """Opens files of SOPS. A repository of a project has the identities of `<project id>.agekey` in
    the folder, one of no project those of `default.agekey`, as `age-keygen` writes them.

    Without such a file nothing of a repository is opened: it is rendered as it lies.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[str, tuple[int, list[AgeIdentity]]] = {}

    def keys(self, spec: RepositorySpec) -> str:
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
        """Those of the repository's project; read anew when the file has changed."""
        name = spec.project or DEFAULT
        file = self._folder / f"{Path(name).name}{_SUFFIX}"
        try:
            changed = file.stat()
            known = self._read.get(name)
            if known is not None and known[0] == changed.st_mtime_ns:
                return known[1]
            if changed.st_size > _MOST_BYTES:
                raise Invalid(f"{file.name} is no file of age identities")
            found = identities_in(file.read_text())
        except FileNotFoundError:
            return []
        except (OSError, UnicodeDecodeError):
            raise Unavailable(f"the age identities {file.name} cannot be read") from None
        self._read[name] = (changed.st_mtime_ns, found)
        return found
