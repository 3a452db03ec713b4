"""Support bundles: the state of an installation without its secrets."""

import asyncio
import io
import json
import os
import platform
import re
import tarfile
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import SecretStr
from sqlalchemy import func, select
from sqlalchemy.exc import SQLAlchemyError

from controlplane.platform.store.schema import metadata as tables
from controlplane.platform.store.transaction import SqlStore
from controlplane.reports.ports import MetricsSnapshotStore
from controlplane.store.repositories import REPOSITORIES
from core import __version__
from core.errors import Conflict, TowlineError
from core.runtime.clock import Clock, SystemClock
from core.runtime.logs import redact
from towline.installation.store import is_missing, opened_engine
from towline.installation.tasks import run_checks
from towline.settings import ServeSettings

MAX_LINES = 5000
REDACTED = "[redacted]"

_MAX_LINE_LENGTH = 4000
_MIN_SECRET_LENGTH = 4
_SECRET_FILES = ("admin.token", "setup.url")
_SECRET_NAMES = frozenset({"command", "value", "token", "password", "client_secret", "secret"})
_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END|\Z)", re.DOTALL)
_LIBRARIES = ("aiohttp", "cryptography", "grpcio", "sqlalchemy", "starlette", "strawberry-graphql")


def write_support_bundle(
    settings: ServeSettings, target: Path, log: Iterable[str] = (), clock: Clock | None = None
) -> list[str]:
    """Writes the bundle (tar.gz, mode 0600) to a new file; returns the names of its parts.

    `log`: log lines; the bundle contains the last `MAX_LINES`. Conflict: the file already exists.
    """
    clock = clock or SystemClock()
    # Shorter values are not secrets, and could be part of any word.
    secrets = {secret for secret in _known_secrets(settings) if len(secret) >= _MIN_SECRET_LENGTH}
    parts = {
        "versions.json": _as_json(versions()),
        "settings.json": _as_json(mask_secrets(settings.model_dump())),
        "doctor.json": _as_json([asdict(finding) for finding in run_checks(settings, clock)]),
        "counts.json": _as_json(asyncio.run(_count_rows(settings, clock))),
        "log.txt": "".join(_last_lines(log)),
    }
    try:
        handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise Conflict(f"{target} already exists: choose another name") from None
    with os.fdopen(handle, "wb") as file, tarfile.open(fileobj=file, mode="w:gz") as bundle:
        for name, text in parts.items():
            data = redact_text(text, secrets).encode()
            entry = tarfile.TarInfo(f"towline-support/{name}")
            entry.size, entry.mode, entry.mtime = len(data), 0o600, int(clock.now().timestamp())
            bundle.addfile(entry, io.BytesIO(data))
    return list(parts)


def versions() -> dict[str, str]:
    """Versions of the program, Python, the system and the most important libraries."""
    libraries = {name: metadata.version(name) for name in _LIBRARIES}
    return {
        "towline": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        **libraries,
    }


def mask_secrets(value: object, name: str = "") -> object:
    """Masks the secrets of settings; hides commands entirely, as any argument may be a secret."""
    if isinstance(value, Mapping):
        return {str(key): mask_secrets(part, str(key)) for key, part in value.items()}
    if isinstance(value, SecretStr):
        return REDACTED if value.get_secret_value() else ""
    if name in _SECRET_NAMES and value:
        return REDACTED
    if isinstance(value, list | tuple):
        return [mask_secrets(item) for item in value]
    return value if isinstance(value, bool | int | float | None) else str(value)


def redact_text(text: str, secrets: Iterable[str]) -> str:
    """Removes known secrets, and everything that looks like a credential or a private key."""
    for secret in secrets:
        text = text.replace(secret, REDACTED)
    return redact(_PRIVATE_KEY.sub(REDACTED, text))


def _known_secrets(settings: ServeSettings) -> Iterator[str]:
    for name in _SECRET_FILES:
        path = settings.data / name
        if path.is_file():
            yield path.read_text().strip()
    yield from _secret_values(settings.model_dump())


def _secret_values(value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        for part in value.values():
            yield from _secret_values(part)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _secret_values(item)
    elif isinstance(value, SecretStr):
        yield value.get_secret_value()
        yield from _secret_values(value.get_secret_value())
    elif isinstance(value, str) and "://" in value:
        yield urlsplit(value).password or ""


async def _count_rows(settings: ServeSettings, clock: Clock) -> dict[str, object]:
    """Counts objects and the rows of each table; on failure, returns the problem."""
    if is_missing(settings):
        return {"problem": "no store yet"}
    async with opened_engine(settings) as engine:
        try:
            async with SqlStore(engine, REPOSITORIES).read() as tx:
                snapshot = await tx[MetricsSnapshotStore].take(clock.now())
            async with engine.connect() as connection:
                rows = {
                    name: await connection.scalar(select(func.count()).select_from(table))
                    for name, table in tables.tables.items()
                }
        except (TowlineError, SQLAlchemyError) as error:
            return {"problem": f"{type(error).__name__}: cannot read the store"}
    return {"snapshot": asdict(snapshot), "rows": rows}


def _last_lines(log: Iterable[str]) -> Iterable[str]:
    return deque((line[:_MAX_LINE_LENGTH].rstrip("\n") + "\n" for line in log), maxlen=MAX_LINES)


def _as_json(value: object) -> str:
    return json.dumps(_string_keys(value), indent=2, default=str) + "\n"


def _string_keys(value: object) -> object:
    """Converts keys to strings, as JSON requires."""
    if isinstance(value, Mapping):
        return {str(key): _string_keys(part) for key, part in value.items()}
    return value
