"""Rows of the objects of cluster sources: their changes, messages and tokens, run after run."""

from dataclasses import replace
from datetime import timedelta

import pytest

from controlplane.access.operations.projects import ProjectChange, Projects
from controlplane.authorization import UNRESTRICTED
from controlplane.cluster_sources.model.source import ClusterSourceResult, GonePolicy
from controlplane.cluster_sources.operations.deliveries import MAX_JOINING
from controlplane.cluster_sources.operations.sources import RECONCILE
from controlplane.clusters.model.groups import ClusterGroup
from controlplane.clusters.operations.clusters import Clusters
from controlplane.clusters.ports import BootstrapTokenStore, ClusterGroupStore
from controlplane.platform.ports import JobStore
from controlplane.services.operations.fences import ServiceFences
from core.errors import Forbidden, Unavailable
from core.identity import ServiceId
from tests.fakes.actors import ADMIN
from tests.fakes.clock import START
from tests.fakes.cluster_sources import (
    ClusterSourceWorld,
    change_of,
    cluster_source_world,
    initialized,
)
from tests.fakes.operations import make_cluster, make_service

SETS = "/apis/addons.cluster.x-k8s.io/"
LONG = "x" * 600


@pytest.fixture
async def world() -> ClusterSourceWorld:
    return await cluster_source_world()


async def next_run(world: ClusterSourceWorld) -> timedelta | None:
    """The time until the next run of a source."""
    async with world.memory.store.read() as tx:
        due = await tx[JobStore].next_due([RECONCILE])
    return None if due is None else due - world.memory.clock.now()


async def freeze(world: ClusterSourceWorld, handle: str, *, frozen: bool = True) -> None:
    """Freezes or unfreezes a cluster."""
    group = ClusterGroup("hold", "hold", START, START, None)
    held = replace(group, cluster_ids=((await world.clusters())[handle].id,), frozen=frozen)
    async with world.memory.store.write() as tx:
        known = await tx[ClusterGroupStore].get("hold")
        await (tx[ClusterGroupStore].put(held) if known else tx[ClusterGroupStore].add(held))


async def test_a_source_runs_again_after_its_interval(world: ClusterSourceWorld) -> None:
    source = await world.create(interval_s=3_600)
    assert await next_run(world) == timedelta(hours=1)
    world.hub.failures["/apis/"] = Unavailable("no answer")
    await world.sources.sync(ADMIN, source.id)
    await world.run_due()
    assert await next_run(world) == timedelta(seconds=30)
    await world.sources.update(ADMIN, source.id, change_of(interval_s=20))
    await world.run_due()
    assert await next_run(world) == timedelta(seconds=20)


async def test_deliveries_beyond_the_limit_wait_for_an_interval(world: ClusterSourceWorld) -> None:
    """Those within it are made at once, since others may be free by then."""
    world.hub.page = 100
    for number in range(MAX_JOINING + 1):
        world.hub.put(f"c-{number}", status=initialized())
    await world.create(interval_s=3_600)
    assert await next_run(world) == timedelta(seconds=1)
    await world.memory.clock.advance(1)
    await world.run_due()
    assert len(world.agents.tokens) == MAX_JOINING
    assert await next_run(world) == timedelta(hours=1)
    world.hub.remove("c-0")
    await world.pass_interval()
    await world.memory.clock.advance(3_600)
    await world.run_due()
    assert len(world.agents.tokens) == MAX_JOINING + 1


async def test_the_last_deliveries_within_the_limit_end_the_work(
    world: ClusterSourceWorld,
) -> None:
    world.hub.page = 100
    for number in range(MAX_JOINING):
        world.hub.put(f"c-{number}", status=initialized())
    await world.create(interval_s=3_600)
    assert await next_run(world) == timedelta(hours=1)


async def test_changes_of_objects_are_shown(world: ClusterSourceWorld) -> None:
    world.hub.put("eu-1", topology={"version": "v1.34.1"})
    await world.create()
    before = (await world.members())["eu-1"]
    assert (before.version, before.updated_at) == ("v1.34.1", START)
    world.hub.put("eu-1", topology={"version": "v1.35.0"})
    await world.pass_interval()
    after = (await world.members())["eu-1"]
    assert after == replace(before, version="v1.35.0", updated_at=world.memory.clock.now())


