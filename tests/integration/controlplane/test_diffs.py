"""Diffs of a change, before it is made."""

import pytest

from controlplane.api.schema import schema
from controlplane.authorization.roles import BuiltInRole as Role
from controlplane.configuration.operations.contexts import ContextChange, ServiceContexts
from controlplane.delivery.operations.diffs import Diffs
from controlplane.platform.graphql.context import ApiBackend, Context
from controlplane.platform.ports import PageQuery
from controlplane.services.model.ledger import LedgerStage
from controlplane.services.model.parts import ContextBinding
from controlplane.services.operations.services import ServiceChange
from controlplane.services.ports import ContextBindingStore
from core.errors import Forbidden, Invalid, NotFound
from core.spec.diff import ObjectChangeKind
from tests.fakes.manifests import config_map
from tests.integration.controlplane.conftest import World, person

CANARY = "c2VjcmV0LWNhbmFyeQ=="


def secret(value: str):
    """A Secret of one value."""
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"k": value}}


async def test_a_branch_shows_what_it_would_make_of_a_service(world: World) -> None:
    cluster, repository = await world.cluster(), await world.repository()
    service = await world.service(cluster, repository)
    main = {"shop": [config_map("a", v="1"), config_map("b"), secret(CANARY)]}
    world.manifests.push(repository.id, main)
    await world.delivery.deliver(repository.id)
    branch = {"shop": [config_map("a", v="2"), config_map("c"), secret(CANARY + "x")]}
    sha = world.manifests.push(repository.id, branch, ref="feature")
    before = await world.get(service)
    found = await Diffs(world.deps).of_service(world.admin, service.id, ref="feature")
    assert found.commit is not None and found.commit.sha == sha
    assert [(one.change, one.kind, one.name) for one in found.difference.objects] == [
        (ObjectChangeKind.CHANGED, "ConfigMap", "a"),
        (ObjectChangeKind.REMOVED, "ConfigMap", "b"),
        (ObjectChangeKind.ADDED, "ConfigMap", "c"),
        (ObjectChangeKind.CHANGED, "Secret", "s"),
    ]
    assert CANARY not in repr(found.difference)
    assert await world.get(service) == before


async def test_digests_are_compared_only_if_the_service_had_them(world: World) -> None:
    cluster, repository = await world.cluster(), await world.repository()
    service = await world.service(cluster, repository)
    other = await world.service(cluster, repository, "other")
    digests = []
    for value in ("1", "2"):
        folders = {"shop": [config_map("a", v=value)], "other": [secret(CANARY)]}
        world.manifests.push(repository.id, folders)
        await world.delivery.deliver(repository.id)
        digests.append((await world.get(service)).desired.digest)
    first, second = digests
    found = await Diffs(world.deps).of_service(world.admin, service.id, new=second, old=first)
    assert [field.pointer for field in found.difference.objects[0].fields] == ["/data/v"]
    assert not (await Diffs(world.deps).of_service(world.admin, service.id, new=second)).difference
    foreign = (await world.get(other)).desired.digest
    for digest in (foreign, "sha256:" + "0" * 64):
        with pytest.raises(NotFound):
            await Diffs(world.deps).of_service(world.admin, service.id, new=digest)


async def test_a_bundle_that_was_lost_is_rendered_again_for_a_comparison(world: World) -> None:
    cluster, repository = await world.cluster(), await world.repository()
    service = await world.service(cluster, repository)
    world.manifests.push(repository.id, {"shop": [config_map("a", v="1")]})
    await world.delivery.deliver(repository.id)
    first = (await world.get(service)).desired.digest
    world.manifests.push(repository.id, {"shop": [config_map("a", v="2")]})
    await world.delivery.deliver(repository.id)
    world.manifests.bundles.clear()
    found = await Diffs(world.deps).of_service(world.admin, service.id, new=first)
    assert found.difference.changed == 1


