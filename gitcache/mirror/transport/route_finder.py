"""Finds the route to each repository's server."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeVar
from urllib.parse import urlsplit, urlunsplit

from core.errors import Invalid, Unavailable
from core.identity import ClusterId
from core.outbound.addresses import AddressGuard
from core.outbound.client import OutboundRoute
from core.remotes import normalize_proxy_url, parse_remote
from core.runtime.clock import Clock
from core.runtime.ttl_cache import TTLCache
from core.spec.source import GitCredentials, RepositorySpec
from gitcache.mirror.transport.app_tokens import AppTokens
from gitcache.mirror.transport.route import CredentialsRefused, ServerRoute
from gitcache.mirror.transport.tls import authorities, repository_context
from gitcache.ports import ClusterEgress

_EGRESS_CACHE_SECONDS = 600.0

Result = TypeVar("Result")


class RouteFinder:
    """Finds and caches the route of each repository.

    `proxy` and `authority` (PEM) are the installation's. A cached route stays valid until the
    repository changes, so that a poll costs only its request.
    """

    def __init__(
        self,
        guard: AddressGuard,
        clock: Clock,
        tokens: AppTokens,
        *,
        egress: ClusterEgress | None = None,
        proxy: str | None = None,
        authority: str | None = None,
    ) -> None:
        self._guard = guard
        self._tokens = tokens
        self._egress = egress
        self._proxy = normalize_proxy_url(proxy) if proxy else None
        self._authority = authority
        self._egress_urls: TTLCache[ClusterId, str] = TTLCache(clock, _EGRESS_CACHE_SECONDS)
        self._cached_routes: dict[str, tuple[tuple[object, ...], ServerRoute]] = {}

    async def find(self, spec: RepositorySpec) -> ServerRoute:
        """Returns a route for clients that check addresses themselves. Invalid, Unavailable."""
        route = await self._route_without_token(spec)
        if route.credentials is not None and route.credentials.app_id is not None:
            route = await self._with_token(route, route.credentials)
        return route

    async def issue_read_token(self, spec: RepositorySpec) -> GitCredentials | None:
        """Creates a token for another process that can read only this repository, for one hour.

        Returns None without a GitHub App: long-lived credentials are never shared. Unavailable.
        """
        credentials = spec.credentials
        if credentials is None or credentials.app_id is None:
            return None
        token = await self._tokens.repository_token(
            credentials, await self._route_without_token(spec)
        )
        return GitCredentials(
            username="x-access-token", password=token, authority=credentials.authority
        )

    async def _route_without_token(self, spec: RepositorySpec) -> ServerRoute:
        """Returns the route without the token of a GitHub App."""
        key = (spec.url, spec.credentials, spec.via)
        cached = self._cached_routes.get(spec.id)
        if cached is None or cached[0] != key:
            self._cached_routes[spec.id] = cached = (key, self._configured_route(spec))
        route = cached[1]
        if spec.via is not None:
            proxy = await self._egress_url(spec.via)
            outbound = replace(route.outbound, proxy=proxy, trusted_proxy=True)
            route = replace(route, outbound=outbound)
        return route

    async def use(
        self, spec: RepositorySpec, work: Callable[[ServerRoute], Awaitable[Result]]
    ) -> Result:
        """Runs work with the route; retries once with a new token if an App's token is refused."""
        try:
            return await work(await self.find(spec))
        except CredentialsRefused:
            if not self._forget_token(spec):
                raise
        except Unavailable:
            await self._check_egress(spec)
            raise
        return await work(await self.find(spec))

    async def use_with_addresses(
        self, spec: RepositorySpec, work: Callable[[ServerRoute], Awaitable[Result]]
    ) -> Result:
        """Runs work like `use`, with resolved addresses in the route for external programs."""

        async def work_with_addresses(route: ServerRoute) -> Result:
            return await work(await self._with_addresses(route))

        return await self.use(spec, work_with_addresses)

    async def _with_addresses(self, route: ServerRoute) -> ServerRoute:
        if route.proxy is not None:
            return await self._with_checked_proxy(route, route.proxy)
        addresses = await self._guard.addresses(route.remote.host, route.remote.port)
        return replace(route, addresses=addresses)

    async def _with_checked_proxy(self, route: ServerRoute, proxy: str) -> ServerRoute:
        """Names an own proxy of a repository by an allowed address: Git would resolve it again."""
        if route.outbound.trusted_proxy:
            return route
        parts = urlsplit(proxy)
        host, port = parts.hostname or "", parts.port or 0
        address = (await self._guard.addresses(host, port))[0]
        endpoint = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
        user = parts.netloc.rpartition("@")[0]
        netloc = f"{user}@{endpoint}" if user else endpoint
        checked = urlunsplit((parts.scheme, netloc, "", "", ""))
        return replace(route, outbound=replace(route.outbound, proxy=checked))

    def _forget_token(self, spec: RepositorySpec) -> bool:
        """Drops a refused token; returns True if a retry with a new one may help."""
        credentials = spec.credentials
        if credentials is None or credentials.app_id is None:
            return False
        return self._tokens.forget(credentials)

    def _configured_route(self, spec: RepositorySpec) -> ServerRoute:
        remote = parse_remote(spec.url)
        own_proxy = spec.credentials.proxy if spec.credentials else None
        if spec.via is not None and remote.scheme == "http":
            raise Invalid("only https and ssh URLs can be reached through a cluster", field="url")
        for host in (remote.host, urlsplit(own_proxy or "").hostname):
            self._guard.check_host(host or "")
        outbound = OutboundRoute(
            repository_context(spec.credentials, self._authority),
            normalize_proxy_url(own_proxy) if own_proxy else self._proxy,
            trusted_proxy=own_proxy is None,
        )
        authority = authorities(spec.credentials, self._authority)
        return ServerRoute(remote, spec.credentials, outbound, authority)

    async def _egress_url(self, cluster: ClusterId) -> str:
        """Returns the proxy through an agent, cached for minutes so that connections stay open."""
        if (cached := self._egress_urls.get(cluster)) is not None:
            return cached
        if self._egress is None:
            raise Unavailable("this process has no egress through the agents of clusters")
        url = await self._egress.proxy_url(cluster)
        self._egress_urls.put(cluster, url)
        return url

    async def _check_egress(self, spec: RepositorySpec) -> None:
        """Raises Unavailable with the agent's reason if the agent caused the failure."""
        if spec.via is not None and self._egress_urls.get(spec.via) is not None:
            self._egress_urls.forget(spec.via)
            await self._egress_url(spec.via)

    async def _with_token(self, route: ServerRoute, credentials: GitCredentials) -> ServerRoute:
        token = await self._tokens.token(credentials, route)
        token_credentials = replace(
            credentials, username="x-access-token", password=token, private_key=None, app_id=None
        )
        return replace(route, credentials=token_credentials)
