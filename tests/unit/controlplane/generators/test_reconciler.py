"""The reconciler of generators: what it writes, records and publishes, and what it leaves alone."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from controlplane.access.model.bindings import Project
from controlplane.authorization import DEFAULT_PROJECT, UNRESTRICTED, Fence
from controlplane.clusters.model.groups import ClusterGroup
from controlplane.clusters.model.selectors import Selector
from controlplane.clusters.ports import ClusterStore
from controlplane.generators.model.definitions import LeavePolicy
from controlplane.generators.model.global_service import GlobalService
from controlplane.generators.model.namespaces import ManagedNamespace, NamespaceSpec
from controlplane.generators.model.plan import TargetPlan
from controlplane.generators.model.service_set import Generator, GitFolderGenerator, ServiceSet
from controlplane.generators.operations.generation import AnyGenerator
from controlplane.generators.operations.reconciler import GeneratorReconciler
from controlplane.platform.context import DESIRED_STATE, RENDER_SERVICES, SERVICE
from controlplane.services.model.ledger import LedgerStage
from controlplane.services.model.service import OwnerKind, Service
from controlplane.services.ports import ServiceStore
from core.spec.sync import Removal, SyncOptions
from tests.fakes.clock import START
from tests.fakes.generators import EU, TEMPLATE, GeneratorWorld, generator_world
from tests.fakes.operations import make_cluster, make_service

KEPT = SyncOptions(keep_on_prune=True)
TWO = GlobalService("g", "agents", START, START, template=TEMPLATE)
FROZEN = ClusterGroup(
    "f", "f", START, START, cluster_ids=("eu",), frozen=True, reason="sale", frozen_by="ada"
)


def _selector(tier: str = "prod") -> Selector:
    return Selector({"tier": tier})


@pytest.fixture
async def world() -> GeneratorWorld:
    return await generator_world()


async def retag(world: GeneratorWorld, cluster: str, tier: str) -> None:
    async with world.memory.store.write() as tx:
        await tx[ClusterStore].change(cluster, tags={"tier": tier})


async def deployed(world: GeneratorWorld, service: Service, **columns: Any) -> Service:
    """A service whose first bundle was rendered for its cluster."""
    columns = {"digest": "sha256:a", "generation": 1, "input_digest": "sha256:in"} | columns
    async with world.memory.store.write() as tx:
        await tx[ServiceStore].put(service.changed(**columns))
        await tx[ClusterStore].change(service.cluster_id, pinged_at=START)
    return service.changed(**columns)


async def test_a_created_service_belongs_to_its_generator(world: GeneratorWorld) -> None:
    definition = await world.global_service()
    for cluster, service in (await world.owned(definition)).items():
        assert (service.name, service.namespace, service.repository_id) == ("web", "shop", "apps")
        assert (service.spec.ref, service.spec.folder) == ("main", "web")
        assert (service.owner_kind, service.owner_id) == (OwnerKind.GLOBAL, "g")
        assert (service.cluster_id, service.project_id) == (cluster, DEFAULT_PROJECT)
        assert service.inserted_at == world.memory.clock.now()


async def test_a_created_service_is_in_the_ledger_and_announced(world: GeneratorWorld) -> None:
    await world.memory.given(make_cluster("apart"))
    definition = await world.global_service()
    owned = await world.owned(definition)
    ledger = await world.memory.ledger()
    assert {entry.service_id for entry in ledger} == {one.id for one in owned.values()}
    assert {(entry.stage, entry.actor, entry.message) for entry in ledger} == {
        (LedgerStage.CREATED, "global service agents", "")
    }
    published = world.memory.published
    assert {key for topic, key in published if topic == SERVICE} == {s.id for s in owned.values()}
    assert {key for topic, key in published if topic == DESIRED_STATE} == {
        f"{cluster}/{service.id}" for cluster, service in owned.items()
    }
    assert published.count((RENDER_SERVICES, "apps/")) == 1, "one request renders all services"


async def test_a_second_reconcile_writes_nothing(world: GeneratorWorld) -> None:
    definition = await world.global_service()
    before, ledger = await world.owned(definition), await world.memory.ledger()
    world.memory.bus.published.clear()
    await world.reconcile(definition)
    assert await world.owned(definition) == before
    assert await world.memory.ledger() == ledger
    assert world.memory.published == []


@pytest.mark.parametrize(
    ("template", "columns", "message"),
    [
        (TEMPLATE.changed(ref="next"), {"input_digest": None, "pinned_sha": None}, "ref"),
        (TEMPLATE.changed(folder="api"), {"input_digest": None, "pinned_sha": None}, "folder"),
        (TEMPLATE.changed(configuration={"a": "1"}), {"input_digest": None}, "configuration"),
        (
            TEMPLATE.changed(options=SyncOptions(create_namespace=False)),
            {"generation": 2},
            "options",
        ),
        (TEMPLATE.changed(dry_run=True), {"generation": 2}, "dry_run"),
        (TEMPLATE.changed(protect=True, version="2"), {}, "protect, version"),
    ],
)
async def test_a_change_renders_or_applies_again_what_it_concerns(
    world: GeneratorWorld, template: Any, columns: dict[str, Any], message: str
) -> None:
    """Nothing else: a protected service needs no render, and other options need only the agent."""
    definition = await world.global_service(selector=_selector())
    before = await deployed(world, (await world.owned(definition))["eu"], pinned_sha="a" * 40)
    await world.memory.clock.advance(60)
    await world.change(definition, template=template)
    await world.reconcile(definition)
    after = (await world.owned(definition))["eu"]
    changed = {name: getattr(template.spec, name) for name in message.split(", ")}
    now = world.memory.clock.now()
    assert after == before.changed(**changed, **columns, updated_at=now)
    entry = (await world.memory.ledger())[-1]
    assert (entry.stage, entry.message) == (LedgerStage.CONFIGURED, message)
    assert (entry.actor, entry.at) == ("global service agents", now)


async def test_options_of_a_service_without_a_bundle_are_no_new_generation(
    world: GeneratorWorld,
) -> None:
    definition = await world.global_service(selector=_selector())
    await world.change(definition, template=TEMPLATE.changed(dry_run=True))
    await world.reconcile(definition)
    service = (await world.owned(definition))["eu"]
    assert (service.spec.dry_run, service.desired.generation) == (True, 0)


@pytest.mark.parametrize(
    ("leave", "removal"),
    [(LeavePolicy.DELETE, Removal.CASCADE), (LeavePolicy.DETACH, Removal.ORPHAN)],
)
async def test_a_deployed_service_leaves_as_the_policy_says(
    world: GeneratorWorld, leave: LeavePolicy, removal: Removal
) -> None:
    definition = await world.global_service(leave=leave, selector=_selector())
    service = await deployed(world, (await world.owned(definition))["eu"])
    await retag(world, "eu", "dev")
    await world.reconcile(definition)
    async with world.memory.store.read() as tx:
        left = await tx[ServiceStore].get(service.id, deleted=True)
    assert left is not None and left.removal is removal
    assert await world.owned(definition) == {}


@pytest.mark.parametrize(
    ("on_delete", "removal"),
    [(LeavePolicy.DELETE, Removal.CASCADE), (LeavePolicy.DETACH, Removal.ORPHAN)],
)
async def test_a_deleted_generator_leaves_its_services_as_its_policy_says(
    world: GeneratorWorld, on_delete: LeavePolicy, removal: Removal
) -> None:
    leave = LeavePolicy.DETACH if on_delete is LeavePolicy.DELETE else LeavePolicy.DELETE
    definition = await world.global_service(leave=leave, on_delete=on_delete, selector=_selector())
    service = await deployed(world, (await world.owned(definition))["eu"])
    await world.change(definition, ending_at=START)
    await world.reconcile(definition)
    async with world.memory.store.read() as tx:
        left = await tx[ServiceStore].get(service.id, deleted=True)
    assert left is not None and left.removal is removal


async def test_a_confirmation_stays_until_something_is_removed(world: GeneratorWorld) -> None:
    definition = await world.global_service(budget=0)
    await world.change(definition, confirmed=2, template=TEMPLATE.changed(ref="next"))
    await world.reconcile(definition)
    assert (await world.stored(definition)).confirmed == 2


async def test_only_the_policy_of_the_event_counts(world: GeneratorWorld) -> None:
    """`on_delete` says nothing about a cluster that leaves the selector."""
    definition = await world.global_service(
        leave=LeavePolicy.DETACH, on_delete=LeavePolicy.DELETE, selector=_selector()
    )
    async with world.memory.store.write() as tx:
        service = (await world.owned(definition))["eu"]
        await tx[ServiceStore].put(service.changed(protect=True))
    await world.change(definition, template=TEMPLATE.changed(protect=True))
    await retag(world, "eu", "dev")
    await world.reconcile(definition)
    assert await world.memory.row(ServiceStore, service.id) is None, "nothing of it is deleted"


async def test_a_protected_service_is_released_instead_of_deleted(world: GeneratorWorld) -> None:
    definition = await world.global_service(
        leave=LeavePolicy.DELETE, template=TEMPLATE.changed(protect=True), selector=_selector()
    )
    service = (await world.owned(definition))["eu"]
    world.memory.bus.published.clear()
    await retag(world, "eu", "dev")
    await world.reconcile(definition)
    left = await world.memory.row(ServiceStore, service.id)
    assert left is not None and (left.owner_id, left.deleted_at) == (None, None)
    assert (SERVICE, service.id) in world.memory.published
    assert (await world.stored(definition)).problem == ""


async def test_a_frozen_cluster_keeps_its_services_as_they_are(world: GeneratorWorld) -> None:
    definition = await world.global_service()
    before = await world.owned(definition)
    await world.memory.given(FROZEN)
    await world.change(definition, template=TEMPLATE.changed(ref="next"))
    plan = await world.reconcile(definition)
    assert plan is not None and plan.frozen == (("eu", "web"),)
    after = await world.owned(definition)
    assert after["eu"] == before["eu"]
    assert after["us"].spec.ref == "next"
    assert (await world.stored(definition)).problem == "1 changes wait for frozen cluster groups"


class Interrupted(GeneratorReconciler):
    """Something happens between a plan and the transaction that carries it out."""

    def __init__(self, world: GeneratorWorld, meanwhile: Callable[[], Awaitable[Any]]) -> None:
        super().__init__(world.memory.context, world.hosting)
        self._meanwhile = meanwhile

    async def plan(self, definition: AnyGenerator) -> TargetPlan:
        plan = await super().plan(definition)
        await self._meanwhile()
        return plan


async def freeze(world: GeneratorWorld) -> None:
    await world.memory.given(FROZEN)


async def end(world: GeneratorWorld) -> None:
    async with world.memory.store.write() as tx:
        await tx[ClusterStore].change("eu", ending_at=START)


async def remove(world: GeneratorWorld) -> None:
    async with world.memory.store.write() as tx:
        await tx[ClusterStore].remove("eu")


async def occupy(world: GeneratorWorld) -> None:
    await world.memory.given(make_service("web", EU))


@pytest.mark.parametrize("event", [freeze, end, remove, occupy])
async def test_a_cluster_that_changes_during_a_reconcile_gets_no_service(
    world: GeneratorWorld, event: Callable[[GeneratorWorld], Awaitable[None]]
) -> None:
    """The other clusters get theirs."""
    await world.memory.given(TWO)
    await Interrupted(world, lambda: event(world)).reconcile("global/g")
    definition = await world.stored(TWO)
    assert set(await world.owned(definition)) == {"us"}


async def test_a_generator_that_a_user_changes_meanwhile_is_left_to_the_next_reconcile(
    world: GeneratorWorld,
) -> None:
    await world.memory.given(TWO)
    later = START + timedelta(minutes=1)
    meanwhile = Interrupted(world, lambda: world.change(TWO, updated_at=later))
    await meanwhile.reconcile("global/g")
    assert await world.owned(TWO) == {}
    await world.reconcile(TWO)
    assert set(await world.owned(TWO)) == {"eu", "us"}


async def test_an_ending_generator_stays_while_a_service_is_left(world: GeneratorWorld) -> None:
    """A frozen cluster keeps its service, so the definition that owns it stays as well."""
    definition = await world.global_service()
    await world.memory.given(FROZEN)
    await world.change(definition, ending_at=START)
    await world.reconcile(definition)
    assert set(await world.owned(definition)) == {"eu"}
    left = await world.stored(definition)
    assert left is not None and left.problem == "1 changes wait for frozen cluster groups"


async def test_an_ending_generator_needs_no_confirmation(world: GeneratorWorld) -> None:
    definition = await world.global_service(budget=0)
    await world.change(definition, ending_at=START)
    await world.reconcile(definition)
    assert await world.owned(definition) == {} and await world.stored(definition) is None


async def test_a_service_that_no_longer_belongs_to_the_generator_is_left_alone(
    world: GeneratorWorld,
) -> None:
    definition = await world.global_service(selector=_selector(), leave=LeavePolicy.DELETE)
    service = (await world.owned(definition))["eu"]
    await retag(world, "eu", "dev")

    async def release() -> None:
        async with world.memory.store.write() as tx:
            await tx[ServiceStore].remove_owner(service.id)

    await Interrupted(world, release).reconcile("global/g")
    left = await world.memory.row(ServiceStore, service.id)
    assert left is not None and left.deleted_at is None


async def test_removals_beyond_the_budget_wait_for_their_number(world: GeneratorWorld) -> None:
    """A confirmation is used once, and one that is too small changes nothing."""
    definition = await world.global_service(budget=0)
    await world.change(definition, selector=_selector("none"))
    for confirmed, left, waiting in ((0, 2, 2), (1, 2, 2), (2, 0, 0)):
        await world.change(definition, confirmed=confirmed)
        await world.reconcile(definition)
        stored = await world.stored(definition)
        assert (len(await world.owned(definition)), stored.waiting) == (left, waiting)
        expected = "2 deletions exceed the deletion budget: confirm them" if waiting else ""
        assert stored.problem == expected
        assert stored.confirmed == (confirmed if waiting else 0)


async def test_a_collision_is_named_and_holds_back_removals(world: GeneratorWorld) -> None:
    definition = await world.global_service()
    await world.memory.given(make_cluster("asia"), make_cluster("africa"))
    await world.memory.given(
        *(make_service("web", make_cluster(handle)) for handle in ("asia", "africa"))
    )
    await retag(world, "us", "gone")
    selector = replace(_selector(), tags={}, excluded=("us",))
    await world.change(definition, selector=selector, budget=5)
    plan = await world.reconcile(definition)
    assert plan is not None and (len(plan.collisions), len(plan.withheld)) == (2, 1)
    problem = "2 clusters already have another service of that name: web"
    assert (await world.stored(definition)).problem == problem
    assert set(await world.owned(definition)) == {"eu", "us"}


async def test_a_name_of_a_service_that_is_being_deleted_is_occupied(world: GeneratorWorld) -> None:
    await world.memory.given(make_service("web", EU, deleted_at=START))
    definition = await world.global_service()
    assert set(await world.owned(definition)) == {"us"}
    assert "already have another service" in (await world.stored(definition)).problem


async def test_a_project_gets_no_more_services_than_it_has_room_for(world: GeneratorWorld) -> None:
    full = Project("full", "full", START, START, fence=replace(UNRESTRICTED, max_services=2))
    clusters = [make_cluster(f"f{number}", project_id="full") for number in range(4)]
    await world.memory.given(full, *clusters)
    definition = await world.global_service(project_id="full")
    assert set(await world.owned(definition)) == {"f0", "f1"}
    assert "2 services are not created" in (await world.stored(definition)).problem


async def test_a_room_that_others_took_meanwhile_is_not_used_twice(world: GeneratorWorld) -> None:
    full = Project("full", "full", START, START, fence=replace(UNRESTRICTED, max_services=2))
    clusters = [make_cluster(f"f{number}", project_id="full") for number in range(3)]
    definition = replace(TWO, project_id="full")
    await world.memory.given(full, *clusters, definition)
    other = make_service("other", clusters[2], project_id="full")
    await Interrupted(world, lambda: world.memory.given(other)).reconcile("global/g")
    assert len(await world.owned(definition)) == 1


async def test_services_outside_the_fence_are_named_and_not_created(world: GeneratorWorld) -> None:
    fenced = Project("fenced", "fenced", START, START, fence=Fence())
    await world.memory.given(fenced, make_cluster("own", project_id="fenced"))
    definition = await world.global_service(project_id="fenced")
    assert await world.owned(definition) == {}
    assert "outside the fence of project 'fenced'" in (await world.stored(definition)).problem


async def test_a_changed_namespace_gets_a_new_bundle_and_an_equal_one_none(
    world: GeneratorWorld,
) -> None:
    namespace = ManagedNamespace("n", "team", START, START, spec=NamespaceSpec("team", {"a": "1"}))
    await world.memory.given(namespace)
    await world.reconcile(namespace)
    first = (await world.owned(namespace))["eu"]
    assert (first.name, first.desired.generation) == ("namespace-team", 1)
    assert first.desired.digest in world.memory.manifests.bundles
    await world.reconcile(namespace)
    assert (await world.owned(namespace))["eu"] == first
    await world.change(namespace, labels={"a": "2"})
    await world.reconcile(namespace)
    second = (await world.owned(namespace))["eu"]
    assert second.desired.generation == 2 and second.desired.digest != first.desired.digest
    entry = (await world.memory.ledger())[-1]
    assert (entry.actor, entry.message) == ("managed namespace team", "digest")


async def test_a_reconciled_generator_has_the_time_of_its_evaluation(world: GeneratorWorld) -> None:
    """A reconcile without a change writes it every five minutes only."""
    definition = await world.global_service()
    first = world.memory.clock.now()
    assert definition.evaluated_at == first
    await world.memory.clock.advance(299)
    await world.reconcile(definition)
    assert (await world.stored(definition)).evaluated_at == first
    await world.memory.clock.advance(1)
    await world.reconcile(definition)
    assert (await world.stored(definition)).evaluated_at == world.memory.clock.now()


async def test_a_new_problem_and_its_end_are_stored_at_once(world: GeneratorWorld) -> None:
    definition = await world.global_service()
    await world.change(definition, template=replace(TEMPLATE, repository_id="gone"))
    for template, problem in (
        (replace(TEMPLATE, repository_id="gone"), "repository gone does not exist"),
        (replace(TEMPLATE, repository_id=None), "the template has no repository"),
        (None, "has neither a source service nor a template"),
        (TEMPLATE, ""),
    ):
        await world.change(definition, template=template)
        await world.memory.clock.advance(1)
        await world.reconcile(definition)
        assert problem in (found := (await world.stored(definition)).problem)
        assert bool(found) == bool(problem)
        assert len(await world.owned(definition)) == 2, "a problem deletes nothing"


async def test_keys_name_all_generators_and_sources_what_they_follow(world: GeneratorWorld) -> None:
    source = make_service("api", EU)
    folders = Generator(folders=GitFolderGenerator("apps"))
    await world.memory.given(
        source,
        TWO,
        replace(TWO, id="copy", name="copy", source_id=source.id, template=None),
        ServiceSet("s", "set", START, START, generator=folders, template=TEMPLATE),
        ServiceSet("plain", "plain", START, START, template=TEMPLATE),
        ManagedNamespace("n", "team", START, START, spec=NamespaceSpec("team")),
    )
    keys = await world.reconciler.keys()
    assert sorted(keys) == ["global/copy", "global/g", "namespace/n", "set/plain", "set/s"]
    sources = await world.reconciler.sources()
    assert sources == {source.id: {"global/copy"}, "apps": {"set/s"}}


async def test_a_generator_that_is_gone_has_no_plan(world: GeneratorWorld) -> None:
    assert await world.reconciler.reconcile("set/gone") is None
    assert world.memory.published == []
