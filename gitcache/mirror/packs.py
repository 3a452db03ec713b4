"""Fetches packs with one protocol version 2 `fetch` request on a pooled connection."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import IO

from yarl import URL

from core.errors import Unavailable
from gitcache.mirror.metrics import GitMetrics
from gitcache.mirror.transport import pktline
from gitcache.mirror.transport.capabilities import Capabilities
from gitcache.mirror.transport.fetch_response import FetchResponse, ServerError
from gitcache.mirror.transport.http import GitHttpClient
from gitcache.mirror.transport.ls_refs import POST_HEADERS
from gitcache.mirror.transport.route import ServerRoute

_RESULT = POST_HEADERS["Accept"]


class PackUnavailable(Exception):
    """The server sent no pack within the limits; other fetch methods may work."""


@dataclass(frozen=True, slots=True)
class PackRequest:
    """A fetch request: wanted objects, complete local commits, and the shallow boundary.

    A `thin` pack may contain deltas to objects of the local commits.
    """

    wants: Sequence[str]
    haves: Sequence[str] = ()
    shallow: Sequence[str] = ()
    depth: int | None = None
    filter: str | None = None
    thin: bool = True

    def body(self, capabilities: Capabilities) -> bytes:
        """Encodes the request with `done`, so that it needs one round trip."""
        lines = ["thin-pack"] if self.thin else []
        lines += ["no-progress", "ofs-delta"]
        lines += [f"shallow {sha}" for sha in self.shallow]
        lines += [f"deepen {self.depth}"] if self.depth else []
        lines += [f"filter {self.filter}"] if self.filter else []
        lines += [f"want {sha}" for sha in self.wants]
        lines += [f"have {sha}" for sha in self.haves]
        capability_lines = ["agent=git/towline", f"object-format={capabilities.object_format}"]
        return pktline.encode_command("fetch", capability_lines, [*lines, "done"])


class PackClient:
    """Streams packs to files."""

    def __init__(self, http: GitHttpClient, meters: GitMetrics) -> None:
        self._http = http
        self._meters = meters

    async def fetch(
        self,
        route: ServerRoute,
        capabilities: Capabilities,
        request: PackRequest,
        into: IO[bytes],
        *,
        limit: int,
        seconds: float,
        on_response: Callable[[], object] = lambda: None,
    ) -> FetchResponse:
        """Writes the pack to `into` and returns the rest of the response.

        Raises PackUnavailable beyond `limit` bytes or if the server refuses. Calls `on_response`
        at the beginning of the response.
        """
        url = URL(f"{route.remote.text}/git-upload-pack")
        answer, size = FetchResponse(), 0
        try:
            async with self._http.request(
                "POST",
                route,
                url,
                headers=route.authorized(POST_HEADERS),
                body=request.body(capabilities),
                seconds=seconds,
            ) as response:
                self._http.check_status(response)
                if response.status != 200 or response.content_type != _RESULT:
                    raise PackUnavailable(f"answered {response.status}")
                on_response()
                async for chunk in response.content.iter_any():
                    data = answer.feed(chunk)
                    size += len(data)
                    if size > limit:
                        raise PackUnavailable(f"more than {limit} bytes")
                    into.write(data)
        except (pktline.Malformed, ServerError) as error:
            raise PackUnavailable(str(error)) from None
        finally:
            self._meters.packed_bytes.inc(size)
        if not answer.complete:
            raise Unavailable("the connection was lost before the end of the server's pack")
        return answer
