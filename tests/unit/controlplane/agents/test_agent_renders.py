"""Renders by agents: the order of a render, its result, and refusals."""

import asyncio
import base64
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest

from controlplane.agents.operations.agent_renders import AgentRenders, render_result_to_json
from controlplane.clusters.model.commands import Command, CommandKind, CommandState
from controlplane.clusters.ports import ClusterStore, CommandStore
from controlplane.platform.context import CLUSTER_JOB, DESIRED_STATE, OperationContext
from controlplane.platform.ports import LOST_WAKES
from core.errors import Conflict, Invalid, NotFound, TowlineError, Unavailable
from core.identity import ClusterId, RepositoryId
from core.json_object import JsonObject
from core.sealing import SealingKey
from core.spec.bundle import Attestation, make_bundle
from core.spec.render_orders import ORDER_SECRET_NAME, RenderOrder, load_order
from core.spec.sealed_secrets import SealedSecret
from core.spec.source import (
    BaseFolder,
    FetchedChart,
    GitCredentials,
    RenderedBundle,
    RenderedFile,
    RenderRequest,
    SourceFolder,
)
from tests.fakes.clock import START, settle
from tests.fakes.manifests import config_map
from tests.fakes.operations import (
    MemoryOperations,
    make_cluster,
    make_repository,
    operations_over_memory,
)

KEY = SealingKey.generate()
DEV = ClusterId("dev")
TOKEN = GitCredentials(username="x", password="ghs_1")
BUNDLE = make_bundle([config_map("a", n="1")])
REQUEST = RenderRequest(RepositoryId("fleet"), "a" * 40, "shop", by=DEV)
RESULT = RenderedBundle(
    "sha256:in",
    BUNDLE.digest,
    10**9,
    10**6,
    cached=True,
    reads=("shop",),
    attestation=Attestation("key", b"\xff statement", b"\x00 signature", b"evidence"),
    charts=(FetchedChart("https://charts.example.org", "redis"),),
    files=(RenderedFile("shop/a.yaml", 1),),
)


class FakeCredentials:
    """Lends the same credentials for each repository."""

    async def issue_read_token(self, repository_id: RepositoryId) -> GitCredentials | None:
        return TOKEN


@dataclass
class Agent:
    """An agent on which the control plane renders; it answers orders as a test says."""

    world: MemoryOperations
    context: OperationContext
    orders: list[RenderOrder] = field(default_factory=list)

    async def render(
        self, answer: Callable[[Command], JsonObject | None], request: RenderRequest = REQUEST
    ) -> RenderedBundle:
        """A render whose order ends with these columns; None: it is deleted."""
        rendering = asyncio.ensure_future(self.context.render(request))
        await settle()
        (command,) = await self.world.rows(CommandStore, state=CommandState.WAITING)
        self.orders.append(opened(command))
        columns = answer(command)
        async with self.world.store.write() as tx:
            if columns is None:
                await tx[CommandStore].remove(command.id)
            else:
                await tx[CommandStore].change(command.id, **columns)
        self.world.context.bus.publish(CLUSTER_JOB, command.id)
        async with asyncio.timeout(10):
            return await rendering

    async def refusal(self, request: RenderRequest = REQUEST) -> TowlineError:
        """The error of a render for which there is no order."""
        with pytest.raises(TowlineError) as error:
            await self.context.render(request)
        assert await self.world.rows(CommandStore) == []
        return error.value


def opened(command: Command) -> RenderOrder:
    """The content of an order, which only its agent can read."""
    assert "ghs_1" not in str(command)
    box = SealedSecret(ORDER_SECRET_NAME, "", base64.b64decode(command.payload["box"]))
    return load_order(KEY.open(box, command.id))


def succeeded(_: Command) -> JsonObject:
    return {"state": CommandState.SUCCEEDED, "payload": render_result_to_json(RESULT)}


@pytest.fixture
async def agent() -> Agent:
    world = operations_over_memory()
    await world.given(
        make_cluster(DEV, sealing_key=KEY.public, pinged_at=START),
        make_repository("fleet", submodules=True),
        make_repository("base"),
    )
    renders = AgentRenders(world.context, FakeCredentials())
    return Agent(world, replace(world.context, agent_renders=renders))


