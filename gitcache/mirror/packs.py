"""Fetches packs with one protocol version 2 `fetch` request on a pooled connection."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import IO

from yarl import URL

from fleet.errors import Unavailable
from gitcache.mirror import pktline
from gitcache.mirror.capabilities import Capabilities
from gitcache.mirror.fetchanswer import FetchAnswer, ServerSaid
from gitcache.mirror.http import HttpClient
from gitcache.mirror.lsrefs import POST_HEADERS
from gitcache.mirror.meters import Meters
from gitcache.mirror.route import Route

_RESULT = POST_HEADERS["Accept"]


class NoPack(Exception):
    """The server sent no pack within the limits; other fetch methods may work."""


@dataclass(frozen=True, slots=True)
class Order:
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
        given = ["agent=git/towline", f"object-format={capabilities.object_format}"]
        return pktline.command("fetch", given, [*lines, "done"])


class PackClient:
    """Streams packs to files."""

    def __init__(self, http: HttpClient, meters: Meters) -> None:
        self._http = http
        self._meters = meters

    async def fetch(
        self,
        route: Route,
        capabilities: Capabilities,
        order: Order,
        into: IO[bytes],
        *,
        limit: int,
        seconds: float,
        begun: Callable[[], object] = lambda: None,
    ) -> FetchAnswer:
        """Writes the pack to `into` and returns the rest of the response.

        Raises NoPack beyond `limit` bytes or if the server refuses. Calls `begun` at the beginning
        of the response.
        """
        headers = dict(POST_HEADERS)
        if route.authorization:
            headers["Authorization"] = route.authorization
        url = URL(f"{route.remote.text}/git-upload-pack")
        answer, size = FetchAnswer(), 0
        try:
            async with self._http.request(
                "POST",
                route,
                url,
                headers=headers,
                body=order.body(capabilities),
                seconds=seconds,
            ) as response:
                self._http.check(response)
                if response.status != 200 or response.content_type != _RESULT:
                    raise NoPack(f"answered {response.status}")
                begun()
                async for chunk in response.content.iter_any():
                    data = answer.feed(chunk)
                    size += len(data)
                    if size > limit:
                        raise NoPack(f"more than {limit} bytes")
                    into.write(data)
        except (pktline.Malformed, ServerSaid) as error:
            raise NoPack(str(error)) from None
        finally:
            self._meters.packed_bytes.inc(size)
        if not answer.complete:
            raise Unavailable("the connection was lost before the end of the server's pack")
        return answer
