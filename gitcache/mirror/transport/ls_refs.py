"""Lists refs over http(s) with one protocol version 2 request on a pooled connection."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from yarl import URL

from core.spec.source import RepositorySpec
from gitcache.mirror.transport import pktline
from gitcache.mirror.transport.capabilities import VERSION2, KnownCapabilities
from gitcache.mirror.transport.http import GitHttpClient, read_limited
from gitcache.mirror.transport.route import ServerRoute
from gitcache.mirror.transport.route_finder import RouteFinder

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
        self._requests: dict[str, _RefsRequest] = {}

    async def list_refs(self, spec: RepositorySpec, prefixes: Sequence[str]) -> Mapping[str, str]:
        """Implements `RefLister.list_refs`. Raises NotVersion2 if another method is needed."""

        async def work(route: ServerRoute) -> Mapping[str, str]:
            try:
                return await self._send(self._prepared_request(spec, route, prefixes))
            except pktline.Malformed:
                return await self._retry_with_capabilities(spec, route, prefixes)

        return await self._routes.use(spec, work)

    async def _send(self, request: _RefsRequest) -> Mapping[str, str]:
        async with self._http.request(
            "POST", request.route, request.url, headers=request.headers, body=request.body
        ) as answer:
            self._http.check_status(answer)
            if answer.status != 200 or answer.content_type != _RESULT:
                raise NotVersion2
            data = await read_limited(answer, _MAX_ANSWER, "the server's list of refs")
        if request.refs is None or data != request.answer:
            request.refs, request.answer = pktline.parse_refs(data), data
        return request.refs

    async def _retry_with_capabilities(
        self, spec: RepositorySpec, route: ServerRoute, prefixes: Sequence[str]
    ) -> Mapping[str, str]:
        """Retries after a malformed response, which may be due to the object format."""
        self._requests.pop(spec.id, None)
        cached = self._capabilities.cached(route)
        capabilities = cached or await self._capabilities.get(route)
        if cached is not None or not capabilities.version2:
            raise NotVersion2
        try:
            return await self._send(self._prepared_request(spec, route, prefixes))
        except pktline.Malformed as error:
            raise NotVersion2 from error

    def _prepared_request(
        self, spec: RepositorySpec, route: ServerRoute, prefixes: Sequence[str]
    ) -> _RefsRequest:
        previous = self._requests.get(spec.id)
        if previous is not None and previous.route is route and previous.prefixes == prefixes:
            return previous
        capability_lines = ["agent=git/towline"]
        if (cached := self._capabilities.cached(route)) is not None and cached.version2:
            capability_lines.append(f"object-format={cached.object_format}")
        arguments = ["peel", *(f"ref-prefix {prefix}" for prefix in prefixes)]
        body = pktline.encode_command("ls-refs", capability_lines, arguments)
        headers = route.authorized(POST_HEADERS)
        url = URL(f"{route.remote.text}/git-upload-pack")
        request = self._requests[spec.id] = _RefsRequest(route, prefixes, url, headers, body)
        return request
