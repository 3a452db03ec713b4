"""Runs agents that only have a tunnel: `python -m bench.harness.agents`.

Standard input is JSON: `hub` (host:port), `ca` (PEM text), `tokens` (one per agent), `upstream`
(port of a plain HTTP backend on 127.0.0.1), and optionally `pipe` (wss:// URL of the hub) and
`data_port` (port to which data links go instead of the hub's). Prints the milliseconds until all
were connected.
"""

import asyncio
import gc
import json
import ssl
import sys
import time
from dataclasses import replace

import uvloop

from bench.harness.programs import announce
from core.json_object import JsonObject
from core.links.websocket import WebSocketForwarder
from core.mux.codec import KIND_DATA_LINK, Hello, Open
from core.mux.stream import TunnelStream
from core.runtime.clock import SystemClock
from core.runtime.tasks import Tasks
from syncagent.link.channel import Endpoint
from syncagent.tunnel.client import TunnelClient
from syncagent.tunnel.data_link import ControlPlaneHost
from syncagent.tunnel.guard import ImpersonationPolicy
from syncagent.tunnel.upstream import Upstream

AT_ONCE = 50


class CountingTunnelClient(TunnelClient):
    """Tells when its tunnel is open. `data_port`: see the module; 0: none."""

    opened: asyncio.Event
    data_port: int

    def on_open(self, stream: TunnelStream, request: Open) -> None:
        if self.data_port and request.kind == KIND_DATA_LINK:
            _, _, ticket = request.head.partition(b" ")
            request = replace(request, head=b"%d %s" % (self.data_port, ticket))
        super().on_open(stream, request)

    def on_ready(self, hello: Hello) -> None:
        self.opened.set()


async def main() -> None:
    """Connects all agents, then serves until killed."""
    config = json.loads(sys.stdin.read())
    tasks = Tasks("agents")
    if config["pipe"]:
        tls = ssl.create_default_context(cadata=config["ca"])
        pipe = WebSocketForwarder(config["pipe"], lambda: tls)
        tasks.spawn("pipe", pipe.run())
        config["hub"] = f"127.0.0.1:{pipe.port}"
    upstream = Upstream("127.0.0.1", config["upstream"], None, _token)
    turn = asyncio.Semaphore(AT_ONCE)

    async def connect(token: str) -> None:
        async with turn:
            client = _client(config, upstream, token)
            tasks.spawn("agent", client.run())
            await client.opened.wait()

    began = time.perf_counter()
    await asyncio.gather(*(connect(token) for token in config["tokens"]))
    # As the real agent does (`towline.agent`).
    gc.freeze()
    announce(int((time.perf_counter() - began) * 1000))
    await asyncio.Event().wait()


def _client(config: JsonObject, upstream: Upstream, token: str) -> CountingTunnelClient:
    clock = SystemClock()
    endpoint = Endpoint(config["hub"], token, config["ca"].encode())
    channel = endpoint.connect(clock)
    client = CountingTunnelClient(
        channel,
        endpoint.metadata,
        upstream,
        clock,
        ImpersonationPolicy(),
        control_plane=ControlPlaneHost.of(endpoint.direct_host),
    )
    client.opened, client.data_port = asyncio.Event(), config["data_port"]
    return client


async def _token() -> str:
    return "the-service-account"


if __name__ == "__main__":
    uvloop.run(main())
