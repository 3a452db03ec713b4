"""Commands of users to agents, over the store in memory."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from controlplane.agents.api.agents import ObjectAttributes
from controlplane.agents.link.messages import command
from controlplane.agents.model.jobs import JobRequest
from controlplane.agents.model.live_logs import LiveLogs
from controlplane.agents.operations.commands import AgentCommands
from controlplane.agents.operations.jobs import ClusterJobs
from controlplane.authorization import ANONYMOUS, Actor
from controlplane.clusters.model.commands import CommandKind
from controlplane.clusters.model.groups import ClusterGroup
from controlplane.clusters.ports import CommandStore
from controlplane.platform.context import CLUSTER, CLUSTER_JOB, DESIRED_STATE, SERVICE
from core.errors import Conflict, Forbidden, Invalid, NotFound, TowlineError, Unauthenticated
from core.spec.objects import ObjectRef
from core.spec.statements.freeze import FreezeAction, FreezeStatement
from core.spec.sync import ObjectSelection
from tests.fakes.actors import EDITOR, NOBODY, VIEWER
from tests.fakes.clock import START
from tests.fakes.operations import (
    MemoryOperations,
    make_cluster,
    make_service,
    operations_over_memory,
)

CLAIM = ObjectRef("", "v1", "PersistentVolumeClaim", "shop", "data")
EU, US = make_cluster("eu"), make_cluster("us", tags={"towline-agent": "keep"})
SHOP = make_service("shop", EU, generation=2, awaiting=(CLAIM,))
ALL = ClusterGroup("all", "all", START, START, cluster_ids=("eu", "us"))
FROZEN = FreezeStatement(FreezeAction.FREEZE, ("eu",), 1, 1).sign(Ed25519PrivateKey.generate())
POD = JobRequest("shop", {"apiVersion": "v1", "kind": "Pod"}, key="once")


@dataclass(frozen=True)
class Agents:
    """Operations on agents."""

    commands: AgentCommands
    jobs: ClusterJobs


Act = Callable[[Agents, Actor], Awaitable[object]]
SERVICE_CHANGED = [(SERVICE, SHOP.id), (DESIRED_STATE, f"eu/{SHOP.id}")]
UPGRADING = [(DESIRED_STATE, "eu/upgrade"), (CLUSTER, "eu")]
ACTIONS: dict[str, tuple[Act, str, list[tuple[str, str]]]] = {
    "confirmDeletions": (
        lambda agents, actor: agents.commands.confirm_deletions(actor, SHOP.id, [CLAIM]),
        "shop",
        SERVICE_CHANGED,
    ),
    "syncServiceObjects": (
        lambda agents, actor: agents.commands.sync_objects(
            actor, SHOP.id, ObjectSelection((CLAIM,))
        ),
        "shop",
        SERVICE_CHANGED,
    ),
    "terminateService": (
        lambda agents, actor: agents.commands.terminate(actor, SHOP.id),
        "shop",
        SERVICE_CHANGED,
    ),
    "upgradeAgent": (
        lambda agents, actor: agents.commands.upgrade_agent(actor, "eu", "2", "agent:2"),
        "eu",
        UPGRADING,
    ),
    "deliverFreezeStatement": (
        lambda agents, actor: agents.commands.deliver_freeze_statement(actor, "eu", FROZEN),
        "eu",
        [(DESIRED_STATE, "eu/freeze"), (CLUSTER, "eu")],
    ),
    "upgradeAgents": (
        lambda agents, actor: agents.commands.upgrade_agents(actor, "all", "2", "agent:2"),
        "all",
        UPGRADING,
    ),
}


@pytest.fixture
async def world() -> MemoryOperations:
    operations = operations_over_memory()
    await operations.given(EU, US, SHOP, ALL)
    return operations


@pytest.fixture
def agents(world: MemoryOperations) -> Agents:
    return Agents(AgentCommands(world.context), ClusterJobs(world.context, LiveLogs()))


@pytest.mark.parametrize("action", ACTIONS)
async def test_a_command_is_audited_and_published(
    action: str, world: MemoryOperations, agents: Agents
) -> None:
    act, target, published = ACTIONS[action]
    await act(agents, EDITOR)
    assert await world.audited() == [("ed@example.org", action, target)]
    assert world.published == published


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize(
    ("actor", "error"), [(ANONYMOUS, Unauthenticated), (NOBODY, NotFound), (VIEWER, Forbidden)]
)
async def test_a_command_without_permission_leaves_no_trace(
    action: str, actor: Actor, error: type[TowlineError], world: MemoryOperations, agents: Agents
) -> None:
    with pytest.raises(error):
        await ACTIONS[action][0](agents, actor)
    assert await world.audited() == [] and world.published == []
    assert await world.rows(CommandStore) == []


async def test_a_sync_of_objects_is_a_command_of_its_own(
    world: MemoryOperations, agents: Agents
) -> None:
    """An older agent ignores a field of the usual command, and would sync everything."""
    await agents.commands.sync_objects(EDITOR, SHOP.id, ObjectSelection((CLAIM,), prune=True))
    (row,) = await world.rows(CommandStore)
    message = command(row)
    assert message.WhichOneof("body") == "sync_objects"
    assert message.sync_objects.service_id == SHOP.id and message.sync_objects.prune
    assert [found.name for found in message.sync_objects.objects] == ["data"]


@pytest.mark.parametrize("objects", [(), (CLAIM,) * 1001])
async def test_the_number_of_synced_objects_is_limited(
    objects: tuple[ObjectRef, ...], agents: Agents
) -> None:
    with pytest.raises(Invalid, match="objects: must have 1 to 1,000 entries, not"):
        await agents.commands.sync_objects(EDITOR, SHOP.id, ObjectSelection(objects))


@pytest.mark.parametrize(
    ("columns", "reason"),
    [({"paused": True}, "is paused; resume it first"), ({"dry_run": True}, "is a dry run")],
)
async def test_a_service_that_writes_nothing_syncs_no_objects(
    columns: dict[str, bool], reason: str, world: MemoryOperations, agents: Agents
) -> None:
    still = make_service("still", EU, **columns)
    await world.given(still)
    with pytest.raises(Conflict, match=reason):
        await agents.commands.sync_objects(EDITOR, still.id, ObjectSelection((CLAIM,)))
    assert await world.rows(CommandStore) == []


async def test_a_frozen_cluster_syncs_no_objects(world: MemoryOperations, agents: Agents) -> None:
    await world.given(ClusterGroup("g", "g", START, START, cluster_ids=("eu",), frozen=True))
    with pytest.raises(Conflict, match="is frozen"):
        await agents.commands.sync_objects(EDITOR, SHOP.id, ObjectSelection((CLAIM,)))


async def test_only_statements_are_passed_on(world: MemoryOperations, agents: Agents) -> None:
    """The agent gets the same text; it alone checks the signature."""
    with pytest.raises(Invalid, match="towline freeze"):
        await agents.commands.deliver_freeze_statement(EDITOR, "eu", "stop everything")
    await agents.commands.deliver_freeze_statement(EDITOR, "eu", f"{FROZEN}\n")
    (row,) = await world.rows(CommandStore)
    assert command(row).freeze.statement == FROZEN


async def test_a_job_is_started_and_cancelled_once(world: MemoryOperations, agents: Agents) -> None:
    """A second request with its key, and a second cancellation, send no further command."""
    job = await agents.jobs.run(EDITOR, "eu", POD)
    assert await agents.jobs.run(EDITOR, "eu", POD) == job
    started = [(CLUSTER_JOB, job.id), (DESIRED_STATE, f"eu/{job.id}")]
    assert world.published == started
    for _ in range(2):
        await agents.jobs.cancel(EDITOR, job.id)
    assert world.published == started * 3
    kinds = [command.kind for command in await world.rows(CommandStore)]
    assert kinds == [CommandKind.RUN_JOB, CommandKind.CANCEL_JOB]
    actions = [action for _, action, _ in await world.audited()]
    assert actions == ["runClusterJob", "cancelClusterJob", "cancelClusterJob"]


def test_an_object_without_a_group_and_a_namespace_has_empty_ones() -> None:
    made: Any = ObjectAttributes
    assert made(kind="Node", name="a").change() == ObjectRef("", "", "Node", "", "a")
