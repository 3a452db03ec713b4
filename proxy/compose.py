"""The door put together."""

import asyncio
from dataclasses import dataclass

import grpc

from fleet.identity import ClusterId
from fleet.mux.budget import Budget
from fleet.mux.mux import MuxSettings
from fleet.runtime.clock import Clock
from fleet.runtime.tasks import Tasks
from proxy.domain.streams import OpenStream
from proxy.gateway.connection import make_door
from proxy.gateway.desk import Desk
from proxy.gateway.gateway import Gateway
from proxy.gateway.meters import Meters
from proxy.ports import (
    AgentAuthenticator,
    AgentPresence,
    AuditLog,
    Authenticator,
    Authorizer,
    Recorder,
)
from proxy.settings import ProxySettings
from proxy.tunnel.server import TunnelServer


@dataclass(frozen=True, slots=True)
class Door:
    """`protocol_class` goes to `uvicorn.Config(http=...)`, `grpc_handler` to the agents' server.

    `start` is called inside the event loop that serves both.
    """

    gateway: Gateway
    tunnels: TunnelServer
    protocol_class: type[asyncio.Protocol]
    grpc_handler: grpc.GenericRpcHandler

    def start(self) -> None:
        """Begin the background work."""
        self.gateway.start()
        self.tunnels.start()

    def revoke(
        self,
        *,
        user: str | None = None,
        token: str | None = None,
        session: str | None = None,
        cluster: ClusterId | None = None,
        grant: str | None = None,
    ) -> int:
        """End every request that matches one of these, now; how many there were."""
        return self.gateway.revoke(
            user=user, token=token, session=session, cluster=cluster, grant=grant
        )

    def open_streams(self) -> list[OpenStream]:
        """The requests that are under way here."""
        return self.gateway.open_streams()

    def end_stream(self, id: str, by: str) -> bool:
        """End one of them; False: there is none of this id."""
        return self.gateway.end_stream(id, by)

    def is_connected(self, cluster_id: ClusterId) -> bool:
        """Whether requests can reach the cluster now."""
        return self.tunnels.is_connected(cluster_id)

    def disconnect(self, token_id: str) -> None:
        """End the links of the agent that has signed in with this token: it was revoked."""
        self.tunnels.revoke(token_id)

    @property
    def tasks(self) -> tuple[Tasks, ...]:
        """The background work that must not end before `stop`."""
        return self.gateway.tasks, self.tunnels.tasks

    async def drain(self) -> None:
        """Move agents elsewhere and let requests end, for the grace at most."""
        self.tunnels.drain(self.gateway.timeouts.grace, "the control plane is restarting")
        await self.gateway.drain()

    async def stop(self) -> None:
        """End everything."""
        self.tunnels.stop()
        await self.tunnels.tasks.stop()
        await self.gateway.stop()


def build(
    settings: ProxySettings,
    clock: Clock,
    authenticator: Authenticator,
    authorizer: Authorizer,
    audit: AuditLog,
    presence: AgentPresence,
    authenticate_agent: AgentAuthenticator,
    *,
    recorder: Recorder | None = None,
    meters: Meters | None = None,
) -> Door:
    """A door that asks these ports; without a recorder, what must be recorded is refused."""
    tunnels = TunnelServer(authenticate_agent, clock, Budget(settings.memory), MuxSettings())
    desk = Desk(
        authenticator,
        authorizer,
        audit,
        presence,
        tunnels,
        clock,
        settings.streams,
        settings.timeouts,
        recorder=recorder,
        meters=meters,
    )
    gateway = Gateway(desk, clock, settings.head, settings.timeouts, settings.streams)
    return Door(gateway, tunnels, make_door(gateway), tunnels.handler())
