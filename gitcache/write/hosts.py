"""Hosting over connections of its own, for processes without clones too."""

from fleet.runtime.clock import Clock
from gitcache.mirror.admission import Admission
from gitcache.mirror.apptokens import AppTokens
from gitcache.mirror.http import HttpClient
from gitcache.mirror.mirror import MirrorOptions
from gitcache.mirror.pacing import Pacing
from gitcache.mirror.routes import Routes
from gitcache.ports import Egress
from gitcache.write.hosting import Hosting


class Hosts(Hosting):
    """`Hosting` with all that it needs; to be closed."""

    def __init__(self, options: MirrorOptions, clock: Clock, egress: Egress | None) -> None:
        self._admission = Admission(allow_private_hosts=options.allow_private_hosts)
        pacing = Pacing(clock, at_once=options.at_once, per_second=options.per_second)
        http = HttpClient(self._admission, pacing, clock, seconds=options.request_seconds)
        routes = Routes(
            self._admission,
            clock,
            AppTokens(http, clock),
            egress=egress,
            proxy=options.proxy,
            authority=options.authority,
        )
        self._client = http
        super().__init__(http, routes)

    async def close(self) -> None:
        """Close all connections."""
        await self._client.close()
        await self._admission.close()
