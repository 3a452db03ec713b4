"""Stores as the migrations leave them: migrated once a run and copied, since that is quicker."""

import asyncio
import shutil
import tempfile
from functools import cache
from pathlib import Path
from threading import Thread

from controlplane.platform.store.engine import make_engine, sqlite_url
from controlplane.store.migrate import migrate
from tests.servers.postgres import Postgres


def put_sqlite(folder: Path) -> str:
    """Put a migrated, empty store into a data folder; its URL."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    store = folder / "towline.db"
    shutil.copyfile(Path(_sqlite().name) / "towline.db", store)
    store.chmod(0o600)
    return sqlite_url(folder)


def new_postgres(server: Postgres) -> str:
    """A new database, migrated and empty; its URL."""
    return server.new_database(_postgres(server))


@cache
def _sqlite() -> tempfile.TemporaryDirectory[str]:
    folder = tempfile.TemporaryDirectory(prefix="towline-store-")
    _migrate(sqlite_url(Path(folder.name)))
    return folder


@cache
def _postgres(server: Postgres) -> str:
    """The name of the template; PostgreSQL copies one only while nobody is connected to it."""
    url = server.new_database()
    _migrate(url)
    return url.rpartition("/")[2]


def _migrate(url: str) -> None:
    """From a thread, because fixtures are asked for inside of loops and outside."""

    async def run() -> None:
        engine = make_engine(url)
        try:
            await migrate(engine)
        finally:
            await engine.dispose()

    thread = Thread(target=asyncio.run, args=(run(),))
    thread.start()
    thread.join()