async def test_an_agent_renders_the_order_that_it_gets(agent: Agent) -> None:
    """Size and number of objects are those of its bundle, whatever it says."""
    await agent.world.manifests.store_bundle(BUNDLE.data)
    request = replace(REQUEST, sources=(SourceFolder(RepositoryId("base"), "b" * 40, "lib", "x"),))
    made = await agent.render(succeeded, request)
    assert made == replace(RESULT, size=len(BUNDLE.data), count=1, cached=False)
    (order,) = agent.orders
    assert order.request == replace(request, by=None)
    known = {spec.id: (spec.credentials, spec.submodules) for spec in order.repositories}
    assert known == {"fleet": (TOKEN, True), "base": (TOKEN, False)}
    topic, key = agent.world.published[0]
    assert (topic, key.partition("/")[0]) == (DESIRED_STATE, "dev")


async def test_a_result_keeps_the_base_folders_of_kustomizations(agent: Agent) -> None:
    await agent.world.manifests.store_bundle(BUNDLE.data)
    bases = (BaseFolder("https://git.example.org/base.git", "lib", "main"),)
    result = replace(RESULT, bases=bases, attestation=None)
    payload = render_result_to_json(result)
    made = await agent.render(lambda _: {"state": CommandState.SUCCEEDED, "payload": payload})
    assert (made.bases, made.attestation) == (bases, None)


async def test_a_request_without_an_agent_is_rendered_here(agent: Agent) -> None:
    commit = agent.world.manifests.push("fleet", {"shop": [config_map("a", n="1")]})
    made = await agent.context.render(replace(REQUEST, commit=commit, by=None))
    assert made.digest == BUNDLE.digest
    assert await agent.world.rows(CommandStore) == []


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ({"state": CommandState.FAILED, "message": "no such folder"}, "no such folder"),
        ({"state": CommandState.SUCCEEDED, "payload": {}}, "sent no bundle"),
        (succeeded(Command("c", DEV, CommandKind.RENDER, START)), "sent no bundle"),
        (None, "was dropped; Towline retries"),
    ],
)
async def test_a_render_without_a_result_is_tried_again(
    agent: Agent, columns: JsonObject | None, text: str
) -> None:
    with pytest.raises(Unavailable, match=text):
        await agent.render(lambda _: columns)


async def test_a_result_is_found_after_a_lost_wake_up(agent: Agent) -> None:
    """Wake-ups of other commands change nothing."""
    await agent.world.manifests.store_bundle(BUNDLE.data)
    rendering = asyncio.ensure_future(agent.context.render(REQUEST))
    await settle()
    (command,) = await agent.world.rows(CommandStore)
    bus = agent.world.context.bus
    async with agent.world.store.write() as tx:
        await tx[CommandStore].change(command.id, **succeeded(command))
    bus.publish(CLUSTER_JOB, "another")
    await settle()
    assert not rendering.done()
    bus.publish(LOST_WAKES)
    async with asyncio.timeout(10):
        assert (await rendering).digest == BUNDLE.digest


@pytest.mark.parametrize(
    ("columns", "error", "text"),
    [
        ({"pinged_at": None}, Unavailable, "agent of dev is not connected"),
        ({"pinged_at": START - timedelta(seconds=61)}, Unavailable, "is not connected"),
        ({"sealing_key": None}, Conflict, "upgrade it"),
    ],
)
async def test_an_agent_that_cannot_render_gets_no_order(
    agent: Agent, columns: JsonObject, error: type[TowlineError], text: str
) -> None:
    async with agent.world.store.write() as tx:
        await tx[ClusterStore].change(DEV, **columns)
    refusal = await agent.refusal()
    assert isinstance(refusal, error) and text in refusal.message


@pytest.mark.parametrize(
    ("order_request", "error", "text"),
    [
        (replace(REQUEST, by=ClusterId("gone")), Unavailable, "select another one"),
        (replace(REQUEST, repository_id=RepositoryId("gone")), NotFound, "was deleted"),
        (replace(REQUEST, parameters={"a": "x" * (1 << 20)}), Invalid, "at most 1,048,576 fit"),
    ],
)
async def test_an_order_that_cannot_be_made_is_refused(
    agent: Agent, order_request: RenderRequest, error: type[TowlineError], text: str
) -> None:
    refusal = await agent.refusal(order_request)
    assert isinstance(refusal, error) and text in refusal.message