async def test_a_branch_shows_what_it_would_do_to_the_fleet(world: World) -> None:
    repository = await world.repository()
    clusters = [await world.cluster(f"c{number}") for number in range(3)]
    for number, cluster in enumerate(clusters):
        size = "small" if number < 2 else "large"
        await world.service(cluster, repository, configuration={"size": size})
        await world.service(cluster, repository, "calm")
    await world.service(clusters[0], repository, "broken")
    main = {"shop": [config_map("a")], "calm": [config_map("b")], "broken": [config_map("c")]}
    world.manifests.push(repository.id, main)
    await world.delivery.deliver(repository.id)
    branch = {
        **main,
        "shop": [config_map("a", size="$size")],
        "broken": Invalid("broken/a.yaml, line 1: no"),
    }
    world.manifests.push(repository.id, branch, ref="feature")
    found = await Diffs(world.deps).of_fleet(world.admin, repository.id, "feature")
    assert (found.compared, found.unchanged) == (7, 3)
    groups = [
        (sorted(f"{one.cluster}/{one.service.name}" for one in group.services), group.error)
        for group in found.groups
    ]
    assert groups[0] == (["c0/shop", "c1/shop"], None)
    assert (["c2/shop"], None) in groups
    assert (["c0/broken"], "broken/a.yaml, line 1: no") in groups
    assert all(group.difference.changed == 1 for group in found.groups if group.error is None)


async def test_a_merge_moves_no_service_that_is_held_or_promoted(world: World) -> None:
    cluster, repository = await world.cluster(), await world.repository()
    """Unless just they are asked for, as before an approval."""
    promoted = await world.service(cluster, repository, promoted=True)
    await world.service(cluster, repository, "other")
    shown = {"shop": [config_map("a")], "other": []}
    world.manifests.push(repository.id, shown, ref="feature")
    diffs = Diffs(world.deps)
    found = await diffs.of_fleet(world.admin, repository.id, "feature")
    assert "shop" not in {one.service.name for group in found.groups for one in group.services}
    only = [promoted.id, "of-nobody"]
    found = await diffs.of_fleet(world.admin, repository.id, "feature", only)
    assert found.compared == 1
    (group,) = found.groups
    assert group.difference.added == 1


async def test_diffs_are_hidden_from_users_without_permission(world: World) -> None:
    cluster, repository = await world.cluster(), await world.repository()
    service = await world.service(cluster, repository)
    diffs, nobody = Diffs(world.deps), person(None)
    with pytest.raises(NotFound):
        await diffs.of_service(nobody, service.id)
    with pytest.raises(NotFound):
        await diffs.of_fleet(nobody, repository.id, "main")
    with pytest.raises(NotFound):
        await diffs.of_service(person(Role.ADMIN), service.id, ref="nowhere")


async def test_helm_settings_are_checked_and_make_a_chart_of_a_service(world: World) -> None:
    cluster, repository = await world.cluster(), await world.repository()
    helm = {"values": "a: 1", "values_files": ["prod.yaml", None], "chart": "", "version": None}
    service = await world.service(cluster, repository, helm=helm)
    world.manifests.push(repository.id, {"shop": [config_map("a")]})
    await world.delivery.deliver(repository.id)
    request = world.manifests.renders[-1]
    assert request.renderer == "helm" and request.helm is not None
    assert (request.helm.release, request.helm.namespace) == ("shop", "shop")
    assert (request.helm.values, request.helm.values_files) == ("a: 1", ("prod.yaml",))
    for odd in (
        {"url": "file:///etc"},
        {"url": "https://u:p@x/y", "chart": "a"},
        {"url": "oci://x/y"},
    ):
        with pytest.raises(Invalid, match="helm"):
            await world.services.update(world.admin, service.id, ServiceChange(helm=odd))


