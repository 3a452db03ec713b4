"""Reconciliation of cluster sources: registration, joining, conflicts, limits, deleted objects."""

import base64

import pytest

from controlplane.access.ports import RoleBindingStore, UserStore
from controlplane.authorization.roles import BuiltInRole
from controlplane.cluster_sources.model.delivery import JOIN_LABEL, SOURCE_LABEL
from controlplane.cluster_sources.model.source import (
    ClusterSourceResult,
    GonePolicy,
    InventoryKind,
)
from controlplane.cluster_sources.operations.deliveries import MAX_JOINING, TOKEN_LIFE
from controlplane.cluster_sources.operations.sources import count_results
from controlplane.clusters.model.bootstrap_tokens import JoinRequest
from controlplane.clusters.operations.clusters import ClusterChange, Clusters
from controlplane.clusters.ports import BootstrapTokenStore
from core.errors import Conflict, Forbidden, Unauthenticated, Unavailable
from tests.fakes.actors import ADMIN
from tests.fakes.cluster_sources import (
    ClusterSourceWorld,
    change_of,
    cluster_source_world,
    initialized,
)
from tests.fakes.operations import make_cluster

SETS = "/apis/addons.cluster.x-k8s.io/v1beta2/namespaces/fleet/clusterresourcesets"
SECRETS = "/api/v1/namespaces/fleet/secrets"


@pytest.fixture
async def world() -> ClusterSourceWorld:
    return await cluster_source_world()


async def join(world: ClusterSourceWorld, handle: str, uid: str = "11111111") -> str:
    """Joins with the delivered token of a cluster; returns the handle that the agent got."""
    request = JoinRequest("any-name", uid)
    return (await world.bootstrap.join(world.agents.tokens[handle], request)).handle


async def test_each_object_becomes_a_cluster_with_its_tags(world: ClusterSourceWorld) -> None:
    for name in ("eu-1", "eu-2", "us-1"):
        world.hub.put(name, labels={"example.org/region": name[:2], "other": "x"})
    source = await world.create(tags={"from": "capi"}, tag_labels=("example.org/region",))
    assert source.status.result is ClusterSourceResult.SYNCED
    found = {handle: dict(row.tags) for handle, row in (await world.clusters()).items()}
    assert found == {
        "eu-1": {"from": "capi", "region": "eu"},
        "eu-2": {"from": "capi", "region": "eu"},
        "us-1": {"from": "capi", "region": "us"},
    }
    assert await world.states() == dict.fromkeys(found, "provisioning")
    assert world.hub.callers == {"robot@example.org"}
    assert ("robot@example.org", "createCluster", "eu-1") in await world.memory.audited()


async def test_a_second_run_writes_nothing(world: ClusterSourceWorld) -> None:
    world.hub.put("eu-1", status=initialized())
    await world.create()
    before, rows = await world.memory.audited(), await world.members()
    objects = dict(world.hub.objects)
    await world.pass_interval()
    assert (await world.memory.audited(), await world.members()) == (before, rows)
    assert world.hub.objects == objects


async def test_an_agent_is_delivered_once_the_control_plane_answers(
    world: ClusterSourceWorld,
) -> None:
    world.hub.put("eu-1")
    await world.create()
    assert world.hub.objects == {}
    world.hub.put("eu-1", status=initialized())
    await world.pass_interval()
    assert await world.states() == {"eu-1": "joining"}
    secret = world.hub.objects[f"{SECRETS}/towline-join-eu-1"]
    assert secret["type"] == "addons.cluster.x-k8s.io/resource-set"
    assert secret["metadata"]["labels"] == {SOURCE_LABEL: "capi"}
    assert secret["metadata"]["ownerReferences"][0]["uid"] == "uid-eu-1"
    text = base64.b64decode(secret["data"]["agent.yaml"]).decode()
    assert text == f"token: {world.agents.tokens['eu-1']}\n"
    given = world.hub.objects[f"{SETS}/towline-join-eu-1"]["spec"]
    assert given["clusterSelector"] == {"matchLabels": {JOIN_LABEL: "uid-eu-1"}}
    assert given["resources"] == [{"kind": "Secret", "name": "towline-join-eu-1"}]
    assert world.hub.inventory["fleet/eu-1"]["metadata"]["labels"] == {JOIN_LABEL: "uid-eu-1"}


