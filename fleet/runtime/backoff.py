"""How long to wait before the next try."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Backoff:
    """Exponential back-off with full jitter, so that many clients never return in step.

    Waits are drawn from 0 to `first * factor**failures` seconds, `limit` at most.
    """

    first: float = 1.0
    limit: float = 20.0
    factor: float = 1.6
    draw: Callable[[float, float], float] = random.uniform
    _ceiling: float = field(default=0.0, init=False)

    def next(self) -> float:
        """Seconds to wait before the next try; grows with each call."""
        self._ceiling = min(self.limit, self._ceiling * self.factor or self.first)
        return self.draw(0, self._ceiling)

    def reset(self) -> None:
        """Start small again, after a success."""
        self._ceiling = 0.0
