"""Lists refs with `git ls-remote`: for ssh, and for servers without protocol version 2."""

from collections.abc import Mapping, Sequence

import structlog

from fleet.remotes import parse_remote
from fleet.runtime.clock import Clock
from fleet.source import RepositorySpec
from gitcache.mirror.access import Access, secrets_of
from gitcache.mirror.admission import Admission
from gitcache.mirror.lsrefs import HttpRefLister, NotVersion2
from gitcache.mirror.runner import GitRunner

log = structlog.get_logger(__name__)

_PEELED = "^{}"


class GitRefLister:
    """A git process per poll."""

    def __init__(
        self, runner: GitRunner, access: Access, admission: Admission, *, seconds: float
    ) -> None:
        self._runner = runner
        self._access = access
        self._admission = admission
        self._seconds = seconds

    async def list_refs(self, spec: RepositorySpec, prefixes: Sequence[str]) -> Mapping[str, str]:
        """As `RefLister.list_refs`."""
        remote = parse_remote(spec.url)
        addresses = await self._admission.addresses(remote)
        patterns = [name for ref in prefixes for name in (ref, ref + _PEELED)]
        with self._access.environment(remote, spec.credentials, addresses) as env:
            text = await self._runner.run(
                ["ls-remote", "--quiet", "--", remote.text, *patterns],
                env,
                seconds=self._seconds,
                secrets=secrets_of(spec.credentials),
            )
        return parse_lines(text)


def parse_lines(text: str) -> dict[str, str]:
    """Full ref name to object id, tags peeled, from the lines of `git ls-remote`."""
    refs: dict[str, str] = {}
    for line in text.splitlines():
        sha, _, name = line.partition("\t")
        if name.endswith(_PEELED):
            refs[name.removesuffix(_PEELED)] = sha
        elif name:
            refs.setdefault(name, sha)
    return refs


class AdaptiveRefLister:
    """The request over http where the server can answer it, else the git process.

    A server that could not is asked again in the cheap way after `retry_seconds`.
    """

    def __init__(
        self, http: HttpRefLister, process: GitRefLister, clock: Clock, *, retry_seconds: float
    ) -> None:
        self._http = http
        self._process = process
        self._clock = clock
        self._retry_seconds = retry_seconds
        self._not_before: dict[str, float] = {}

    async def list_refs(self, spec: RepositorySpec, prefixes: Sequence[str]) -> Mapping[str, str]:
        """As `RefLister.list_refs`."""
        remote = parse_remote(spec.url)
        now = self._clock.monotonic()
        if not remote.is_http or self._not_before.get(remote.text, now) > now:
            return await self._process.list_refs(spec, prefixes)
        try:
            return await self._http.list_refs(spec, prefixes)
        except NotVersion2:
            log.info("server without protocol version 2", repository=spec.id, host=remote.host)
            self._not_before[remote.text] = now + self._retry_seconds
            return await self._process.list_refs(spec, prefixes)
