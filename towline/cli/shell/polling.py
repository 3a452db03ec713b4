"""Polls until a condition is true."""

import time
from collections.abc import Callable
from typing import TypeVar

from core.errors import Invalid, TowlineError

T = TypeVar("T")
_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


class WaitTimeout(TowlineError):
    """The condition was not true within the timeout."""


def seconds(text: str, option: str) -> int:
    """Parses `90s`, `15m`, `2h` or `7d` to seconds. Raises Invalid."""
    number, unit = text[:-1], text[-1:]
    if unit not in _UNITS or not number.isdecimal():
        raise Invalid(
            f"invalid duration {text!r}; use a form such as 90s, 15m, 2h or 7d", field=option
        )
    return int(number) * _UNITS[unit]


def with_progress(
    read: Callable[[], T], describe: Callable[[T], str], say: Callable[[str], None]
) -> Callable[[], T]:
    """Returns a form of `read` that says each description that differs from the last one."""
    last_message = ""

    def read_and_report() -> T:
        nonlocal last_message
        seen = read()
        if (message := describe(seen)) != last_message:
            last_message = message
            say(message)
        return seen

    return read_and_report


def poll_until(
    read: Callable[[], T],
    done: Callable[[T], bool],
    timeout: float,
    *,
    describe: Callable[[T], str] = str,
    every: float = 1.0,
    monotonic: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> T:
    """Calls `read` until `done` is true for its result, and returns that.

    WaitTimeout: the timeout (in seconds) passed; `describe` formats the last result.
    """
    deadline = monotonic() + timeout
    while True:
        state = read()
        if done(state):
            return state
        if monotonic() + every > deadline:
            raise WaitTimeout(f"timed out after {timeout:.0f} s: {describe(state)}")
        sleep(every)
