"""Rate limits as token buckets."""

import math
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class RatePolicy:
    """Tokens per second, and the tokens of a full bucket, which a burst can use at once.

    `max_debt`: maximum tokens that `TokenBucket.reserve` takes in advance.
    """

    rate: float
    burst: float
    max_debt: float = math.inf

    @classmethod
    def per(cls, seconds: float, tokens: float) -> "RatePolicy":
        """Allows these tokens in the given time, also at once."""
        return cls(rate=tokens / seconds, burst=tokens)


class TokenBucket:
    """A bucket that starts full. `now` is a time in seconds that never decreases."""

    __slots__ = ("_level", "_policy", "_updated_at")

    def __init__(self, policy: RatePolicy, now: float) -> None:
        self._policy, self._level, self._updated_at = policy, policy.burst, now

    def available(self, now: float) -> float:
        """Returns the tokens in the bucket; negative: a debt."""
        if now > self._updated_at:
            policy = self._policy
            refilled = self._level + (now - self._updated_at) * policy.rate
            self._level = refilled if refilled < policy.burst else policy.burst
            self._updated_at = now
        return self._level

    def wait_time(self, now: float, cost: float = 1.0) -> float:
        """Returns the seconds until `take` succeeds; 0.0: now."""
        return max(0.0, cost - self.available(now)) / self._policy.rate

    def take(self, now: float, cost: float = 1.0) -> float:
        """Takes tokens if there are enough. Returns the seconds to wait; 0.0: taken."""
        # The tunnel calls this for each small frame.
        level = (self._level if now <= self._updated_at else self.available(now)) - cost
        if level < 0:
            return -level / self._policy.rate
        self._level = level
        return 0.0

    def reserve(self, now: float, cost: float = 1.0) -> float:
        """Takes tokens, in advance if necessary. Returns the seconds until they are available."""
        self._level = max(self.available(now) - cost, -self._policy.max_debt)
        return max(0.0, -self._level) / self._policy.rate

    def give_back(self, cost: float = 1.0) -> None:
        """Returns tokens that were not used."""
        self._level = min(self._policy.burst, self._level + cost)

    def is_full(self, now: float) -> bool:
        """Reports whether the bucket equals a new one."""
        return self.available(now) >= self._policy.burst


class TokenBuckets(Generic[Key]):
    """A bucket for each of at most `max_keys` keys; further keys share one bucket.

    Full buckets are forgotten, because they equal new ones.
    """

    def __init__(self, policy: RatePolicy, now: float, max_keys: int) -> None:
        self._policy, self._max_keys = policy, max_keys
        self._by_key: OrderedDict[Key, TokenBucket] = OrderedDict()
        self._shared = TokenBucket(policy, now)

    def __len__(self) -> int:
        return len(self._by_key)

    def get(self, key: Key, now: float) -> TokenBucket:
        """Returns the bucket of a key."""
        if (bucket := self._by_key.get(key)) is not None:
            self._by_key.move_to_end(key)
            return bucket
        self._forget_full(now)
        if len(self._by_key) >= self._max_keys:
            return self._shared
        bucket = self._by_key[key] = TokenBucket(self._policy, now)
        return bucket

    def _forget_full(self, now: float) -> None:
        """Forgets full buckets, starting with the one that was unused for longest."""
        while self._by_key:
            oldest = next(iter(self._by_key))
            if not self._by_key[oldest].is_full(now):
                return
            del self._by_key[oldest]
