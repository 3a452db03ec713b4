"""Operations on cluster sources: rights, settings, deletion."""

from dataclasses import replace
from typing import cast

import pytest

from controlplane.access.operations.projects import ProjectChange, Projects
from controlplane.access.ports import RoleBindingStore, UserStore
from controlplane.api.schema import schema
from controlplane.authorization import (
    UNRESTRICTED,
    Actor,
    Grant,
    Policy,
    ResourceKind,
    Role,
    Rule,
    Verb,
)
from controlplane.authorization.resources import scope_of
from controlplane.authorization.roles import BuiltInRole
from controlplane.cluster_sources.model.delivery import JOIN_LABEL
from controlplane.cluster_sources.model.source import ClusterSourceResult, ClusterSourceSettings
from controlplane.cluster_sources.operations.sources import ClusterSourceChange, ClusterSources
from controlplane.cluster_sources.ports import ClusterSourceMemberStore, ClusterSourceStore
from controlplane.clusters.operations.clusters import Clusters
from controlplane.clusters.ports import BootstrapTokenStore, ClusterStore
from controlplane.platform.graphql.context import ApiBackend, Authenticator, Context
from controlplane.platform.jobs import LEASE
from controlplane.platform.ports import PageQuery
from controlplane.services.operations.fences import ServiceFences
from core.errors import Conflict, Forbidden, Invalid, NotFound, Unavailable
from tests.fakes.access import bind
from tests.fakes.actors import ADMIN, EDITOR, NOBODY, VIEWER, person
from tests.fakes.cluster_sources import (
    ACCOUNT,
    MANAGEMENT,
    ClusterSourceWorld,
    change_of,
    cluster_source_world,
    initialized,
)


@pytest.fixture
async def world() -> ClusterSourceWorld:
    return await cluster_source_world(BuiltInRole.EDITOR)


async def test_an_editor_creates_a_source_whose_account_is_an_editor(
    world: ClusterSourceWorld,
) -> None:
    world.hub.put("eu-1")
    source = await world.create(actor=EDITOR)
    assert source.status.result is ClusterSourceResult.SYNCED
    assert ("ed@example.org", "createClusterSource", "capi") in await world.memory.audited()


@pytest.mark.parametrize("actor", [VIEWER, NOBODY])
async def test_others_create_none(world: ClusterSourceWorld, actor: Actor) -> None:
    with pytest.raises((Forbidden, NotFound)):
        await world.create(actor=actor)
    assert await world.memory.rows(ClusterSourceStore) == []


@pytest.mark.parametrize("actor", [VIEWER, NOBODY])
async def test_only_editors_of_clusters_change_sync_or_delete_a_source(
    world: ClusterSourceWorld, actor: Actor
) -> None:
    """A sync sends requests to the management cluster with the rights of the service account."""
    source = await world.create()
    audited = await world.memory.audited()
    for attempt in (
        world.sources.update(actor, source.id, change_of(interval_s=60)),
        world.sources.sync(actor, source.id),
        world.sources.delete(actor, source.id),
    ):
        with pytest.raises(Forbidden, match="may not write clusters"):
            await attempt
    assert await world.memory.rows(ClusterSourceStore) == [source]
    assert await world.memory.audited() == audited
    assert (await world.sources.sync(EDITOR, source.id)).id == source.id
    assert (await world.memory.audited())[-1] == (EDITOR.email, "syncClusterSource", "capi")


async def test_a_source_stays_in_its_project(world: ClusterSourceWorld) -> None:
    """Its clusters belong to that project. A change may name it, as manifests do."""
    source = await world.create()
    moved = ClusterSourceChange(project_id="shop")
    with pytest.raises(Conflict, match="cluster source 'capi' cannot be moved to another project"):
        await world.sources.update(ADMIN, source.id, moved)
    named = ClusterSourceChange(project_id=source.project_id)
    assert (await world.sources.update(ADMIN, source.id, named)).project_id == source.project_id


async def test_nobody_gets_more_rights_through_a_source() -> None:
    world = await cluster_source_world(BuiltInRole.ADMIN)
    with pytest.raises(Forbidden, match="permissions that you have"):
        await world.create(actor=EDITOR)


async def test_the_creator_must_reach_the_management_cluster(world: ClusterSourceWorld) -> None:
    """The right to register clusters in one project reads nothing in the cluster of another."""
    projects = Projects(world.memory.context, ServiceFences(), UNRESTRICTED)
    from_shop = await projects.create(ADMIN, ProjectChange(name="shop"))
    actor = person(BuiltInRole.EDITOR, "shop", scope_of(ResourceKind.PROJECT, from_shop.id))
    with pytest.raises(NotFound, match="cluster"):
        await world.create(actor=actor, project_id=from_shop.id)
    assert await world.memory.rows(ClusterSourceStore) == []


