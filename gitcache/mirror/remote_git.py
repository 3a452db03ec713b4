"""Runs git commands that access a repository's server, and translates their errors."""

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from core.errors import AccessDenied
from core.spec.source import RepositorySpec
from gitcache.mirror.runner import GitError, GitRunner
from gitcache.mirror.transport.git_environment import GitEnvironment, plain_key
from gitcache.mirror.transport.host_keys import scan_host_keys
from gitcache.mirror.transport.rate_limit import ServerRateLimiter
from gitcache.mirror.transport.route import CredentialsRefused, ServerRoute
from gitcache.mirror.transport.route_finder import RouteFinder

_REFUSED = re.compile(
    r"Authentication failed|could not read Username|returned error: 40[13]|Permission denied",
    re.IGNORECASE,
)
_MISSING = re.compile(
    r"repository .*(not found|does not exist)|not appear to be a git repository", re.IGNORECASE
)
_UNKNOWN_HOST = re.compile(r"host key is known for|Host key verification failed")
_CHANGED_HOST = re.compile(r"IDENTIFICATION HAS CHANGED|Host key for .* has changed")

Arguments = Callable[[str], list[str]]


class _RepositoryMissing(GitError, AccessDenied):
    """The server has no such repository, or does not show it to these credentials."""


class RemoteGit:
    """Runs git with a repository's route: credentials, proxy, addresses and rate limit."""

    def __init__(
        self,
        runner: GitRunner,
        access: GitEnvironment,
        routes: RouteFinder,
        pacing: ServerRateLimiter,
    ) -> None:
        self._runner = runner
        self._access = access
        self._routes = routes
        self._pacing = pacing

    async def run(
        self,
        spec: RepositorySpec,
        arguments: Arguments,
        *,
        seconds: float,
        env: Mapping[str, str] | None = None,
    ) -> str:
        """Runs git with `arguments(url)`; returns its output. GitError, Refused, Unavailable."""

        async def work(route: ServerRoute) -> str:
            # Deriving a key from a passphrase takes 100 ms of CPU time.
            await asyncio.to_thread(plain_key, route.credentials)
            async with self._pacing.slot(f"{route.remote.host}:{route.remote.port}"):
                with self._access.environment(spec.id, route) as environment:
                    return await self._run_on_route(
                        route, arguments(route.remote.text), environment | dict(env or {}), seconds
                    )

        return await self._routes.use_with_addresses(spec, work)

    async def fetch(
        self,
        spec: RepositorySpec,
        clone: Path,
        refspecs: Sequence[str],
        *options: str,
        seconds: float,
    ) -> None:
        """Fetches refspecs into a clone, with these options of `git fetch`. Raises as `run`."""
        fixed = ("--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance")
        command = [f"--git-dir={clone}", "fetch", *fixed, *options, "--"]
        await self.run(spec, lambda url: [*command, url, *refspecs], seconds=seconds)

    async def _run_on_route(
        self, route: ServerRoute, arguments: list[str], env: Mapping[str, str], seconds: float
    ) -> str:
        try:
            return await self._runner.run(arguments, env, seconds=seconds, secrets=route.secrets)
        except GitError as error:
            raise await _classify_error(error, route) from error


async def _classify_error(error: GitError, route: ServerRoute) -> Exception:
    host = route.remote.host
    if _CHANGED_HOST.search(error.message):
        presented = await _presented_keys(route)
        return GitError(
            f"{host} presents a host key that differs from the known one{presented}: "
            "if its owner has changed the key, replace its line in known_hosts"
        )
    if _UNKNOWN_HOST.search(error.message):
        presented = await _presented_keys(route)
        return GitError(
            f"the ssh host {host} is not known{presented}: verify the key with its "
            "owner, then add it to the repository's known hosts or to the "
            "installation's setting git.fetch.known_hosts"
        )
    if _REFUSED.search(error.message):
        return CredentialsRefused(f"{host} refused the credentials: {error.message}")
    if _MISSING.search(error.message):
        return _RepositoryMissing(error.message)
    return error


async def _presented_keys(route: ServerRoute) -> str:
    keys = await scan_host_keys(route.addresses[0], route.remote.port) if route.addresses else []
    return f" (it presents {', '.join(keys)})" if keys else ""
