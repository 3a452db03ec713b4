"""Container images in registries: digests of tags, and signatures."""

from collections.abc import Sequence
from math import inf

from core.errors import NotFound
from core.outbound.oci import OciRegistryClient
from core.outbound.reply import HttpClient
from core.runtime.clock import Clock
from core.runtime.single_flight import SingleFlight
from core.runtime.ttl_cache import TTLCache
from core.signatures.artifact import ArtifactSignature
from core.spec.images import ImageName, OciRepository
from gitcache.charts.cosign import SignatureReader
from gitcache.charts.credentials import ChartCredentialFinder

_UNSIGNED_CACHE_SECONDS = 60.0
_SIGNED_CACHE_SECONDS = 300.0
_MAX_CACHED = 512

_Key = tuple[str, str, str]
_Signatures = Sequence[ArtifactSignature]


class RegistryImages:
    """Implements `ImageRegistry`. Remembers signatures for five minutes, and for one that there are
    none: somebody may sign the image now.
    """

    def __init__(self, http: HttpClient, accounts: ChartCredentialFinder, clock: Clock) -> None:
        self._client = OciRegistryClient(http, clock)
        self._accounts = accounts
        self._clock = clock
        self._cached: TTLCache[_Key, _Signatures] = TTLCache(
            clock, _SIGNED_CACHE_SECONDS, _MAX_CACHED
        )
        self._flights: SingleFlight[_Key, _Signatures] = SingleFlight()

    async def signatures(self, image: ImageName, project: str) -> _Signatures:
        """Implements `ImageRegistry.signatures`."""
        key = (image.repository, image.digest, project)
        if (cached := self._cached.get(key)) is not None:
            return cached

        async def fetch() -> _Signatures:
            account = self._accounts.account(f"oci://{image.repository}", project)
            reader = SignatureReader(self._client, _oci_repository(image), account)
            signatures = await reader.read(image.digest)
            unsigned_until = self._clock.monotonic() + _UNSIGNED_CACHE_SECONDS
            self._cached.put(key, signatures, inf if signatures else unsigned_until)
            return signatures

        return await self._flights.once(key, fetch)

    async def digest(self, image: ImageName, project: str) -> str:
        """Implements `ImageRegistry.digest`."""
        try:
            account = self._accounts.account(f"oci://{image.repository}", project)
            return await self._client.digest(_oci_repository(image), image.tag or "latest", account)
        except NotFound:
            return ""


def _oci_repository(image: ImageName) -> OciRepository:
    return OciRepository(image.host, image.name)
