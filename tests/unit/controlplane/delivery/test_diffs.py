"""Previews of a change, for one service and for a whole repository."""

from typing import Any

import pytest

from controlplane.authorization import ANONYMOUS, Actor, Scope
from controlplane.authorization.roles import BuiltInRole
from controlplane.clusters.ports import ClusterStore
from controlplane.delivery.operations import diffs
from controlplane.delivery.operations.diffs import Diffs
from controlplane.delivery.operations.render_reconciler import RenderReconciler
from controlplane.services.model.service import Service
from controlplane.services.ports import RevisionStore, ServiceStore
from core.errors import (
    Conflict,
    Invalid,
    NotFound,
    TowlineError,
    Unauthenticated,
)
from core.spec.source import RepositorySpec
from tests.fakes.actors import NOBODY, VIEWER, person
from tests.fakes.manifests import config_map
from tests.fakes.operations import (
    MemoryOperations,
    make_cluster,
    make_repository,
    make_service,
    operations_over_memory,
)

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
DEV, PROD = make_cluster("dev"), make_cluster("prod")
FLEET = make_repository("fleet")
WEB = make_service("web", DEV, repository_id=FLEET.id, folder="web")
VIEWER_OF_DEV = person(BuiltInRole.VIEWER, "di", Scope("cluster:dev"))


@pytest.fixture
async def world() -> MemoryOperations:
    """Two commits of `main`, both rendered, and another one on `next`."""
    world = operations_over_memory()
    await world.given(DEV, PROD, FLEET, WEB)
    world.manifests.follow(RepositorySpec(FLEET.id, FLEET.url, frozenset({"main"})))
    for value in ("one", "two"):
        await deliver(world, web=value)
    push(world, "next", web="three")
    world.published.clear()
    return world


@pytest.fixture
def operations(world: MemoryOperations) -> Diffs:
    return Diffs(world.context)


def push(world: MemoryOperations, ref: str, **folders: str | Exception) -> str:
    made = {
        name: value if isinstance(value, Exception) else [config_map("cm", key=value)]
        for name, value in folders.items()
    }
    return world.manifests.push("fleet", made, ref)


async def deliver(world: MemoryOperations, **folders: str | Exception) -> None:
    push(world, "main", **folders)
    await world.clock.advance(1)
    await RenderReconciler(world.context).deliver("fleet")


async def stored(world: MemoryOperations, id: str = WEB.id) -> Service:
    found = await world.row(ServiceStore, id)
    assert found is not None
    return found


async def digests(world: MemoryOperations) -> tuple[str, str]:
    rows = await world.rows(RevisionStore, service_id=WEB.id)
    first, second = sorted(rows, key=lambda row: row.inserted_at)
    return first.digest, second.digest


async def test_a_ref_is_rendered_and_compared_with_the_present_state(
    world: MemoryOperations, operations: Diffs
) -> None:
    service = await stored(world)
    found = await operations.of_service(VIEWER, WEB.id, ref="next")
    assert (found.old_digest, found.service) == (service.desired.digest, service)
    assert found.commit == world.manifests.heads["fleet"]["next"]
    assert (found.difference.changed, found.difference.added) == (1, 0)
    assert await stored(world) == service and world.published == []


async def test_a_service_without_a_bundle_gets_everything_new(
    world: MemoryOperations, operations: Diffs
) -> None:
    await world.given(make_service("new", DEV, repository_id=FLEET.id, folder="web"))
    found = await operations.of_service(VIEWER, "dev-new", ref="next")
    assert (found.old_digest, found.difference.added) == (None, 1)
    with pytest.raises(NotFound, match="'new' was never rendered"):
        await operations.of_service(VIEWER, "dev-new", new="sha256:x")


async def test_two_past_bundles_are_compared(world: MemoryOperations, operations: Diffs) -> None:
    first, second = await digests(world)
    found = await operations.of_service(VIEWER, WEB.id, new=first)
    assert (found.old_digest, found.new_digest, found.commit) == (second, first, None)
    assert found.difference.changed == 1
    same = await operations.of_service(VIEWER, WEB.id, new=first, old=first)
    assert (same.old_digest, bool(same.difference)) == (first, False)