async def test_the_token_joins_its_own_cluster_once_and_is_removed_afterwards(
    world: ClusterSourceWorld,
) -> None:
    for name in ("eu-1", "eu-2"):
        world.hub.put(name, status=initialized())
    await world.create()
    assert await join(world, "eu-1") == "eu-1"
    with pytest.raises(Unauthenticated, match="used up"):
        await join(world, "eu-1", "22222222")
    await world.connect("eu-1")
    await world.pass_interval()
    assert await world.states() == {"eu-1": "connected", "eu-2": "joining"}
    assert set(world.hub.objects) == {
        f"{SECRETS}/towline-join-eu-2", f"{SETS}/towline-join-eu-2",
    }  # fmt: skip
    assert world.hub.inventory["fleet/eu-1"]["metadata"]["labels"] == {}
    (left,) = await world.memory.rows(BootstrapTokenStore)
    assert left.name == "join eu-2"


async def test_a_token_cannot_take_a_connected_cluster(world: ClusterSourceWorld) -> None:
    world.hub.put("eu-1", status=initialized())
    await world.create()
    await world.connect("eu-1")
    with pytest.raises(Conflict, match="has joined already"):
        await join(world, "eu-1")


async def test_an_agent_that_lost_its_credentials_joins_with_the_next_token(
    world: ClusterSourceWorld,
) -> None:
    world.hub.put("eu-1", status=initialized())
    await world.create()
    await join(world, "eu-1")
    first = world.agents.tokens["eu-1"]
    await world.memory.clock.advance(TOKEN_LIFE.total_seconds())
    await world.pass_interval()
    assert world.agents.tokens["eu-1"] != first
    assert await join(world, "eu-1") == "eu-1"
    assert len(await world.memory.rows(BootstrapTokenStore)) == 1


async def test_a_disabled_service_account_ends_its_tokens(world: ClusterSourceWorld) -> None:

    world.hub.put("eu-1", status=initialized())
    await world.create()
    async with world.memory.store.write() as tx:
        await tx[UserStore].change("robot", disabled_at=world.memory.clock.now())
    with pytest.raises(Unauthenticated, match="may not register clusters"):
        await join(world, "eu-1")
    source = await world.pass_interval()
    assert source.status.result is ClusterSourceResult.FAILED
    assert "service account is disabled" in source.status.message
    async with world.memory.store.read() as tx:
        counts = await count_results(tx)
    assert counts == {"unknown": 0, "synced": 0, "incomplete": 0, "failed": 1}


async def test_a_name_that_exists_is_a_conflict_and_is_not_taken_over(
    world: ClusterSourceWorld,
) -> None:
    await world.memory.given(make_cluster("eu-1", tags={"mine": "yes"}))
    world.hub.put("eu-1", status=initialized())
    world.hub.put("eu-2")
    source = await world.create(tags={"from": "capi"})
    assert source.status.result is ClusterSourceResult.INCOMPLETE
    assert "fleet/eu-1: a cluster with the handle 'eu-1' already exists" in source.status.message
    assert await world.states() == {"eu-1": "refused", "eu-2": "provisioning"}
    found = await world.clusters()
    assert dict(found["eu-1"].tags) == {"mine": "yes"}
    assert world.hub.objects == {} and world.agents.tokens == {}


async def test_a_conflict_ends_when_the_name_is_free(world: ClusterSourceWorld) -> None:
    await world.memory.given(make_cluster("eu-1"))
    world.hub.put("eu-1")
    await world.create()
    await Clusters(world.memory.context).detach(ADMIN, "eu-1")
    source = await world.pass_interval()
    assert source.status.result is ClusterSourceResult.SYNCED
    assert await world.states() == {"eu-1": "provisioning"}


async def test_equal_names_of_two_namespaces_need_a_template(world: ClusterSourceWorld) -> None:
    world.hub.put("eu-1", "a", uid="1")
    world.hub.put("eu-1", "b", uid="2")
    source = await world.create()
    assert "b/eu-1" in source.status.message
    change = change_of(name_template="{namespace}-{name}")
    await world.sources.update(ADMIN, source.id, change)
    await world.run_due()
    assert sorted(await world.clusters()) == ["b-eu-1", "eu-1"]


