"""Accepting agents: one gRPC call of raw bytes each, `/fleet.v1.Door/Tunnel`."""

import asyncio
import secrets
from typing import Any

import grpc
import structlog

from fleet.errors import TowlineError
from fleet.identity import ClusterId
from fleet.links.grpc_stream import GrpcLink
from fleet.mux.budget import Budget
from fleet.mux.codec import Drain, Hello, Open, ProtocolError
from fleet.mux.mux import Mux, MuxSettings
from fleet.mux.stream import Stream
from fleet.runtime.clock import Clock
from proxy.ports import AgentAuthenticator
from proxy.tunnel.registry import Registry

log = structlog.get_logger(__name__)

SERVICE = "fleet.v1.Door"


class TunnelServer:
    """The hub end of every agent's link. It is the `Tunnels` port of the gateway."""

    def __init__(
        self,
        authenticate: AgentAuthenticator,
        clock: Clock,
        budget: Budget,
        settings: MuxSettings,
    ) -> None:
        self._authenticate, self._clock = authenticate, clock
        self._budget, self._settings = budget, settings
        self._instance = secrets.token_bytes(16)
        self._registry = Registry()

    def handler(self) -> grpc.GenericRpcHandler:
        """To be added to a `grpc.aio` server."""
        method = grpc.stream_stream_rpc_method_handler(self._serve)
        return grpc.method_handlers_generic_handler(SERVICE, {"Tunnel": method})

    def find(self, cluster_id: ClusterId) -> Mux | None:
        """The link for new requests to a cluster."""
        return self._registry.find(cluster_id)

    def is_connected(self, cluster_id: ClusterId) -> bool:
        """Whether requests can reach the cluster now."""
        link = self._registry.find(cluster_id)
        return link is not None and link.open_for_new

    def close(self, cluster_id: ClusterId, reason: str) -> None:
        """End a cluster's link and every request on it."""
        link = self._registry.find(cluster_id)
        if link is not None:
            link.close(reason)

    def drain(self, grace: float, text: str) -> None:
        """Ask all agents to connect elsewhere; `grace` in seconds."""
        for link in self._registry.links:
            link.drain(int(grace * 1000), text)

    def stop(self) -> None:
        """End every link."""
        for link in self._registry.links:
            link.close("the control plane stops")

    async def _serve(self, _: Any, context: grpc.aio.ServicerContext) -> None:
        cluster_id = await self._identify(context)
        link = GrpcLink(context)
        owner = _LinkOwner(cluster_id, self._registry)
        mux = owner.mux = Mux(
            link,
            owner,
            hub=True,
            hello=Hello(self._instance, self._settings.window),
            clock=self._clock,
            timers=asyncio.get_running_loop(),
            budget=self._budget,
            settings=self._settings,
        )
        await link.carry(mux, self._clock)

    async def _identify(self, context: grpc.aio.ServicerContext) -> ClusterId:
        metadata = dict(context.invocation_metadata() or ())
        scheme, _, token = str(metadata.get("authorization", "")).partition(" ")
        try:
            return await self._authenticate(token if scheme.lower() == "bearer" else "")
        except TowlineError as error:
            log.info("agent refused", peer=context.peer(), why=error.message)
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, error.message)


class _LinkOwner:
    """Keeps the registry true to one link."""

    def __init__(self, cluster_id: ClusterId, registry: Registry) -> None:
        self.mux: Mux
        self._cluster_id, self._registry = cluster_id, registry

    def on_ready(self, hello: Hello) -> None:
        log.info("agent connected", cluster=self._cluster_id)
        self._registry.add(self._cluster_id, self.mux)

    def on_open(self, stream: Stream, request: Open) -> None:
        raise ProtocolError("an agent opens no streams")

    def on_hand_over(self, drain: Drain) -> None:
        log.info("agent goes away", cluster=self._cluster_id, why=drain.text)

    def on_closed(self, reason: str) -> None:
        log.info("agent disconnected", cluster=self._cluster_id, why=reason)
        self._registry.remove(self._cluster_id, self.mux)
