"""Agent reports beside status: confirmations, plans, facts, mirrors, conflicting agents."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from controlplane.agents.link import messages
from controlplane.agents.operations.agents import AgentOperations
from controlplane.agents.operations.report_batch import ReportLimits
from controlplane.clusters.model.cluster import AgentMode
from controlplane.platform.ports import PageQuery
from controlplane.services.model.ledger import LedgerStage
from controlplane.services.model.service import Service, ServiceStatus
from controlplane.services.operations.services import ServiceChange
from controlplane.services.ports import ComponentStore, RevisionStore
from core.errors import Conflict, Invalid
from core.identity import local_id
from core.runtime.clock import SystemClock
from core.spec.bundle import Attestation
from core.spec.health import FieldCondition, HealthRule, HealthState
from core.spec.objects import ObjectRef
from core.spec.plan import PlannedAction
from core.spec.reports.report import Report
from core.spec.status import Phase, Problem
from core.spec.sync import IgnoredDifference, SyncOptions
from core.wire import limits
from core.wire.report_codec import report_from_message
from core.wire.v1 import agent_pb2 as wire
from tests.fakes.manifests import config_map
from tests.integration.controlplane.conftest import World
from tests.integration.controlplane.test_agentlink import Hub, listening, registered

NOON_MS = 1_767_225_600_000
CLAIM = wire.ObjectRef(version="v1", kind="PersistentVolumeClaim", namespace="shop", name="data")
NAMED = ObjectRef("", "", "PersistentVolumeClaim", "shop", "data")


@pytest.fixture
async def hub(world: World):
    async with listening(world, world.identity, SystemClock()) as running:
        yield running


@pytest.fixture
async def service(world: World) -> Service:
    """A delivered service."""
    cluster, repository = await world.cluster(), await world.repository()
    one = await world.service(cluster, repository)
    world.manifests.push(repository.id, {"shop": [config_map("a")]})
    await world.delivery.deliver(repository.id)
    return await world.get(one)


async def tell(world: World, cluster_id: Any, number: int, **body: Any) -> None:
    """Let the cluster's agent report, as the link would."""
    report = wire.Report(number=number, at_ms=NOON_MS, **body)
    limits.check(report)
    await world.agents.record_reports(cluster_id, [report_from_message(report)])


async def awaiting(world: World, service: Service, number: int = 1) -> Service:
    status = wire.ServiceStatus(
        service_id=service.id,
        sequence=service.desired.generation,
        phase=wire.PHASE_AWAITING,
        awaiting=[CLAIM],
        message="waits for a person",
    )
    await tell(world, service.cluster_id, number, status=status)
    return await world.get(service)


async def test_a_deletion_that_waits_is_shown_and_confirmed(world: World, service: Service) -> None:
    """In errors and the ledger; the confirmation goes to the agent for one sequence only."""
    shown = await awaiting(world, service)
    assert (
        shown.observed.phase is Phase.AWAITING and shown.status is ServiceStatus.AWAITING_APPROVAL
    )
    assert "PersistentVolumeClaim shop/data" in shown.errors[0].message
    assert "run `towline services confirm`, or annotate" in shown.errors[0].message
    own = replace(shown, mirrored=True).errors[0].message
    assert "shop/data: annotate" in own and 'towline.dev/prune: "true"' in own
    assert shown.observed.message == "waits for a person"
    await world.interventions.confirm_deletions(world.admin, service.id, [NAMED])
    confirmed = messages.desired(await world.get(service)).confirmed
    assert [(one.kind, one.version, one.name) for one in confirmed] == [
        ("PersistentVolumeClaim", "v1", "data")
    ]
    await world.services.update(world.admin, service.id, ServiceChange(dry_run=True))
    assert not messages.desired(await world.get(service)).confirmed
    history = await world.services.history(
        world.admin, PageQuery(equals={"service_id": service.id})
    )
    assert {LedgerStage.AWAITING, LedgerStage.CONFIRMED} <= {one.stage for one in history.items}


async def test_deletions_of_a_removed_service_can_be_confirmed(
    world: World, service: Service
) -> None:
    """The service is listed no more; the agent gets its removal again, with the confirmation."""
    await world.services.delete(world.admin, service.id)
    gone = await world.get(service)
    assert gone.deleted_at is not None and not messages.desired(gone).confirmed
    going = await awaiting(world, gone)
    assert 'towline.dev/delete: "true"' in going.errors[0].message
    await world.interventions.confirm_deletions(world.admin, service.id, [NAMED])
    desired = messages.desired(await world.get(service))
    assert (
        desired.removal == wire.REMOVAL_CASCADE and desired.sequence == gone.desired.generation + 1
    )
    assert [one.name for one in desired.confirmed] == ["data"]


