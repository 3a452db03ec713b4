"""Throttles authentication attempts with wrong credentials, which cost store reads."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import TypeVar

from controlplane.domain.rates import ADDRESS, RequestLimiter
from core.errors import LimitExceeded, Unauthenticated
from core.runtime.clock import Clock

MAX_PER_ADDRESS = 100
MAX_TOTAL = 1_000
"""Wrong credentials that are looked up per 10 s; see `RequestLimiter`."""
MAX_CONCURRENT = 500
"""Concurrent unverified lookups per address; many users may share an address."""
CACHE_SECONDS = 5.0
MAX_CACHED = 10_000
_EVERYBODY = "everybody"
Value = TypeVar("Value")


class AuthThrottle:
    """Limits lookups of wrong credentials in the store, per address and in total.

    A wrong credential that is sent repeatedly, for example by an old kubeconfig, is answered from a
    cache and counts once. Credentials that were valid or created here before are always looked up,
    so users who share an address with an attacker are not blocked.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._by_address, self._total = RequestLimiter(MAX_PER_ADDRESS), RequestLimiter(MAX_TOTAL)
        self._concurrent = RequestLimiter(MAX_CONCURRENT)
        self._wrong: dict[str, tuple[float, str]] = {}
        self._accepted: dict[str, None] = {}

    @contextmanager
    def throttled(self, key: str, source: str) -> Generator[None]:
        """Context for looking up a credential; `key` is its hash.

        Unauthenticated: it was wrong a moment ago. LimitExceeded: too many wrong credentials.
        """
        self._check_cached(key)
        counted = key not in self._accepted
        if counted:
            self._count(source)
        try:
            yield
        except Unauthenticated as error:
            self._accepted.pop(key, None)
            if counted:
                self._by_address.take(ADDRESS + source, self._clock.now().timestamp())
            _keep(self._wrong, key, (self._clock.monotonic() + CACHE_SECONDS, error.message))
            raise
        except BaseException:
            self._return_tokens(source, counted=counted)
            raise
        self._return_tokens(source, counted=counted)
        _keep(self._accepted, key, None)

    def expect(self, key: str) -> None:
        """Marks a credential that was created here as known, so that it is not throttled."""
        _keep(self._accepted, key, None)

    def forget(self) -> None:
        """Clears the cache of wrong credentials after permissions changed."""
        self._wrong.clear()

    def _check_cached(self, key: str) -> None:
        known = self._wrong.get(key)
        if known is not None and self._clock.monotonic() < known[0]:
            raise Unauthenticated(known[1])

    def _count(self, source: str) -> None:
        now = self._clock.now().timestamp()
        who = ADDRESS + source
        wait = self._by_address.wait(who, now) or self._concurrent.take(who, now)
        wait = wait or self._total.take(_EVERYBODY, now)
        if wait:
            raise LimitExceeded(
                f"too many invalid tokens from {source or 'this address'}: try again in "
                f"{wait:.0f} s, or use a token that was accepted here before",
                retry_after=wait,
            )

    def _return_tokens(self, source: str, *, counted: bool) -> None:
        if counted:
            self._concurrent.give_back(ADDRESS + source)
            self._total.give_back(_EVERYBODY)


def _keep(kept: dict[str, Value], key: str, value: Value) -> None:
    """Adds an entry as the newest; evicts the oldest if the cache is full."""
    kept.pop(key, None)
    if len(kept) >= MAX_CACHED:
        del kept[next(iter(kept))]
    kept[key] = value
