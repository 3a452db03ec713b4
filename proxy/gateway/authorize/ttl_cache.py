"""Short-lived cache of authorization results."""

from collections.abc import Callable, Hashable
from math import inf
from typing import Generic, TypeVar

from core.runtime.clock import Clock

LIMIT = 10_000

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class TTLCache(Generic[Key, Value]):
    """Caches at most `LIMIT` values, each for `seconds`; a full cache is cleared."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock, self._seconds = clock, seconds
        self._values: dict[Key, tuple[Value, float]] = {}

    def get(self, key: Key) -> Value | None:
        """Returns the value unless it has expired."""
        entry = self._values.get(key)
        return entry[0] if entry and self._clock.monotonic() < entry[1] else None

    def until(self, key: Key) -> float:
        """Expiry of a value that `get` returns, in monotonic seconds."""
        return self._values[key][1]

    def put(self, key: Key, value: Value, until: float = inf) -> None:
        """Caches a value from now on, until a time in monotonic seconds at most."""
        self._values.pop(key, None)
        if len(self._values) >= LIMIT:
            self._values.clear()
        self._values[key] = (value, min(until, self._clock.monotonic() + self._seconds))

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

    def drop(self, matches: Callable[[Value], bool]) -> None:
        """Drops the values that match."""
        for key, (value, _) in tuple(self._values.items()):
            if matches(value):
                del self._values[key]

    def clear(self) -> None:
        """Drops all values."""
        self._values.clear()