async def test_a_source_connects_for_nobody_who_may_only_register_clusters(
    world: ClusterSourceWorld,
) -> None:
    """Else its lists would show objects of the management cluster that the creator cannot read."""
    registers = Role("r", "r", rules=(Rule((Verb.READ, Verb.WRITE), (ResourceKind.CLUSTER,)),))
    actor = replace(EDITOR, policy=Policy((Grant(registers),)))
    with pytest.raises(Forbidden, match=f'may not connect cluster "{MANAGEMENT}"'):
        await world.create(actor=actor)
    assert await world.memory.rows(ClusterSourceStore) == []


async def test_only_the_suspension_and_the_interval_need_no_rights_of_the_account(
    world: ClusterSourceWorld,
) -> None:
    source = await world.create()
    await world.memory.given(bind(BuiltInRole.ADMIN.value, ACCOUNT))
    changes = (
        change_of(selector="a=b"),
        change_of(name_template="x-{name}"),
        change_of(tags={"a": "b"}),
    )
    for change in changes:
        with pytest.raises(Forbidden):
            await world.sources.update(EDITOR, source.id, change)
    changed = await world.sources.update(
        EDITOR, source.id, change_of(suspended=True, interval_s=99)
    )
    assert (changed.settings.suspended, changed.settings.interval_s) == (True, 99)
    with pytest.raises(Conflict, match="suspended"):
        await world.sources.sync(ADMIN, source.id)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"cluster_id": ""}, "cluster: is required"),
        ({"service_account_id": ""}, "serviceAccount: is required"),
        ({"namespace": "Not A Label"}, "namespace"),
        ({"selector": "env in prod"}, "selector"),
        ({"name_template": "fixed"}, "must contain {name}"),
        ({"name_template": "{name}-{id}"}, "{id} is unknown"),
        ({"name_template": "-{name}"}, "is not a valid name"),
        ({"name_template": "{name}" + "x" * 200}, "at most 200"),
        ({"tag_labels": ("a/env", "b/env")}, "both become the tag 'env'"),
        ({"tag_labels": ("no label!",)}, "tagLabels"),
        ({"tag_labels": ("a=b",)}, "tagLabels"),
        ({"tag_labels": tuple(f"l-{n}" for n in range(65))}, "at most 64 entries, not 65"),
        ({"tags": {"a": ""}}, "tags"),
        ({"max_clusters": 0}, "1 to 5,000"),
        ({"max_clusters": 5001}, "1 to 5,000"),
        ({"max_deletions": -1}, "0 to 5,000"),
        ({"interval_s": 9}, "10 to 86,400"),
    ],
)
def test_settings_have_limits(columns: dict[str, object], message: str) -> None:
    required = {"cluster_id": "a", "service_account_id": "b"}
    with pytest.raises(Invalid) as error:
        change_of(**(required | columns)).applied(ClusterSourceSettings())
    assert message in error.value.message


async def test_a_name_is_unique_and_stays(world: ClusterSourceWorld) -> None:
    source = await world.create()
    with pytest.raises(Conflict, match="already exists"):
        await world.create()
    with pytest.raises(Invalid, match="cannot be changed"):
        await world.sources.update(ADMIN, source.id, ClusterSourceChange(name="other"))
    with pytest.raises(Invalid):
        await world.create("Not A Label")


async def test_missing_references_name_their_field(world: ClusterSourceWorld) -> None:
    with pytest.raises(NotFound, match='cluster: cluster "nowhere" does not exist'):
        await world.create(cluster_id="nowhere")
    with pytest.raises(NotFound, match="serviceAccount: "):
        await world.create(service_account_id="nobody")


async def test_a_deletion_keeps_clusters_and_ends_their_tokens(world: ClusterSourceWorld) -> None:
    world.hub.put("eu-1", status=initialized())
    source = await world.create()
    assert len(await world.memory.rows(BootstrapTokenStore)) == 1
    await world.sources.delete(EDITOR, source.id)
    assert list(await world.clusters()) == ["eu-1"]
    assert await world.memory.rows(ClusterSourceStore) == []
    assert await world.memory.rows(ClusterSourceMemberStore) == []
    assert await world.memory.rows(BootstrapTokenStore) == []
    await world.run_due()


async def test_a_deletion_removes_what_was_delivered(world: ClusterSourceWorld) -> None:
    for name in ("eu-1", "eu-2", "eu-3"):
        world.hub.put(name, status=initialized())
    source = await world.create()
    await world.connect("eu-3")
    await world.pass_interval()
    assert len(world.hub.objects) == 4
    await world.sources.delete(EDITOR, source.id)
    world.hub.remove("eu-2")
    world.hub.failures["/apis/addons"] = Unavailable("no answer")
    with pytest.raises(Unavailable):
        await world.clean_up_due()
    world.hub.failures.clear()
    await world.memory.clock.advance(LEASE.total_seconds() + 1)
    await world.clean_up_due()
    assert world.hub.objects == {}
    assert JOIN_LABEL not in world.hub.inventory["fleet/eu-1"]["metadata"]["labels"]
    assert world.hub.callers == {"robot@example.org"}


