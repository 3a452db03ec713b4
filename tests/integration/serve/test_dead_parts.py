"""Background work that has died."""

import asyncio

from proxy.gateway.forward.proxied_request import ProxiedRequest
from tests.integration.serve.conftest import Running


class BrokenConnection:
    """A mistake of ours, met by the proxy's sweep."""

    proxied_request: ProxiedRequest | None = None

    def sweep(self, now: float) -> None:
        raise ZeroDivisionError

    def shutdown(self) -> None:
        """Nothing is open."""


async def test_the_process_ends_with_a_dead_sweep_of_the_proxy(hub: Running) -> None:
    """A proxy that no longer looks after deadlines and lost rights must not stay in service."""
    hub.process.kube_proxy.gateway.connections.add(BrokenConnection())
    async with asyncio.timeout(60):
        assert isinstance(await hub.process.wait_failed(), ZeroDivisionError)


async def test_the_process_waits_for_every_part(hub: Running) -> None:
    """No owner of background work is left out; `wait_failed` asks each of them once."""
    native = {"fast path", "data links"} if hub.process.kube_proxy.front is not None else set()
    owners = {one.owner for one in hub.process.parts()}
    assert owners == native | {
        "serve", "proxy-audit", "proxy", "tunnels", "recordings", "gitcache", "agentlink",
        "delivery", "pipelines", "access", "retention", "news", "ownership", "peers", "following",
        "census", "cluster-sources", "configuration-sources", "secrets", "targets",
    }  # fmt: skip
