"""Settings of agents, which of them a cluster has, and the deploy tokens of agents."""

from dataclasses import replace
from typing import Any

import pytest

from controlplane.access.model.users import Token
from controlplane.authorization import Limit, Policy, Scope
from controlplane.authorization.roles import BuiltInRole
from controlplane.clusters.model.agent_settings import (
    AgentSettings,
    AgentSize,
    AgentSpec,
    most_specific,
)
from controlplane.clusters.model.commands import Command, CommandKind, CommandState
from controlplane.clusters.model.groups import ClusterGroup
from controlplane.clusters.model.selectors import Selector
from controlplane.clusters.operations.agent_settings import (
    SETTINGS_ID,
    AgentSettingsChange,
    AgentSettingsOperations,
)
from controlplane.clusters.operations.deploy_tokens import DeployTokenReader
from controlplane.clusters.operations.groups import ClusterGroups
from controlplane.clusters.ports import AgentSettingsStore
from controlplane.platform.parts import given
from controlplane.platform.ports import PageQuery
from core.errors import Conflict, Forbidden, Invalid, NotFound
from core.identity import ClusterId, TokenKind
from tests.fakes.actors import ADMIN, EDITOR, NOBODY, VIEWER, person
from tests.fakes.clock import START
from tests.fakes.operations import MemoryOperations, make_cluster, operations_over_memory

NEW: dict[str, Any] = {"version": "1.2.0", "image": "registry.example.org/towline:1.2.0"}
PROD = Selector(tags={"env": "prod"})


@pytest.fixture
def world() -> MemoryOperations:
    return operations_over_memory()


@pytest.fixture
def settings(world: MemoryOperations) -> AgentSettingsOperations:
    return AgentSettingsOperations(world.context)


def named(name: str, **columns: Any) -> AgentSettings:
    return AgentSettings(name, name, START, START, AgentSpec(**columns))


def change_of(name: str | None = None, **fields: Any) -> AgentSettingsChange:
    return AgentSettingsChange(name, given(AgentSpec, **fields))


async def test_the_settings_global_have_defaults(
    world: MemoryOperations, settings: AgentSettingsOperations
) -> None:
    """Users who may register clusters in one project may read them; nobody else."""
    of_project = person(BuiltInRole.EDITOR, "sue", Scope("project:shop"))
    default = AgentSettings(SETTINGS_ID, "global", START, START)
    for actor in (EDITOR, of_project):
        assert await settings.of_installation(actor) == default
    of_cluster = person(BuiltInRole.ADMIN, "cleo", Scope("cluster:dev"))
    grants = of_project.policy.grants
    limited = replace(EDITOR, policy=Policy(grants, (Limit(scopes=(Scope("cluster:dev"),)),)))
    for actor in (VIEWER, NOBODY, of_cluster, limited):
        for read in (
            settings.of_installation(actor),
            settings.page(actor, PageQuery()),
            settings.get(actor, "global"),
            settings.of_new_cluster(actor, "new", {}, "shop"),
        ):
            with pytest.raises(Forbidden, match="may not write clusters"):
                await read
    assert await world.rows(AgentSettingsStore) == []


async def test_a_change_keeps_what_it_does_not_name(
    world: MemoryOperations, settings: AgentSettingsOperations
) -> None:
    change = change_of(agent_values="replicas: 2", agent_values_templated=True)
    first = await settings.update_of_installation(ADMIN, change)
    await world.clock.advance(1)
    changed = await settings.update_of_installation(ADMIN, change_of(agent_values_templated=False))
    now = world.clock.now()
    assert changed == replace(
        first, spec=replace(first.spec, agent_values_templated=False), updated_at=now
    )
    larger = await settings.update(ADMIN, first.id, change_of(size=AgentSize.LARGE))
    assert larger == replace(changed, spec=replace(changed.spec, size=AgentSize.LARGE))
    assert await settings.get(EDITOR, "global") == larger
    (shown,) = (await settings.page(EDITOR, PageQuery())).items
    assert shown == larger
    await settings.delete(ADMIN, first.id)
    with pytest.raises(NotFound):
        await settings.get(EDITOR, "global")
    assert [(action, target) for _, action, target in await world.audited()] == [
        ("updateDeploymentSettings", "global"),
        ("updateDeploymentSettings", "global"),
        ("updateAgentSettings", "global"),
        ("deleteAgentSettings", "global"),
    ]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (change_of(), "name"),
        (change_of("eu", agent_values="x" * (64 * 1024 + 1)), "agentValues"),
        (change_of("eu", version="1.2.0"), "image"),
        (change_of("eu", image="towline:1.2.0"), "version"),
        (change_of("eu", version="1" * 65, image="towline"), "version"),
        (change_of("eu", version="1.2.0\n", image="towline"), "version"),
        (change_of("eu", version="1.2.0", image="i" * 1025), "image"),
        (change_of("eu", version="1.2.0", image="towline\x1b[2K"), "image"),
        (change_of("eu", priority=1001), "priority"),
        (change_of("eu", priority=-1001), "priority"),
        (change_of("eu", selector=Selector(tags={"": "x"})), "tags.name"),
    ],
)
async def test_settings_that_make_no_sense_are_refused(
    world: MemoryOperations,
    settings: AgentSettingsOperations,
    change: AgentSettingsChange,
    field: str,
) -> None:
    with pytest.raises(Invalid) as error:
        await settings.create(ADMIN, change)
    assert error.value.field == field
    assert await world.rows(AgentSettingsStore) == [] and await world.audited() == []