async def test_a_clean_up_without_its_management_cluster_ends(world: ClusterSourceWorld) -> None:
    world.hub.put("eu-1", status=initialized())
    source = await world.create()
    await world.sources.delete(EDITOR, source.id)
    async with world.memory.store.write() as tx:
        await tx[ClusterStore].delete(MANAGEMENT, world.memory.clock.now())
    world.hub.paths.clear()
    await world.clean_up_due()
    assert world.hub.paths == []


@pytest.mark.parametrize("is_deleted", [False, True])
async def test_a_clean_up_needs_the_service_account(
    world: ClusterSourceWorld, is_deleted: bool
) -> None:
    world.hub.put("eu-1", status=initialized())
    source = await world.create()
    await world.sources.delete(EDITOR, source.id)
    async with world.memory.store.write() as tx:
        if is_deleted:
            await tx[RoleBindingStore].remove_each(
                [one.id for one in await tx[RoleBindingStore].all()]
            )
            await tx[UserStore].remove(ACCOUNT.id)
        else:
            await tx[UserStore].change(ACCOUNT.id, disabled_at=world.memory.clock.now())
    with pytest.raises(Conflict, match="service account of the deleted source is disabled"):
        await world.clean_up_due()
    assert len(world.hub.objects) == 2


async def test_requests_to_the_management_cluster_name_their_source(
    world: ClusterSourceWorld,
) -> None:
    """The audit log of the cluster shows on whose behalf the account changes it."""
    world.hub.put("eu-1", status=initialized())
    source = await world.create()
    await world.sources.delete(EDITOR, source.id)
    await world.clean_up_due()
    assert world.hub.causes == {(("clusterSource", "capi"),)}


async def test_a_clean_up_keeps_the_deliveries_of_a_new_source(world: ClusterSourceWorld) -> None:
    world.hub.put("eu-1", status=initialized())
    source = await world.create()
    await world.sources.delete(EDITOR, source.id)
    await Clusters(world.memory.context).delete(ADMIN, (await world.clusters())["eu-1"].id)
    await world.create()
    before = dict(world.hub.objects)
    await world.clean_up_due()
    assert world.hub.objects == before
    assert len(before) == 2


async def test_reads_are_limited_to_readers(world: ClusterSourceWorld) -> None:
    world.hub.put("eu-1")
    world.hub.put("eu-2")
    source = await world.create()
    query = PageQuery(first=1)
    page = await world.sources.members(VIEWER, source.id, query)
    assert ([row.name for row in page.items], page.more) == (["eu-1"], True)
    assert [row.id for row in (await world.sources.page(VIEWER, query)).items] == [source.id]
    assert (await world.sources.page(NOBODY, query)).items == ()
    for read in (
        world.sources.get(NOBODY, source.id),
        world.sources.members(NOBODY, source.id, query),
    ):
        with pytest.raises((Forbidden, NotFound)):
            await read
    with pytest.raises(NotFound):
        await world.sources.get(ADMIN, None, "other")
    assert await world.sources.handles(NOBODY, {MANAGEMENT}) == {}
    assert await world.sources.accounts(NOBODY, [source]) == {}
    assert await world.sources.accounts(ADMIN, [source]) == {"robot": "robot@example.org"}


async def test_the_api_counts_the_objects_of_a_source(world: ClusterSourceWorld) -> None:
    world.hub.put("eu-1")
    world.hub.put("eu-2")
    source = await world.create()
    projects = Projects(world.memory.context, ServiceFences(), UNRESTRICTED)
    operations = {ClusterSources: world.sources, Projects: projects}
    nobody_signs_in = cast(Authenticator, None)
    result = await schema.execute(
        "query($id: ID!) { clusterSource(id: $id) {"
        " members(first: 1) { totalCount totalCountKind edges { node { name } } } } }",
        {"id": source.id},
        Context(ApiBackend(operations, nobody_signs_in, 0), caller=VIEWER),
    )
    assert result.data == {
        "clusterSource": {
            "members": {
                "totalCount": 2,
                "totalCountKind": "EXACT",
                "edges": [{"node": {"name": "eu-1"}}],
            }
        }
    }


async def test_a_deleted_management_cluster_is_named(world: ClusterSourceWorld) -> None:
    world.hub.put("eu-1")
    await world.create()
    async with world.memory.store.write() as tx:
        await tx[ClusterStore].delete(MANAGEMENT, world.memory.clock.now())
    source = await world.pass_interval()
    assert "management cluster was deleted" in source.status.message