async def test_a_source_registers_and_audits_as_itself(world: ClusterSourceWorld) -> None:
    world.hub.put("eu-1", status=initialized())
    await world.create(tags={"from": "capi"})
    details = dict(await world.memory.audit_details())
    assert details["createCluster"]["clusterSource"] == "capi"
    assert details["createBootstrapToken"]["object"] == "fleet/eu-1"
    row = (await world.members())["eu-1"]
    assert row.cluster_id == (await world.clusters())["eu-1"].id
    assert dict(row.tags) == {"from": "capi"}


async def test_all_problems_are_counted_and_the_first_is_shown(world: ClusterSourceWorld) -> None:
    for name in ("eu-1", "eu-2"):
        await world.memory.given(make_cluster(name))
    world.hub.put("eu-1")
    source = await world.create()
    assert source.status.message == ("fleet/eu-1: a cluster with the handle 'eu-1' already exists")
    before = await world.members()
    world.hub.put("eu-2")
    source = await world.pass_interval()
    assert source.status.message.endswith("already exists (and 1 more)")
    assert (await world.members())["eu-1"] == before["eu-1"]
    world.hub.remove("eu-1")
    world.hub.remove("eu-2")
    source = await world.pass_interval()
    assert (source.status.message, await world.states()) == ("", {})


async def test_the_reason_of_a_refusal_changes_with_it(world: ClusterSourceWorld) -> None:
    await world.memory.given(make_cluster("eu-1"))
    world.hub.put("eu-1")
    source = await world.create()
    await world.sources.update(ADMIN, source.id, change_of(name_template=f"{{name}}-{'x' * 60}"))
    await world.run_due()
    row = (await world.members())["eu-1"]
    assert (row.state.value, row.cluster_id) == ("refused", None)
    assert "is not a valid name" in row.message


async def test_messages_have_a_limit(world: ClusterSourceWorld) -> None:
    world.hub.put("eu-1", status=initialized())
    world.hub.failures[SETS] = Forbidden(LONG)
    source = await world.create()
    assert len((await world.members())["eu-1"].message) == 500
    assert len(source.status.message) == 500
    world.hub.failures["/apis/cluster"] = Forbidden(LONG)
    source = await world.pass_interval()
    assert len(source.status.message) == 500


async def test_a_failed_delivery_is_shown_until_the_cluster_connects(
    world: ClusterSourceWorld,
) -> None:
    """Somebody installed the agent by hand."""
    world.hub.put("eu-1", status=initialized())
    world.hub.failures[SETS] = Forbidden("no patch")
    await world.create()
    assert "no patch" in (await world.members())["eu-1"].message
    await world.connect("eu-1")
    source = await world.pass_interval()
    assert (source.status.result, await world.states()) == (
        ClusterSourceResult.SYNCED, {"eu-1": "connected"},
    )  # fmt: skip


async def test_a_revoked_token_is_replaced(world: ClusterSourceWorld) -> None:
    world.hub.put("eu-1", status=initialized())
    await world.create()
    first = world.agents.tokens["eu-1"]
    (token,) = await world.memory.rows(BootstrapTokenStore)
    await world.bootstrap.revoke(ADMIN, token.id)
    await world.pass_interval()
    assert world.agents.tokens["eu-1"] != first
    (row,) = await world.memory.rows(BootstrapTokenStore)
    assert row.revoked_at is None


async def test_a_connected_cluster_is_cleaned_up_once(world: ClusterSourceWorld) -> None:
    world.hub.put("eu-1", status=initialized())
    await world.create()
    await world.connect("eu-1")
    await world.pass_interval()
    assert (await world.members())["eu-1"].token_id is None
    world.hub.paths.clear()
    await world.pass_interval()
    assert not any(path.startswith(SETS) for path in world.hub.paths)


async def test_an_object_that_is_being_deleted_gets_no_agent(world: ClusterSourceWorld) -> None:
    world.hub.put("eu-1", status=initialized())
    world.hub.failures[SETS] = Unavailable("no answer")
    await world.create()
    world.hub.failures.clear()
    before = dict(world.agents.tokens)
    world.hub.inventory["fleet/eu-1"]["metadata"]["deletionTimestamp"] = "2026-05-01T00:00:00Z"
    await world.pass_interval()
    assert world.agents.tokens == before


