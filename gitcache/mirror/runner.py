"""Runs git commands through GitPython, in threads."""

import asyncio
import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

# Otherwise the import runs git. Deleted below, so that git processes do not inherit it.
os.environ["GIT_PYTHON_REFRESH"] = "quiet"
import git

del os.environ["GIT_PYTHON_REFRESH"]

from core.errors import Unavailable
from core.runtime.logs import redact
from gitcache.mirror.transport.git_environment import environment

_MIN_VERSION = (2, 36)
_MAX_THREADS = 32
_MAX_MESSAGE = 400
LOW_PRIORITY = ("nice", "-n", "10")
_GIT_VARIABLES = ("GIT_", "SSL_", "CURL_")
_ERROR_LINE = re.compile(
    r"(fatal|error|remote|ERROR|ssh)\b|! "
    r"|.*(host key is known|Host key|HAS CHANGED|Permission denied)"
)


Stdin = bytes | Path | int


class GitError(Unavailable):
    """A git command failed; the message is git's, without secrets."""


class GitRunner:
    """Runs git in a bounded number of threads, each process in its own session.

    GitPython passes its environment on, which may contain secrets. So every inherited variable
    that is not set explicitly is blanked. Variables of git and TLS are removed instead, because
    for them an empty value differs from none.

    `memory` limits each process in bytes, because deltas in a pack can claim any size.
    """

    def __init__(self, home: Path, *, memory: int = 2 << 30) -> None:
        self._home = home
        self._memory = memory
        self._threads = ThreadPoolExecutor(_MAX_THREADS, thread_name_prefix="git")
        self._running: set[int] = set()

    async def run(
        self,
        arguments: Sequence[str],
        env: Mapping[str, str],
        *,
        seconds: float,
        secrets: Sequence[str] = (),
        stdin: Stdin = b"",
        low_priority: bool = False,
    ) -> str:
        """Runs `git <arguments>` and returns its output. Raises GitError on failure or time-out.

        `stdin` is the input, a file, or the read end of a pipe, which this method closes. A
        `low_priority` command runs at low priority.
        """
        loop = asyncio.get_running_loop()
        command = [*(LOW_PRIORITY if low_priority else ()), "git", *arguments]
        work = partial(self._execute, command, dict(env), seconds, list(secrets), stdin)
        return await loop.run_in_executor(self._threads, work)

    async def check_version(self) -> None:
        """Raises GitError without git 2.36 or newer; older versions lack `--batch-command`."""
        output = await self.run(["version"], environment(self._home), seconds=10)
        numbers = tuple(int(part) for part in re.findall(r"\d+", output)[:2])
        if numbers < _MIN_VERSION:
            raise GitError(f"git 2.36 or newer is required; found {output.strip()[:80]}")

    def close(self) -> None:
        """Ends running processes and the threads."""
        for pid in tuple(self._running):
            _kill_group(pid)
        self._threads.shutdown(wait=True, cancel_futures=True)

    def _execute(
        self,
        command: list[str],
        env: dict[str, str],
        seconds: float,
        secrets: list[str],
        stdin: Stdin,
    ) -> str:
        # GitPython kills the process when its wrapper is freed: keep a reference.
        with _input(stdin) as (stream, data):
            started = self._start(command, env, stream)
        process: subprocess.Popen[bytes] = started.proc
        self._running.add(process.pid)
        _limit_memory(process.pid, self._memory)
        try:
            out, err = process.communicate(data, timeout=seconds)
        except subprocess.TimeoutExpired:
            _kill_group(process.pid)
            process.communicate()
            arguments = command[command.index("git") + 1 :]
            subcommand = next(
                (argument for argument in arguments if not argument.startswith("-")), ""
            )
            raise GitError(f"git {subcommand} did not finish within {seconds:g} s") from None
        finally:
            self._running.discard(process.pid)
        if process.returncode:
            raise GitError(
                _error_text(err, secrets) or f"git exited with status {process.returncode}"
            )
        return out.decode("utf-8", "surrogateescape")

    def _start(self, command: list[str], env: dict[str, str], stream: Any) -> Any:
        try:
            return git.Git(self._home).execute(
                [*_unset_prefix(env), *command],
                as_process=True,
                istream=stream,
                env=dict.fromkeys(os.environ, "") | env,
                start_new_session=True,
            )
        except (git.GitCommandNotFound, OSError) as error:
            raise GitError("cannot start git: install it and add it to the PATH") from error


def _unset_prefix(env: Mapping[str, str]) -> list[str]:
    """Returns an `env -u` prefix that removes inherited variables of git and TLS."""
    stray = [name for name in os.environ if name.startswith(_GIT_VARIABLES) and name not in env]
    return ["env", *(argument for name in stray for argument in ("-u", name))] if stray else []


@contextmanager
def _input(stdin: Stdin) -> Generator[tuple[object, bytes | None]]:
    """Provides the standard input: a file, a pipe and its data, or nothing."""
    if isinstance(stdin, Path):
        with stdin.open("rb") as file:
            yield file, None
    elif isinstance(stdin, int):
        try:
            yield stdin, None
        finally:
            os.close(stdin)
    else:
        yield (subprocess.PIPE, stdin) if stdin else (None, None)


def _limit_memory(pid: int, memory: int) -> None:
    """Limits the memory of a process and its children, on Linux."""
    if sys.platform == "linux":
        # Not permitted if the inherited limit is already lower.
        with suppress(ProcessLookupError, PermissionError):
            resource.prlimit(pid, resource.RLIMIT_DATA, (memory, memory))


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _error_text(stderr: bytes, secrets: Sequence[str]) -> str:
    """Extracts git's error, without secrets, progress and control characters."""
    text = stderr.decode("utf-8", "replace")
    for secret in secrets:
        text = text.replace(secret, "[redacted]")
    text = redact(re.sub(r"[^\x20-\x7e\n]", "", text))
    lines = [line.strip() for line in text.splitlines()]
    output = [line for line in lines if _ERROR_LINE.match(line)] or lines
    return " / ".join(line for line in output if line)[-_MAX_MESSAGE:]