async def test_only_what_waits_can_be_confirmed(world: World, service: Service) -> None:
    await awaiting(world, service)
    other = ObjectRef("", "", "Namespace", "", "shop")
    for objects, error in (([NAMED, other], Conflict), ([], Invalid)):
        with pytest.raises(error):
            await world.interventions.confirm_deletions(world.admin, service.id, objects)
    assert (await world.get(service)).desired.generation == service.desired.generation


async def test_a_dry_run_shows_its_plan_until_the_next_change(
    world: World, service: Service
) -> None:
    await world.services.update(world.admin, service.id, ServiceChange(dry_run=True))
    service = await world.get(service)
    assert await world.interventions.plan(world.admin, service.id) is None
    field = wire.FieldChange(pointer="/data/a", old='"1"', new='"2"')
    planned = wire.PlannedChange(object=CLAIM, change=wire.CHANGE_DELETE, fields=[field])
    status = wire.ServiceStatus(
        service_id=service.id,
        sequence=service.desired.generation,
        phase=wire.PHASE_APPLIED,
        planned=[planned, wire.PlannedChange(object=CLAIM)],
    )
    await tell(world, service.cluster_id, 1, status=status)
    plan = await world.interventions.plan(world.admin, service.id)
    assert plan is not None and [one.change for one in plan.changes] == [PlannedAction.DELETE]
    assert plan.changes[0].fields[0].new == '"2"'
    await world.services.update(world.admin, service.id, ServiceChange(paused=True))
    assert await world.interventions.plan(world.admin, service.id) is None


async def test_a_dry_run_that_finds_no_difference_has_a_plan(
    world: World, service: Service
) -> None:
    """An empty plan differs from none: none means that no dry run was reported yet."""
    await world.services.update(world.admin, service.id, ServiceChange(dry_run=True))
    service = await world.get(service)
    status = wire.ServiceStatus(
        service_id=service.id, sequence=service.desired.generation, phase=wire.PHASE_APPLIED
    )
    await tell(world, service.cluster_id, 1, status=status)
    assert await world.interventions.plan(world.admin, service.id) is None
    status.rehearsed = True
    await tell(world, service.cluster_id, 2, status=status)
    plan = await world.interventions.plan(world.admin, service.id)
    assert plan is not None and plan.changes == ()


async def test_drift_is_in_the_ledger_with_old_and_new_values(
    world: World, service: Service
) -> None:
    field = wire.FieldChange(pointer="/spec/replicas", old="2", new="5")
    drift = wire.Drift(service_id=service.id, object=CLAIM, manager="kubectl", changes=[field])
    await tell(world, service.cluster_id, 1, drift=drift)
    history = await world.services.history(
        world.admin, PageQuery(equals={"service_id": service.id})
    )
    entry = next(one for one in history.items if one.stage is LedgerStage.DRIFTED)
    assert entry.detail["changes"] == [{"pointer": "/spec/replicas", "old": "2", "new": "5"}]


async def test_components_are_kept_with_labels_generation_hash_and_finalizers(
    world: World, service: Service
) -> None:
    component = wire.Component(
        object=CLAIM,
        labels={"app": "shop"},
        generation=3,
        hash="sha256:" + "0" * 64,
        finalizers=["kubernetes.io/pvc-protection"],
        health=wire.HEALTH_PROGRESSING,
    )
    inventory = wire.Inventory(service_id=service.id, complete=True, present=[component])
    await tell(world, service.cluster_id, 1, inventory=inventory)
    found = await world.services.related(world.admin, [service], frozenset({"components"}))
    (one,) = found.components[service.id]
    assert (one.labels, one.generation) == ({"app": "shop"}, 3)
    assert one.hash.startswith("sha256:") and one.finalizers == ("kubernetes.io/pvc-protection",)


async def test_an_unknown_health_is_no_state_and_no_health_of_the_service(
    world: World, service: Service
) -> None:
    """Clients with closed enums know no further state; gates and stages see no HEALTHY."""
    component = wire.Component(object=CLAIM, health=wire.HEALTH_UNKNOWN, message="says nothing")
    inventory = wire.Inventory(service_id=service.id, complete=True, present=[component])
    await tell(world, service.cluster_id, 1, inventory=inventory)
    status = wire.ServiceStatus(
        service_id=service.id,
        sequence=service.desired.generation,
        digest=service.desired.digest or "",
        phase=wire.PHASE_APPLIED,
        message="waiting for it: says nothing",
    )
    await tell(world, service.cluster_id, 2, status=status)
    found = await world.services.related(world.admin, [service], frozenset({"components"}))
    (one,) = found.components[service.id]
    assert (one.state, one.message) == (None, "says nothing")
    assert (await world.get(service)).observed.message == "waiting for it: says nothing"
    assert (await world.get(service)).status is not ServiceStatus.HEALTHY


