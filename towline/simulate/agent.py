"""One simulated agent: everything of a real one that the control plane can see."""

import random
import socket
from dataclasses import dataclass
from urllib.parse import urlsplit
from uuid import UUID

from fleet.identity import new_id
from fleet.rpc.calls import Channel
from fleet.runtime.clock import Clock
from syncagent.link.channel import Endpoint
from syncagent.link.commands import Commands
from syncagent.link.facts import Facts
from syncagent.link.fetch import HubFetcher
from syncagent.link.logs import LogQueue
from syncagent.link.reports import OutboxReports
from syncagent.link.supervisor import Introduction, Link
from syncagent.tunnel.client import TunnelClient
from syncagent.tunnel.guard import ImpersonationPolicy
from syncagent.tunnel.keeper import TunnelKeeper
from syncagent.tunnel.upstream import Upstream
from towline.simulate.cluster import SimulatedCluster
from towline.simulate.outbox import MemoryOutbox

_NOBODY = ("127.0.0.1", 9)
_PROBE_S = 0.3


@dataclass(frozen=True, slots=True)
class Balanced(Endpoint):
    """One of several addresses that accept connections, drawn anew each time.

    So would a load balancer that looks which of its targets listen.
    """

    addresses: tuple[str, ...] = ()

    def connect(self, clock: Clock) -> Channel:
        """A channel to one of them, not yet connected."""
        drawn = random.sample(self.addresses, len(self.addresses))
        listening = (one for one in drawn if len(drawn) == 1 or _listens(one))
        address = next(listening, drawn[0])
        return Endpoint(address, self.token, self.ca, self.server_name).connect(clock)


def _listens(address: str) -> bool:
    place = urlsplit(address if "://" in address else f"//{address}")
    try:
        socket.create_connection((place.hostname or "", place.port or 443), _PROBE_S).close()
    except OSError:
        return False
    return True


class SimulatedAgent:
    """The real link and tunnel of a cluster that exists only here."""

    def __init__(
        self, name: str, token: str, ca: bytes, addresses: tuple[str, ...], clock: Clock
    ) -> None:
        self.name = name
        instance = new_id(clock.now())
        endpoint = Balanced(addresses[0], token, ca, addresses=addresses)
        self.outbox = MemoryOutbox(clock, lambda: self.cluster.emptied())
        fetcher = HubFetcher(endpoint.metadata)
        self.cluster = SimulatedCluster(fetcher, OutboxReports(self.outbox), clock)

        def dial(channel: Channel) -> TunnelClient:
            upstream = Upstream(*_NOBODY, None, _no_token)
            id = UUID(instance).bytes
            policy = ImpersonationPolicy()
            return TunnelClient(channel, endpoint.metadata, upstream, clock, policy, instance=id)

        self.link = Link(
            endpoint,
            Introduction(instance),
            self.cluster,
            Commands(self.cluster),
            self.outbox,
            LogQueue(),
            fetcher,
            Facts(self.cluster.facts, clock),
            clock,
            (TunnelKeeper(dial, clock).run,),
        )

    async def run(self) -> None:
        """Stay linked, for ever."""
        try:
            await self.link.run()
        finally:
            await self.cluster.tasks.stop()


async def _no_token() -> str:
    return ""
