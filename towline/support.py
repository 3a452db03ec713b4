"""A bundle for whoever helps: how an installation is, without what it must not tell."""

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
    """Write the bundle (tar.gz, for its owner only) to a new file; what is in it.

    `log`: lines, of which the last `MOST_LINES` are taken. Conflict: the file is there already.
    """
    clock = clock or SystemClock()
    # What is shorter is no secret, and may stand in any word.
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
        raise Conflict(f"{target} is there already: name another file") from None
    with os.fdopen(handle, "wb") as file, tarfile.open(fileobj=file, mode="w:gz") as bundle:
        for name, text in parts.items():
            data = without_secrets(text, known).encode()
            entry = tarfile.TarInfo(f"towline-support/{name}")
            entry.size, entry.mode, entry.mtime = len(data), 0o600, int(clock.now().timestamp())
            bundle.addfile(entry, io.BytesIO(data))
    return list(parts)


def versions() -> dict[str, str]:
    """Of the program, of Python, of the system, and of the libraries that matter most."""
    libraries = {name: metadata.version(name) for name in _LIBRARIES}
    return {
        "towline": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        **libraries,
    }


def masked(value: Any, name: str = "") -> Any:
    """Settings without their secrets; a command may hold one in any of its words."""
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
    """The text without these, and without what looks like a credential or a private key."""
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
    """The census and the rows of each table; or why they are not to be had."""
    if settings.database is None and not (settings.data / "towline.db").exists():
        return {"problem": "there is no store yet"}
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
        return {"problem": f"{type(error).__name__}: the store cannot be counted"}
    finally:
        await store.close()
    return {"census": asdict(census), "rows": rows}


def _last_lines(log: Iterable[str]) -> Iterable[str]:
    return deque((line[:_LONGEST_LINE].rstrip("\n") + "\n" for line in log), maxlen=MOST_LINES)


def _as_json(value: Any) -> str:
    return json.dumps(_plain(value), indent=2, default=str) + "\n"


def _plain(value: Any) -> Any:
    """With keys that JSON has."""
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    return value
