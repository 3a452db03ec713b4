"""Maps the sha256 of a chart archive to its chart, for archives seen before."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from yarl import URL

from core.runtime.clock import Clock
from core.signatures.artifact import ArtifactSignature
from core.spec.renderers import chart_of_ref
from core.spec.source import RepositorySpec
from gitcache.charts.source import ChartSource
from gitcache.domain.inputs import digest_of_json
from gitcache.domain.references import ChartRef
from gitcache.domain.renders import ChartPin
from gitcache.ports import CommitsRejected, Memo

_LOOKED_THROUGH = 20


@dataclass(frozen=True, slots=True)
class SeenChart:
    """A chart, and the time when the git cache first saw it."""

    name: str
    version: str
    at: datetime


class ChartCatalog:
    """Implements `Charts`: finds charts by name, and by sha256 in followed chart repositories."""

    def __init__(self, charts: ChartSource, memo: Memo, clock: Clock) -> None:
        self._charts = charts
        self._memo = memo
        self._clock = clock

    async def pin(self, wanted: ChartRef) -> ChartPin:
        """Implements `Charts.pin`."""
        return await self._charts.pin(wanted)

    async def archive(self, pin: ChartPin) -> bytes:
        """Implements `Charts.archive`."""
        return await self._charts.archive(pin)

    async def signatures(self, pin: ChartPin) -> Sequence[ArtifactSignature]:
        """Implements `Charts.signatures`."""
        return await self._charts.signatures(pin)

    async def at(self, spec: RepositorySpec, sha: str) -> ChartPin:
        """Implements `Charts.at`; tries seen archives, then newest versions of charts in use."""
        seen = await self.seen(spec, sha)
        if seen is not None:
            origin = ChartRef(spec.url, seen.name, seen.version, spec.project)
            return ChartPin(seen.name, seen.version, f"sha256:{sha}", origin)
        charts = {
            chart_ref.name: chart_ref
            for ref in spec.refs
            if (chart_ref := parse_chart_ref(spec, ref)) is not None
        }
        for name in sorted(charts):
            for pin in await self._charts.latest(charts[name], _LOOKED_THROUGH):
                if await self._note(spec, pin) == sha:
                    return pin
        raise CommitsRejected(
            f"{URL(spec.url).host} has no chart with the digest sha256:{sha[:12]}…"
        )

    async def check(self, spec: RepositorySpec) -> None:
        """Downloads the index of a chart repository; registries have none. Raises Unavailable."""
        await self._charts.check(ChartRef(spec.url, "", project=spec.project))

    async def newest(self, spec: RepositorySpec, wanted: ChartRef) -> str:
        """Returns the sha256 of the newest archive. Raises Invalid without any, Unavailable."""
        return await self._note(spec, await self._charts.newest(wanted))

    async def seen(self, spec: RepositorySpec, sha: str) -> SeenChart | None:
        """Looks an archive up in the memo, without a request."""
        record = await self._memo.get(_key(spec, sha))
        if record is None:
            return None
        return SeenChart(record["name"], record["version"], datetime.fromisoformat(record["at"]))

    async def _note(self, spec: RepositorySpec, pin: ChartPin) -> str:
        sha = pin.digest.removeprefix("sha256:")
        if await self.seen(spec, sha) is None:
            now = self._clock.now().isoformat()
            record = {"name": pin.name, "version": pin.version, "at": now}
            await self._memo.put(_key(spec, sha), record)
        return sha


def parse_chart_ref(spec: RepositorySpec, ref: str) -> ChartRef | None:
    """Returns the chart of a ref of a chart repository, None if it names none."""
    named = chart_of_ref(ref)
    return ChartRef(spec.url, *named, spec.project) if named else None


def _key(spec: RepositorySpec, sha: str) -> str:
    return digest_of_json({"chart of": spec.id, "url": spec.url, "sha": sha})
