"""Starts programs that end with their parent process, even if it is killed."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

_WATCHER = Path(__file__).with_name("watcher.py")


class ProcessGroup:
    """Group of programs that end with this process or with `stop`.

    Ctrl-C in a terminal does not reach them, so that the owner can stop them in order.
    """

    def __init__(self) -> None:
        self._watcher = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_WATCHER), str(os.getpid())],
            stdin=subprocess.PIPE,
            process_group=0,
        )
        self._programs: list[subprocess.Popen[bytes]] = []

    @property
    def id(self) -> int:
        """Id of the process group."""
        return self._watcher.pid

    def spawn(
        self,
        argv: Sequence[str],
        *,
        log: Path,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
    ) -> subprocess.Popen[bytes]:
        """Starts a program, optionally as another user; appends its output to `log`."""
        with log.open("ab") as output:
            program = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=cwd,
                env=env,
                user=user,
                extra_groups=None if user is None else [],
                process_group=self.id,
            )
        self._programs.append(program)
        return program

    def stop(self) -> None:
        """Kills every program of the group, and waits until all ended; idempotent."""
        if self._watcher.returncode is not None:
            return
        with suppress(ProcessLookupError):
            os.killpg(self.id, signal.SIGKILL)
        for program in [*self._programs, self._watcher]:
            program.wait()
        self._programs.clear()
        if self._watcher.stdin is not None:
            self._watcher.stdin.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