async def test_settings_at_their_limits_are_accepted(settings: AgentSettingsOperations) -> None:
    longest: dict[str, Any] = {
        "version": "1" * 64,
        "image": "i" * 1024,
        "agent_values": "x" * (64 * 1024),
    }
    for name, priority in (("first", 1000), ("last", -1000)):
        made = await settings.create(ADMIN, change_of(name, priority=priority, **longest))
        assert (made.spec.version, made.spec.image) == (longest["version"], longest["image"])


async def test_the_audit_log_names_the_fields_that_a_change_sets(
    world: MemoryOperations, settings: AgentSettingsOperations
) -> None:
    made = await settings.create(ADMIN, change_of("eu", **NEW))
    await settings.update(ADMIN, made.id, change_of("europe", priority=2, agent_values="a: 1"))
    await settings.update(ADMIN, made.id, change_of(size=AgentSize.LARGE))
    assert await world.audit_details() == [
        ("createAgentSettings", {}),
        ("updateAgentSettings", {"changed": ["agent_values", "name", "priority"]}),
        ("updateAgentSettings", {"changed": ["size"]}),
    ]


async def test_only_administrators_change_settings_and_names_are_unique(
    world: MemoryOperations, settings: AgentSettingsOperations
) -> None:
    with pytest.raises(Forbidden):
        await settings.create(EDITOR, change_of("eu"))
    made = await settings.create(ADMIN, change_of("eu", priority=3, **NEW))
    assert (made.spec.priority, made.spec.upgrade) == (3, NEW)
    with pytest.raises(Conflict, match="settings 'eu' already exist"):
        await settings.create(ADMIN, change_of("eu"))
    other = await settings.create(ADMIN, change_of("us"))
    with pytest.raises(Conflict):
        await settings.update(ADMIN, other.id, change_of("eu"))
    with pytest.raises(Forbidden):
        await settings.update(EDITOR, made.id, change_of(priority=4))
    with pytest.raises(Forbidden):
        await settings.delete(EDITOR, made.id)


def test_the_highest_priority_wins_then_a_selector_then_the_name() -> None:
    everywhere, low = named("a", priority=0), named("low", priority=-1, selector=PROD)
    prod, also = named("prod", selector=PROD), named("also", selector=PROD)
    first = named("first", priority=5)

    def winner(*matching: AgentSettings) -> tuple[str, list[str]]:
        found = most_specific(matching)
        assert found is not None
        return found.settings.name, found.conflicts

    assert winner(everywhere, prod, low) == ("prod", [])
    assert winner(prod, everywhere, also) == ("also", ["prod"])
    assert winner(prod, also, first) == ("first", [])
    assert winner(low, everywhere) == ("a", [])
    assert most_specific([]) is None


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("", None),
        (
            "registry.example.org:5000/t/towline",
            {"repository": "registry.example.org:5000/t/towline"},
        ),
        ("towline:1.2.0", {"repository": "towline", "tag": "1.2.0"}),
        (
            "r.example.org:5000/towline:1.2.0@sha256:ab",
            {"repository": "r.example.org:5000/towline", "tag": "1.2.0", "digest": "sha256:ab"},
        ),
    ],
)
def test_size_and_image_are_values_of_the_chart(image: str, expected: object) -> None:
    values = AgentSpec(image=image, size=AgentSize.MEDIUM).chart_values
    assert values.get("image") == expected
    assert values["resources"] == {
        "requests": {"cpu": "100m", "memory": "256Mi"},
        "limits": {"memory": "1Gi"},
    }


