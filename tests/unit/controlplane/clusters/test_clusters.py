"""Operations on clusters."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from controlplane.access.model.bindings import Project, SubjectKind
from controlplane.access.model.users import Group, User
from controlplane.access.operations.binding_subjects import Subjects
from controlplane.access.ports import RoleBindingStore, TokenStore
from controlplane.authorization import ANONYMOUS, DEFAULT_PROJECT, Scope
from controlplane.authorization.roles import BuiltInRole
from controlplane.clusters.model.cluster import SILENT_AFTER, ClusterHealth
from controlplane.clusters.model.groups import ClusterGroup
from controlplane.clusters.operations.clusters import ClusterChange, Clusters, peek_cluster
from controlplane.clusters.ports import ClusterStore
from controlplane.platform.context import (
    ACCESS,
    CLUSTER,
    DESIRED_STATE,
    RENDER_SERVICES,
    REVOKED,
)
from controlplane.platform.ports import ANY, PageQuery
from controlplane.services.ports import ServiceStore
from core.errors import Conflict, Forbidden, Invalid, NotFound, Unauthenticated
from core.identity import token_hash
from core.spec.sync import Removal
from tests.fakes.actors import ADMIN, EDITOR, NOBODY, VIEWER, person
from tests.fakes.clock import START
from tests.fakes.operations import (
    MemoryOperations,
    make_cluster,
    make_repository,
    make_service,
    operations_over_memory,
)

DEV, PROD = make_cluster("dev"), make_cluster("prod")
CONNECTED = replace(DEV, pinged_at=START)
SHOP = Project("shop", "shop", START, START)
EDITOR_OF_SHOP = person(BuiltInRole.EDITOR, "sue", Scope("project:shop"))
FROZEN = ClusterGroup(
    "g", "eu", START, START, cluster_ids=("dev",), frozen=True, reason="sale", frozen_by="ada"
)


@pytest.fixture
def world() -> MemoryOperations:
    return operations_over_memory()


@pytest.fixture
def clusters(world: MemoryOperations) -> Clusters:
    return Clusters(world.context)


async def test_a_cluster_stays_in_its_project(world: MemoryOperations, clusters: Clusters) -> None:
    """An existing one may name it, as manifests do; then lists show it."""
    await world.given(SHOP, replace(DEV, project_id="shop"))
    for actor in (ADMIN, EDITOR_OF_SHOP):
        with pytest.raises(Conflict, match="cannot be moved to another project"):
            await clusters.update(actor, "dev", ClusterChange("x", project_id=DEFAULT_PROJECT))
    assert (await clusters.update(ADMIN, "dev", ClusterChange("Dev"))).project_given is False
    for change in (ClusterChange(project_id="shop"), ClusterChange("Name")):
        after = await clusters.update(EDITOR_OF_SHOP, "dev", change)
        assert (after.project_id, after.project_given) == ("shop", True)
    assert await world.audit_details() == [
        ("updateCluster", {"changed": ["name"]}),
        ("updateCluster", {"changed": []}),
        ("updateCluster", {"changed": ["name"]}),
    ]


async def test_a_registered_cluster_has_a_row_a_token_and_an_audit_entry(
    world: MemoryOperations, clusters: Clusters
) -> None:
    change = ClusterChange("Dev 1", protect=True, tags={"env": "dev"}, metadata={"n": [1]})
    cluster, secret = await clusters.create(EDITOR, change)
    assert (cluster.handle, cluster.name, cluster.project_id) == ("dev-1", "Dev 1", DEFAULT_PROJECT)
    assert await world.rows(ClusterStore) == [cluster]
    assert (cluster.protect, cluster.tags, cluster.metadata) == (True, {"env": "dev"}, {"n": [1]})
    (token,) = await world.rows(TokenStore)
    assert (token.cluster_id, token.hash) == (cluster.id, token_hash(secret))
    assert await world.audited() == [("ed@example.org", "createCluster", "dev-1")]
    assert world.published == [(CLUSTER, cluster.id)]


async def test_a_cluster_is_registered_in_a_project_that_the_actor_may_edit(
    world: MemoryOperations, clusters: Clusters
) -> None:
    await world.given(SHOP, Project("ops", "ops", START, START))
    made, _ = await clusters.create(EDITOR_OF_SHOP, ClusterChange("dev", project_id="shop"))
    assert made.project_id == "shop"
    with pytest.raises(Forbidden):
        await clusters.create(EDITOR_OF_SHOP, ClusterChange("dev"))
    for hidden in ("ops", "none"):
        with pytest.raises(NotFound):
            await clusters.create(EDITOR_OF_SHOP, ClusterChange("dev", project_id=hidden))
    assert len(await world.rows(ClusterStore)) == 1


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({}, "name"),
        ({"name": " "}, "name"),
        ({"name": "ok", "handle": "Not a label"}, "handle"),
        ({"name": "ok", "tags": {"": "x"}}, "tags.name"),
        ({"name": "ok", "tags": {"x" * 64: ""}}, "tags.name"),
        ({"name": "ok", "tags": {"x": "\0"}}, "tags.value"),
        ({"name": "ok", "tags": {f"t{n}": "" for n in range(65)}}, "tags"),
    ],
)
async def test_an_invalid_value_is_named(
    world: MemoryOperations, clusters: Clusters, change: dict[str, Any], field: str
) -> None:
    with pytest.raises(Invalid) as error:
        await clusters.create(EDITOR, ClusterChange(**change))
    assert error.value.field == field
    assert await world.rows(ClusterStore) == [] and world.published == []


async def test_as_many_tags_as_allowed_and_as_long_are_accepted(clusters: Clusters) -> None:
    tags = {f"t{number:062}": "x" * 255 for number in range(64)}
    cluster, _ = await clusters.create(EDITOR, ClusterChange("dev", tags=tags))
    assert cluster.tags == tags


async def test_a_change_of_one_part_keeps_the_others(
    world: MemoryOperations, clusters: Clusters
) -> None:
    """Metadata and tags that a change names are replaced as a whole."""
    await world.given(replace(DEV, tags={"env": "dev"}, metadata={"owner": "ada"}, protect=True))
    after = await clusters.update(EDITOR, "dev", ClusterChange(metadata={"cost": 7}))
    assert (after.metadata, after.tags, after.protect) == ({"cost": 7}, {"env": "dev"}, True)
    after = await clusters.update(EDITOR, "dev", ClusterChange(tags={}))
    assert (after.metadata, after.tags, after.protect) == ({"cost": 7}, {}, True)
    after = await clusters.update(EDITOR, "dev", ClusterChange(metadata={}, protect=False))
    assert (after.metadata, after.name, after.protect) == ({}, DEV.name, False)
    assert await world.row(ClusterStore, "dev") == after
    assert [detail["changed"] for _, detail in await world.audit_details()] == [
        ["metadata"],
        ["tags"],
        ["metadata", "protect"],
    ]


async def test_a_taken_handle_shows_the_other_cluster_to_those_who_may_read_it(
    world: MemoryOperations, clusters: Clusters
) -> None:
    await world.given(SHOP, DEV)
    with pytest.raises(Conflict, match="'dev' already exists") as conflict:
        await clusters.create(EDITOR, ClusterChange("other", handle="dev"))
    assert conflict.value.current is not None and conflict.value.current["id"] == "dev"
    with pytest.raises(Conflict) as hidden:
        await clusters.create(EDITOR_OF_SHOP, ClusterChange("dev", project_id="shop"))
    assert not hidden.value.current
    assert await world.audited() == []


async def test_a_cluster_is_created_with_the_subjects_of_its_roles(
    world: MemoryOperations, clusters: Clusters
) -> None:
    await world.given(
        User("u", "bo@example.org", "Bo", START, START), Group("team", "team", START, START)
    )
    subjects = {"viewer": Subjects(frozenset({"u"}), frozenset({"team"}))}
    with pytest.raises(Forbidden):
        await clusters.create(EDITOR, ClusterChange("dev", subjects=subjects))
    assert await world.rows(ClusterStore) == []
    cluster, _ = await clusters.create(ADMIN, ClusterChange("dev", subjects=subjects))
    bindings = await world.rows(RoleBindingStore)
    assert {(row.subject_kind, row.subject_id, row.scope) for row in bindings} == {
        (SubjectKind.USER, "u", f"cluster:{cluster.id}"),
        (SubjectKind.GROUP, "team", f"cluster:{cluster.id}"),
    }
    assert set(world.published) == {(ACCESS, "u"), (ACCESS, ""), (CLUSTER, cluster.id)}


async def test_only_visible_clusters_are_listed_and_found(
    world: MemoryOperations, clusters: Clusters
) -> None:
    await world.given(SHOP, replace(DEV, project_id="shop"), PROD)
    reader = person(BuiltInRole.VIEWER, "vi", Scope("project:shop"))
    assert [c.id for c in (await clusters.page(reader, PageQuery())).items] == ["dev"]
    assert [c.id for c in (await clusters.page(VIEWER, PageQuery())).items] == ["dev", "prod"]
    assert (await clusters.page(NOBODY, PageQuery())).items == ()
    assert (await clusters.get(reader, None, "dev")).id == "dev"
    for id, handle in (("prod", None), (None, "prod"), ("none", None), (None, None)):
        with pytest.raises(NotFound):
            await clusters.get(reader, id, handle)


@pytest.mark.parametrize(
    ("health", "expected"),
    [
        (ClusterHealth.CONNECTED, ["now"]),
        (ClusterHealth.SILENT, ["silent"]),
        (ClusterHealth.NEVER, ["never"]),
        (None, ["never", "now", "silent"]),
    ],
)
async def test_clusters_are_listed_by_the_health_of_their_agents(
    world: MemoryOperations,
    clusters: Clusters,
    health: ClusterHealth | None,
    expected: list[str],
) -> None:
    long_ago = START - SILENT_AFTER - timedelta(seconds=1)
    await world.given(
        make_cluster("now", pinged_at=START),
        make_cluster("silent", pinged_at=long_ago),
        make_cluster("never"),
    )
    page = await clusters.page(VIEWER, PageQuery(), health)
    assert [cluster.handle for cluster in page.items] == expected


async def test_a_changed_parameter_renders_the_services_that_may_use_it(
    world: MemoryOperations, clusters: Clusters
) -> None:
    git = make_repository("git")
    used = make_service("web", DEV, templated=True, input_digest="s", repository_id=git.id)
    chart = make_service("chart", DEV, templated=True, input_digest="s")
    other = make_service("api", DEV, templated=False, input_digest="s", repository_id=git.id)
    await world.given(DEV, git, used, chart, other)
    await world.clock.advance(5)
    changed = await clusters.update(EDITOR, "dev", ClusterChange(tags={"env": "dev"}))
    assert await world.row(ClusterStore, "dev") == changed
    assert (changed.tags, changed.updated_at) == ({"env": "dev"}, world.clock.now())
    services = {
        service.name: service.desired.input_digest for service in await world.rows(ServiceStore)
    }
    assert services == {"web": None, "chart": None, "api": None}
    assert world.published == [(CLUSTER, "dev"), (RENDER_SERVICES, "git/")]
    assert await world.audited() == [("ed@example.org", "updateCluster", "dev")]


async def test_protection_renders_nothing_and_is_possible_while_frozen(
    world: MemoryOperations, clusters: Clusters
) -> None:
    await world.given(DEV, FROZEN, make_service("web", DEV, templated=True, input_digest="s"))
    assert (await clusters.update(EDITOR, "dev", ClusterChange(protect=True))).protect
    (service,) = await world.rows(ServiceStore)
    assert service.desired.input_digest == "s"
    assert world.published == [(CLUSTER, "dev")]


async def test_subjects_are_replaced_with_a_change(
    world: MemoryOperations, clusters: Clusters
) -> None:
    await world.given(DEV, User("u", "bo@example.org", "Bo", START, START))
    subjects = {"editor": Subjects(users=frozenset({"u"}))}
    await clusters.update(ADMIN, "dev", ClusterChange(subjects=subjects))
    assert [row.role_id for row in await world.rows(RoleBindingStore)] == ["editor"]
    await clusters.update(ADMIN, "dev", ClusterChange(subjects={"editor": Subjects()}))
    assert await world.rows(RoleBindingStore) == []
    assert world.published.count((ACCESS, "u")) == 2


async def test_a_change_after_the_read_is_a_conflict(
    world: MemoryOperations, clusters: Clusters
) -> None:
    await world.given(replace(DEV, updated_at=START + timedelta(minutes=1)))
    with pytest.raises(Conflict, match="was changed at"):
        await clusters.update(EDITOR, "dev", ClusterChange("new"), unchanged_since=START)
    later = START + timedelta(minutes=2)
    await clusters.update(EDITOR, "dev", ClusterChange("new"), unchanged_since=later)


async def test_a_handle_that_is_taken_meanwhile_is_a_conflict(
    world: MemoryOperations, clusters: Clusters
) -> None:
    await world.given(DEV, PROD)
    with pytest.raises(Conflict, match="cluster already exists"):
        await clusters.update(EDITOR, "dev", ClusterChange(handle="prod"))
    assert await world.row(ClusterStore, "dev") == DEV


async def test_a_frozen_cluster_does_not_change(
    world: MemoryOperations, clusters: Clusters
) -> None:
    await world.given(DEV, PROD, FROZEN)
    with pytest.raises(Conflict, match="frozen through cluster group 'eu' by ada: sale"):
        await clusters.update(EDITOR, "dev", ClusterChange("new"))
    with pytest.raises(Conflict, match="frozen"):
        await clusters.delete(EDITOR, "dev")
    await clusters.update(EDITOR, "prod", ClusterChange("new"))
    assert await world.row(ClusterStore, "dev") == DEV


async def test_deletion_waits_for_the_services(world: MemoryOperations, clusters: Clusters) -> None:
    await world.given(CONNECTED, make_service("web", DEV, generation=1))
    ending = await clusters.delete(EDITOR, "dev")
    assert ending.ending_at == world.clock.now()
    assert await world.row(ClusterStore, "dev") == ending
    (service,) = await world.rows(ServiceStore, deleted_at=ANY)
    assert service.removal is Removal.CASCADE
    assert {(CLUSTER, "dev"), (DESIRED_STATE, "dev/")} <= set(world.published)
    assert ("ed@example.org", "deleteCluster", "dev") in await world.audited()


async def test_the_deletion_of_an_empty_cluster_revokes_its_tokens(
    world: MemoryOperations, clusters: Clusters
) -> None:
    cluster, _ = await clusters.create(EDITOR, ClusterChange("dev"))
    await clusters.delete(EDITOR, cluster.id)
    assert await world.row(ClusterStore, cluster.id) is None
    (token,) = await world.rows(TokenStore)
    assert token.revoked_at is not None
    assert world.published[-1] == (REVOKED, token.id)


async def test_a_detached_cluster_is_gone_at_once(
    world: MemoryOperations, clusters: Clusters
) -> None:
    """Its objects stay, so not even protection keeps it."""
    protected = replace(CONNECTED, protect=True)
    await world.given(protected, make_service("web", DEV, generation=1))
    with pytest.raises(Conflict, match="protected against deletion"):
        await clusters.delete(EDITOR, "dev")
    await clusters.detach(EDITOR, "dev")
    assert await world.rows(ClusterStore) == []
    assert ("ed@example.org", "detachCluster", "dev") in await world.audited()


async def test_rotation_revokes_all_earlier_tokens(
    world: MemoryOperations, clusters: Clusters
) -> None:
    made, old = await clusters.create(EDITOR, ClusterChange("dev"))
    _, new = await clusters.rotate_token(EDITOR, made.id)
    tokens = {token.hash: token for token in await world.rows(TokenStore)}
    assert tokens[token_hash(old)].revoked_at is not None
    assert tokens[token_hash(new)].revoked_at is None
    assert world.published[-1] == (REVOKED, tokens[token_hash(old)].id)
    assert (await world.audited())[-1] == ("ed@example.org", "rotateClusterToken", "dev")


async def test_the_newest_unused_deploy_tokens_stay_valid(
    world: MemoryOperations, clusters: Clusters
) -> None:
    """One more than eight revokes the oldest; a used token is never revoked."""
    await world.given(DEV)
    first = token_hash(await clusters.deploy_token(EDITOR, "dev"))
    (used,) = await world.rows(TokenStore)
    async with world.store.write() as tx:
        await tx[TokenStore].change(used.id, last_used_at=START)
    secrets = []
    for _ in range(9):
        await world.clock.advance(1)
        secrets.append(token_hash(await clusters.deploy_token(EDITOR, "dev")))
    valid = {token.hash for token in await world.rows(TokenStore, revoked_at=None)}
    assert valid == {first, *secrets[1:]}
    (revoked,) = await world.rows(TokenStore, hash=secrets[0])
    assert world.published == [(REVOKED, revoked.id)]
    assert len(await world.audited()) == 10


async def test_a_cluster_is_read_without_a_lock(world: MemoryOperations) -> None:
    await world.given(DEV)
    async with world.store.read() as tx:
        assert await peek_cluster(tx, "dev") == DEV
        with pytest.raises(NotFound):
            await peek_cluster(tx, "none")


CALLS = {
    "update": lambda clusters, actor: clusters.update(actor, "dev", ClusterChange("new")),
    "delete": lambda clusters, actor: clusters.delete(actor, "dev"),
    "detach": lambda clusters, actor: clusters.detach(actor, "dev"),
    "rotate_token": lambda clusters, actor: clusters.rotate_token(actor, "dev"),
    "deploy_token": lambda clusters, actor: clusters.deploy_token(actor, "dev"),
    "create": lambda clusters, actor: clusters.create(actor, ClusterChange("new")),
}


@pytest.mark.parametrize("name", CALLS)
async def test_a_change_needs_write_access(
    world: MemoryOperations, clusters: Clusters, name: str
) -> None:
    """Those who may not even see the cluster do not learn that it exists."""
    await world.given(DEV)
    with pytest.raises(Forbidden, match="needs role editor"):
        await CALLS[name](clusters, VIEWER)
    with pytest.raises(Forbidden if name == "create" else NotFound):
        await CALLS[name](clusters, NOBODY)
    with pytest.raises(Unauthenticated):
        await CALLS[name](clusters, ANONYMOUS)
    assert await world.rows(ClusterStore) == [DEV]
    assert await world.audited() == [] and world.published == []


@pytest.mark.parametrize("name", sorted(CALLS.keys() - {"create"}))
async def test_a_missing_cluster_is_not_found(clusters: Clusters, name: str) -> None:
    with pytest.raises(NotFound):
        await CALLS[name](clusters, ADMIN)
