"""An agent that comes by the HTTPS port, to the whole program."""

import asyncio
import ssl
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from core.errors import Unavailable
from core.identity import ClusterId
from core.links.websocket import WebSocketForwarder
from core.runtime.clock import SystemClock
from core.runtime.tasks import Tasks
from syncagent.compose import control_plane_access
from syncagent.link.channel import Endpoint
from syncagent.settings import HubSettings
from syncagent.tunnel.client import TunnelClient
from syncagent.tunnel.guard import ImpersonationPolicy
from syncagent.tunnel.upstream import Upstream
from syncagent.upkeep.doctor import diagnose
from tests.fakes.local_server import LocalServer
from tests.integration.serve.conftest import running
from tests.integration.serve.waiting import until

ANSWER = b'HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n{"kind":"x"}\n'


async def _api_server(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(ANSWER)
    await writer.drain()


class NoApiServer:
    """What the doctor asks of the cluster is not looked at here."""

    async def request(self, *_: object, **__: object) -> dict[str, Any]:
        raise Unavailable("none here")


async def _token() -> str:
    return "service-account"


async def test_requests_reach_a_cluster_through_the_https_port_alone(tmp_path: Path) -> None:
    """TLS to the HTTPS port outside, TLS to the agents' listener inside, and a user's request. The
    doctor finds that way well, too."""
    tasks = Tasks("test")
    async with LocalServer(_api_server) as upstream, running(tmp_path / "hub") as hub:
        made = await hub.cluster()
        ca = tmp_path / "hub" / "tls" / "ca.crt"
        tls = ssl.create_default_context(cafile=str(ca))
        pipe = WebSocketForwarder(f"wss://{hub.addresses.https}", lambda: tls)
        tasks.spawn("pipe", pipe.run())
        endpoint = Endpoint(f"127.0.0.1:{pipe.port}", made["deployToken"], ca.read_bytes())
        async with AsyncExitStack() as stack:
            channel = endpoint.connect(SystemClock())
            stack.push_async_callback(channel.close)
            agent = TunnelClient(
                channel,
                endpoint.metadata,
                Upstream("127.0.0.1", upstream.port, None, _token),
                SystemClock(),
                ImpersonationPolicy(),
            )
            tasks.spawn("agent", agent.run())

            async def connected() -> bool:
                return hub.process.kube_proxy.tunnels.is_connected(ClusterId(made["id"]))

            await until(connected, bool)
            way = control_plane_access(
                HubSettings(f"wss://{hub.addresses.https}", made["deployToken"], ca)
            )
            found = {one.step: one async for one in diagnose(way, NoApiServer(), tmp_path)}
            steps = ("resolves", "connects", "speaks tls", "signs in")
            assert "tunnel" not in found
            assert all(found[step].good for step in steps), found
            url = f"{hub.url}/k8s/clusters/{made['handle']}/api/v1/pods"
            headers = {"authorization": f"Bearer {hub.token}"}
            async with hub.http.get(url, headers=headers) as answer:
                assert (answer.status, await answer.text()) == (200, '{"kind":"x"}\n')
            await tasks.stop()