async def test_tags_of_a_frozen_cluster_change_after_the_freeze(world: ClusterSourceWorld) -> None:
    world.hub.put("eu-1", labels={"env": "test"})
    await world.create(tag_labels=("env",))
    await freeze(world, "eu-1")
    world.hub.put("eu-1", labels={"env": "prod"})
    source = await world.pass_interval()
    assert "fleet/eu-1: cannot change tags: " in source.status.message
    assert dict((await world.clusters())["eu-1"].tags) == {"env": "test"}
    await freeze(world, "eu-1", frozen=False)
    source = await world.pass_interval()
    assert source.status.message == ""
    assert dict((await world.clusters())["eu-1"].tags) == {"env": "prod"}
    audited = len(await world.memory.audited())
    await world.pass_interval()
    assert len(await world.memory.audited()) == audited


async def test_a_removed_cluster_gets_no_tags(world: ClusterSourceWorld) -> None:
    world.hub.put("eu-1", labels={"env": "test"})
    await world.create(tag_labels=("env",))
    await Clusters(world.memory.context).detach(ADMIN, (await world.clusters())["eu-1"].id)
    world.hub.put("eu-1", labels={"env": "prod"})
    source = await world.pass_interval()
    assert (source.status.message, await world.states()) == ("", {"eu-1": "removed"})


async def test_a_cluster_whose_deletion_has_begun_is_removed(world: ClusterSourceWorld) -> None:
    """Its agent still deletes services; if its object is gone too, the source forgets it."""
    world.hub.put("eu-1", status=initialized())
    await world.create()
    cluster = (await world.clusters())["eu-1"]
    await world.memory.given(replace(make_service("shop", cluster), id=ServiceId("shop")))
    await Clusters(world.memory.context).delete(ADMIN, cluster.id)
    await world.pass_interval()
    assert await world.states() == {"eu-1": "removed"}
    world.hub.remove("eu-1")
    await world.pass_interval()
    assert await world.states() == {}
    assert await world.memory.rows(BootstrapTokenStore) == []


async def test_an_object_that_is_gone_has_no_message_and_no_token(
    world: ClusterSourceWorld,
) -> None:
    world.hub.put("eu-1", status=initialized())
    world.hub.put("eu-2", status=initialized())
    world.hub.failures[f"{SETS}v1beta2/namespaces/fleet/clusterresourcesets/towline-join-eu-2"] = (
        Forbidden("no patch")
    )
    source = await world.create()
    assert "no patch" in source.status.message
    world.hub.remove("eu-1")
    world.hub.remove("eu-2")
    source = await world.pass_interval()
    assert source.status.result is ClusterSourceResult.SYNCED
    rows = await world.members()
    gone_at = world.memory.clock.now()
    for row in rows.values():
        assert (row.message, row.token_id, row.updated_at) == ("", None, gone_at)
    assert await world.memory.rows(BootstrapTokenStore) == []
    await world.pass_interval()
    assert await world.members() == rows


async def test_as_many_clusters_as_permitted_are_removed(world: ClusterSourceWorld) -> None:
    for number in range(3):
        world.hub.put(f"c-{number}", status=initialized())
    await world.create(gone=GonePolicy.DELETE, max_deletions=3)
    for number in range(3):
        world.hub.remove(f"c-{number}")
    source = await world.pass_interval()
    assert source.status.result is ClusterSourceResult.SYNCED
    assert (await world.clusters(), await world.states()) == ({}, {})
    assert await world.memory.rows(BootstrapTokenStore) == []


async def test_a_frozen_cluster_is_not_removed(world: ClusterSourceWorld) -> None:
    for name in ("eu-1", "eu-2"):
        world.hub.put(name)
    await world.create(gone=GonePolicy.DELETE)
    await freeze(world, "eu-1")
    world.hub.remove("eu-1")
    world.hub.remove("eu-2")
    source = await world.pass_interval()
    assert "cannot remove cluster 'eu-1': " in source.status.message
    assert await world.states() == {"eu-1": "gone"}
    assert list(await world.clusters()) == ["eu-1"]


async def test_a_new_cluster_belongs_to_the_project_of_its_source(
    world: ClusterSourceWorld,
) -> None:
    projects = Projects(world.memory.context, ServiceFences(), UNRESTRICTED)
    project = (await projects.create(ADMIN, ProjectChange(name="shop"))).id
    world.hub.put("eu-1")
    await world.create(project_id=project)
    assert (await world.clusters())["eu-1"].project_id == project
