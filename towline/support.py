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
from typing import Any
from urllib.parse import urlsplit

from pydantic import SecretStr
from sqlalchemy import func, select
from sqlalchemy.exc import SQLAlchemyError

from controlplane.compose import open_engine
from controlplane.settings import ControlPlaneSettings
from controlplane.storage.store import SqlStore
from controlplane.storage.tables import metadata as tables
from fleet import __version__
from fleet.errors import Conflict, TowlineError
from fleet.runtime.clock import Clock, SystemClock
from fleet.runtime.logs import redact
from towline.installation import examine
from towline.settings import ServeSettings

MOST_LINES = 5000
HIDDEN = "[redacted]"

_LONGEST_LINE = 4000
_SHORTEST = 4
_SECRET_FILES = ("admin.token", "setup.url")
_SECRET_NAMES = frozenset({"command", "value", "token", "password", "client_secret", "secret"})
_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END|\Z)", re.DOTALL)
_LIBRARIES = ("aiohttp", "cryptography", "grpcio", "sqlalchemy", "starlette", "strawberry-graphql")


def collect(
    settings: ServeSettings, target: Path, log: Iterable[str] = (), clock: Clock | None = None
) -> list[str]:
    """Writes the bundle (tar.gz, mode 0600) to a new file; returns the names of its parts.

    `log`: log lines; the bundle contains the last `MOST_LINES`. Conflict: the file already exists.
    """
    clock = clock or SystemClock()
    # Shorter values are not secrets, and could be part of any word.
    known = {secret for secret in _known_secrets(settings) if len(secret) >= _SHORTEST}
    parts = {
        "versions.json": _as_json(versions()),
        "settings.json": _as_json(masked(settings.model_dump())),
        "doctor.json": _as_json([asdict(finding) for finding in examine(settings, clock)]),
        "counts.json": _as_json(asyncio.run(_counts(settings, clock))),
        "log.txt": "".join(_last_lines(log)),
    }
    try:
        handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise Conflict(f"{target} already exists: choose another name") from None
    with os.fdopen(handle, "wb") as file, tarfile.open(fileobj=file, mode="w:gz") as bundle:
        for name, text in parts.items():
            data = without_secrets(text, known).encode()
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


def masked(value: Any, name: str = "") -> Any:
    """Masks the secrets of settings; hides commands entirely, as any argument may be a secret."""
    if isinstance(value, Mapping):
        return {str(key): masked(part, str(key)) for key, part in value.items()}
    if isinstance(value, SecretStr):
        return HIDDEN if value.get_secret_value() else ""
    if name in _SECRET_NAMES and value:
        return HIDDEN
    if isinstance(value, list | tuple):
        return [masked(item) for item in value]
    return value if isinstance(value, bool | int | float | None) else str(value)


def without_secrets(text: str, known: Iterable[str]) -> str:
    """Removes known secrets, and everything that looks like a credential or a private key."""
    for secret in known:
        text = text.replace(secret, HIDDEN)
    return redact(_PRIVATE_KEY.sub(HIDDEN, text))


def _known_secrets(settings: ServeSettings) -> Iterator[str]:
    for name in _SECRET_FILES:
        path = settings.data / name
        if path.is_file():
            yield path.read_text().strip()
    yield from _values(settings.model_dump())


def _values(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for part in value.values():
            yield from _values(part)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _values(item)
    elif isinstance(value, SecretStr):
        yield value.get_secret_value()
        yield from _values(value.get_secret_value())
    elif isinstance(value, str) and "://" in value:
        yield urlsplit(value).password or ""


async def _counts(settings: ServeSettings, clock: Clock) -> dict[str, Any]:
    """Counts objects and the rows of each table; on failure, returns the problem."""
    if settings.database is None and not (settings.data / "towline.db").exists():
        return {"problem": "no store yet"}
    plane = ControlPlaneSettings(data_dir=settings.data, database=settings.database)
    store = SqlStore(engine := open_engine(plane))
    try:
        async with store.read() as tx:
            census = await tx.census.take(clock.now())
        async with engine.connect() as connection:
            rows = {
                name: await connection.scalar(select(func.count()).select_from(table))
                for name, table in tables.tables.items()
            }
    except (TowlineError, SQLAlchemyError) as error:
        return {"problem": f"{type(error).__name__}: cannot read the store"}
    finally:
        await store.close()
    return {"census": asdict(census), "rows": rows}


def _last_lines(log: Iterable[str]) -> Iterable[str]:
    return deque((line[:_LONGEST_LINE].rstrip("\n") + "\n" for line in log), maxlen=MOST_LINES)


def _as_json(value: Any) -> str:
    return json.dumps(_plain(value), indent=2, default=str) + "\n"


def _plain(value: Any) -> Any:
    """Converts keys to strings, as JSON requires."""
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    return value
