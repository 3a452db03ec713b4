"""A simulated agent; to the control plane it looks like a real one."""

import random
import socket
from dataclasses import dataclass
from urllib.parse import urlsplit
from uuid import UUID

from core.identity import new_id
from core.rpc.calls import CallChannel
from core.runtime.clock import Clock
from syncagent.link.channel import Endpoint
from syncagent.link.commands import Commands
from syncagent.link.facts import ClusterFactsCache
from syncagent.link.fetch import BundleTransfer
from syncagent.link.logs import LogQueue
from syncagent.link.reports import OutboxReports
from syncagent.link.session import LinkPorts
from syncagent.link.supervisor import AgentIdentity, LinkSupervisor
from syncagent.tunnel.client import TunnelClient
from syncagent.tunnel.guard import ImpersonationPolicy
from syncagent.tunnel.keeper import TunnelKeeper
from syncagent.tunnel.upstream import Upstream
from towline.simulate.cluster import SimulatedCluster
from towline.simulate.outbox import MemoryOutbox

_UNUSED_UPSTREAM = ("127.0.0.1", 9)
_PROBE_S = 0.3


@dataclass(frozen=True, slots=True)
class BalancedEndpoint(Endpoint):
    """Endpoint that picks a random address that accepts connections, as a load balancer does."""

    addresses: tuple[str, ...] = ()

    def connect(self, clock: Clock) -> CallChannel:
        """Creates a channel to one address, without connecting it."""
        drawn = random.sample(self.addresses, len(self.addresses))
        listening = (
            address for address in drawn if len(drawn) == 1 or _accepts_connections(address)
        )
        address = next(listening, drawn[0])
        return Endpoint(address, self.token, self.ca, self.server_name).connect(clock)


def _accepts_connections(address: str) -> bool:
    url = urlsplit(address if "://" in address else f"//{address}")
    try:
        socket.create_connection((url.hostname or "", url.port or 443), _PROBE_S).close()
    except OSError:
        return False
    return True


class SimulatedAgent:
    """Runs the real link and tunnel for a simulated cluster."""

    def __init__(
        self, name: str, token: str, ca: bytes, addresses: tuple[str, ...], clock: Clock
    ) -> None:
        self.name = name
        instance = new_id(clock.now())
        endpoint = BalancedEndpoint(addresses[0], token, ca, addresses=addresses)
        self.outbox = MemoryOutbox(clock, lambda: self.cluster.mark_acknowledged())
        fetcher = BundleTransfer(endpoint.metadata)
        self.cluster = SimulatedCluster(fetcher, OutboxReports(self.outbox), clock)

        def dial(channel: CallChannel) -> TunnelClient:
            upstream = Upstream(*_UNUSED_UPSTREAM, None, _no_token)
            id = UUID(instance).bytes
            policy = ImpersonationPolicy()
            return TunnelClient(channel, endpoint.metadata, upstream, clock, policy, instance=id)

        self.link = LinkSupervisor(
            endpoint,
            AgentIdentity(instance),
            LinkPorts(self.cluster, Commands(self.cluster), self.outbox, LogQueue(), clock),
            fetcher,
            ClusterFactsCache(self.cluster.facts, clock),
            (TunnelKeeper(dial, clock).run,),
        )

    async def run(self) -> None:
        """Keeps the link connected until cancelled."""
        try:
            await self.link.run()
        finally:
            await self.cluster.tasks.stop()


async def _no_token() -> str:
    return ""