async def test_an_invalid_name_is_refused(world: ClusterSourceWorld) -> None:
    world.hub.put("eu.1")
    source = await world.create()
    assert source.status.result is ClusterSourceResult.INCOMPLETE
    assert "'eu.1' is not a valid name" in source.status.message
    assert await world.clusters() == {}


async def test_a_source_registers_no_more_than_its_maximum(world: ClusterSourceWorld) -> None:
    for number in range(5):
        world.hub.put(f"c-{number}")
    source = await world.create(max_clusters=3)
    assert sorted(await world.clusters()) == ["c-0", "c-1", "c-2"]
    assert "more than 3 objects match" in source.status.message


async def test_too_many_objects_are_not_read_to_their_end(world: ClusterSourceWorld) -> None:
    for number in range(20):
        world.hub.put(f"c-{number}")
    source = await world.create(max_clusters=3)
    assert source.status.result is ClusterSourceResult.FAILED
    assert "raise maxClusters" in source.status.message
    assert await world.clusters() == {}


async def test_deliveries_have_a_limit(world: ClusterSourceWorld) -> None:
    for number in range(MAX_JOINING + 3):
        world.hub.put(f"c-{number}", status=initialized())
    world.hub.page = 100
    await world.create()
    assert len(world.agents.tokens) == MAX_JOINING
    await world.connect("c-0")
    await world.pass_interval()
    assert len(world.agents.tokens) == MAX_JOINING + 1