async def test_a_lost_bundle_is_rendered_again(world: MemoryOperations, operations: Diffs) -> None:
    first, second = await digests(world)
    del world.manifests.bundles[first]
    found = await operations.of_service(VIEWER, WEB.id, new=first)
    assert found.difference.changed == 1
    del world.manifests.bundles[first]
    async with world.store.write() as tx:
        await tx[ServiceStore].change(WEB.id, folder="gone")
    (revision, *_) = await world.rows(RevisionStore, digest=first)
    world.manifests.commits[revision.sha] = {"gone": [config_map("other")]}
    with pytest.raises(NotFound, match=f"no bundle {first}"):
        await operations.of_service(VIEWER, WEB.id, new=first, old=second)


async def test_only_states_of_the_service_itself_are_compared(
    world: MemoryOperations, operations: Diffs
) -> None:
    first, second = await digests(world)
    await world.given(make_service("bare", DEV), make_service("other", DEV, digest=second))
    refusals: list[tuple[str, dict[str, Any], type[Exception], str]] = [
        (WEB.id, {}, Invalid, "either ref or newDigest"),
        (WEB.id, {"ref": "next", "new": first}, Invalid, "either ref or newDigest"),
        (WEB.id, {"ref": "none"}, NotFound, "none"),
        (WEB.id, {"new": "sha256:foreign"}, NotFound, "never had sha256:foreign"),
        (WEB.id, {"new": first, "old": "sha256:foreign"}, NotFound, "never had"),
        ("dev-other", {"new": first}, NotFound, "'other' never had"),
        ("dev-bare", {"ref": "next"}, Invalid, "'bare' has no repository"),
    ]
    for id, given, error, message in refusals:
        with pytest.raises(error, match=message):
            await operations.of_service(VIEWER, id, **given)
    del world.manifests.bundles[second]
    with pytest.raises(NotFound, match="no bundle"):
        await operations.of_service(VIEWER, "dev-other", new=second)


async def test_previews_need_the_permission_to_read(
    world: MemoryOperations, operations: Diffs
) -> None:
    for actor, error in ((ANONYMOUS, Unauthenticated), (NOBODY, NotFound)):
        with pytest.raises(error):
            await operations.of_service(actor, WEB.id, ref="next")
        with pytest.raises(error):
            await operations.of_fleet(actor, "fleet", "next")
    with pytest.raises(NotFound):
        await operations.of_fleet(VIEWER_OF_DEV, "fleet", "next")
    for unknown in (operations.of_fleet(VIEWER, "none", "next"),
                    operations.of_service(VIEWER, "none", ref="next")):  # fmt: skip
        with pytest.raises(NotFound):
            await unknown
    async with world.store.write() as tx:
        await tx[ClusterStore].delete("dev", world.clock.now())
    with pytest.raises(Conflict, match="the cluster of service 'web' was deleted"):
        await operations.of_service(VIEWER, WEB.id, ref="next")


async def fleet(world: MemoryOperations) -> None:
    """Services of both clusters: some read `web`, some `api`, some follow no commit."""
    await world.given(
        make_service("web", PROD, repository_id=FLEET.id, folder="web"),
        make_service("api", DEV, repository_id=FLEET.id, folder="api"),
        make_service("job", DEV, repository_id=FLEET.id, folder="job"),
        make_service("promoted", DEV, repository_id=FLEET.id, folder="web", promoted=True),
        make_service("pinned", DEV, repository_id=FLEET.id, folder="web", pinned_sha="b" * 40),
    )
    await deliver(world, web="two", api="one", job="one")


async def test_services_with_the_same_effect_are_one_group(
    world: MemoryOperations, operations: Diffs
) -> None:
    await fleet(world)
    push(world, "next", web="three", api=Invalid("bad chart"), job="one")
    found = await operations.of_fleet(VIEWER, "fleet", "next")
    assert (found.compared, found.unchanged, found.more) == (4, 1, 0)
    both, failed = found.groups
    assert {(member.cluster, member.service.name) for member in both.services} == {
        ("dev", "web"),
        ("prod", "web"),
    }
    assert (both.error, both.difference.changed) == (None, 1)
    assert [member.service.name for member in failed.services] == ["api"]
    assert (failed.new_digest, failed.error, bool(failed.difference)) == (None, "bad chart", False)


async def test_totals_count_groups_beyond_the_limit(
    world: MemoryOperations, operations: Diffs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diffs, "MAX_GROUPS", 1)
    await fleet(world)
    push(world, "next", web="three", api="two", job="one")
    found = await operations.of_fleet(VIEWER, "fleet", "next")
    assert (len(found.groups), found.more) == (1, 1)
    assert (found.added, found.changed, found.removed) == (0, 3, 0)


