"""Cache of values that stay valid for some time."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from math import inf
from typing import Generic, TypeVar

from core.runtime.clock import Clock

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class TTLCache(Generic[Key, Value]):
    """Caches at most `limit` values, each for `seconds`; a full cache drops the oldest."""

    def __init__(self, clock: Clock, seconds: float, limit: int = 10_000) -> None:
        self._clock, self._seconds, self._limit = clock, seconds, limit
        self._values: OrderedDict[Key, tuple[Value, float]] = OrderedDict()

    def get(self, key: Key) -> Value | None:
        """Returns the value unless it has expired."""
        entry = self._values.get(key)
        return entry[0] if entry and self._clock.monotonic() < entry[1] else None

    def until(self, key: Key) -> float:
        """Expiry of a value that `get` returns, in monotonic seconds."""
        return self._values[key][1]

    def put(self, key: Key, value: Value, until: float = inf) -> None:
        """Caches a value from now on, until a time in monotonic seconds at most."""
        self.forget(key)
        self._values[key] = (value, min(until, self._clock.monotonic() + self._seconds))
        if len(self._values) > self._limit:
            self._values.popitem(last=False)

    def sweep(self) -> None:
        """Drops expired values; the oldest come first. Some that expired early may stay."""
        now = self._clock.monotonic()
        while self._values:
            oldest = next(iter(self._values))
            if now < self._values[oldest][1]:
                return
            del self._values[oldest]

    def __len__(self) -> int:
        return len(self._values)

    def forget(self, key: Key) -> None:
        """Drops one value."""
        self._values.pop(key, None)

    def drop(self, matches: Callable[[Value], bool]) -> None:
        """Drops the values that match."""
        for key, (value, _) in tuple(self._values.items()):
            if matches(value):
                del self._values[key]

    def clear(self) -> None:
        """Drops all values."""
        self._values.clear()
