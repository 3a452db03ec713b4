"""Links to other replicas, one to each, and the listener for theirs."""

import asyncio
import secrets
import ssl

import structlog

from core.errors import Unavailable
from core.mux.budget import ReceiveBudget
from core.mux.codec import FEATURE_REPLICA_REQUESTS, Drain, Hello, Open, ProtocolError
from core.mux.mux import Mux, MuxOwner, MuxSettings, MuxTime
from core.mux.stream import TunnelStream
from core.runtime.clock import Clock
from core.runtime.tasks import Tasks
from proxy.replicas.wire import WireLink

log = structlog.get_logger(__name__)

DIAL_SECONDS = 2.0
BEAT_SECONDS = 1.0
# A stopped replica must be detected long before the agents would detect it.
SETTINGS = MuxSettings(ping_after=2.0, dead_after=6.0)


class DialledLinkOwner:
    """Owner of a link that this replica dialled: only this side opens streams."""

    def __init__(self) -> None:
        self.ready = asyncio.Event()

    def on_ready(self, hello: Hello) -> None:
        self.ready.set()

    def on_open(self, stream: TunnelStream, request: Open) -> None:
        raise ProtocolError("a replica opened a stream on a link that it did not dial")

    def on_peer_draining(self, drain: Drain) -> None:
        """Does nothing: the next request dials again."""

    def on_closed(self, reason: str) -> None:
        self.ready.set()


class ReplicaLinks:
    """All links between this replica and the others.
    `server` and `client` must each demand a certificate of the other side, because a peer may send
    any request to any agent.
    """

    def __init__(
        self, server: ssl.SSLContext, client: ssl.SSLContext, budget: ReceiveBudget, clock: Clock
    ) -> None:
        self._server_tls, self._client_tls = server, client
        self._budget, self._clock = budget, clock
        self._instance = secrets.token_bytes(16)
        self._links: set[Mux] = set()
        self._outgoing: dict[str, Mux] = {}
        self._dialling: dict[str, asyncio.Task[Mux | None]] = {}
        self._listener: asyncio.Server | None = None
        self.tasks = Tasks("replica links")

    async def listen(self, host: str, port: int, owner: MuxOwner) -> int:
        """Listens for links of other replicas and passes their streams to `owner`; returns the
        port.
        OSError: the port is in use.
        """
        loop = asyncio.get_running_loop()

        def accept() -> WireLink:
            link = WireLink()
            self._create_mux(link, owner, hub=False)
            return link

        self._listener = await loop.create_server(accept, host, port, ssl=self._server_tls)
        self.tasks.forever("beat", self._run_heartbeat())
        return self._listener.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Closes the listener and all links."""
        if self._listener is not None:
            self._listener.close()
        for link in tuple(self._links):
            link.close("the control plane is stopping")
        await self.tasks.stop()

    def existing_link(self, address: str) -> Mux | None:
        """The open link to the replica at an address (host:port), or None."""
        link = self._outgoing.get(address)
        return link if link is not None and link.accepts_streams else None

    async def link(self, address: str) -> Mux:
        """Returns the link to a replica and dials it if needed. Unavailable: the replica does not
        answer.
        """
        existing = self.existing_link(address)
        if existing is not None:
            return existing
        task = self._dialling.get(address)
        if task is None:
            task = self._dialling[address] = self.tasks.spawn("dial", self._dial(address))
            task.add_done_callback(lambda _: self._dialling.pop(address, None))
        await asyncio.wait({task})
        link = None if task.cancelled() else task.result()
        if link is None:
            raise Unavailable(f"the replica at {address} does not answer", retry_after=1.0)
        return link

    async def _dial(self, address: str) -> Mux | None:
        host, _, port = address.rpartition(":")
        owner, wire, loop = DialledLinkOwner(), WireLink(), asyncio.get_running_loop()
        mux = self._create_mux(wire, owner, hub=True)
        try:
            async with asyncio.timeout(DIAL_SECONDS):
                await loop.create_connection(
                    lambda: wire, host.strip("[]"), int(port), ssl=self._client_tls
                )
                await owner.ready.wait()
        except (OSError, TimeoutError) as error:
            mux.close("not reached")
            log.warning("replica not reached", at=address, why=str(error) or "no answer")
            return None
        if mux.closed:
            return None
        self._outgoing[address] = mux
        return mux

    def _create_mux(self, link: WireLink, owner: MuxOwner, *, hub: bool) -> Mux:
        mux = link.mux = Mux(
            link,
            owner,
            hub=hub,
            hello=Hello(self._instance, SETTINGS.window, features=FEATURE_REPLICA_REQUESTS),
            time=MuxTime(self._clock, asyncio.get_running_loop()),
            budget=self._budget,
            settings=SETTINGS,
        )
        self._links.add(mux)
        return mux

    async def _run_heartbeat(self) -> None:
        while True:
            await self._clock.sleep(BEAT_SECONDS)
            self._links = {link for link in self._links if not link.closed}
            self._outgoing = {
                address: link for address, link in self._outgoing.items() if not link.closed
            }
            for link in tuple(self._links):
                link.beat()
