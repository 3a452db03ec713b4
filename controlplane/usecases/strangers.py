"""Refusals, which may be as many as somebody likes: most of them counted, not listed."""

from dataclasses import dataclass, replace

from controlplane.domain.ledger import AuditEntry
from fleet.runtime.clock import Clock

WINDOW_SECONDS = 60.0
MOST_SOURCES = 1000
ELSEWHERE = "elsewhere"


@dataclass(slots=True)
class _Source:
    """What one source did in its minute, after the first refusal."""

    until: float
    last: AuditEntry
    listed: int = 1
    more: int = 0


class Strangers:
    """Of each source the first refusals of a minute are rows at once, `listed` of them; those
    behind them become one row with their count. Beyond `MOST_SOURCES` all others are taken for
    one."""

    def __init__(self, clock: Clock, listed: int = 1) -> None:
        self._clock, self._listed = clock, listed
        self._sources: dict[str, _Source] = {}

    def take(self, entry: AuditEntry, source: str | None = None) -> AuditEntry | None:
        """The row to be written for a refusal now; None: it is counted.

        `source`: who it is counted under; its network address, if nothing is said.
        """
        source = entry.source if source is None else source
        if source not in self._sources and len(self._sources) >= MOST_SOURCES:
            source = ELSEWHERE
        known = self._sources.get(source)
        if known is not None:
            known.last = entry
            if known.listed < self._listed:
                known.listed += 1
                return entry
            known.more += 1
            return None
        self._sources[source] = _Source(self._clock.monotonic() + WINDOW_SECONDS, entry)
        return entry

    def due(self, *, all_of_them: bool = False) -> list[AuditEntry]:
        """The rows of sources whose minute is over, which are forgotten."""
        now = self._clock.monotonic()
        over = [
            name for name, source in self._sources.items() if all_of_them or source.until <= now
        ]
        ended = [(name, self._sources.pop(name)) for name in over]
        return [_counted(name, source) for name, source in ended if source.more]


def _counted(name: str, refusals: _Source) -> AuditEntry:
    detail = {"requests": refusals.more, "user_agent": refusals.last.detail.get("user_agent", "")}
    source = name if name == ELSEWHERE else refusals.last.source
    return replace(refusals.last, source=source, detail=detail)
