"""Capabilities of git servers (gitprotocol-v2(5)), cached for one hour."""

from dataclasses import dataclass

from yarl import URL

from core.runtime.clock import Clock
from core.runtime.ttl_cache import TTLCache
from gitcache.mirror.transport import pktline
from gitcache.mirror.transport.http import GitHttpClient, read_limited
from gitcache.mirror.transport.route import ServerRoute

VERSION2 = {"Git-Protocol": "version=2", "User-Agent": "git/towline"}

_CACHE_SECONDS = 3600.0
_MAX_CACHED = 10_000
_MAX_ANSWER = 1 << 20


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Capabilities for one repository; all false without protocol version 2."""

    version2: bool = False
    object_format: str = "sha1"
    shallow: bool = False
    filters: bool = False


class KnownCapabilities:
    """A cache of capabilities by repository URL."""

    def __init__(self, http: GitHttpClient, clock: Clock) -> None:
        self._http = http
        self._cached: TTLCache[str, Capabilities] = TTLCache(clock, _CACHE_SECONDS, _MAX_CACHED)

    def cached(self, route: ServerRoute) -> Capabilities | None:
        """Returns cached capabilities, at most one hour old."""
        return self._cached.get(route.remote.text)

    async def get(self, route: ServerRoute) -> Capabilities:
        """Returns the capabilities; asks the server if needed. Raises Unavailable."""
        if (found := self.cached(route)) is not None:
            return found
        url = URL(f"{route.remote.text}/info/refs?service=git-upload-pack")
        headers = route.authorized(VERSION2)
        async with self._http.request("GET", route, url, headers=headers) as answer:
            self._http.check_status(answer)
            data = (
                await read_limited(answer, _MAX_ANSWER, "the list of capabilities")
                if _is_advertisement(answer.content_type, answer.status)
                else b""
            )
        capabilities = parse_capabilities(data)
        self._cached.put(route.remote.text, capabilities)
        return capabilities


def parse_capabilities(data: bytes) -> Capabilities:
    """Parses a capability advertisement; returns no capabilities for other data."""
    try:
        lines = [
            line.rstrip(b"\n").decode("utf-8", "replace") for line in pktline.decode(data) if line
        ]
    except pktline.Malformed:
        return Capabilities()
    if "version 2" not in lines[:2]:
        return Capabilities()
    advertised = dict(line.partition("=")[::2] for line in lines)
    fetch = advertised.get("fetch", "").split()
    return Capabilities(
        True, advertised.get("object-format", "sha1"), "shallow" in fetch, "filter" in fetch
    )


def _is_advertisement(content_type: str, status: int) -> bool:
    return status == 200 and content_type == "application/x-git-upload-pack-advertisement"
