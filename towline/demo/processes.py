"""Programs that end with the process that started them, also when that one is killed."""

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
    """A group of programs; none of them outlives this process or `stop`.

    A terminal's Ctrl-C does not reach them, so that the owner decides the order of the end.
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
        """The process group; whoever joins it ends with it."""
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
        """Start a program, as another user if one is named; output goes to the end of `log`."""
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
        """Kill every program of the group and wait until all are gone; once is enough."""
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
