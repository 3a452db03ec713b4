"""Lists refs with `git ls-remote`: for ssh, and for servers without protocol version 2."""

from collections.abc import Mapping, Sequence

import structlog

from core.remotes import parse_remote
from core.runtime.clock import Clock
from core.spec.source import RepositorySpec
from gitcache.mirror.metrics import GitMetrics
from gitcache.mirror.remote_git import RemoteGit
from gitcache.mirror.transport.ls_refs import HttpRefLister, NotVersion2

log = structlog.get_logger(__name__)

_PEELED = "^{}"


class GitRefLister:
    """Lists refs with one git process per poll."""

    def __init__(self, remotes: RemoteGit, *, seconds: float) -> None:
        self._remotes = remotes
        self._seconds = seconds

    async def list_refs(self, spec: RepositorySpec, prefixes: Sequence[str]) -> Mapping[str, str]:
        """Implements `RefLister.list_refs`."""
        patterns = [name for ref in prefixes for name in (ref, ref + _PEELED)]
        text = await self._remotes.run(
            spec, lambda url: ["ls-remote", "--quiet", "--", url, *patterns], seconds=self._seconds
        )
        return parse_lines(text)


def parse_lines(text: str) -> dict[str, str]:
    """Parses the output of `git ls-remote` to full ref name and object id, tags peeled."""
    refs: dict[str, str] = {}
    for line in text.splitlines():
        sha, _, name = line.partition("\t")
        if name.endswith(_PEELED):
            refs[name.removesuffix(_PEELED)] = sha
        elif name:
            refs.setdefault(name, sha)
    return refs


class AdaptiveRefLister:
    """Lists refs over http if the server supports it, else with a git process.

    Tries http again after `retry_seconds`.
    """

    def __init__(
        self,
        http: HttpRefLister,
        process: GitRefLister,
        clock: Clock,
        meters: GitMetrics,
        *,
        retry_seconds: float,
    ) -> None:
        self._http = http
        self._process = process
        self._clock = clock
        self._meters = meters
        self._retry_seconds = retry_seconds
        self._http_retry_at: dict[str, float] = {}

    async def list_refs(self, spec: RepositorySpec, prefixes: Sequence[str]) -> Mapping[str, str]:
        """Implements `RefLister.list_refs`."""
        remote = parse_remote(spec.url)
        now = self._clock.monotonic()
        if remote.is_http and self._http_retry_at.get(remote.text, now) <= now:
            try:
                with self._meters.measure_poll("http"):
                    return await self._http.list_refs(spec, prefixes)
            except NotVersion2:
                log.info("server without protocol version 2", repository=spec.id, host=remote.host)
                self._http_retry_at[remote.text] = now + self._retry_seconds
        with self._meters.measure_poll("git"):
            return await self._process.list_refs(spec, prefixes)
