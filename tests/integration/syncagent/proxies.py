"""Hubs with a proxy: a fake hub and the real edge on one gRPC server, and a relay before two."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from core.rpc.methods import TUNNEL
from core.runtime.clock import SystemClock
from core.runtime.tasks import Tasks
from proxy.compose import ProxyPorts, build
from proxy.kube_proxy import KubeProxy
from proxy.settings import ProxySettings
from tests.fakes.hub import FakeHub
from tests.fakes.kube_proxy import CLUSTER, FakeInstallation
from tests.fakes.local_server import LocalServer, relay
from tests.fakes.tls import TestAuthority

AGENT_TOKEN = "agent-token"


@dataclass(frozen=True)
class ProxyHub:
    """A hub; users come to `port` by HTTPS and are who `FakeInstallation` says."""

    hub: FakeHub
    proxy: KubeProxy
    port: int
    authority: TestAuthority
    installation: FakeInstallation

    @property
    def connected(self) -> bool:
        return self.proxy.tunnels.is_connected(CLUSTER)

    def kubeconfig(self, path: Path) -> Path:
        """A kubeconfig of the user ann."""
        server = f"https://127.0.0.1:{self.port}/k8s/clusters/dev"
        cluster = {"server": server, "certificate-authority": str(self.authority.ca)}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "dev", "cluster": cluster}],
            "users": [{"name": "ann", "user": {"token": "ann-token"}}],
            "contexts": [{"name": "dev", "context": {"cluster": "dev", "user": "ann"}}],
            "current-context": "dev",
        }
        path.write_text(json.dumps(config))
        return path


async def _no_application(scope: object, receive: object, send: object) -> None:
    raise AssertionError("only the proxy is served")


@asynccontextmanager
async def proxy_hub(authority: TestAuthority) -> AsyncGenerator[ProxyHub]:
    """A hub that listens on free ports."""
    one = FakeInstallation()
    proxy = build(ProxySettings(), SystemClock(), ProxyPorts(one, one, one, one, one.agent))
    proxy.start()
    hub = FakeHub()
    hub.token = AGENT_TOKEN
    hub.handlers[TUNNEL] = proxy.tunnels.serve
    config = uvicorn.Config(
        _no_application,
        port=0,
        http=proxy.protocol_class,
        lifespan="off",
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=1,
        ssl_certfile=str(authority.certificate),
        ssl_keyfile=str(authority.key),
    )
    server, tasks = uvicorn.Server(config), Tasks("proxy hub")
    async with hub:
        serving = tasks.spawn("serve", server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        try:
            yield ProxyHub(hub, proxy, port, authority, one)
        finally:
            for exchange in proxy.gateway.proxied_requests:
                exchange.on_user_lost()
            server.should_exit = True
            await asyncio.wait({serving}, timeout=5)
            await proxy.stop()
            await tasks.stop()


class Relay(LocalServer):
    """One address before several hubs: what connects is led to `target`, as it is then."""

    def __init__(self, target: int) -> None:
        self.target = target
        super().__init__(lambda reader, writer: relay(reader, writer, self.target))

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"
