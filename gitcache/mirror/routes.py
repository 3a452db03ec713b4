"""Finds the way to each repository's server."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeVar
from urllib.parse import urlsplit, urlunsplit

from fleet.errors import Invalid, Unavailable
from fleet.remotes import parse_remote
from fleet.source import RepositorySpec
from gitcache.mirror.admission import Admission
from gitcache.mirror.apptokens import AppTokens
from gitcache.mirror.route import Refused, Route
from gitcache.mirror.tls import authorities, client_context
from gitcache.ports import Egress

Result = TypeVar("Result")


class Routes:
    """Finds the route of a repository.

    `proxy` and `authority` (PEM) are those of the installation. Routes are kept per repository
    as long as nothing about it changes: a poll must cost no more than its request.
    """

    def __init__(
        self,
        admission: Admission,
        tokens: AppTokens | None = None,
        *,
        egress: Egress | None = None,
        proxy: str | None = None,
        authority: str | None = None,
    ) -> None:
        self._admission = admission
        self._tokens = tokens
        self._egress = egress
        self._proxy = checked_proxy(proxy) if proxy else None
        self._authority = authority
        self._kept: dict[str, tuple[tuple[object, ...], Route]] = {}

    async def to(self, spec: RepositorySpec) -> Route:
        """The route for requests whose addresses are judged on connecting. Invalid, Unavailable."""
        key = (spec.url, spec.credentials, spec.via)
        kept = self._kept.get(spec.id)
        if kept is None or kept[0] != key:
            self._kept[spec.id] = kept = (key, self._fixed(spec))
        route = kept[1]
        if spec.via is not None:
            route = replace(route, proxy=await self._through(spec), trusted_proxy=True)
        if route.credentials is not None and route.credentials.app_id is not None:
            route = await self._with_token(route)
        return route

    async def use(self, spec: RepositorySpec, work: Callable[[Route], Awaitable[Result]]) -> Result:
        """Do something on the route; once more with a new token if an App's token was refused."""
        try:
            return await work(await self.to(spec))
        except Refused:
            if not self._distrust(spec):
                raise
        return await work(await self.to(spec))

    async def use_bound(
        self, spec: RepositorySpec, work: Callable[[Route], Awaitable[Result]]
    ) -> Result:
        """As `use`, for programs: the route comes with the addresses they are bound to."""

        async def bound(route: Route) -> Result:
            return await work(await self._bound(route))

        return await self.use(spec, bound)

    async def _bound(self, route: Route) -> Route:
        if route.proxy is not None:
            return route
        return replace(route, addresses=await self._admission.addresses(route.remote))

    def _distrust(self, spec: RepositorySpec) -> bool:
        """Forget a token that was refused; whether asking again with a new one may help."""
        credentials = spec.credentials
        if credentials is None or credentials.app_id is None or self._tokens is None:
            return False
        return self._tokens.forget(credentials)

    def _fixed(self, spec: RepositorySpec) -> Route:
        remote = parse_remote(spec.url)
        own = spec.credentials.proxy if spec.credentials else None
        for host in (remote.host, urlsplit(own or "").hostname):
            self._admission.check_host(host or "")
        return Route(
            remote,
            spec.credentials,
            client_context(spec.credentials, self._authority),
            authorities(spec.credentials, self._authority),
            checked_proxy(own) if own else self._proxy,
            trusted_proxy=own is None,
        )

    async def _through(self, spec: RepositorySpec) -> str:
        if self._egress is None or spec.via is None:
            raise Unavailable("this process cannot reach repositories through a cluster's agent")
        return await self._egress.proxy_url(spec.via)

    async def _with_token(self, route: Route) -> Route:
        given = route.credentials
        if given is None or self._tokens is None:
            raise Unavailable("this process cannot sign in as a GitHub App")
        token = await self._tokens.token(given, route)
        plain = replace(
            given, username="x-access-token", password=token, private_key=None, app_id=None
        )
        return replace(route, credentials=plain)


def checked_proxy(url: str) -> str:
    """A proxy's URL in normal form. Invalid: anything but `http://[user:password@]host:port`."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise Invalid("cannot be read as a URL", field="proxy") from None
    plain = parts.scheme == "http" and parts.hostname and port and parts.path in {"", "/"}
    if not plain or parts.query or parts.fragment or not url.isprintable() or " " in url:
        raise Invalid("must be http://[user:password@]host:port", field="proxy")
    return urlunsplit((parts.scheme, parts.netloc, "", "", ""))
