"""Backs up and restores an installation: its store, keys, certificates and recordings.

A backup is a gzipped tar of `backup.json`, `store.jsonl` (see `controlplane.store.archive`) and
`data/…`, files of the data directory. With recipients, it is encrypted in age's format. It has no
clones, bundles or render memos: the control plane recreates them from Git.
"""

import asyncio
import gzip
import hashlib
import os
import re
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Annotated, BinaryIO, cast

from pydantic import BaseModel, StringConstraints, ValidationError

from controlplane.audit.operations.audit_log import check_chains
from controlplane.platform.store.transaction import SqlStore
from controlplane.store.archive import Progress, dump, load
from controlplane.store.repositories import REPOSITORIES
from core import __version__
from core.age import AgeIdentity, encrypt, encrypt_stream, open_stream
from core.errors import Conflict, Invalid
from core.runtime.atomic_files import OWNER_ONLY
from core.runtime.clock import Clock, SystemClock
from towline.installation.store import opened_engine
from towline.serve.bootstrap import restrict_permissions
from towline.settings import ServeSettings

FORMAT = 1

_BACKED_UP = (
    "encryption.key",
    "admin.token",
    "setup.url",
    "tls",
    "git/signing.key",
    "git/signing.key.rotations",
    "recordings",
)
_MANIFEST, _STORE, _DATA = "backup.json", "store.jsonl", "data/"
_MAX_MANIFEST_BYTES = 64 << 20
_AGE = b"age-encryption.org/"
_CHUNK = 1 << 20

Digest = Annotated[str, StringConstraints(pattern=re.compile(r"^[0-9a-f]{64}$"))]


class BackupManifest(BaseModel):
    """Content of a backup; `files` maps names in the archive to SHA-256 digests."""

    format: int
    version: str
    made: datetime
    schema_: str
    rows: int
    files: dict[str, Digest]


@dataclass(frozen=True, slots=True)
class RestoreResult:
    """Result of a restore."""

    manifest: BackupManifest
    audit_rows: int
    broken: tuple[str, ...]
    """Broken hash chains of the audit log."""


def backup(
    settings: ServeSettings,
    target: Path,
    recipients: Sequence[str],
    progress: Progress,
    clock: Clock | None = None,
) -> BackupManifest:
    """Writes a backup with mode 0600; the control plane may keep running.

    `recipients`: public age keys (`age1…`); without any, the file is not encrypted. Conflict:
    `target` exists, or the store is empty. Invalid: a recipient is not a key.
    """
    if recipients:
        encrypt(b"", recipients)
    if not target.parent.is_dir():
        raise Invalid(f"cannot create {target}: there is no folder {target.parent}")
    if target.exists():
        raise Conflict(f"{target} already exists: choose another name")
    if not settings.data.is_dir():
        raise Conflict(f"no installation found in {settings.data}: set its directory with --data")
    now = (clock or SystemClock()).now()
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".towline-backup-") as folder:
        archive, encrypted = Path(folder) / "plain", Path(folder) / "whole"
        manifest = _write_archive(settings, Path(folder), archive, now, progress)
        if recipients:
            with archive.open("rb") as file, _create_private(encrypted) as output:
                encrypt_stream(file, output, recipients)
        (encrypted if recipients else archive).replace(target)
    return manifest


def restore(
    settings: ServeSettings, source: Path, identities: Sequence[AgeIdentity], progress: Progress
) -> RestoreResult:
    """Restores a backup into an empty installation, atomically, and verifies the audit log.

    `identities`: private age keys. Conflict: the installation is not empty. Invalid: the file is
    not a backup, is damaged, or is encrypted for other keys.
    """
    with _open_archive(source, identities) as archive:
        manifest = _verify_archive(archive)
        _refuse_to_overwrite(settings, manifest)
        restrict_permissions(settings.data, embedded=settings.database is None)
        with _extracted_files(archive, manifest, settings.data):
            lines = _open_member(archive, _STORE)
            audit_result = asyncio.run(_fill_store(settings, manifest.schema_, lines, progress))
    return RestoreResult(manifest, *audit_result)


def _write_archive(
    settings: ServeSettings, folder: Path, target: Path, now: datetime, progress: Progress
) -> BackupManifest:
    store = folder / _STORE
    with _create_private(store) as file:
        schema, rows = asyncio.run(_dump_store(settings, file, progress))
    with (
        _create_private(target) as file,
        tarfile.open(fileobj=file, mode="w:gz", compresslevel=4) as tar,
    ):
        files = {_STORE: store, **_data_files(settings.data)}
        digests = {name: _add_file(tar, name, path) for name, path in files.items()}
        manifest = BackupManifest(
            format=FORMAT, version=__version__, made=now, schema_=schema, rows=rows, files=digests
        )
        manifest_file = folder / _MANIFEST
        manifest_file.write_text(manifest.model_dump_json())
        _add_file(tar, _MANIFEST, manifest_file)
    return manifest


def _add_file(tar: tarfile.TarFile, name: str, path: Path) -> str:
    """Adds a file; returns the SHA-256 of the added bytes, as a recording may grow meanwhile."""
    with path.open("rb") as file:
        member = tar.gettarinfo(arcname=name, fileobj=file)
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        member.mode = OWNER_ONLY
        hashing = _HashingReader(file)
        tar.addfile(member, hashing)
        return hashing.digest.hexdigest()