async def test_inventories_that_are_committed_together_count_in_their_order(
    world: World, service: Service
) -> None:
    """A complete report replaces earlier reports of the same commit."""

    def inventory(number: int, *names: str, gone: str = "", complete: bool = False) -> Report:
        place = {"version": "v1", "kind": "Pod", "namespace": "shop"}
        change = wire.Inventory(
            service_id=service.id,
            complete=complete,
            present=[wire.Component(object=wire.ObjectRef(**place, name=one)) for one in names],
            gone=[wire.ObjectRef(**place, name=gone)] if gone else [],
        )
        return report_from_message(wire.Report(number=number, at_ms=NOON_MS, inventory=change))

    async def shown() -> set[str]:
        async with world.deps.store.read() as tx:
            return {one.name for one in await tx[ComponentStore].of_services(service.id)}

    async def record(*reports: Report) -> None:
        await world.agents.record_reports(service.cluster_id, reports)

    await record(inventory(1, "a", "b", complete=True))
    await record(inventory(2, "c", gone="a"), inventory(3, "b", "d", complete=True))
    assert await shown() == {"b", "d"}
    await record(inventory(4, "e", complete=True), inventory(5, "f"), inventory(6, "a", gone="e"))
    assert await shown() == {"a", "f"}


async def test_facts_are_taken_with_the_greeting_and_when_they_change(
    world: World, hub: Hub
) -> None:
    cluster_id, token = await registered(world)
    agent = await hub.agent(token)
    await agent.hello(mode=wire.MODE_AUTONOMOUS)
    assert (await world.clusters.get(world.admin, cluster_id)).mode is AgentMode.AUTONOMOUS
    old = wire.DeprecatedApi(group="g", version="v1beta1", resource="x", removed_in="1.25")
    facts = wire.ClusterFacts(
        kubernetes_version="v1.40.0",
        distribution="odd",
        nodes=5,
        cpu_millis=12_000,
        memory_bytes=64 << 30,
        pod_capacity=550,
        api_versions=["v1", "apps/v1"],
        deprecated=[old],
    )
    await agent.report(1, facts=facts)
    await agent.read("ack")
    cluster = await world.clusters.get(world.admin, cluster_id)
    assert (cluster.kubernetes_version, cluster.nodes) == ("v1.40.0", 5)
    assert (
        cluster.facts.api_versions == ("v1", "apps/v1") and cluster.facts.memory_bytes == 64 << 30
    )
    assert cluster.facts.deprecated[0].removed_in == "1.25"


async def test_every_option_reaches_the_agent(world: World, service: Service) -> None:
    condition = FieldCondition("/status/state", ("Ready",))
    options = SyncOptions(
        keep_on_prune=True,
        fail_on_conflict=True,
        replace_immutable=True,
        ignored=(IgnoredDifference("apps", "Deployment", pointers=("/spec/replicas",)),),
        health_rules=(HealthRule("x.io", "Db", HealthState.HEALTHY, (condition,), "/status/why"),),
        wave_timeout_s=60,
        deletion_budget=3,
    )
    await world.services.update(world.admin, service.id, ServiceChange(options=options))
    wire_options = messages.desired(await world.get(service)).spec.options
    assert (
        wire_options.keep_on_prune
        and wire_options.fail_on_conflict
        and wire_options.replace_immutable
    )
    assert list(wire_options.ignored[0].pointers) == ["/spec/replicas"]
    assert wire_options.health_rules[0].health == wire.HEALTH_HEALTHY
    assert (wire_options.wave_timeout_s, wire_options.deletion_budget) == (60, 3)


@pytest.mark.parametrize(
    "options",
    [
        SyncOptions(ignored=(IgnoredDifference(),)),
        SyncOptions(ignored=(IgnoredDifference(pointers=("spec",)),)),
        SyncOptions(ignored=(IgnoredDifference(managers=("x",)),) * 257),
        SyncOptions(wave_timeout_s=-1),
        SyncOptions(deletion_budget=10**7),
        SyncOptions(health_rules=(HealthRule("", "X", HealthState.FAILED, (), "x"),)),
    ],
)
async def test_options_that_agents_have_no_room_for_are_refused(
    world: World, service: Service, options: SyncOptions
) -> None:
    with pytest.raises(Invalid, match="syncConfig"):
        await world.services.update(world.admin, service.id, ServiceChange(options=options))


