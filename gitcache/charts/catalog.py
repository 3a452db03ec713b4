"""Maps the sha256 of a chart archive to its chart, for known archives."""

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

_MAX_SEARCHED_VERSIONS = 20


@dataclass(frozen=True, slots=True)
class SeenChart:
    """A chart, and the time when the git cache first saw it."""

    name: str
    version: str
    seen_at: datetime


class ChartCatalog:
    """Implements `Charts`: finds charts by name, and by sha256 in followed chart repositories."""

    def __init__(self, charts: ChartSource, memo: Memo, clock: Clock) -> None:
        self._charts = charts
        self._memo = memo
        self._clock = clock

    async def pin(self, chart: ChartRef) -> ChartPin:
        """Implements `Charts.pin`."""
        return await self._charts.pin(chart)

    async def archive(self, pin: ChartPin) -> bytes:
        """Implements `Charts.archive`."""
        return await self._charts.archive(pin)

    async def signatures(self, pin: ChartPin) -> Sequence[ArtifactSignature]:
        """Implements `Charts.signatures`."""
        return await self._charts.signatures(pin)

    async def find_by_sha(self, spec: RepositorySpec, sha: str) -> ChartPin:
        """Implements the port; tries known archives, then newest versions of charts in use."""
        chart = await self.known_chart(spec, sha)
        if chart is not None:
            origin = ChartRef(spec.url, chart.name, chart.version, spec.project)
            return ChartPin(chart.name, chart.version, f"sha256:{sha}", origin)
        charts = {
            chart_ref.name: chart_ref
            for ref in spec.refs
            if (chart_ref := parse_chart_ref(spec, ref)) is not None
        }
        for name in sorted(charts):
            for pin in await self._charts.latest(charts[name], _MAX_SEARCHED_VERSIONS):
                if await self._remember_chart(spec, pin) == sha:
                    return pin
        raise CommitsRejected(
            f"{URL(spec.url).host} has no chart with the digest sha256:{sha[:12]}…"
        )

    async def check(self, spec: RepositorySpec) -> None:
        """Downloads the index of a chart repository; registries have none. Raises Unavailable."""
        await self._charts.check(ChartRef(spec.url, "", project=spec.project))

    async def newest(self, spec: RepositorySpec, chart: ChartRef) -> str:
        """Returns the sha256 of the newest archive. Raises Invalid without any, Unavailable."""
        return await self._remember_chart(spec, await self._charts.newest(chart))

    async def known_chart(self, spec: RepositorySpec, sha: str) -> SeenChart | None:
        """Looks an archive up in the memo, without a request."""
        record = await self._memo.get(_memo_key(spec, sha))
        if record is None:
            return None
        return SeenChart(record["name"], record["version"], datetime.fromisoformat(record["at"]))

    async def _remember_chart(self, spec: RepositorySpec, pin: ChartPin) -> str:
        sha = pin.digest.removeprefix("sha256:")
        if await self.known_chart(spec, sha) is None:
            now = self._clock.now().isoformat()
            record = {"name": pin.name, "version": pin.version, "at": now}
            await self._memo.put(_memo_key(spec, sha), record)
        return sha


def parse_chart_ref(spec: RepositorySpec, ref: str) -> ChartRef | None:
    """Returns the chart of a ref of a chart repository, None if it names none."""
    name_and_version = chart_of_ref(ref)
    return ChartRef(spec.url, *name_and_version, spec.project) if name_and_version else None


def _memo_key(spec: RepositorySpec, sha: str) -> str:
    return digest_of_json({"chart of": spec.id, "url": spec.url, "sha": sha})