class _HashingReader:
    """File wrapper that computes the digest of the bytes read."""

    def __init__(self, file: BinaryIO) -> None:
        self.digest = hashlib.sha256()
        self._file = file

    def read(self, size: int = -1, /) -> bytes:
        """Reads like a file."""
        data = self._file.read(size)
        self.digest.update(data)
        return data


async def _dump_store(
    settings: ServeSettings, file: BinaryIO, progress: Progress
) -> tuple[str, int]:
    async with opened_engine(settings) as engine:
        return await dump(engine, file, progress)


async def _fill_store(
    settings: ServeSettings, schema: str, lines: BinaryIO, progress: Progress
) -> tuple[int, tuple[str, ...]]:
    async with opened_engine(settings) as engine:
        await load(engine, schema, lines, progress)
        rows, broken = await check_chains(SqlStore(engine, REPOSITORIES))
    return rows, tuple(str(defect) for defect in broken)


def _data_files(data: Path) -> dict[str, Path]:
    roots = [data / name for name in _BACKED_UP]
    paths = [path for root in roots for path in (root, *sorted(root.rglob("*")))]
    return {f"{_DATA}{path.relative_to(data)}": path for path in paths if path.is_file()}


def _refuse_to_overwrite(settings: ServeSettings, manifest: BackupManifest) -> None:
    names = {_DATA + "towline.db", *manifest.files} if settings.database is None else manifest.files
    for name in sorted(names):
        path = settings.data / name.removeprefix(_DATA)
        if name.startswith(_DATA) and path.exists() and path.stat().st_size:
            raise Conflict(f"{path} already exists: restore into an empty data directory")


@contextmanager
def _extracted_files(
    archive: tarfile.TarFile, manifest: BackupManifest, data: Path
) -> Generator[None, None, None]:
    """Extracts the files of the data directory; deletes them again if the block fails."""
    written: list[Path] = []
    try:
        for name in manifest.files:
            if name.startswith(_DATA):
                written.append(data / name.removeprefix(_DATA))
                written[-1].parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                with _create_private(written[-1]) as file:
                    shutil.copyfileobj(_open_member(archive, name), file, _CHUNK)
        yield
    except BaseException:
        for path in written:
            path.unlink(missing_ok=True)
        raise


def _verify_archive(archive: tarfile.TarFile) -> BackupManifest:
    try:
        manifest_json = _open_member(archive, _MANIFEST).read(_MAX_MANIFEST_BYTES)
        manifest = BackupManifest.model_validate_json(manifest_json)
    except ValidationError as error:
        raise Invalid("the file is not a Towline backup: backup.json is invalid") from error
    if manifest.format != FORMAT:
        raise Invalid(
            f"unsupported backup format {manifest.format}: use a newer version of Towline"
        )
    for name, digest in manifest.files.items():
        if not _is_allowed_name(name):
            raise Invalid(f"the backup contains an unexpected file {name!r}")
        if _digest(_open_member(archive, name)) != digest:
            raise Invalid(f"{name} in the backup is damaged: use another backup")
    return manifest


def _is_allowed_name(name: str) -> bool:
    """Returns true for names that `backup` writes; none leads out of the data directory."""
    path = PurePosixPath(name.removeprefix(_DATA))
    is_backed_up = (
        any(path.is_relative_to(folder) for folder in _BACKED_UP) and ".." not in path.parts
    )
    return name == _STORE or (name.startswith(_DATA) and is_backed_up)


def _open_member(archive: tarfile.TarFile, name: str) -> BinaryIO:
    try:
        file = archive.extractfile(name)
    except (KeyError, tarfile.TarError, OSError, EOFError) as error:
        raise Invalid(f"the file is not a complete Towline backup: {name} is missing") from error
    if file is None:
        raise Invalid(f"{name} in the backup is not a file")
    return cast(BinaryIO, file)


@contextmanager
def _open_archive(
    source: Path, identities: Sequence[AgeIdentity]
) -> Generator[tarfile.TarFile, None, None]:
    try:
        opened = source.open("rb")
    except OSError as error:
        raise Invalid(f"cannot read {source}: {error.strerror}") from None
    with opened as file, tempfile.TemporaryFile() as plain:
        encrypted = file.read(len(_AGE)) == _AGE
        file.seek(0)
        if encrypted and not identities:
            raise Invalid(f"{source} is encrypted: give an age key with --identity")
        if encrypted:
            open_stream(file, plain, identities)
            plain.seek(0)
        try:
            with tarfile.open(fileobj=plain if encrypted else file, mode="r:gz") as archive:
                yield archive
        except (tarfile.TarError, EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise Invalid(f"{source} is not a complete Towline backup") from error


def _create_private(path: Path) -> BinaryIO:
    """Creates a new file with mode 0600."""
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, OWNER_ONLY), "w+b")


def _digest(file: BinaryIO) -> str:
    digest = hashlib.sha256()
    while chunk := file.read(_CHUNK):
        digest.update(chunk)
    return digest.hexdigest()
