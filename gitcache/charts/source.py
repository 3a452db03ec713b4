"""Resolves chart names and version ranges to archives, stored by digest."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
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
from gitcache.charts.credentials import ChartCredentialFinder, ChartCredentials
from gitcache.charts.oci import OciChartRepository
from gitcache.domain.inputs import digest_of_json
from gitcache.domain.references import ChartRef
from gitcache.domain.renders import ChartPin, ChartVersion
from gitcache.ports import ContentStore, Memo, RenderWorkers

_NEWEST_CACHE_SECONDS = 60.0
_MAX_CACHED_VERSIONS = 1000
_MAX_REDIRECTS = 5


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
        self._limits = limits
        self._newest: TTLCache[ChartRef, str] = TTLCache(
            clock, _NEWEST_CACHE_SECONDS, _MAX_CACHED_VERSIONS
        )
        self._locks: WeakValueDictionary[ChartRef, asyncio.Lock] = WeakValueDictionary()

    async def pin(self, chart_ref: ChartRef) -> ChartPin:
        """Implements `Charts.pin`."""
        lock = self._locks.setdefault(chart_ref, asyncio.Lock())
        async with lock:
            version = _exact_version(chart_ref.version) or await self._newest_in_range(chart_ref)
            exact = replace(chart_ref, version=version)
            key = _memo_key(exact, self._account(exact))
            memo = await self._memo.get(key)
            if memo is None:
                memo = {"digest": await self._store_archive(exact)}
                await self._memo.put(key, memo)
            pin = ChartPin(chart_ref.name, version, memo["digest"], exact)
            if await self._stored_archive(pin) is None:
                await self._restore_archive(pin)
            return pin

    async def newest(self, chart_ref: ChartRef) -> ChartPin:
        """Pins the newest version, without the cache of recent answers."""
        self._newest.forget(chart_ref)
        return await self.pin(chart_ref)

    async def check(self, chart_ref: ChartRef) -> None:
        """Downloads the index of a repository; registries have none. Raises Unavailable."""
        if not chart_ref.repository.startswith("oci://"):
            await self._download_index(chart_ref)

    async def latest(self, chart_ref: ChartRef, limit: int) -> list[ChartPin]:
        """Pins the newest versions of a chart, regardless of the wanted range."""
        text_by_version = {
            parsed_version: text
            for text in await self._version_names(chart_ref)
            if (parsed_version := _parse_version(text))
        }
        texts = [
            text_by_version[version] for version in sorted(text_by_version, reverse=True)[:limit]
        ]
        return [await self.pin(replace(chart_ref, version=text)) for text in texts]

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
        credentials = self._account(chart_ref)
        account = credentials.account if credentials else None
        return OciChartRepository(self._registries, chart_ref.repository, chart_ref.name, account)

    def _account(self, chart_ref: ChartRef) -> ChartCredentials | None:
        return self._accounts.find(chart_ref.repository, chart_ref.project)

    def _headers(self, chart_ref: ChartRef) -> dict[str, str]:
        credentials = self._account(chart_ref)
        return credentials.account.headers if credentials else {}

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
    text_by_version = {
        parsed: text for text in versions if (parsed := _parse_version(text)) is not None
    }
    selected = spec.select(text_by_version)
    return text_by_version[selected] if selected is not None else None


def _parse_version(text: str) -> Version | None:
    try:
        return Version(text.removeprefix("v"))
    except ValueError:
        return None


def _exact_version(text: str) -> str:
    """Returns an exact version unchanged, empty text for a range."""
    return text if text and _parse_version(text) is not None else ""


def _memo_key(exact: ChartRef, account: ChartCredentials | None) -> str:
    """Memo key with the account, so that private charts are not visible without it."""
    key_fields = {"chart": [exact.repository, exact.name, exact.version]}
    return digest_of_json(key_fields | ({"account": account.id} if account else {}))
