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


def telling(
    look: Callable[[], T], describe: Callable[[T], str], say: Callable[[str], None]
) -> Callable[[], T]:
    """Returns `look`, which then says each description that differs from the last one."""
    said = ""

    def look_and_tell() -> T:
        nonlocal said
        seen = look()
        if (text := describe(seen)) != said:
            said = text
            say(text)
        return seen

    return look_and_tell


def poll_until(
    look: Callable[[], T],
    done: Callable[[T], bool],
    timeout: float,
    *,
    describe: Callable[[T], str] = str,
    every: float = 1.0,
    monotonic: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> T:
    """Calls `look` until `done` is true for its result, and returns that.

    WaitTimeout: the timeout (in seconds) passed; `describe` formats the last result.
    """
    end = monotonic() + timeout
    while True:
        seen = look()
        if done(seen):
            return seen
        if monotonic() + every > end:
            raise WaitTimeout(f"timed out after {timeout:.0f} s: {describe(seen)}")
        sleep(every)
