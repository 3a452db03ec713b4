"""Shared ssh connections (ControlMaster in ssh(1)), so that a poll needs no handshake.

Each connection belongs to one repository with its key, host keys and addresses; a change of any
of them opens another connection.
"""

import asyncio
import contextlib
import hashlib
import os
import secrets
import stat
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import astuple
from pathlib import Path

import structlog

from core.identity import RepositoryId
from core.runtime.clock import Clock
from gitcache.mirror.transport.route import ServerRoute

log = structlog.get_logger(__name__)

_IDLE_SECONDS = 60
"""Idle time after which a connection ends, even if this process is gone."""

_MAX_AGE_SECONDS = 300.0
"""Maximum age of a connection, so that a revoked key is noticed within minutes."""

_MAX_PATH = 56
"""Maximum bytes of the folder's path: of 103, the socket's name takes 30, and ssh adds 17."""

_CLOSE_SECONDS = 5.0


class SharedSshConnections:
    """Manages control sockets in a folder that only this user can access; shares after `open`."""

    def __init__(self, clock: Clock, ssh: str) -> None:
        self._clock = clock
        self._ssh = ssh
        self._salt = secrets.token_bytes(16)
        self._process = secrets.token_hex(4)
        self._folder: Path | None = None
        self._started: dict[str, float] = {}

    def open(self) -> None:
        """Creates the folder; without it, each command opens its own connection."""
        folder = Path(tempfile.gettempdir()) / f"towline-ssh-{os.getuid()}"
        if len(os.fsencode(folder)) > _MAX_PATH:
            log.info("ssh connections are not shared", reason="the path of TMPDIR is too long")
            return
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            status = folder.lstat()
        except OSError as error:
            log.info("ssh connections are not shared", reason=error.strerror)
            return
        # Another user may have created a folder of this name.
        is_own = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()
        if is_own and not status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            self._folder = folder
        else:
            log.warning("ssh connections are not shared: others can enter", folder=str(folder))

    async def close(self) -> None:
        """Ends the connections."""
        folder, self._folder = self._folder, None
        if folder is not None:
            await asyncio.to_thread(self._close_all, folder)

    def options(self, repository_id: RepositoryId, route: ServerRoute) -> Mapping[str, str]:
        """Returns the ssh options for sharing; none through a proxy.

        With sharing, ssh would hide the errors of the ProxyCommand.
        """
        if self._folder is None or route.proxy:
            return {}
        path = self._folder / f"{self._process}-{self._socket_name(repository_id, route)}"
        return {
            "ControlMaster": "auto",
            "ControlPath": str(path).replace("%", "%%"),
            "ControlPersist": str(_IDLE_SECONDS),
        }

    def _socket_name(self, repository_id: RepositoryId, route: ServerRoute) -> str:
        credentials = astuple(route.credentials) if route.credentials else ()
        identity = self._digest(repository_id, route.remote.text, credentials, route.addresses)
        now = self._clock.monotonic()
        self._started = {
            connection: started
            for connection, started in self._started.items()
            if now - started < _MAX_AGE_SECONDS
        }
        if identity not in self._started:
            _reap_children(os.path.basename(self._ssh))
        return self._digest(identity, self._started.setdefault(identity, now))

    def _digest(self, *values: object) -> str:
        return hashlib.blake2b(repr(values).encode(), key=self._salt, digest_size=10).hexdigest()

    def _close_all(self, folder: Path) -> None:
        """Ends all connections in parallel, so that a hanging one does not delay the others."""
        processes = []
        for path in folder.glob(f"{self._process}-*"):
            with contextlib.suppress(OSError):
                processes.append(self._request_exit(path))
        until = self._clock.monotonic() + _CLOSE_SECONDS
        for process in processes:
            try:
                process.wait(max(until - self._clock.monotonic(), 0.0))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _request_exit(self, path: Path) -> subprocess.Popen[bytes]:
        command = [self._ssh, "-F", os.devnull, "-O", "exit", "-S", str(path), "all"]
        nothing = subprocess.DEVNULL
        return subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing)


def _reap_children(program: str) -> None:
    """Reaps ended processes of a program.

    As PID 1 of a container, this process inherits connections from the commands that opened
    them; without a wait they would stay zombies.
    """
    own_pid = os.getpid()
    with contextlib.suppress(OSError):
        for pid in Path(f"/proc/{own_pid}/task/{own_pid}/children").read_text().split():
            state = Path(f"/proc/{pid}/stat").read_bytes()
            if state.startswith(f"{pid} ({program}) Z ".encode()):
                os.waitpid(int(pid), os.WNOHANG)
