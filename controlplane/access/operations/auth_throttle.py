"""Throttles authentication attempts with wrong credentials, which cost store reads."""

import math
from collections.abc import Generator
from contextlib import contextmanager
from typing import TypeVar

from controlplane.access.model.sign_in import source_network
from core.errors import LimitExceeded, Unauthenticated
from core.runtime.clock import Clock
from core.runtime.token_bucket import RatePolicy, TokenBucket, TokenBuckets

MAX_PER_ADDRESS = 100
MAX_TOTAL = 1_000
"""Wrong credentials that are looked up per 10 s."""
WINDOW_SECONDS = 10.0
MAX_ADDRESSES = 20_000
"""Above this number, addresses share a limit, because an attacker may have many."""
MAX_CONCURRENT = 500
"""Concurrent unverified lookups per address; many users may share an address."""
CACHE_SECONDS = 5.0
MAX_CACHED = 10_000
Value = TypeVar("Value")


class AuthThrottle:
    """Limits lookups of wrong credentials in the store, per address and in total.

    A wrong credential that is sent repeatedly, for example by an old kubeconfig, is answered from a
    cache and counts once. Credentials that were valid or created here before are always looked up,
    so users who share an address with an attacker are not blocked.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        now = clock.monotonic()
        self._by_address = TokenBuckets[str](_rate_policy(MAX_PER_ADDRESS), now, MAX_ADDRESSES)
        self._concurrent = TokenBuckets[str](_rate_policy(MAX_CONCURRENT), now, MAX_ADDRESSES)
        self._total = TokenBucket(_rate_policy(MAX_TOTAL), now)
        self._rejected: dict[str, tuple[float, str]] = {}
        self._accepted: dict[str, None] = {}

    @contextmanager
    def throttled(self, key: str, source: str) -> Generator[None]:
        """Context for looking up a credential; `key` is its hash.

        Unauthenticated: it was wrong a moment ago. LimitExceeded: too many wrong credentials.
        """
        self._check_cached(key)
        is_limited = key not in self._accepted
        network = source_network(source)
        if is_limited:
            self._take_tokens(network, source)
        try:
            yield
        except Unauthenticated as error:
            self._accepted.pop(key, None)
            if is_limited:
                now = self._clock.monotonic()
                self._by_address.get(network, now).take(now)
            _add_newest(
                self._rejected, key, (self._clock.monotonic() + CACHE_SECONDS, error.message)
            )
            raise
        except BaseException:
            self._return_tokens(network, counted=is_limited)
            raise
        self._return_tokens(network, counted=is_limited)
        _add_newest(self._accepted, key, None)

    def mark_accepted(self, key: str) -> None:
        """Marks a credential that was created here as known, so that it is not throttled."""
        _add_newest(self._accepted, key, None)

    def clear_rejected(self) -> None:
        """Clears the cache of wrong credentials after permissions changed."""
        self._rejected.clear()

    def _check_cached(self, key: str) -> None:
        cached = self._rejected.get(key)
        if cached is not None and self._clock.monotonic() < cached[0]:
            raise Unauthenticated(cached[1])

    def _take_tokens(self, network: str, source: str) -> None:
        now = self._clock.monotonic()
        invalid, concurrent = self._by_address.get(network, now), self._concurrent.get(network, now)
        if wait := max(bucket.wait_time(now) for bucket in (invalid, concurrent, self._total)):
            raise LimitExceeded(
                f"too many invalid tokens from {source or 'this address'}: try again in "
                f"{math.ceil(wait)} s, or use a token that was accepted here before",
                retry_after=wait,
            )
        concurrent.take(now)
        self._total.take(now)

    def _return_tokens(self, network: str, *, counted: bool) -> None:
        if counted:
            self._concurrent.get(network, self._clock.monotonic()).give_back()
            self._total.give_back()


def _rate_policy(lookups: int) -> RatePolicy:
    return RatePolicy.per(WINDOW_SECONDS, lookups)


def _add_newest(entries: dict[str, Value], key: str, value: Value) -> None:
    """Adds an entry as the newest; evicts the oldest if the cache is full."""
    entries.pop(key, None)
    if len(entries) >= MAX_CACHED:
        del entries[next(iter(entries))]
    entries[key] = value
