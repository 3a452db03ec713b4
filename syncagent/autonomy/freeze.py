"""Freeze of this cluster by the holder of the freeze key, through any path.

While the cluster is frozen, the agent changes nothing and forwards no request of a user. The last
statement is kept on disk, so that a restart changes nothing and no older statement counts.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path

import structlog

from core.errors import Invalid, TowlineError, Unavailable
from core.runtime.atomic_files import write_atomically
from core.runtime.clock import Clock
from core.spec.reports.commands import CommandAnswer, CommandOutcome
from core.spec.statements.freeze import (
    MAX_FREEZE_TEXT,
    FreezeAction,
    FreezeKeys,
    FreezeStatement,
    read_unverified,
)
from syncagent.ports import CommandAnswers, FreezeConfigMap

log = structlog.get_logger(__name__)

POLL_SECONDS = 2.0
Listener = Callable[[], Awaitable[None]]


class FreezeSwitch:
    """Obeys signed statements. `cluster`: the name of this cluster in statements; empty: only
    statements for all clusters count. `file`: place of the last statement.
    """

    def __init__(
        self, keys: FreezeKeys, cluster: str, file: Path, clock: Clock, answers: CommandAnswers
    ) -> None:
        self._keys, self._cluster, self._file, self._clock = keys, cluster, file, clock
        self._answers = answers
        self._changed = asyncio.Event()
        self._last: FreezeStatement | None = None
        self._unstored = False
        self._unverified = ""
        self._problems: dict[str, list[str]] = {}
        self._was_frozen = False
        self._load()

    @property
    def enabled(self) -> bool:
        """Reports whether this cluster has a freeze key, or was frozen when it lost it."""
        return bool(self._keys) or bool(self.reason)

    @property
    def reason(self) -> str:
        """Why the cluster is frozen; empty: it is not."""
        last = self._last
        if last is None:
            return self._unverified
        if last.action is FreezeAction.THAW or last.is_expired(self._clock.now()):
            return ""
        because = f": {last.reason}" if last.reason else ""
        unverified = f"; {self._unverified}" if self._unverified else ""
        return (
            f"this cluster is frozen since {last.since} by its freeze key "
            f"(serial {last.serial}){because}{unverified}"
        )

    def check(self) -> None:
        """Raises Unavailable while the cluster is frozen."""
        if reason := self.reason:
            raise Unavailable(reason)

    def obey(self, text: str) -> str:
        """Obeys a statement, and returns the result for people. Obeying the last one again changes
        nothing. Invalid: no key of this cluster has signed it, it is for other clusters, has
        expired, or is not newer than the last one. Unavailable: it holds, but could not be stored.
        """
        if not self._keys:
            raise Invalid("this cluster has no freeze key (setting freeze.keys)")
        statement = self._keys.verify(text)
        if statement == self._last:
            if self._unstored:
                self._save(text)
            return self.reason or "this cluster is not frozen"
        if not statement.applies_to(self._cluster):
            raise Invalid(
                f"the statement is for {', '.join(statement.clusters)}, not for "
                f"{self._cluster or 'this cluster, which has no name (setting freeze.cluster)'}"
            )
        if self._last is not None and statement.serial <= self._last.serial:
            raise Invalid(
                f"the statement has the serial {statement.serial}, and this cluster has obeyed "
                f"{self._last.serial} before"
            )
        if statement.is_expired(self._clock.now()):
            raise Invalid("the statement has expired")
        self._last, self._unverified = statement, ""
        self._changed.set()
        log.warning("freeze statement obeyed", action=statement.action, serial=statement.serial)
        self._save(text)
        return self.reason or "this cluster is not frozen"

    def execute(self, command_id: str, statement: str) -> None:
        """Obeys a statement that the control plane passed on, and answers the command."""
        done = self.obey(statement)
        self._answers.done(CommandAnswer(command_id, CommandOutcome.SUCCEEDED, done))

    async def run(self, on_freeze: Listener, on_thaw: Listener) -> None:
        """Calls the listeners after each change, and when a freeze expires; until cancelled."""
        while True:
            frozen = bool(self.reason)
            if frozen != self._was_frozen or (frozen and self._changed.is_set()):
                self._was_frozen = frozen
                self._changed.clear()
                await (on_freeze if frozen else on_thaw)()
                continue
            self._changed.clear()
            try:
                async with asyncio.timeout(POLL_SECONDS):
                    await self._changed.wait()
            except TimeoutError:
                pass

    async def follow(self, file: Path | None, configmap: FreezeConfigMap | None) -> None:
        """Obeys the statements in a file and in a ConfigMap, until cancelled."""
        while file is not None or configmap is not None:
            if file is not None:
                self._obey_each(_lines_of(file), str(file))
            if configmap is not None:
                try:
                    self._obey_each(await configmap.statements(), "the ConfigMap")
                except TowlineError as error:
                    self._log_new_problems("the ConfigMap", [f"cannot be read: {error.message}"])
            await self._clock.sleep(POLL_SECONDS)

    def _obey_each(self, texts: list[str], place: str) -> None:
        problems: list[str] = []
        for text in texts:
            if not text.strip() or text.startswith("#"):
                continue
            try:
                self.obey(text)
            except TowlineError as error:
                problems.append(error.message)
        self._log_new_problems(place, problems)

    def _log_new_problems(self, place: str, problems: list[str]) -> None:
        """Logs the problems of a place that it did not have before."""
        logged = self._problems.get(place, [])
        self._problems[place] = problems
        for problem in dict.fromkeys(problems):
            if problem not in logged:
                log.warning("freeze statement not obeyed", place=place, reason=problem)

    def _load(self) -> None:
        """Reads the last statement. One that is damaged, or that no present key has signed, can
        still freeze: else a lost disk block, or a replaced or removed key would thaw the cluster.
        """
        if not self._file.exists():
            return
        text = ""
        try:
            text = self._file.read_text()
            self._last = self._keys.verify(text)
        except (OSError, UnicodeDecodeError, Invalid) as error:
            self._unverified = (
                f"its last freeze statement in {self._file} cannot be verified ({error}), so this "
                "cluster stays frozen until its freeze key signs a newer thaw"
            )
            if not self._keys:
                self._unverified += "; it has no freeze key (setting freeze.keys)"
            with contextlib.suppress(Invalid):
                self._last = read_unverified(text)
            log.error("last freeze statement not verified", error=str(error), frozen=self.reason)
        else:
            log.info("last freeze statement", action=self._last.action, frozen=bool(self.reason))

    def _save(self, text: str) -> None:
        self._unstored = True
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_atomically(self._file, text.strip().encode())
        except OSError as error:
            raise Unavailable(
                f"the freeze statement is obeyed, but could not be stored, so that a restart would "
                f"forget it: {error.strerror or error}; check the disk of the agent"
            ) from error
        self._unstored = False


def _lines_of(file: Path) -> list[str]:
    try:
        with file.open() as lines:
            return lines.read(8 * MAX_FREEZE_TEXT).splitlines()
    except (OSError, UnicodeDecodeError):
        return []
