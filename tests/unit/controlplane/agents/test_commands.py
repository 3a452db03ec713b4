"""Commands of users to agents, over the store in memory."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from controlplane.agents.api.agents import ObjectAttributes
from controlplane.agents.link.messages import command
from controlplane.agents.model.jobs import JobRequest
from controlplane.agents.model.live_logs import LiveLogs
from controlplane.agents.operations.commands import AgentCommands
from controlplane.agents.operations.jobs import ClusterJobs
from controlplane.authorization import ANONYMOUS, BUILT_IN, Actor, Grant, Policy, Scope
from controlplane.clusters.model.commands import CommandKind
from controlplane.clusters.model.groups import ClusterGroup
from controlplane.clusters.ports import CommandStore
from controlplane.platform.context import CLUSTER, CLUSTER_JOB, DESIRED_STATE, SERVICE
from controlplane.services.model.ledger import LedgerStage
from controlplane.services.model.service import Confirmation, DryRunResult
from controlplane.services.ports import PlanStore, ServiceStore
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


async def test_confirmed_deletions_reach_the_agent_with_the_next_generation(
    world: MemoryOperations, agents: Agents
) -> None:
    await agents.commands.confirm_deletions(EDITOR, SHOP.id, [replace(CLAIM, version="")])
    (row,) = await world.rows(ServiceStore)
    assert row.desired.generation == 3
    assert row.desired.confirmed == Confirmation(3, (CLAIM,))
    (entry,) = await world.ledger()
    assert (entry.stage, entry.sequence, entry.actor, entry.message, entry.detail) == (
        LedgerStage.CONFIRMED, 3, "ed@example.org", f"deletion of {CLAIM}",
        {"objects": [str(CLAIM)]},
    )  # fmt: skip
    assert await world.audit_details() == [("confirmDeletions", {"objects": [str(CLAIM)]})]


async def test_deletions_of_a_service_that_is_being_deleted_are_confirmed(
    world: MemoryOperations, agents: Agents
) -> None:
    ending = make_service("ending", EU, generation=2, awaiting=(CLAIM,), deleted_at=START)
    await world.given(ending)
    assert (await agents.commands.confirm_deletions(EDITOR, ending.id, [CLAIM])).id == ending.id


@pytest.mark.parametrize(
    ("objects", "error", "text"),
    [
        ([], Invalid, "must have 1 to 1,000 entries, not 0"),
        ([CLAIM] * 1001, Invalid, "must have 1 to 1,000 entries, not 1,001"),
        ([CLAIM, replace(CLAIM, name="x")], Conflict, "not awaiting confirmation: [^,]*x$"),
    ],
)
async def test_only_deletions_that_wait_are_confirmed(
    objects: list[ObjectRef],
    error: type[TowlineError],
    text: str,
    world: MemoryOperations,
    agents: Agents,
) -> None:
    with pytest.raises(error, match=text):
        await agents.commands.confirm_deletions(EDITOR, SHOP.id, objects)
    assert (await world.rows(ServiceStore))[0].desired.confirmed is None


async def test_no_deletion_is_confirmed_in_a_frozen_cluster(
    world: MemoryOperations, agents: Agents
) -> None:
    await world.given(ClusterGroup("g", "g", START, START, cluster_ids=("eu",), frozen=True))
    with pytest.raises(Conflict, match="is frozen"):
        await agents.commands.confirm_deletions(EDITOR, SHOP.id, [CLAIM])


async def test_long_lists_of_objects_are_cut_in_records(
    world: MemoryOperations, agents: Agents
) -> None:
    claims = tuple(replace(CLAIM, name=f"data-{number}") for number in range(1000))
    many = make_service("many", EU, generation=2, awaiting=claims)
    await world.given(many)
    await agents.commands.confirm_deletions(EDITOR, many.id, claims)
    await agents.commands.sync_objects(EDITOR, many.id, ObjectSelection(claims, prune=True))
    confirmed, synced = (detail for _, detail in await world.audit_details())
    first = [str(ref) for ref in claims[:100]]
    assert (confirmed["objects"], synced) == (first, {"objects": first, "prune": True})
    (entry,) = await world.ledger()
    assert len(entry.detail["objects"]) == 1000 and entry.message.endswith(" and 995 more")


async def test_a_dry_run_shows_its_plan_once_it_is_reported(
    world: MemoryOperations, agents: Agents
) -> None:
    """Neither the plan of an earlier generation, nor one of a service that is no dry run now."""
    services = {
        name: make_service(name, EU, generation=2, dry_run=name != "usual")
        for name in ("new", "old", "unreported", "usual")
    }
    for service in services.values():
        await world.given(service)
    async with world.store.write() as tx:
        for name, sequence in (("new", 2), ("old", 1), ("usual", 2)):
            await tx[PlanStore].add(DryRunResult(services[name].id, sequence, ()))
    found = {
        name: await agents.commands.plan(VIEWER, service.id) for name, service in services.items()
    }
    plan = DryRunResult(services["new"].id, 2, ())
    assert found == {"new": plan, "old": None, "unreported": None, "usual": None}
    with pytest.raises(NotFound):
        await agents.commands.plan(NOBODY, services["new"].id)


async def test_a_sync_is_stopped_by_a_command(world: MemoryOperations, agents: Agents) -> None:
    await agents.commands.terminate(EDITOR, SHOP.id)
    (row,) = await world.rows(CommandStore)
    assert (row.cluster_id, row.service_id) == ("eu", SHOP.id)
    assert command(row).terminate.service_id == SHOP.id


async def test_a_group_is_upgraded_without_clusters_that_stay(
    world: MemoryOperations, agents: Agents
) -> None:
    """Those of other groups, those whose tag keeps the agent, and those that the user skips."""
    others = [make_cluster("other"), make_cluster("ap"), make_cluster("ending", ending_at=START)]
    group = replace(ALL, id="more", name="more", cluster_ids=("eu", "us", "ap", "ending"))
    await world.given(*others, group)
    upgraded = await agents.commands.upgrade_agents(EDITOR, "more", "2", "agent:2", ["ap"])
    assert [cluster.id for cluster in upgraded] == ["eu"]
    (row,) = await world.rows(CommandStore)
    assert (row.cluster_id, dict(row.payload)) == ("eu", {"version": "2", "image": "agent:2"})
    assert await world.audit_details() == [
        ("upgradeAgents", {"clusters": 1, "version": "2", "image": "agent:2"})
    ]


@pytest.mark.parametrize(
    ("scopes", "is_allowed"),
    [
        (("project:shop",), True),
        (("cluster:de", "cluster:fr"), False),
        (("cluster:de",), False),
        (("project:bank",), False),
    ],
)
async def test_an_upgrade_of_a_group_needs_the_permission_on_the_group(
    scopes: tuple[str, ...], is_allowed: bool, world: MemoryOperations, agents: Agents
) -> None:
    """Those on its present clusters are not enough. Without it, no agent is upgraded."""
    grants = [Grant(BUILT_IN["editor"], Scope(scope)) for scope in scopes]
    actor = replace(EDITOR, policy=Policy((Grant(BUILT_IN["viewer"]), *grants)))
    clusters = [make_cluster(id, project_id="shop") for id in ("de", "fr")]
    own = replace(ALL, id="own", name="own", project_id="shop", cluster_ids=("de", "fr"))
    await world.given(*clusters, own)
    if is_allowed:
        assert len(await agents.commands.upgrade_agents(actor, "own", "2", "agent:2")) == 2
        return
    for group in ("own", "all"):
        with pytest.raises(Forbidden):
            await agents.commands.upgrade_agents(actor, group, "2", "agent:2")
    assert await world.rows(CommandStore) == []


@pytest.mark.parametrize(
    ("version", "image", "field"),
    [
        ("", "a", "version"),
        ("v" * 65, "a", "version"),
        ("2", "", "image"),
        ("2", "i" * 1025, "image"),
    ],
)
async def test_version_and_image_have_limits(
    version: str, image: str, field: str, agents: Agents
) -> None:
    assert (await agents.commands.upgrade_agent(EDITOR, "eu", "v" * 64, "i" * 1024)).id == "eu"
    with pytest.raises(Invalid) as raised:
        await agents.commands.upgrade_agent(EDITOR, "eu", version, image)
    assert raised.value.field == field


async def test_a_freeze_is_audited_with_its_serial(world: MemoryOperations, agents: Agents) -> None:
    shown = await agents.commands.deliver_freeze_statement(EDITOR, "eu", FROZEN)
    assert shown.id == "eu"
    assert await world.audit_details() == [
        ("deliverFreezeStatement", {"freeze": FreezeAction.FREEZE, "serial": 1})
    ]


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
