"""Lists refs over http(s) with one protocol version 2 request on a pooled connection."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from yarl import URL

from core.spec.source import RepositorySpec
from gitcache.mirror import pktline
from gitcache.mirror.capabilities import VERSION2, KnownCapabilities
from gitcache.mirror.http import GitHttpClient, read
from gitcache.mirror.route import ServerRoute
from gitcache.mirror.route_finder import RouteFinder

_MAX_ANSWER = 16 << 20
_RESULT = "application/x-git-upload-pack-result"
POST_HEADERS = {
    **VERSION2,
    "Content-Type": "application/x-git-upload-pack-request",
    "Accept": _RESULT,
}
"""Headers of every protocol version 2 command."""


class NotVersion2(Exception):
    """The server does not answer in protocol version 2."""


@dataclass(slots=True)
class _RefsRequest:
    """A repeated request and its last parsed response."""

    route: ServerRoute
    prefixes: Sequence[str]
    url: URL
    headers: Mapping[str, str]
    body: bytes
    answer: bytes = b""
    refs: Mapping[str, str] | None = None


class HttpRefLister:
    """Lists refs with one POST per poll; repositories of a host share its connections."""

    def __init__(
        self, http: GitHttpClient, routes: RouteFinder, capabilities: KnownCapabilities
    ) -> None:
        self._http = http
        self._routes = routes
        self._capabilities = capabilities
        self._asked: dict[str, _RefsRequest] = {}

    async def list_refs(self, spec: RepositorySpec, prefixes: Sequence[str]) -> Mapping[str, str]:
        """Implements `RefLister.list_refs`. Raises NotVersion2 if another method is needed."""

        async def ask(route: ServerRoute) -> Mapping[str, str]:
            try:
                return await self._ask(self._request(spec, route, prefixes))
            except pktline.Malformed:
                return await self._ask_again(spec, route, prefixes)

        return await self._routes.use(spec, ask)

    async def _ask(self, asked: _RefsRequest) -> Mapping[str, str]:
        async with self._http.request(
            "POST", asked.route, asked.url, headers=asked.headers, body=asked.body
        ) as answer:
            self._http.check(answer)
            if answer.status != 200 or answer.content_type != _RESULT:
                raise NotVersion2
            data = await read(answer, _MAX_ANSWER, "the server's list of refs")
        if asked.refs is None or data != asked.answer:
            asked.refs, asked.answer = pktline.parse_refs(data), data
        return asked.refs

    async def _ask_again(
        self, spec: RepositorySpec, route: ServerRoute, prefixes: Sequence[str]
    ) -> Mapping[str, str]:
        """Retries after a malformed response, which may be due to the object format."""
        self._asked.pop(spec.id, None)
        known = self._capabilities.known(route)
        capabilities = known or await self._capabilities.of(route)
        if known is not None or not capabilities.version2:
            raise NotVersion2
        try:
            return await self._ask(self._request(spec, route, prefixes))
        except pktline.Malformed as error:
            raise NotVersion2 from error

    def _request(
        self, spec: RepositorySpec, route: ServerRoute, prefixes: Sequence[str]
    ) -> _RefsRequest:
        kept = self._asked.get(spec.id)
        if kept is not None and kept.route is route and kept.prefixes == prefixes:
            return kept
        known = self._capabilities.known(route)
        form = f"object-format={known.object_format}" if known and known.version2 else None
        body = pktline.command(
            "ls-refs",
            ["agent=git/towline", *([form] if form else [])],
            ["peel", *(f"ref-prefix {prefix}" for prefix in prefixes)],
        )
        headers = dict(POST_HEADERS)
        if route.authorization:
            headers["Authorization"] = route.authorization
        url = URL(f"{route.remote.text}/git-upload-pack")
        asked = self._asked[spec.id] = _RefsRequest(route, prefixes, url, headers, body)
        return asked