async def test_more_registrations_than_one_run_makes_follow_at_once(
    world: ClusterSourceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controlplane.cluster_sources.operations.reconciler.MAX_REGISTRATIONS", 2)
    for number in range(3):
        world.hub.put(f"c-{number}")
    await world.create()
    assert len(await world.clusters()) == 2
    await world.memory.clock.advance(1)
    await world.run_due()
    assert len(await world.clusters()) == 3


async def test_a_deleted_object_leaves_its_cluster_by_default(world: ClusterSourceWorld) -> None:
    world.hub.put("eu-1", status=initialized())
    await world.create()
    world.hub.remove("eu-1")
    source = await world.pass_interval()
    assert source.status.result is ClusterSourceResult.SYNCED
    assert await world.states() == {"eu-1": "gone"}
    assert (await world.members())["eu-1"].gone_at == world.memory.clock.now()
    assert list(await world.clusters()) == ["eu-1"]
    with pytest.raises(Unauthenticated):
        await join(world, "eu-1")


async def test_an_object_that_returns_has_its_cluster_again(world: ClusterSourceWorld) -> None:
    world.hub.put("eu-1")
    await world.create()
    world.hub.remove("eu-1")
    await world.pass_interval()
    world.hub.put("eu-1")
    await world.pass_interval()
    assert await world.states() == {"eu-1": "provisioning"}
    assert (await world.members())["eu-1"].gone_at is None


async def test_a_new_object_of_the_same_name_gets_no_foreign_record(
    world: ClusterSourceWorld,
) -> None:
    world.hub.put("eu-1")
    await world.create()
    world.hub.remove("eu-1")
    world.hub.put("eu-1", uid="another")
    source = await world.pass_interval()
    assert "already exists" in source.status.message


async def test_the_policy_delete_removes_the_cluster(world: ClusterSourceWorld) -> None:
    world.hub.put("eu-1", status=initialized())
    world.hub.put("eu-2", status=initialized())
    await world.create(gone=GonePolicy.DELETE)
    world.hub.remove("eu-1")
    await world.pass_interval()
    assert await world.states() == {"eu-2": "joining"}
    assert list(await world.clusters()) == ["eu-2"]
    assert ("robot@example.org", "detachCluster", "eu-1") in await world.memory.audited()


async def test_a_mass_deletion_removes_nothing(world: ClusterSourceWorld) -> None:
    for number in range(4):
        world.hub.put(f"c-{number}")
    await world.create(gone=GonePolicy.DELETE, max_deletions=3)
    for number in range(4):
        world.hub.remove(f"c-{number}")
    source = await world.pass_interval()
    assert source.status.result is ClusterSourceResult.INCOMPLETE
    assert "4 objects are gone, but maxDeletions is 3" in source.status.message
    assert len(await world.clusters()) == 4
    assert set((await world.states()).values()) == {"gone"}


async def test_a_protected_cluster_is_kept(world: ClusterSourceWorld) -> None:
    world.hub.put("eu-1")
    await world.create(gone=GonePolicy.DELETE)
    (row,) = (await world.clusters()).values()
    await Clusters(world.memory.context).update(ADMIN, row.id, ClusterChange(protect=True))
    world.hub.remove("eu-1")
    source = await world.pass_interval()
    assert "is protected" in source.status.message
    assert list(await world.clusters()) == ["eu-1"]


@pytest.mark.parametrize("error", [Unavailable("agent is gone"), Forbidden("no list")])
async def test_an_unreadable_list_changes_nothing(
    world: ClusterSourceWorld, error: Unavailable | Forbidden
) -> None:
    """An error is not an empty list."""
    world.hub.put("eu-1")
    await world.create(gone=GonePolicy.DELETE)
    world.hub.remove("eu-1")
    world.hub.failures["/apis/cluster.x-k8s.io/"] = error
    source = await world.pass_interval()
    assert (source.status.result, source.status.message) == (
        ClusterSourceResult.FAILED, error.message,
    )  # fmt: skip
    assert list(await world.clusters()) == ["eu-1"]


async def test_removed_definitions_are_not_an_empty_list(world: ClusterSourceWorld) -> None:
    world.hub.put("eu-1")
    await world.create(gone=GonePolicy.DELETE)
    del world.hub.groups["cluster.x-k8s.io"]
    source = await world.pass_interval()
    assert "does not serve cluster.x-k8s.io" in source.status.message
    assert list(await world.clusters()) == ["eu-1"]


async def test_an_old_cluster_api_is_read_in_its_version(world: ClusterSourceWorld) -> None:
    for name in ("cluster.x-k8s.io", "addons.cluster.x-k8s.io"):
        world.hub.groups[name] = ("v1alpha4", "v1beta1")
    conditions = [{"type": "ControlPlaneInitialized", "status": "True"}]
    world.hub.put("eu-1", status={"conditions": conditions}, topology={"version": "v1.34.1"})
    await world.create()
    assert (await world.members())["eu-1"].version == "v1.34.1"
    old = SETS.replace("v1beta2", "v1beta1")
    made = world.hub.objects[f"{old}/towline-join-eu-1"]
    assert made["apiVersion"] == "addons.cluster.x-k8s.io/v1beta1"
    owner = made["metadata"]["ownerReferences"][0]
    assert owner["apiVersion"] == "cluster.x-k8s.io/v1beta1"


async def test_an_unsupported_version_is_named(world: ClusterSourceWorld) -> None:
    world.hub.groups["cluster.x-k8s.io"] = ("v1alpha4",)
    source = await world.create()
    assert "not in v1beta2 or v1beta1" in source.status.message


async def test_a_failed_delivery_is_named_and_repeated(world: ClusterSourceWorld) -> None:
    world.hub.put("eu-1", status=initialized())
    world.hub.failures[SETS] = Forbidden("cannot patch clusterresourcesets")
    source = await world.create()
    assert source.status.result is ClusterSourceResult.INCOMPLETE
    assert "cannot deliver the agent: cannot patch clusterresourcesets" in source.status.message
    assert await world.memory.rows(BootstrapTokenStore) == []
    world.hub.failures.clear()
    source = await world.pass_interval()
    assert source.status.result is ClusterSourceResult.SYNCED
    assert await join(world, "eu-1") == "eu-1"


async def test_a_management_cluster_without_resource_sets_registers_clusters(
    world: ClusterSourceWorld,
) -> None:
    del world.hub.groups["addons.cluster.x-k8s.io"]
    world.hub.put("eu-1", status=initialized())
    source = await world.create()
    assert "does not serve addons.cluster.x-k8s.io" in source.status.message
    assert list(await world.clusters()) == ["eu-1"]


async def test_a_failed_cleanup_is_repeated(world: ClusterSourceWorld) -> None:
    world.hub.put("eu-1", status=initialized())
    await world.create()
    await world.connect("eu-1")
    world.hub.failures[SECRETS] = Unavailable("agent is gone")
    source = await world.pass_interval()
    assert "cannot delete the delivered token" in source.status.message
    world.hub.failures.clear()
    source = await world.pass_interval()
    assert source.status.result is ClusterSourceResult.SYNCED
    assert world.hub.objects == {}


async def test_a_label_that_changes_changes_only_its_own_tag(world: ClusterSourceWorld) -> None:
    world.hub.put("eu-1", labels={"env": "test", "size": "small"})
    await world.create(tag_labels=("env", "size"))
    (row,) = (await world.clusters()).values()
    mine = dict(row.tags) | {"team": "shop"}
    await Clusters(world.memory.context).update(ADMIN, row.id, ClusterChange(tags=mine))
    world.hub.put("eu-1", labels={"env": "prod"})
    await world.pass_interval()
    (row,) = (await world.clusters()).values()
    assert dict(row.tags) == {"env": "prod", "team": "shop"}


async def test_a_cluster_that_a_user_deleted_is_not_registered_again(
    world: ClusterSourceWorld,
) -> None:
    world.hub.put("eu-1")
    await world.create()
    (row,) = (await world.clusters()).values()
    await Clusters(world.memory.context).detach(ADMIN, row.id)
    source = await world.pass_interval()
    assert (source.status.result, await world.states()) == (
        ClusterSourceResult.SYNCED, {"eu-1": "removed"},
    )  # fmt: skip
    assert await world.clusters() == {}
    world.hub.remove("eu-1")
    await world.pass_interval()
    assert await world.states() == {}


async def test_a_profile_waits_for_an_agent_that_somebody_installs(
    world: ClusterSourceWorld,
) -> None:
    status = {
        "version": {"kubernetes": "v1.33.2"},
        "properties": [{"name": "location", "value": "eu-west-1"}],
        "credentialProviders": [{"name": "kubeconfig", "cluster": {"server": "https://x"}}],
    }
    world.hub.put("eu-1", status=status)
    await world.create(inventory=InventoryKind.CLUSTER_PROFILE)
    row = (await world.members())["eu-1"]
    assert row.state.value == "awaiting-agent"
    assert row.version == "v1.33.2"
    assert [(one.name, one.value) for one in row.properties] == [("location", "eu-west-1")]
    assert world.hub.objects == {} and world.agents.tokens == {}
    await world.connect("eu-1")
    await world.pass_interval()
    assert await world.states() == {"eu-1": "connected"}


async def test_an_object_that_is_being_deleted_is_not_registered(
    world: ClusterSourceWorld,
) -> None:
    world.hub.put("eu-1", status=initialized())
    world.hub.inventory["fleet/eu-1"]["metadata"]["deletionTimestamp"] = "2026-05-01T00:00:00Z"
    await world.create()
    assert await world.clusters() == {}


async def test_only_the_namespace_and_the_selector_are_read(world: ClusterSourceWorld) -> None:
    world.hub.put("eu-1", "a")
    world.hub.put("eu-2", "b")
    await world.create(namespace="a", selector="env in (prod,test)")
    assert list(await world.clusters()) == ["eu-1"]
    path = world.hub.paths[1]
    assert path.startswith("/apis/cluster.x-k8s.io/v1beta2/namespaces/a/clusters?limit=")
    assert "labelSelector=env+in+%28prod%2Ctest%29" in path


async def test_a_suspended_source_does_nothing(world: ClusterSourceWorld) -> None:
    source = await world.create()
    await world.sources.update(ADMIN, source.id, change_of(suspended=True))
    world.hub.put("eu-1")
    await world.pass_interval()
    assert await world.clusters() == {}
    await world.sources.update(ADMIN, source.id, change_of(suspended=False))
    await world.run_due()
    assert list(await world.clusters()) == ["eu-1"]


async def test_an_account_that_loses_its_role_registers_nothing() -> None:
    world = await cluster_source_world(BuiltInRole.ADMIN)
    await world.create()

    async with world.memory.store.write() as tx:
        bindings = await tx[RoleBindingStore].select()
        await tx[RoleBindingStore].remove_each([row.id for row in bindings])
    world.hub.put("eu-1")
    source = await world.pass_interval()
    assert "may not register clusters any more" in source.status.message
    assert await world.clusters() == {}