def mirrored(name: str = "shop", **given: Any) -> wire.MirroredService:
    fields: dict[str, Any] = {
        "service_id": local_id("cluster", name),
        "name": name,
        "namespace": "shop",
        "repository": "https://git.example/local.git",
        "ref": "main",
        "folder": "deploy",
        "commit": "c" * 40,
        "digest": "sha256:" + "1" * 64,
        "sequence": 1,
    }
    return wire.MirroredService(**{**fields, **given})


async def test_a_service_that_its_cluster_defines_is_shown_and_not_changed(world: World) -> None:
    """Users can request a sync; the agent never receives desired state for it."""
    cluster = await world.cluster()
    await tell(world, cluster.id, 1, mirrored=mirrored())
    shown = await world.services.get_by_name(world.admin, cluster.handle, "shop")
    assert (
        shown.mirrored
        and shown.origin.endswith("local.git")
        and shown.desired.commit_sha == "c" * 40
    )
    broken = mirrored(sequence=2, error="no such folder", reason="NOT_FOUND")
    await tell(world, cluster.id, 2, mirrored=broken)
    reported_id = local_id("cluster", "shop")
    status = wire.ServiceStatus(service_id=reported_id, sequence=2, phase=wire.PHASE_HEALTHY)
    await tell(world, cluster.id, 3, status=status)
    shown = await world.get(shown)
    assert shown.observed.observed_generation == 2
    assert shown.errors == (Problem("no such folder", source="render", reason="NOT_FOUND"),)
    for change in (
        world.services.update(world.admin, shown.id, ServiceChange(paused=True)),
        world.services.delete(world.admin, shown.id),
        world.services.release(world.admin, shown.id),
    ):
        with pytest.raises(Conflict, match="defined in its cluster"):
            await change
    assert (await world.agents.desired_state(cluster.id)).services == []
    await world.services.sync(world.admin, shown.id)
    await world.interventions.terminate(world.admin, shown.id)
    commands = (await world.agents.desired_state(cluster.id)).commands
    sync_now, terminate = map(messages.command, commands)
    assert sync_now.sync_now.service_id == terminate.terminate.service_id == reported_id
    await tell(world, cluster.id, 4, mirrored=mirrored(removed=True))
    assert (await world.services.page(world.admin, PageQuery())).items == ()


async def test_mirrors_touch_no_service_of_others(world: World, service: Service) -> None:
    """Not one of the control plane's, not another cluster's; a taken name gets an ending."""
    stranger = await world.cluster("stranger")
    await tell(world, stranger.id, 1, mirrored=mirrored(service_id=service.id, name="evil"))
    assert (await world.get(service)).name == "shop"
    own = await world.services.get(world.admin, service.id)
    await tell(world, own.cluster_id, 1, mirrored=mirrored())
    names = {one.name for one in (await world.services.page(world.admin, PageQuery())).items}
    assert "shop" in names and len(names) == 2
    await tell(world, stranger.id, 2, mirrored=mirrored(removed=True))
    await tell(world, stranger.id, 3, mirrored=mirrored(name="Not A Label"))
    assert len((await world.services.page(world.admin, PageQuery())).items) == 2


async def test_no_cluster_takes_the_ids_of_mirrored_services_of_another(world: World) -> None:
    """Neither the id that the other agent reports, taken first, nor the stored one."""
    attacker, victim = await world.cluster("attacker"), await world.cluster("victim")
    theirs = local_id("cluster", "shop")
    await tell(world, attacker.id, 1, mirrored=mirrored(service_id=theirs, name="taken"))
    await tell(world, victim.id, 1, mirrored=mirrored())
    shown = await world.services.get_by_name(world.admin, victim.handle, "shop")
    await tell(world, attacker.id, 2, mirrored=mirrored(service_id=shown.id, name="stored"))
    for number, reported_id in enumerate((shown.id, theirs), 2):
        status = wire.ServiceStatus(service_id=reported_id, sequence=9, phase=wire.PHASE_FAILED)
        await tell(world, attacker.id, 2 * number, status=status)
        removed = mirrored(service_id=reported_id, removed=True)
        await tell(world, attacker.id, 2 * number + 1, mirrored=removed)
    assert await world.get(shown) == shown


