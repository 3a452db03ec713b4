"""Follows chart repositories and registries like git repositories.

A ref is a chart with a version range. Its commit is the newest archive in that range, identified
by the archive's sha256. The commit has one empty folder, because a chart is rendered from its
archive.
"""

from collections.abc import Collection, Mapping, Sequence

from yarl import URL

from core.errors import Invalid
from core.spec.source import Commit, RepositorySpec
from gitcache.charts.source import ChartSource, parse_chart_ref
from gitcache.domain.commits import CommitRecord
from gitcache.domain.inputs import digest_of_json
from gitcache.domain.refs import HEAD
from gitcache.domain.trees import TREE, Entry
from gitcache.ports import ON_DEMAND_PIN_PREFIX, Memo

_HEADS = "refs/heads/"
_MAX_PINS = 1000


class ChartMirror:
    """Implements `FollowedCharts`; the content store holds the archives."""

    def __init__(self, charts: ChartSource, memo: Memo) -> None:
        self._charts = charts
        self._memo = memo

    async def list_refs(self, spec: RepositorySpec, prefixes: Sequence[str]) -> Mapping[str, str]:
        """Implements `RefLister.list_refs`: lists the newest archive of each chart.

        Omits charts without an archive; raises Invalid if no chart has one. Unavailable. HEAD only
        asks for the index.
        """
        if HEAD in prefixes:
            await self._charts.check(spec)
        newest_shas: dict[str, str] = {}
        failure: Invalid | None = None
        for prefix in prefixes:
            chart_ref = parse_chart_ref(spec, prefix.removeprefix(_HEADS))
            if not prefix.startswith(_HEADS) or chart_ref is None:
                continue
            try:
                newest_shas[prefix] = await self._charts.newest_sha(spec, chart_ref)
            except Invalid as error:
                failure = error
        if failure is not None and not newest_shas:
            raise failure
        return newest_shas

    async def fetch(self, spec: RepositorySpec, wants: Mapping[str, str]) -> None:
        """Implements `Clones.fetch`: downloads the archives."""
        for sha in wants.values():
            await self._charts.archive(await self._charts.find_by_sha(spec, sha))
        await self.pin(spec, wants)

    async def pin(self, spec: RepositorySpec, wants: Mapping[str, str]) -> None:
        """Implements `Clones.pin`."""
        followed_pins = {
            name: sha for name, sha in wants.items() if not name.startswith(ON_DEMAND_PIN_PREFIX)
        }
        before = await self.pins(spec)
        if followed_pins and before != (after := {**before, **followed_pins}):
            await self._memo.put(
                _pins_key(spec), after if len(after) < _MAX_PINS else followed_pins
            )

    async def pins(self, spec: RepositorySpec) -> Mapping[str, str]:
        """Implements `Clones.pins`."""
        return await self._memo.get(_pins_key(spec)) or {}

    async def commit(self, spec: RepositorySpec, sha: str) -> CommitRecord | None:
        """Implements `TreeReader.commit`; the subject is the chart's name and version."""
        chart = await self._charts.known_chart(spec, sha)
        if chart is None:
            return None
        host = URL(spec.url).host or spec.url
        return CommitRecord(sha, Commit(sha, host, f"{chart.name} {chart.version}", chart.seen_at))

    async def ids(
        self, spec: RepositorySpec, tree: str, paths: Collection[str]
    ) -> Mapping[str, Entry | None]:
        """Implements `TreeReader.ids`; only the root exists."""
        return {path: None if path else Entry(TREE, tree) for path in paths}


def _pins_key(spec: RepositorySpec) -> str:
    return digest_of_json({"charts of": spec.id, "url": spec.url})
