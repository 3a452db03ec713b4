"""Rendering here, by the service's own agent or another one; switched while it runs."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import orjson
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from controlplane.clusters.model.commands import Command, CommandKind, CommandState
from controlplane.clusters.ports import ClusterStore, CommandStore
from core.runtime.clock import SystemClock
from core.spec.statements.attestation import Signer
from syncagent.compose import build
from syncagent.settings import (
    AutonomySettings,
    GitAccessSettings,
    HubSettings,
    KubernetesSettings,
    Settings,
    StateSettings,
)
from tests.integration.serve.conftest import Json, Running
from tests.integration.serve.test_git import config
from tests.integration.serve.waiting import until
from towline import agent_renders
from towline.demo.clusters.agent_access import agent_kubeconfig
from towline.demo.clusters.cluster import LocalCluster
from towline.demo.git_server import GitServer, ServedRepository

MOVE = """mutation ($id: ID!, $by: ID!) {
  updateServiceDeployment(id: $id, attributes: {renderedBy: $by}) { renderedBy } }"""
SEEN = """query ($id: ID!) { serviceDeployment(id: $id)
  { status sha digest renderedBy errors { message } } }"""


@dataclass
class Places:
    """A control plane, a cluster whose agent renders nothing, and one that renders for others."""

    hub: Running
    cluster: LocalCluster
    namespace: str
    repository: ServedRepository
    own: str
    other: str
    service: str
    stops: dict[str, asyncio.Event] = field(default_factory=dict)

    async def live(self) -> Json:
        """The live ConfigMap of the service."""
        words = ("get", "configmap", "shop", "-n", self.namespace, "-o", "json")
        return orjson.loads(await asyncio.to_thread(self.cluster.kubectl, *words))

    async def seen(self) -> Json:
        return (await self.hub.ask(SEEN, id=self.service))["serviceDeployment"]

    async def connected(self) -> frozenset[str]:
        return frozenset(self.hub.process.plane.agentlink.connected())

    async def healthy(self, sha: str) -> Json:
        def right(one: Json) -> bool:
            return (one["status"], one["sha"], one["errors"]) == ("HEALTHY", sha, [])

        return await until(self.seen, right, 60)

    async def move(self, by: str) -> None:
        """Have another place render it."""
        await self.hub.ask(MOVE, id=self.service, by=by)

    async def orders(self) -> list[Command]:
        """All renders that agents were asked for."""
        async with self.hub.process.plane.context.store.read() as tx:
            return await tx[CommandStore].select(kind=CommandKind.RENDER)

    async def ordered(self, count: int) -> list[Command]:
        """Wait until so many orders have succeeded."""

        def right(found: list[Command]) -> bool:
            return [one.state for one in found].count(CommandState.SUCCEEDED) == count

        return await until(self.orders, right, 60)


@asynccontextmanager
async def agent(
    hub: Running, token: str, cluster: LocalCluster, state: Path, keys: Path
) -> AsyncGenerator[asyncio.Event]:
    """An agent that renders, as `towline agent` puts it together, and trusts those that render."""
    (state / "renders").mkdir(parents=True)
    key = Ed25519PrivateKey.generate()
    (state / "renders" / "signing.key").write_bytes(key.private_bytes_raw())
    with keys.open("ab") as file:
        file.write(Signer(key).public_pem)
    settings = Settings(
        HubSettings(f"https://{hub.addresses.agents}", token, hub.data / "tls" / "ca.crt"),
        KubernetesSettings(agent_kubeconfig(cluster.access, state / "kubeconfig")),
        StateSettings(state),
        git=GitAccessSettings(renders=True),
        autonomy=AutonomySettings(trusted_keys=keys),
    )
    stop, clock = asyncio.Event(), SystemClock()
    renders = agent_renders.build(settings, clock)
    async with asyncio.TaskGroup() as group:
        group.create_task(build(settings, clock, renders=renders).run(stop))
        try:
            yield stop
        finally:
            stop.set()


@pytest.fixture
async def places(
    hub: Running, cluster: LocalCluster, namespace: str, git_server: GitServer, tmp_path: Path
) -> AsyncIterator[Places]:
    """The service is healthy, as the control plane has rendered it."""
    repository = git_server.create_repository("fleet")
    sha = repository.commit({"shop/a.yaml": config("shop", n="1")})
    own, other = await hub.cluster("own"), await hub.cluster("other")
    keys = tmp_path / "keys.pem"
    async with (
        agent(hub, other["deployToken"], cluster, tmp_path / "other", keys) as stop,
        agent(hub, own["deployToken"], cluster, tmp_path / "own", keys),
    ):
        id = await hub.repository(repository.url)
        service = await hub.service(own["id"], id, "shop", namespace=namespace)
        one = Places(hub, cluster, namespace, repository, own["id"], other["id"], service)
        one.stops["other"] = stop
        await one.healthy(sha)
        yield one


async def test_switching_the_place_writes_nothing(places: Places) -> None:
    """Own agent, another one and the control plane give one digest: no object is touched. Each
    signs with a key of its own."""
    before, first = await places.live(), await places.seen()
    assert (first["renderedBy"], await places.orders()) == (None, [])
    for count, place in enumerate((places.own, places.other), 1):
        await places.move(place)
        orders = await places.ordered(count)
        assert {one.payload["digest"] for one in orders} == {first["digest"]}
        assert len({one.payload["attestation"]["key_id"] for one in orders}) == count
        seen = await places.healthy(first["sha"])
        assert (seen["digest"], seen["renderedBy"]) == (first["digest"], place)
    await places.move("")
    await places.healthy(first["sha"])
    live = await places.live()
    assert live["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


async def test_commits_arrive_by_the_agent_that_renders(places: Places) -> None:
    """A commit goes out through another cluster's agent; what is at fault is named in its words."""
    await places.move(places.other)
    sha = places.repository.commit({"shop/a.yaml": config("shop", n="2")})
    await places.healthy(sha)
    assert (await places.live())["data"] == {"n": "2"}
    places.repository.commit({"shop/a.yaml": "a: [1"})
    seen = await until(places.seen, lambda one: one["errors"], 60)
    assert "shop/a.yaml" in seen["errors"][0]["message"]
    assert (await places.live())["data"] == {"n": "2"}


async def test_an_agent_that_is_away_holds_up_renders_only(places: Places) -> None:
    """The reason is shown, the service keeps what it has; the control plane may take over."""
    await places.move(places.other)
    await places.ordered(1)
    places.stops["other"].set()
    await until(places.connected, lambda ids: places.other not in ids, 20)
    # What was last heard of it is written down a moment later.
    await asyncio.sleep(2.5)

    async def unheard() -> Json:
        """What is shown of the service, though a busy machine writes that later still."""
        async with places.hub.process.plane.context.store.write() as tx:
            await tx[ClusterStore].change(places.other, pinged_at=None)
        return await places.seen()

    sha = places.repository.commit({"shop/a.yaml": config("shop", n="3")})
    seen = await until(unheard, lambda one: one["errors"], 60)
    assert "rendering agent of other is not connected" in seen["errors"][0]["message"]
    assert (await places.live())["data"] == {"n": "1"}
    await places.move("")
    await places.healthy(sha)
    assert (await places.live())["data"] == {"n": "3"}
