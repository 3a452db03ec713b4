"""Resolves chart names and version ranges to archives, stored by digest."""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from weakref import WeakValueDictionary

from semantic_version import NpmSpec, Version
from yarl import URL

from core.errors import Invalid, Unavailable
from core.outbound.oci import OciRegistryClient
from core.outbound.reply import HttpClient
from core.runtime.clock import Clock
from core.signatures.artifact import ArtifactSignature
from core.spec.bundle import digest_of
from gitcache.charts.credentials import ChartCredentialFinder, ChartCredentials
from gitcache.charts.oci import OciChartRepository
from gitcache.domain.inputs import digest_of_json
from gitcache.domain.references import ChartRef
from gitcache.domain.renders import ChartPin, ChartVersion
from gitcache.ports import ContentStore, Memo, RenderWorkers

_FRESH_SECONDS = 60.0
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
        self._clock = clock
        self._limits = limits
        self._newest: OrderedDict[ChartRef, tuple[float, str]] = OrderedDict()
        self._locks: WeakValueDictionary[ChartRef, asyncio.Lock] = WeakValueDictionary()

    async def pin(self, wanted: ChartRef) -> ChartPin:
        """Implements `Charts.pin`."""
        lock = self._locks.setdefault(wanted, asyncio.Lock())
        async with lock:
            version = _exact(wanted.version) or await self._resolved(wanted)
            exact = replace(wanted, version=version)
            key = _key(exact, self._account(exact))
            memo = await self._memo.get(key)
            if memo is None:
                memo = {"digest": await self._fetched(exact)}
                await self._memo.put(key, memo)
            pin = ChartPin(wanted.name, version, memo["digest"], exact)
            if await self._kept(pin) is None:
                await self._again(pin)
            return pin

    async def newest(self, wanted: ChartRef) -> ChartPin:
        """Pins the newest version, without the cache of recent answers."""
        self._newest.pop(wanted, None)
        return await self.pin(wanted)

    async def check(self, wanted: ChartRef) -> None:
        """Downloads the index of a repository; registries have none. Raises Unavailable."""
        if not wanted.repository.startswith("oci://"):
            await self._index_of(wanted)

    async def latest(self, wanted: ChartRef, most: int) -> list[ChartPin]:
        """Pins the newest versions of a chart, regardless of the wanted range."""
        known = {
            parsed_version: text
            for text in await self._offered(wanted)
            if (parsed_version := _parsed(text))
        }
        texts = [known[version] for version in sorted(known, reverse=True)[:most]]
        return [await self.pin(replace(wanted, version=text)) for text in texts]

    async def archive(self, pin: ChartPin) -> bytes:
        """Implements `Charts.archive`."""
        data = await self._kept(pin)
        if data is None:
            await self._again(pin)
            data = await self._kept(pin)
        if data is None:
            raise Unavailable(f"chart {pin.name} {pin.version} cannot be stored")
        return data

    async def signatures(self, pin: ChartPin) -> Sequence[ArtifactSignature]:
        """Implements `Charts.signatures`."""
        if not pin.origin.repository.startswith("oci://"):
            return ()
        return await self._registry(pin.origin).signatures(pin.version)

    async def _kept(self, pin: ChartPin) -> bytes | None:
        """Reads an archive from the store; None also if the store is unavailable."""
        with suppress(Unavailable):
            return await self._content.get(pin.digest)
        return None

    async def _again(self, pin: ChartPin) -> None:
        digest = await self._fetched(pin.origin)
        if digest != pin.digest:
            raise Invalid(
                f"chart {pin.name} {pin.version} was republished with other content "
                f"({digest} instead of {pin.digest}); use another version"
            )

    async def _resolved(self, wanted: ChartRef) -> str:
        """Returns the newest version in a range, cached for one minute."""
        until, version = self._newest.get(wanted, (0.0, ""))
        if self._clock.monotonic() < until:
            return version
        version = newest(await self._offered(wanted), wanted.version)
        if version is None:
            raise Invalid(f"there is no version {wanted.version!r} of chart {wanted.name!r}")
        self._newest[wanted] = (self._clock.monotonic() + _FRESH_SECONDS, version)
        if len(self._newest) > _MAX_CACHED_VERSIONS:
            self._newest.popitem(last=False)
        return version

    async def _offered(self, wanted: ChartRef) -> list[str]:
        if wanted.repository.startswith("oci://"):
            return await self._registry(wanted).versions()
        return [offered.version for offered in await self._index(wanted)]

    async def _fetched(self, exact: ChartRef) -> str:
        """Downloads and stores an archive; returns its digest."""
        if exact.repository.startswith("oci://"):
            registry = self._registry(exact)
            data = await registry.archive(
                await registry.layer(exact.version), self._limits.archive_bytes
            )
        else:
            data = await self._download(exact)
        digest = digest_of(data)
        await self._content.put(digest, data)
        return digest

    async def _download(self, exact: ChartRef) -> bytes:
        listed = {offered.version.lstrip("v"): offered for offered in await self._index(exact)}
        found = listed.get(exact.version.lstrip("v"))
        if found is None:
            raise Invalid(f"there is no version {exact.version!r} of chart {exact.name!r}")
        base = URL(exact.repository.rstrip("/") + "/")
        place = base.join(URL(found.url))
        # An index may point to any host: send the repository's credentials to no other.
        headers = self._headers(exact) if place.origin() == base.origin() else {}
        archive = await self._get(place, headers, self._limits.archive_bytes)
        if found.digest and digest_of(archive) != f"sha256:{found.digest}":
            raise Unavailable(
                f"chart {exact.name} {found.version} does not match the digest in its index"
            )
        return archive

    async def _index(self, wanted: ChartRef) -> Sequence[ChartVersion]:
        """Lists the versions of a chart; parses an unchanged index only once."""
        index = await self._index_of(wanted)
        key = digest_of_json({"index": digest_of(index), "chart": wanted.name})
        if (memo := await self._memo.get(key)) is None:
            found = await self._workers.versions(index, wanted.name)
            memo = {
                "versions": [[offered.version, offered.digest, offered.url] for offered in found]
            }
            await self._memo.put(key, memo)
        return [ChartVersion(*fields) for fields in memo["versions"]]

    async def _index_of(self, wanted: ChartRef) -> bytes:
        url = URL(wanted.repository.rstrip("/") + "/index.yaml")
        return await self._get(url, self._headers(wanted), self._limits.index_bytes)

    def _registry(self, wanted: ChartRef) -> OciChartRepository:
        found = self._account(wanted)
        account = found.account if found else None
        return OciChartRepository(self._registries, wanted.repository, wanted.name, account)

    def _account(self, wanted: ChartRef) -> ChartCredentials | None:
        return self._accounts.of(wanted.repository, wanted.project)

    def _headers(self, wanted: ChartRef) -> dict[str, str]:
        found = self._account(wanted)
        return found.account.headers if found else {}

    async def _get(self, url: URL, headers: dict[str, str], max_bytes: int) -> bytes:
        """Downloads a file. Raises Invalid beyond the limit, Unavailable."""
        reply = await self._http.ask(
            "GET", str(url), headers, max_bytes=max_bytes, redirects=_MAX_REDIRECTS
        )
        if reply.status != 200:
            raise Unavailable(f"{url.host} answered {reply.status} for {url.path}")
        if reply.truncated:
            raise Invalid(f"{url.host} sent more than the limit of {max_bytes:,} bytes")
        return reply.body


def newest(offered: Sequence[str], wanted: str) -> str | None:
    """Returns the newest version in a range; without a range, the newest release."""
    try:
        spec = NpmSpec(" ".join(wanted.replace(",", " ").split()) or "*")
    except ValueError as error:
        raise Invalid(
            f"{wanted[:80]!r} is not a version or version range", field="version"
        ) from error
    known = {parsed: text for text in offered if (parsed := _parsed(text)) is not None}
    best = spec.select(known)
    return known[best] if best is not None else None


def _parsed(text: str) -> Version | None:
    try:
        return Version(text.removeprefix("v"))
    except ValueError:
        return None


def _exact(text: str) -> str:
    """Returns an exact version unchanged, empty text for a range."""
    return text if text and _parsed(text) is not None else ""


def _key(exact: ChartRef, account: ChartCredentials | None) -> str:
    """Memo key with the account, so that private charts are not visible without it."""
    key_fields = {"chart": [exact.repository, exact.name, exact.version]}
    return digest_of_json(key_fields | ({"account": account.id} if account else {}))
