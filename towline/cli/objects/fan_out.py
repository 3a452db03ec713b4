"""Asks many clusters at the same time, and names those that did not answer in time."""

import threading
from collections.abc import Callable, Sequence
from queue import Empty, Queue
from typing import Generic, NamedTuple, TypeVar

from core.errors import TowlineError, Unavailable
from core.runtime.clock import SystemClock

Found = TypeVar("Found")
_AT_A_TIME = 32


class FleetAnswers(NamedTuple, Generic[Found]):
    """Results and problems, by the handle of the cluster."""

    found: dict[str, Found]
    problems: dict[str, TowlineError]


def ask_all(
    handles: Sequence[str], ask: Callable[[str], Found], seconds: float
) -> FleetAnswers[Found]:
    """Calls `ask` for each cluster, at most 32 at a time, until a deadline for all."""
    waiting: Queue[str] = Queue()
    done: Queue[tuple[str, Found | TowlineError]] = Queue()
    for handle in handles:
        waiting.put(handle)

    def ask_until_empty() -> None:
        while True:
            try:
                handle = waiting.get_nowait()
            except Empty:
                return
            try:
                done.put((handle, ask(handle)))
            except TowlineError as error:
                done.put((handle, error))
            except Exception as error:
                done.put((handle, TowlineError(f"unexpected answer: {error!r}")))

    for _ in range(min(_AT_A_TIME, len(handles))):
        threading.Thread(target=ask_until_empty, daemon=True).start()
    return _collect(handles, done, seconds)


def _collect(
    handles: Sequence[str], done: "Queue[tuple[str, Found | TowlineError]]", seconds: float
) -> FleetAnswers[Found]:
    clock = SystemClock()
    deadline = clock.monotonic() + seconds
    found: dict[str, Found] = {}
    problems: dict[str, TowlineError] = {}
    while len(found) + len(problems) < len(handles):
        try:
            handle, answer = done.get(timeout=max(0.0, deadline - clock.monotonic()))
        except Empty:
            break
        if isinstance(answer, TowlineError):
            problems[handle] = answer
        else:
            found[handle] = answer
    for handle in handles:
        if handle not in found and handle not in problems:
            problems[handle] = Unavailable(f"no answer within {seconds:g} s")
    return FleetAnswers(
        {handle: found[handle] for handle in handles if handle in found},
        {handle: problems[handle] for handle in handles if handle in problems},
    )
