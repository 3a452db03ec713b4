"""What wrong credentials may cost: hashing is cheap, reading the store for them is not."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import TypeVar

from controlplane.domain.rates import ADDRESS, Rates
from fleet.errors import LimitExceeded, Unauthenticated
from fleet.runtime.clock import Clock

MOST_OF_ADDRESS = 100
MOST_IN_ALL = 1_000
"""Wrong credentials that are looked up in ten seconds, see `Rates`."""
MOST_AT_ONCE = 500
"""Of an address, while it is not yet known whether they are wrong: many users may share one."""
REMEMBERED_S = 5.0
MOST_REMEMBERED = 10_000
_EVERYBODY = "everybody"
Value = TypeVar("Value")


class Guesses:
    """Lets no more wrong credentials through to the store than it may, by address and in all.

    One that is sent again and again, as by a forgotten kubeconfig, is answered from memory and
    counts once. Those that were good or made here before are always looked up: whoever shares an
    address with a guesser goes on.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._by_address, self._in_all = Rates(MOST_OF_ADDRESS), Rates(MOST_IN_ALL)
        self._at_once = Rates(MOST_AT_ONCE)
        self._wrong: dict[str, tuple[float, str]] = {}
        self._familiar: dict[str, None] = {}

    @contextmanager
    def judging(self, key: str, source: str) -> Generator[None]:
        """Around finding out whose a credential is; `key` is its hash.

        Unauthenticated: it was wrong a moment ago. LimitExceeded: too many were.
        """
        self._check_wrong(key)
        counted = key not in self._familiar
        if counted:
            self._count(source)
        try:
            yield
        except Unauthenticated as error:
            self._familiar.pop(key, None)
            if counted:
                self._by_address.take(ADDRESS + source, self._clock.now().timestamp())
            _keep(self._wrong, key, (self._clock.monotonic() + REMEMBERED_S, error.message))
            raise
        except BaseException:
            self._give_back(source, counted=counted)
            raise
        self._give_back(source, counted=counted)
        _keep(self._familiar, key, None)

    def expect(self, key: str) -> None:
        """It was made here: whoever shows it is no guesser."""
        _keep(self._familiar, key, None)

    def forget(self) -> None:
        """Rights have changed: what was wrong may be good now."""
        self._wrong.clear()

    def _check_wrong(self, key: str) -> None:
        known = self._wrong.get(key)
        if known is not None and self._clock.monotonic() < known[0]:
            raise Unauthenticated(known[1])

    def _count(self, source: str) -> None:
        now = self._clock.now().timestamp()
        who = ADDRESS + source
        wait = self._by_address.wait(who, now) or self._at_once.take(who, now)
        wait = wait or self._in_all.take(_EVERYBODY, now)
        if wait:
            raise LimitExceeded(
                f"too many wrong tokens have come from {source or 'here'}: try again in "
                f"{wait:.0f} s, or with a token that has been used here before",
                retry_after=wait,
            )

    def _give_back(self, source: str, *, counted: bool) -> None:
        if counted:
            self._at_once.give_back(ADDRESS + source)
            self._in_all.give_back(_EVERYBODY)


def _keep(kept: dict[str, Value], key: str, value: Value) -> None:
    """The newest last; when there are too many, the oldest goes."""
    kept.pop(key, None)
    if len(kept) >= MOST_REMEMBERED:
        del kept[next(iter(kept))]
    kept[key] = value
