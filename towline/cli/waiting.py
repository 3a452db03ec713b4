"""Asking again until something has come true."""

import time
from collections.abc import Callable
from typing import TypeVar

from fleet.errors import Invalid, TowlineError

T = TypeVar("T")
_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


class WaitedInVain(TowlineError):
    """The time is over and it has not come true."""


def seconds(text: str, option: str) -> int:
    """The seconds of `90s`, `15m`, `2h` or `7d`. Invalid: anything else."""
    number, unit = text[:-1], text[-1:]
    if unit not in _UNITS or not number.isdecimal():
        raise Invalid(f"{text!r} is not a duration such as 90s, 15m, 2h or 7d", field=option)
    return int(number) * _UNITS[unit]


def until(
    look: Callable[[], T],
    done: Callable[[T], bool],
    timeout: float,
    *,
    describe: Callable[[T], str] = str,
    every: float = 1.0,
    monotonic: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> T:
    """The first look for which `done` is true.

    WaitedInVain: none within `timeout` seconds; `describe` tells what was seen last.
    """
    end = monotonic() + timeout
    while True:
        seen = look()
        if done(seen):
            return seen
        if monotonic() + every > end:
            raise WaitedInVain(f"waited {timeout:.0f} s in vain: {describe(seen)}")
        sleep(every)