async def test_the_same_digest_counts_as_unchanged(
    world: MemoryOperations, operations: Diffs
) -> None:
    """Without a record of what it read, a service is rendered to be sure."""
    async with world.store.write() as tx:
        await tx[ServiceStore].change(WEB.id, reads={})
    push(world, "same", web="two")
    found = await operations.of_fleet(VIEWER, "fleet", "same")
    assert (found.compared, found.unchanged, found.groups) == (1, 1, ())


async def test_a_selection_ignores_pins_and_hides_what_the_actor_may_not_see(
    world: MemoryOperations, operations: Diffs
) -> None:
    await fleet(world)
    only = ["dev-pinned", "dev-promoted"]
    found = await operations.of_fleet(VIEWER, "fleet", "next", only)
    (group,) = found.groups
    assert (found.compared, group.old_digest, group.difference.added) == (2, None, 1)
    reader = person(BuiltInRole.VIEWER, "re", Scope("repository:fleet"))
    nothing = await operations.of_fleet(reader, "fleet", "next")
    assert (nothing.compared, nothing.groups) == (0, ())


async def test_services_of_deleted_clusters_are_left_out(
    world: MemoryOperations, operations: Diffs
) -> None:
    async with world.store.write() as tx:
        await tx[ClusterStore].delete("dev", world.clock.now())
    found = await operations.of_fleet(VIEWER, "fleet", "next")
    assert found.groups == ()


async def test_a_lost_bundle_is_the_error_of_its_group(
    world: MemoryOperations, operations: Diffs
) -> None:
    _, second = await digests(world)
    del world.manifests.bundles[second]
    (group,) = (await operations.of_fleet(VIEWER, "fleet", "next")).groups
    assert group.error == f"no bundle {second}"
    assert group.old_digest == second and group.new_digest in world.manifests.bundles


async def test_the_largest_groups_are_listed_and_others_counted(
    world: MemoryOperations, operations: Diffs
) -> None:
    """The limit is 200 groups."""
    folders: dict[str, str | Exception] = {f"f{number}": str(number) for number in range(200)}
    await world.given(
        *(make_service(name, DEV, repository_id=FLEET.id, folder=name) for name in folders),
        make_service("web", PROD, repository_id=FLEET.id, folder="web"),
    )
    push(world, "next", web="three", **folders)
    found = await operations.of_fleet(VIEWER, "fleet", "next")
    assert (len(found.groups), found.more, found.unchanged) == (200, 2, 0)


async def test_rendered_manifests_are_those_of_the_desired_state_of_a_ref_or_of_a_digest(
    world: MemoryOperations, operations: Diffs
) -> None:
    first, second = await digests(world)
    now = await operations.manifests(VIEWER, WEB.id)
    assert (now.digest, now.commit, now.count) == (second, None, 1)
    assert now.objects[0]["data"] == {"key": "two"}
    coming = await operations.manifests(VIEWER, WEB.id, ref="next")
    assert coming.objects[0]["data"] == {"key": "three"} and coming.commit is not None
    past = await operations.manifests(VIEWER, WEB.id, digest=first)
    assert past.objects[0]["data"] == {"key": "one"}
    assert (await operations.manifests(VIEWER, WEB.id, skip=1)).objects == ()
    assert world.published == []


async def test_rendered_manifests_hide_the_values_of_secrets(
    world: MemoryOperations, operations: Diffs
) -> None:
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s", "annotations": {LAST_APPLIED: '{"data": {"a": "canary-1"}}'}},
        "data": {"a": "Y2FuYXJ5"},
        "stringData": {"b": "hidden"},
    }
    world.manifests.push("fleet", {"web": [secret]}, "next")
    (shown,) = (await operations.manifests(VIEWER, WEB.id, ref="next")).objects
    assert (shown["data"], shown["stringData"]) == ({"a": "(masked)"}, {"b": "(masked)"})
    assert shown["metadata"]["annotations"] == {LAST_APPLIED: "(masked)"}


@pytest.mark.parametrize(
    ("actor", "asked", "error"),
    [
        (ANONYMOUS, {}, Unauthenticated),
        (NOBODY, {}, NotFound),
        (VIEWER, {"digest": "sha256:0"}, NotFound),
        (VIEWER, {"ref": "none"}, NotFound),
    ],
)
async def test_rendered_manifests_are_read_with_permission_only(
    operations: Diffs, actor: Actor, asked: dict[str, str], error: type[TowlineError]
) -> None:
    ref, digest = asked.get("ref"), asked.get("digest")
    with pytest.raises(error):
        await operations.manifests(actor, WEB.id, ref=ref, digest=digest)