async def test_the_api_tells_a_difference_and_the_fleet(world: World) -> None:
    cluster, repository = await world.cluster(), await world.repository()
    service = await world.service(cluster, repository)
    world.manifests.push(repository.id, {"shop": [config_map("a", v="1")]})
    await world.delivery.deliver(repository.id)
    world.manifests.push(repository.id, {"shop": [config_map("a", v="2")]}, ref="feature")
    document = """query Both($id: ID!, $repository: ID!) {
        serviceDiff(id: $id, ref: "feature") {
            added removed changed objects { change kind name fields { pointer old new } }
        }
        fleetDiff(repositoryId: $repository, ref: "feature") {
            compared unchanged changed groups { changed error services { name cluster } }
        }
    }"""
    backend = ApiBackend({Diffs: Diffs(world.deps)}, world.identity, agents_port=0)
    result = await schema.execute(
        document,
        variable_values={"id": service.id, "repository": repository.id},
        context_value=Context(backend, caller=world.admin),
    )
    assert result.errors is None and result.data is not None
    (changed,) = result.data["serviceDiff"]["objects"]
    assert changed == {
        "change": "CHANGED",
        "kind": "ConfigMap",
        "name": "a",
        "fields": [{"pointer": "/data/v", "old": '"1"', "new": '"2"'}],
    }
    services = [{"name": "shop", "cluster": cluster.handle}]
    groups = [{"changed": 1, "error": None, "services": services}]
    assert result.data["fleetDiff"] == {
        "compared": 1,
        "unchanged": 0,
        "changed": 1,
        "groups": groups,
    }


async def test_a_commit_that_does_not_render_has_the_error_of_the_service(world: World) -> None:
    """The history has only its first commit: clients compare the errors of later ones."""
    cluster, repository = await world.cluster(), await world.repository()
    service = await world.service(cluster, repository)
    for _ in range(2):
        newest = world.manifests.push(repository.id, {"shop": Invalid("shop/a.yaml, line 1: no")})
        await world.delivery.deliver(repository.id)
    history = await world.services.history(world.admin, PageQuery())
    failures = [entry for entry in history.items if entry.stage is LedgerStage.RENDER_FAILED]
    assert len(failures) == 1 and failures[0].sha != newest
    backend = ApiBackend({Diffs: Diffs(world.deps)}, world.identity, agents_port=0)
    result = await schema.execute(
        "query ($id: ID!, $ref: String) { serviceManifests(id: $id, ref: $ref) { digest } }",
        variable_values={"id": service.id, "ref": newest},
        context_value=Context(backend, caller=world.admin),
    )
    (problem,) = (await world.get(service)).errors
    assert [error.message for error in result.errors or ()] == [problem.message]


@pytest.mark.parametrize("by_reference", [False, True])
async def test_a_diff_of_a_branch_shows_no_secret_to_a_reader(
    world: World, by_reference: bool
) -> None:
    """A template of the branch could print it; placeholders harm nobody."""
    cluster, repository = await world.cluster(), await world.repository()
    service = await world.service(cluster, repository)
    change = ContextChange({}, {"password": CANARY}, by_reference=by_reference)
    context = await ServiceContexts(world.deps).save(world.admin, "db", change)
    async with world.deps.store.write() as tx:
        await tx[ContextBindingStore].add(ContextBinding("b", context.id, service.id))
    world.manifests.push(repository.id, {"shop": [config_map("a")]})
    await world.delivery.deliver(repository.id)
    world.manifests.push(repository.id, {"shop": [config_map("b")]}, ref="feature")
    diffs, reader = Diffs(world.deps), person(Role.VIEWER)
    await diffs.of_service(world.admin, service.id, ref="feature")
    if by_reference:
        await diffs.of_service(reader, service.id, ref="feature")
    else:
        with pytest.raises(Forbidden, match="can read secrets"):
            await diffs.of_service(reader, service.id, ref="feature")
        with pytest.raises(Forbidden, match="can read secrets"):
            await diffs.manifests(reader, service.id, ref="feature")
        (group,) = (await diffs.of_fleet(reader, repository.id, "feature")).groups
        assert "can read secrets" in (group.error or "")