async def test_a_cluster_shows_its_settings_and_why_it_did_not_upgrade(
    world: MemoryOperations, settings: AgentSettingsOperations
) -> None:
    eu, dev = make_cluster("eu", tags={"env": "prod"}), make_cluster("dev")
    upgrades = [
        Command(
            id, ClusterId("eu"), CommandKind.UPGRADE, START, state=state, message=id, payload=NEW
        )
        for id, state in (("1", CommandState.SUCCEEDED), ("2", CommandState.REFUSED))
    ]
    prod = named("prod", selector=PROD, agent_values="token: x\n", **NEW)
    await world.given(eu, dev, prod, *upgrades)
    found = await settings.of_clusters(EDITOR, [eu, dev])
    assert found.keys() == {"eu"}
    assert (found["eu"].settings, found["eu"].problem) == (prod, "2")
    seen = (await settings.of_clusters(VIEWER, [eu]))["eu"]
    assert seen.settings == replace(prod, spec=replace(prod.spec, agent_values=""))

    new = await settings.of_new_cluster(EDITOR, "new", {"env": "prod"}, "shop")
    assert new is not None and new.settings == prod
    assert await settings.of_new_cluster(EDITOR, "new", {}, "shop") is None
    with pytest.raises(Forbidden):
        await settings.of_new_cluster(VIEWER, "new", {}, "shop")


@pytest.mark.parametrize(
    ("newest", "problem"),
    [
        ({"state": CommandState.FAILED}, "no space left"),
        ({"state": CommandState.REFUSED}, "no space left"),
        ({"state": CommandState.SUCCEEDED}, ""),
        ({"state": CommandState.WAITING}, ""),
        ({"state": CommandState.FAILED, "payload": {**NEW, "version": "1.1.0"}}, ""),
    ],
)
async def test_only_a_failure_of_the_present_version_is_a_problem(
    world: MemoryOperations,
    settings: AgentSettingsOperations,
    newest: dict[str, Any],
    problem: str,
) -> None:
    """That an earlier version could not be installed concerns nobody any more."""
    eu, prod = make_cluster("eu", tags={"env": "prod"}), named("prod", selector=PROD, **NEW)
    columns: dict[str, Any] = {"payload": NEW, "message": "no space left", **newest}
    await world.given(eu, prod, Command("1", eu.id, CommandKind.UPGRADE, START, **columns))
    assert (await settings.of_clusters(EDITOR, [eu]))["eu"].problem == problem


async def test_settings_without_a_version_ask_for_no_upgrade(
    world: MemoryOperations, settings: AgentSettingsOperations
) -> None:
    eu, plain = make_cluster("eu"), named("plain")
    failed = Command("1", eu.id, CommandKind.UPGRADE, START, state=CommandState.FAILED, message="x")
    await world.given(eu, plain, replace(failed, payload=plain.spec.upgrade))
    assert (await settings.of_clusters(EDITOR, [eu]))["eu"].problem == ""


async def test_a_group_that_settings_select_by_stays(
    world: MemoryOperations, settings: AgentSettingsOperations
) -> None:
    group = ClusterGroup("g", "edge", START, START, cluster_ids=("eu",))
    eu = make_cluster("eu")
    await world.given(eu, group, named("edge", selector=Selector(groups=("g",))))
    assert (await settings.of_clusters(EDITOR, [eu])).keys() == {"eu"}
    with pytest.raises(Conflict, match="settings of agents 'edge' selects clusters"):
        await ClusterGroups(world.context).delete(ADMIN, "g")


async def test_settings_select_no_group_that_does_not_exist(
    world: MemoryOperations, settings: AgentSettingsOperations
) -> None:
    """All clusters would be without settings."""
    prod, missing = named("prod"), change_of("edge", selector=Selector(groups=("none",)))
    await world.given(prod)
    for change in (settings.create(ADMIN, missing), settings.update(ADMIN, "prod", missing)):
        with pytest.raises(Invalid, match="cluster group none does not exist") as raised:
            await change
        assert raised.value.field == "groups"
    assert await world.rows(AgentSettingsStore) == [prod]


async def test_a_deploy_token_is_found_with_its_cluster(world: MemoryOperations) -> None:
    def token(id: str, cluster: str | None) -> Token:
        return Token(id, TokenKind.AGENT, id, f"hash-{id}", START, cluster_id=cluster)

    kept, ended = make_cluster("kept"), make_cluster("ended", deleted_at=START)
    tokens = [token("t1", "kept"), token("t2", "ended"), token("t3", None)]
    await world.given(kept, ended, *tokens)
    reader = DeployTokenReader(world.store)
    assert await reader.find("hash-t1") == (tokens[0], "kept")
    assert await reader.find("hash-t2") == (tokens[1], None)
    assert await reader.find("hash-t3") == (tokens[2], None)
    assert await reader.find("nonsense") is None
