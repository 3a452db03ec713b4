"""The agent's client on an API server that fails on purpose: named, retried calmly, recovered."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from core.errors import Invalid, Unavailable
from core.runtime.clock import Clock, SystemClock
from core.spec.objects import ObjectRef
from syncagent.autonomy.policy import LocalPolicy
from syncagent.kube.access import ApiServerAccess, BearerToken
from syncagent.kube.client import KubeClient
from syncagent.kube.cluster import KubeCluster
from syncagent.ports import ObjectEvent, RequestRefused
from tests.fakes.clock import FakeClock
from tests.fakes.faulty import FaultyServer

SYSTEM = SystemClock()
REF = ObjectRef("", "v1", "ConfigMap", "n", "c")


@pytest.fixture
async def server() -> AsyncIterator[FaultyServer]:
    """An API server with ConfigMaps and Secrets."""
    async with FaultyServer() as running:
        yield running


@pytest.fixture
async def connect() -> AsyncIterator[Callable[..., KubeCluster]]:
    """Makes clients of it, which are closed at the end."""
    clients: list[KubeClient] = []

    def made(access: ApiServerAccess, clock: Clock = SYSTEM) -> KubeCluster:
        client = KubeClient(access, clock, 4)
        clients.append(client)
        return KubeCluster(client, clock)

    yield made
    for client in clients:
        await client.close()


async def test_a_token_that_ran_out_is_read_again_at_once(server: FaultyServer, connect) -> None:
    """401 once, the next try bears the new token, and nobody hears of it."""
    tokens = iter(["old", "new"])
    clock = SystemClock()

    async def source() -> tuple[str, Any]:
        return next(tokens), clock.now() + timedelta(hours=1)

    server.token = "new"
    cluster = connect(ApiServerAccess(server.address, None, BearerToken(source, clock)))
    assert (await cluster.apply(REF, server.config("c"), force=True))["metadata"]["name"] == "c"
    assert server.signed == ["Bearer old", "Bearer new", "Bearer new"]


async def test_a_token_that_stays_wrong_is_named(server: FaultyServer, connect) -> None:
    """No endless loop of questions."""
    clock = SystemClock()

    async def source() -> tuple[str, Any]:
        return "old", clock.now() + timedelta(hours=1)

    server.token = "new"
    cluster = connect(ApiServerAccess(server.address, None, BearerToken(source, clock)))
    with pytest.raises(Unavailable, match="refuses the agent's own credentials"):
        await cluster.get(REF)
    assert len(server.signed) == 2


async def test_a_server_error_is_reported_with_its_message(server, connect) -> None:
    """A 500 is one object's failure, not the server's absence."""
    cluster = connect(ApiServerAccess(server.address, None))
    server.failures["c"] = 500
    with pytest.raises(RequestRefused, match="injected"):
        await cluster.apply(REF, server.config("c"), force=True)
    del server.failures["c"]
    await cluster.apply(REF, server.config("c"), force=True)


async def test_a_slow_group_does_not_hold_up_another(server: FaultyServer, connect) -> None:
    """Each API group has its own turns."""
    cluster = connect(ApiServerAccess(server.address, None))
    server.delays["slow"] = 600.0
    slow = ObjectRef("shop.io", "v1", "Shop", "n", "slow")
    waiting = [asyncio.ensure_future(cluster.get(slow)) for _ in range(10)]
    await server.until(lambda: server.waiting >= 4)
    async with asyncio.timeout(60):
        await cluster.apply(REF, server.config("c"), force=True)
    assert server.waiting == 4
    for one in waiting:
        one.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_a_group_that_is_down_does_not_hold_up_another(server: FaultyServer, connect) -> None:
    """An aggregated API without its server answers 503, which says nothing of the others."""
    clock = FakeClock()
    cluster = connect(ApiServerAccess(server.address, None), clock)
    server.failures["down"] = 503
    down = asyncio.ensure_future(cluster.get(ObjectRef("shop.io", "v1", "Shop", "n", "down")))
    await server.until(lambda: clock.sleepers)
    await cluster.apply(REF, server.config("c"), force=True)
    assert clock.monotonic() == 0 and not down.done()
    down.cancel()
    await asyncio.gather(down, return_exceptions=True)


async def test_a_kind_that_may_not_be_listed_hides_only_itself(server, connect) -> None:
    """Recovery finds the others."""
    cluster = connect(ApiServerAccess(server.address, None))
    await cluster.apply(REF, server.config("c", mark="s"), force=True)
    server.forbidden.add("secrets")
    found = [one["metadata"]["name"] async for one in cluster.find("mark")]
    assert found == ["c"]


async def test_events_are_written_past_an_allow_list_of_kinds(server: FaultyServer) -> None:
    """Wherever the object itself is allowed, and nowhere else."""
    client = KubeClient(ApiServerAccess(server.address, None), SystemClock(), 4)
    policy = LocalPolicy.of(["ConfigMap"], ["n"])
    cluster = KubeCluster(client, SystemClock(), policy.check)
    await cluster.write_event(ObjectEvent(REF, "uid", "Adopted", "taken over", False, 1))
    assert [path for path in server.objects if "/namespaces/n/events/c." in path]
    elsewhere = replace(REF, namespace="kube-system")
    with pytest.raises(Invalid):
        await cluster.write_event(ObjectEvent(elsewhere, "uid", "Adopted", "taken over", False, 1))
    assert len(server.objects) == 1
    await client.close()


def test_trust_is_of_this_server_only(tmp_path: Path) -> None:
    """The fake itself: a context for clients that checks names."""
    assert FaultyServer(tls=tmp_path).trust().verify_mode == ssl.CERT_REQUIRED
