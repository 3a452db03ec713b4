"""Resolves chart names, version ranges and digests to archives, stored by digest."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from weakref import WeakValueDictionary

from semantic_version import NpmSpec, Version
from yarl import URL

from core.errors import Invalid, Unavailable
from core.outbound.oci import OciRegistryClient
from core.outbound.reply import HttpClient
from core.remotes import parse_chart_remote
from core.runtime.clock import Clock
from core.runtime.ttl_cache import TTLCache
from core.signatures.artifact import ArtifactSignature
from core.spec.bundle import digest_of
from core.spec.renderers import chart_of_ref
from core.spec.source import RepositorySpec
from gitcache.charts.credentials import ChartCredentialFinder, ChartCredentials
from gitcache.charts.oci import OciChartRepository
from gitcache.domain.inputs import digest_of_json
from gitcache.domain.references import ChartRef
from gitcache.domain.renders import ChartPin, ChartVersion
from gitcache.ports import CommitsRejected, ContentStore, Memo, RenderWorkers

_NEWEST_CACHE_SECONDS = 60.0
_MAX_CACHED_VERSIONS = 1000
_MAX_SEARCHED_VERSIONS = 20
_MAX_REDIRECTS = 5


@dataclass(frozen=True, slots=True)
class SeenChart:
    """A chart, and the time when the git cache first saw it."""

    name: str
    version: str
    seen_at: datetime


@dataclass(frozen=True, slots=True)
class ChartLimits:
    """Maximum sizes in bytes: of the index of a chart repository, and of a chart archive."""

    index_bytes: int
    archive_bytes: int


class ChartSource:
    """Implements `Charts` for chart repositories and OCI registries.

    Refuses a version that was republished with other content. `accounts` finds credentials.
    """

    def __init__(
        self,
        http: HttpClient,
        content: ContentStore,
        memo: Memo,
        workers: RenderWorkers,
        accounts: ChartCredentialFinder,
        clock: Clock,
        limits: ChartLimits,
    ) -> None:
        self._accounts = accounts
        self._http = http
        self._registries = OciRegistryClient(http, clock)
        self._content = content
        self._memo = memo
        self._workers = workers
        self._clock = clock
        self._limits = limits
        self._newest: TTLCache[ChartRef, str] = TTLCache(
            clock, _NEWEST_CACHE_SECONDS, _MAX_CACHED_VERSIONS
        )
        self._locks: WeakValueDictionary[ChartRef, asyncio.Lock] = WeakValueDictionary()

    async def pin(self, chart: ChartRef) -> ChartPin:
        """Implements `Charts.pin`."""
        lock = self._locks.setdefault(chart, asyncio.Lock())
        async with lock:
            version = _exact_version(chart.version) or await self._newest_in_range(chart)
            exact = replace(chart, version=version)
            key = _memo_key(exact, self._account(exact))
            memo = await self._memo.get(key)
            if memo is None:
                memo = {"digest": await self._store_archive(exact)}
                await self._memo.put(key, memo)
            pin = ChartPin(chart.name, version, memo["digest"], exact)
            if await self._stored_archive(pin) is None:
                await self._restore_archive(pin)
            return pin

    async def find_by_sha(self, spec: RepositorySpec, sha: str) -> ChartPin:
        """Implements `Charts`; tries known archives, then newest versions of charts in use."""
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
            for pin in await self._latest(charts[name]):
                if await self._remember_chart(spec, pin) == sha:
                    return pin
        raise CommitsRejected(
            f"{URL(spec.url).host} has no chart with the digest sha256:{sha[:12]}…"
        )

    async def known_chart(self, spec: RepositorySpec, sha: str) -> SeenChart | None:
        """Looks an archive up in the memo, without a request."""
        record = await self._memo.get(_seen_key(spec, sha))
        if record is None:
            return None
        return SeenChart(record["name"], record["version"], datetime.fromisoformat(record["at"]))

    async def newest_sha(self, spec: RepositorySpec, chart_ref: ChartRef) -> str:
        """Returns the sha256 of the newest archive in a range, without the cache of recent answers.

        Raises Invalid without any, Unavailable.
        """
        self._newest.forget(chart_ref)
        return await self._remember_chart(spec, await self.pin(chart_ref))

    async def check(self, spec: RepositorySpec) -> None:
        """Downloads the index of a repository; registries have none. Raises Unavailable."""
        if not spec.url.startswith("oci://"):
            await self._download_index(ChartRef(spec.url, "", project=spec.project))

    async def _remember_chart(self, spec: RepositorySpec, pin: ChartPin) -> str:
        sha = pin.digest.removeprefix("sha256:")
        if await self.known_chart(spec, sha) is None:
            now = self._clock.now().isoformat()
            record = {"name": pin.name, "version": pin.version, "at": now}
            await self._memo.put(_seen_key(spec, sha), record)
        return sha

    async def _latest(self, chart_ref: ChartRef) -> list[ChartPin]:
        """Pins the newest versions of a chart, regardless of the wanted range."""
        names = _names_by_version(await self._version_names(chart_ref))
        newest_first = sorted(names, reverse=True)[:_MAX_SEARCHED_VERSIONS]
        exact = [replace(chart_ref, version=names[version]) for version in newest_first]
        return [await self.pin(chart) for chart in exact]

    async def archive(self, pin: ChartPin) -> bytes:
        """Implements `Charts.archive`."""
        data = await self._stored_archive(pin)
        if data is None:
            await self._restore_archive(pin)
            data = await self._stored_archive(pin)
        if data is None:
            raise Unavailable(f"chart {pin.name} {pin.version} cannot be stored")
        return data

    async def signatures(self, pin: ChartPin) -> Sequence[ArtifactSignature]:
        """Implements `Charts.signatures`."""
        if not pin.origin.repository.startswith("oci://"):
            return ()
        return await self._oci_repository(pin.origin).signatures(pin.version)

    async def _stored_archive(self, pin: ChartPin) -> bytes | None:
        """Reads an archive from the store; None also if the store is unavailable."""
        with suppress(Unavailable):
            return await self._content.get(pin.digest)
        return None

    async def _restore_archive(self, pin: ChartPin) -> None:
        digest = await self._store_archive(pin.origin)
        if digest != pin.digest:
            raise Invalid(
                f"chart {pin.name} {pin.version} was republished with other content "
                f"({digest} instead of {pin.digest}); use another version"
            )

    async def _newest_in_range(self, chart_ref: ChartRef) -> str:
        """Returns the newest version in a range, cached for one minute."""
        if (cached := self._newest.get(chart_ref)) is not None:
            return cached
        version = newest(await self._version_names(chart_ref), chart_ref.version)
        if version is None:
            raise Invalid(f"there is no version {chart_ref.version!r} of chart {chart_ref.name!r}")
        self._newest.put(chart_ref, version)
        return version

    async def _version_names(self, chart_ref: ChartRef) -> list[str]:
        if chart_ref.repository.startswith("oci://"):
            return await self._oci_repository(chart_ref).versions()
        return [entry.version for entry in await self._index_versions(chart_ref)]

    async def _store_archive(self, exact: ChartRef) -> str:
        """Downloads and stores an archive; returns its digest."""
        if exact.repository.startswith("oci://"):
            registry = self._oci_repository(exact)
            data = await registry.archive(
                await registry.layer(exact.version), self._limits.archive_bytes
            )
        else:
            data = await self._download_from_index(exact)
        digest = digest_of(data)
        await self._content.put(digest, data)
        return digest

    async def _download_from_index(self, exact: ChartRef) -> bytes:
        versions = {
            offered.version.lstrip("v"): offered for offered in await self._index_versions(exact)
        }
        entry = versions.get(exact.version.lstrip("v"))
        if entry is None:
            raise Invalid(f"there is no version {exact.version!r} of chart {exact.name!r}")
        base = URL(exact.repository.rstrip("/") + "/")
        url = base.join(URL(entry.url))
        # An index may point to any host: send the repository's credentials to no other.
        headers = self._headers(exact) if url.origin() == base.origin() else {}
        archive = await self._get_limited(url, headers, self._limits.archive_bytes)
        if entry.digest and digest_of(archive) != f"sha256:{entry.digest}":
            raise Unavailable(
                f"chart {exact.name} {entry.version} does not match the digest in its index"
            )
        return archive

    async def _index_versions(self, chart_ref: ChartRef) -> Sequence[ChartVersion]:
        """Lists the versions of a chart; parses an unchanged index only once."""
        data = await self._download_index(chart_ref)
        key = digest_of_json({"index": digest_of(data), "chart": chart_ref.name})
        if (memo := await self._memo.get(key)) is None:
            versions = await self._workers.versions(data, chart_ref.name)
            memo = {"versions": [[entry.version, entry.digest, entry.url] for entry in versions]}
            await self._memo.put(key, memo)
        return [ChartVersion(*fields) for fields in memo["versions"]]

    async def _download_index(self, chart_ref: ChartRef) -> bytes:
        parse_chart_remote(chart_ref.repository)
        url = URL(chart_ref.repository.rstrip("/") + "/index.yaml")
        return await self._get_limited(url, self._headers(chart_ref), self._limits.index_bytes)

    def _oci_repository(self, chart_ref: ChartRef) -> OciChartRepository:
        account = self._accounts.account(chart_ref.repository, chart_ref.project)
        return OciChartRepository(self._registries, chart_ref.repository, chart_ref.name, account)

    def _account(self, chart_ref: ChartRef) -> ChartCredentials | None:
        return self._accounts.find(chart_ref.repository, chart_ref.project)

    def _headers(self, chart_ref: ChartRef) -> dict[str, str]:
        account = self._accounts.account(chart_ref.repository, chart_ref.project)
        return account.headers if account else {}

    async def _get_limited(self, url: URL, headers: dict[str, str], max_bytes: int) -> bytes:
        """Downloads a file. Raises Invalid beyond the limit, Unavailable."""
        reply = await self._http.request(
            "GET", str(url), headers, max_bytes=max_bytes, redirects=_MAX_REDIRECTS
        )
        if reply.status != 200:
            raise Unavailable(f"{url.host} answered {reply.status} for {url.path}")
        if reply.truncated:
            raise Invalid(f"{url.host} sent more than the limit of {max_bytes:,} bytes")
        return reply.body


def newest(versions: Sequence[str], version_range: str) -> str | None:
    """Returns the newest version in a range; without a range, the newest release."""
    try:
        spec = NpmSpec(" ".join(version_range.replace(",", " ").split()) or "*")
    except ValueError as error:
        raise Invalid(
            f"{version_range[:80]!r} is not a version or version range", field="version"
        ) from error
    names = _names_by_version(versions)
    selected = spec.select(names)
    return names[selected] if selected is not None else None


def _names_by_version(names: Sequence[str]) -> dict[Version, str]:
    return {version: name for name in names if (version := _parse_version(name)) is not None}


def _parse_version(text: str) -> Version | None:
    try:
        return Version(text.removeprefix("v"))
    except ValueError:
        return None


def _exact_version(text: str) -> str:
    """Returns an exact version unchanged, empty text for a range."""
    return text if text and _parse_version(text) is not None else ""


def parse_chart_ref(spec: RepositorySpec, ref: str) -> ChartRef | None:
    """Returns the chart of a ref of a chart repository, None if it names none."""
    name_and_version = chart_of_ref(ref)
    return ChartRef(spec.url, *name_and_version, spec.project) if name_and_version else None


def _seen_key(spec: RepositorySpec, sha: str) -> str:
    return digest_of_json({"chart of": spec.id, "url": spec.url, "sha": sha})


def _memo_key(exact: ChartRef, account: ChartCredentials | None) -> str:
    """Memo key with the account, so that private charts are not visible without it."""
    key_fields = {"chart": [exact.repository, exact.name, exact.version]}
    return digest_of_json(key_fields | ({"account": account.id} if account else {}))
