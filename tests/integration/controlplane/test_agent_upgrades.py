"""Replacing the agents of many clusters by one word."""

from dataclasses import replace

import pytest

from controlplane.access.operations.projects import ProjectChange
from controlplane.authorization import UNRESTRICTED, Scope
from controlplane.authorization.roles import BuiltInRole as Role
from controlplane.clusters.model.cluster import AGENT_TAG, KEEP, Cluster
from controlplane.clusters.model.commands import CommandKind
from controlplane.clusters.operations.groups import ClusterGroupChange, ClusterGroups
from controlplane.clusters.ports import ClusterStore, CommandStore
from controlplane.platform.ports import PageQuery
from core.errors import Forbidden, Invalid, NotFound
from core.identity import ClusterId
from tests.integration.controlplane.conftest import World, person

NEW = ("1.2.0", "registry.example.org/towline:1.2.0")


async def group_of(world: World, count: int, **tags: str) -> str:
    """A group of so many clusters in production, and one that is elsewhere."""
    now = world.clock.now()
    rows = [
        Cluster(ClusterId(f"c{n:03}"), f"c{n:03}", "", now, now, tags={"stage": "prod", **tags})
        for n in range(count)
    ]
    rows.append(replace(rows[0], id=ClusterId("dev"), handle="dev", tags={"stage": "dev"}))
    async with world.deps.store.write() as tx:
        await tx[ClusterStore].add_each(rows)
    change = ClusterGroupChange(name="production", tags={"stage": "prod"})
    return (await ClusterGroups(world.deps).create(world.admin, change)).id


async def asked(world: World) -> dict[str, dict]:
    """Requested versions of agents, by the cluster's id."""
    async with world.deps.store.read() as tx:
        rows = await tx[CommandStore].select(kind=CommandKind.UPGRADE)
    return {one.cluster_id: dict(one.payload) for one in rows}


async def test_two_hundred_agents_are_asked_but_for_those_that_stay(world: World) -> None:
    """Some are left out this time, some always; one row of the trail tells of all."""
    group = await group_of(world, 200)
    async with world.deps.store.write() as tx:
        await tx[ClusterStore].change("c001", tags={"stage": "prod", AGENT_TAG: KEEP})
    commands = await world.interventions.upgrade_agents(
        world.admin, group, *NEW, without=["c000", "dev"]
    )
    wanted = await asked(world)
    assert {one.id for one in commands} == wanted.keys()
    assert wanted.keys() == {f"c{n:03}" for n in range(2, 200)}
    assert wanted["c199"] == {"version": NEW[0], "image": NEW[1]}
    page = await world.records.page(world.admin, PageQuery(first=1))
    (row,) = page.items
    assert (row.action, row.target, row.detail["clusters"]) == ("upgradeAgents", "production", 198)


async def test_one_cluster_that_is_not_theirs_stops_it_for_all(world: World) -> None:
    """What somebody sees of a group is no leave to change the rest of it."""
    project = await world.projects.create(
        world.admin, ProjectChange(name="own", fence=UNRESTRICTED)
    )
    group = await group_of(world, 3)
    async with world.deps.store.write() as tx:
        await tx[ClusterStore].change("c002", project_id=project.id)
    with pytest.raises(Forbidden):
        await world.interventions.upgrade_agents(person(Role.VIEWER), group, *NEW)
    elsewhere = person(Role.EDITOR, scope=Scope(f"project:{project.id}"))
    with pytest.raises(NotFound):
        await world.interventions.upgrade_agents(elsewhere, group, *NEW)
    with pytest.raises(Invalid):
        await world.interventions.upgrade_agents(world.admin, group, "", NEW[1])
    assert await asked(world) == {}