async def test_the_inventory_of_a_cluster_is_bounded(world: World) -> None:
    """The rest is refused with an alarm, until something goes; what is known is still updated."""
    world.agents = AgentOperations(world.deps, limits=ReportLimits(mirrored=2, components=3))
    cluster = await world.cluster()

    async def alarm() -> str:
        return (await world.clusters.get(world.admin, cluster.id)).alarm

    def inventory(*names: str, complete: bool = False) -> wire.Inventory:
        place = {"version": "v1", "kind": "Pod", "namespace": "shop"}
        present = [wire.Component(object=wire.ObjectRef(**place, name=one)) for one in names]
        return wire.Inventory(
            service_id=local_id("cluster", "a"), complete=complete, present=present
        )

    async def shown() -> set[str]:
        async with world.deps.store.read() as tx:
            return {one.name for one in await tx[ComponentStore].select(cluster_id=cluster.id)}

    for number, name in enumerate("abc", 1):
        report = mirrored(name, service_id=local_id("cluster", name))
        await tell(world, cluster.id, number, mirrored=report)
    names = {one.name for one in (await world.services.page(world.admin, PageQuery())).items}
    assert names == {"a", "b"} and "more services" in await alarm()
    gone = mirrored("b", service_id=local_id("cluster", "b"), removed=True)
    await tell(world, cluster.id, 4, mirrored=gone)
    assert await alarm() == ""
    await tell(world, cluster.id, 5, inventory=inventory("1", "2", "3"))
    await tell(world, cluster.id, 6, inventory=inventory("3", "4"))
    assert await shown() == {"1", "2", "3"} and "components" in await alarm()
    await tell(world, cluster.id, 7, inventory=inventory("4", complete=True))
    assert await shown() == {"4"} and await alarm() == ""


async def test_agents_that_fight_for_a_cluster_are_shown_with_both_addresses(
    world: World, hub: Hub
) -> None:
    """The older one is notified each time; one agent that reconnects is no conflict."""
    cluster_id, token = await registered(world)
    for _ in range(6):
        agent = await hub.agent(token)
        await agent.hello(instance_id="same")
    assert not (await world.clusters.get(world.admin, cluster_id)).alarm
    for turn in range(5):
        agent = await hub.agent(token)
        await agent.hello(instance_id=f"agent-{turn % 2}")
    async with asyncio.timeout(60):
        while not (alarm := (await world.clusters.get(world.admin, cluster_id)).alarm):
            await asyncio.sleep(0.02)
    assert alarm.count("127.0.0.1:") == 2 and "remove one of them" in alarm


async def test_an_agent_complaint_is_shown_until_it_ends(world: World, hub: Hub) -> None:
    """A full disk takes no report: pulses tell, also of an agent that has come again since."""
    cluster_id, token = await registered(world)

    async def shown(right: Callable[[str], bool]) -> None:
        async with asyncio.timeout(60):
            while not right((await world.clusters.get(world.admin, cluster_id)).alarm):
                await asyncio.sleep(0.02)

    first = await hub.agent(token)
    await first.hello()
    await first.pulse("disk is full")
    await shown(lambda alarm: alarm == "the agent reports: disk is full")
    second = await hub.agent(token)
    await second.hello()
    await second.pulse("disk is full")
    await second.pulse("")
    await shown(lambda alarm: alarm == "")


async def test_a_return_to_a_revision_brings_its_signature_back(
    world: World, service: Service
) -> None:
    """The agent believes a bundle only with the word that was given on it."""
    word = Attestation("sha256:k", b"\x00statement\xff", b"\x01signature")
    assert service.desired.revision_id is not None
    async with world.deps.store.write() as tx:
        await tx[RevisionStore].change(service.desired.revision_id, attestation=word)
    assert service.desired.attestation is None
    after = await world.services.rollback(world.admin, service.id, service.desired.revision_id)
    attestation = messages.desired(await world.get(after)).spec.attestation
    assert (attestation.key_id, attestation.statement, attestation.signature) == (
        word.key_id,
        word.statement,
        word.signature,
    )


async def test_verdicts_of_agents_are_in_the_ledger(world: World, service: Service) -> None:
    """The ledger has good verdicts and rollbacks with their reasons."""
    good = wire.Verified(service_id=service.id, sequence=1, digest=service.desired.digest, ok=True)
    bad = wire.Verified(
        service_id=service.id,
        sequence=1,
        digest=service.desired.digest,
        reason="3 restarts of containers",
        instead="sha256:before",
    )
    await tell(world, service.cluster_id, 1, verified=good)
    await tell(world, service.cluster_id, 2, verified=bad)
    query = PageQuery(equals={"service_id": service.id})
    held, verified = (await world.services.history(world.admin, query)).items[:2]
    assert (verified.stage, verified.digest) == (LedgerStage.VERIFIED, service.desired.digest)
    assert (held.stage, held.message) == (LedgerStage.HELD, "3 restarts of containers")
    assert held.detail == {"instead": "sha256:before"}
