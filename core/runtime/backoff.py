"""Delays between retries."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Backoff:
    """Exponential backoff with full jitter, so that many clients do not retry in step.

    Delays are random between 0 and `first * factor**failures` seconds, at most `limit`.
    """

    first: float = 1.0
    limit: float = 20.0
    factor: float = 1.6
    draw: Callable[[float, float], float] = random.uniform
    _ceiling: float = field(default=0.0, init=False)

    def next(self) -> float:
        """Returns the seconds to wait before the next retry; they grow with each call."""
        self._ceiling = min(self.limit, self._ceiling * self.factor or self.first)
        return self.draw(0, self._ceiling)

    def reset(self) -> None:
        """Resets the delay after a success."""
        self._ceiling = 0.0
