"""How often each caller may ask: counted in windows of the wall clock, which replicas agree on."""

from collections.abc import Mapping
from dataclasses import dataclass, field

WINDOW_S = 10.0
ADDRESS = "address "
"""How the name of a stranger begins, who is counted by address."""
MOST_CALLERS = 20_000
"""More strangers are not told apart: there are many addresses."""
_OTHERS = "others"


@dataclass(slots=True)
class Rates:
    """What callers have asked in this window: `most` requests each; 0: as many as they like.

    `own` counts what was let in here; what other replicas have let in comes by `learn`.
    """

    most: int
    window: int = -1
    own: dict[str, int] = field(default_factory=dict)
    _elsewhere: dict[str, int] = field(default_factory=dict)

    def take(self, caller: str, now: float) -> float:
        """Count a request at `now` (epoch seconds). The seconds to wait instead; 0.0: go on."""
        wait = self.wait(caller, now)
        if self.most and not wait:
            name = self._name(caller)
            self.own[name] = self.own.get(name, 0) + 1
        return wait

    def wait(self, caller: str, now: float) -> float:
        """What `take` would say, and nothing is counted."""
        if not self.most:
            return 0.0
        self._turn(now)
        name = self._name(caller)
        count = self.own.get(name, 0) + self._elsewhere.get(name, 0)
        return (self.window + 1) * WINDOW_S - now if count >= self.most else 0.0

    def give_back(self, caller: str) -> None:
        """What `take` has counted in this window does not count after all."""
        if self.own.get(caller):
            self.own[caller] -= 1

    def busy(self, now: float) -> dict[str, int]:
        """What other replicas should know: who has used a twentieth of theirs, and how much."""
        self._turn(now)
        return {name: count for name, count in self.own.items() if count * 20 >= self.most}

    def learn(self, window: int, elsewhere: Mapping[str, int]) -> None:
        """Take in what other replicas have let in within a window."""
        if window == self.window:
            self._elsewhere = dict(elsewhere)

    def _name(self, caller: str) -> str:
        """Under which name a caller is counted."""
        is_new = caller not in self.own
        is_one_of_many = is_new and caller.startswith(ADDRESS) and len(self.own) >= MOST_CALLERS
        return _OTHERS if is_one_of_many else caller

    def _turn(self, now: float) -> None:
        window = int(now // WINDOW_S)
        if window != self.window:
            self.window = window
            self.own, self._elsewhere = {}, {}
