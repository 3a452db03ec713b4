"""Bundles that agents have found to be bad: who goes back, what is refused, who lifts it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import pytest

from controlplane.agents.link import messages
from controlplane.agents.operations import reports
from controlplane.agents.operations.report_batch import ReportBatch, ReportLimits
from controlplane.authorization import SYSTEM
from controlplane.authorization.roles import BuiltInRole as Role
from controlplane.clusters.ports import ClusterStore
from controlplane.generators.operations.global_services import GlobalChange, GlobalServices
from controlplane.generators.operations.reconciler import GeneratorReconciler
from controlplane.pipelines.gates.kinds import SoakRule
from controlplane.pipelines.model.state import Health
from controlplane.pipelines.operations.drafts import EdgeDraft, GateDraft, PipelineDraft, StageDraft
from controlplane.platform.ports import Transaction
from controlplane.repositories.ports import RepositoryStore
from controlplane.services.model.ledger import LedgerStage
from controlplane.services.model.quarantine import DeniedRevision
from controlplane.services.model.service import OwnerKind, Service
from controlplane.services.operations import quarantine
from controlplane.services.operations.quarantine import bundle_columns
from controlplane.services.operations.services import ServiceChange
from controlplane.services.ports import (
    DeniedRevisionStore,
    LedgerStore,
    RevisionStore,
    ServiceStore,
)
from core.errors import Conflict, Forbidden, Invalid
from core.identity import ClusterId
from core.spec.bundle import make_bundle
from core.spec.reports.report import Report
from core.spec.thresholds import Comparison
from core.spec.verification import MetricCheck, Verification, VerificationResult
from core.wire.v1 import agent_pb2 as wire
from tests.fakes.manifests import config_map
from tests.integration.controlplane.conftest import World, person
from tests.integration.controlplane.test_pipelines import Line

POLICY = Verification(60, 2, MetricCheck("m/prometheus:9090", "errors", 0.1, Comparison.BELOW))
WHY = "errors < 0.1 does not hold: 0.4"


async def verdict(world: World, service: Service, ok: bool, instead: str = "") -> None:
    """Let the agent tell what became of the newest digest."""
    now = await world.get(service)
    reason = "" if ok else WHY
    body = VerificationResult(
        now.id, now.desired.generation, now.desired.digest or "", ok, reason, instead
    )
    async with world.deps.store.read() as tx:
        cluster = await tx[ClusterStore].get(now.cluster_id)
    assert cluster is not None
    report = Report(cluster.acknowledged + 1, world.clock.now(), body)
    await world.agents.record_reports(cluster.id, [report])


async def push(world: World, service: Service, value: str) -> Service:
    """A commit with this value, delivered."""
    assert service.repository_id is not None
    world.manifests.push(service.repository_id, {"shop": [config_map("a", v=value)]})
    await world.delivery.deliver(service.repository_id)
    return await world.get(service)


async def stages(world: World, service: Service) -> list[LedgerStage]:
    async with world.deps.store.read() as tx:
        return [one.stage for one in await tx[LedgerStore].select(service_id=service.id)]


async def lift(world: World, revision: str) -> None:
    await world.denials.allow(world.admin, revision)


@pytest.fixture
async def service(world: World) -> Service:
    """A service whose first bundle has proved itself."""
    cluster, repository = await world.cluster(), await world.repository()
    one = await push(world, await world.service(cluster, repository, verification=POLICY), "good")
    await verdict(world, one, ok=True)
    return await world.get(one)


@pytest.fixture
async def held(world: World, service: Service) -> Service:
    """Its second one has not, and the agent has gone back."""
    bad = await push(world, service, "bad")
    await verdict(world, bad, ok=False, instead=service.desired.digest or "")
    return await world.get(bad)


def bad_digest() -> str:
    return make_bundle([config_map("a", v="bad")]).digest


async def test_desired_state_carries_the_verification_policy(
    world: World, service: Service
) -> None:
    """All of the policy goes over the wire; without one, nothing."""
    verification = messages.desired(service).verification
    assert (verification.soak_seconds, verification.max_restarts) == (60, 2)
    assert not messages.desired(service).lifted
    assert (verification.metric.address, verification.metric.query) == (
        "m/prometheus:9090",
        "errors",
    )
    assert (verification.metric.comparison, verification.metric.threshold) == (
        wire.COMPARISON_LESS,
        0.1,
    )
    ended = ServiceChange(verification=Verification(0))
    after = await world.services.update(world.admin, service.id, ended)
    assert not messages.desired(after).HasField("verification")
    assert after.desired.generation == service.desired.generation + 1


async def test_a_rollback_does_not_replace_a_newer_delivery(
    world: World, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With PostgreSQL others commit after a batch has looked at its services."""
    bad = await push(world, service, "bad")

    class Overtaken(ReportBatch):
        @classmethod
        async def for_clusters(
            cls,
            tx: Transaction,
            new_reports: Mapping[ClusterId, Sequence[Report]],
            limits: ReportLimits,
        ) -> dict[ClusterId, Self]:
            batches = await super().for_clusters(tx, new_reports, limits)
            await tx[ServiceStore].change(bad.id, digest="sha256:newer", generation=9)
            return batches

    monkeypatch.setattr(reports, "ReportBatch", Overtaken)
    await verdict(world, bad, ok=False, instead=service.desired.digest or "")
    now = await world.get(bad)
    assert (now.desired.digest, now.desired.generation, now.desired.quarantine) == (
        "sha256:newer",
        9,
        None,
    )


async def test_concurrent_verdicts_on_a_bundle_end_no_call(
    world: World, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With PostgreSQL another one's row may come between the look for it and the writing."""
    bad = await push(world, service, "bad")
    found, failures = (
        quarantine.roll_back_denied,
        [Conflict("this refused_revision exists already")],
    )

    async def overtaken(*given: Any) -> Any:
        if failures:
            raise failures.pop()
        return await found(*given)

    monkeypatch.setattr(quarantine, "roll_back_denied", overtaken)
    await verdict(world, bad, ok=False, instead=service.desired.digest or "")
    assert (await world.get(bad)).desired.quarantined == bad_digest()


async def test_the_bundle_of_a_rollback_becomes_the_desired_one(
    world: World, service: Service, held: Service
) -> None:
    """An agent that has lost its disk gets the good one; the service says why."""
    assert (held.desired.digest, held.desired.commit_sha, held.desired.generation) == (
        service.desired.digest,
        service.desired.commit_sha,
        3,
    )
    assert held.desired.quarantine is not None and held.desired.quarantined == bad_digest()
    assert WHY in held.errors[0].message and held.errors[0].source == "verification"
    assert (await stages(world, held))[-2:] == [LedgerStage.HELD, LedgerStage.ROLLED_BACK]
    assert held.repository_id is not None
    assert await world.delivery.deliver(held.repository_id) == 0


async def test_without_a_good_one_the_service_is_held_where_it_is(world: World) -> None:
    """There is nothing to go back to, and that is said."""
    cluster, repository = await world.cluster(), await world.repository()
    one = await push(world, await world.service(cluster, repository, verification=POLICY), "bad")
    await verdict(world, one, ok=False)
    now = await world.get(one)
    assert (now.desired.digest, now.desired.generation, now.desired.quarantined) == (
        one.desired.digest,
        1,
        one.desired.digest,
    )
    await lift(world, bad_digest())
    assert (await world.get(one)).desired.generation == 2
    assert messages.desired(await world.get(one)).lifted


@pytest.mark.parametrize("lies", ["foreign", "unasked"])
async def test_an_agent_has_no_say_on_what_it_was_not_given(
    world: World, service: Service, lies: str
) -> None:
    """A rogue one cannot keep a bundle from other clusters: neither any digest, nor unasked."""
    digest = bad_digest() if lies == "foreign" else service.desired.digest or ""
    if lies == "unasked":
        ended = ServiceChange(verification=Verification(0))
        await world.services.update(world.admin, service.id, ended)
    report = VerificationResult(service.id, service.desired.generation, digest, False, WHY, "")
    await world.agents.record_reports(service.cluster_id, [Report(9, world.clock.now(), report)])
    async with world.deps.store.read() as tx:
        assert await tx[DeniedRevisionStore].all() == []
    assert (await world.get(service)).desired.quarantine is None


async def test_a_verdict_that_comes_late_refuses_and_changes_nothing_else(
    world: World, service: Service
) -> None:
    """A newer commit was there before the agent's word on an older one."""
    bad = await push(world, service, "bad")
    newer = await push(world, service, "newer")
    report = VerificationResult(
        bad.id, bad.desired.generation, bad.desired.digest or "", False, WHY, ""
    )
    await world.agents.record_reports(bad.cluster_id, [Report(9, world.clock.now(), report)])
    now = await world.get(service)
    assert (now.desired.digest, now.desired.quarantine) == (newer.desired.digest, None)
    async with world.deps.store.read() as tx:
        assert await tx[DeniedRevisionStore].of_revisions([bad_digest()])


async def test_git_brings_it_to_no_other_service(world: World, held: Service) -> None:
    """Another cluster that follows the same commit keeps what it has, once and readable."""
    cluster = await world.cluster("other")
    other = await world.service(cluster, await _repository(world, held), folder="shop")
    assert other.repository_id is not None
    await world.delivery.deliver(other.repository_id)
    now = await world.get(other)
    assert (now.desired.digest, now.desired.generation, now.desired.quarantined) == (
        None,
        0,
        bad_digest(),
    )
    assert "agent of dev" not in now.errors[0].message and WHY in now.errors[0].message
    assert await world.delivery.deliver(other.repository_id) == 0
    assert (await stages(world, other)) == [LedgerStage.CREATED, LedgerStage.HELD]


async def test_a_refused_commit_reaches_nobody(world: World, service: Service) -> None:
    """A person may name the commit instead of the digest."""
    assert service.repository_id is not None
    sha = world.manifests.push(service.repository_id, {"shop": [config_map("a", v="odd")]})
    await world.denials.deny(world.admin, sha, "the author says so")
    await world.delivery.deliver(service.repository_id)
    now = await world.get(service)
    assert (now.desired.digest, now.desired.quarantined) == (service.desired.digest, sha)
    await lift(world, sha)
    await world.delivery.deliver(service.repository_id)
    assert (await world.get(service)).desired.commit_sha == sha


async def test_no_roll_back_leads_to_it(world: World, held: Service) -> None:
    """Nor does a clone: it follows git as any other."""
    async with world.deps.store.read() as tx:
        (bad,) = await tx[RevisionStore].with_digest(held.id, bad_digest())
    with pytest.raises(Conflict, match="is denied by"):
        await world.services.rollback(world.admin, held.id, bad.id)
    change = ServiceChange(name="twin")
    twin = await world.services.clone(world.admin, held.id, held.cluster_id, change)
    await world.delivery.deliver(held.repository_id or "")
    assert (await world.get(twin)).desired.digest is None


async def test_no_generated_bundle_is_it(world: World, held: Service) -> None:
    """What managed namespaces give their services is asked for as well."""
    content = await world.manifests.store_bundle(make_bundle([config_map("a", v="bad")]).data)
    async with world.deps.store.write() as tx:
        columns = await bundle_columns(world.deps, tx, held, content)
    assert columns.keys() == {"quarantined", "quarantine"}


async def test_no_pipeline_gives_it(world: World) -> None:
    """Refused between the approval and the promotion, it stops there with the reason."""
    line = await Line.make(world)
    await line.push("1")
    _, digests = await line.waiting()
    (digest,) = digests.values()
    async with world.deps.store.write() as tx:
        await tx[DeniedRevisionStore].add(_refused(digest, world))
    await line.approve()
    assert (await world.get(line.prod)).desired.generation == 0
    view = await line.view()
    stage = view.state.stages[view.spec.stages[1].id]
    assert stage.health is Health.FAILED and "is denied by" in stage.reason


async def test_a_lifted_one_has_to_prove_itself_anew(world: World, held: Service) -> None:
    """The agent may try the bundle again; once healthy, the quarantine is gone."""
    await lift(world, bad_digest())
    await world.delivery.deliver(held.repository_id or "")
    now = await world.get(held)
    assert (now.desired.digest, now.errors) == (bad_digest(), ())
    assert messages.desired(now).lifted
    await verdict(world, now, ok=True)
    assert (await world.get(held)).desired.quarantine is None


async def test_a_lifted_one_may_fail_again(world: World, service: Service, held: Service) -> None:
    """Then it is refused as before."""
    await lift(world, bad_digest())
    await world.delivery.deliver(held.repository_id or "")
    await verdict(world, held, ok=False, instead=service.desired.digest or "")
    now = await world.get(held)
    assert (now.desired.digest, now.desired.quarantined) == (service.desired.digest, bad_digest())
    assert now.desired.quarantine is not None and now.desired.quarantine.lifted_by == ""


async def test_a_newer_commit_ends_the_hold(world: World, held: Service) -> None:
    """It is another digest; the bad one stays refused."""
    now = await push(world, held, "better")
    assert (now.desired.quarantine, now.errors) == (None, ())
    async with world.deps.store.read() as tx:
        assert await tx[DeniedRevisionStore].of_revisions([bad_digest()])


@pytest.mark.parametrize("role", [Role.VIEWER, Role.EDITOR])
async def test_lifting_needs_the_right(world: World, held: Service, role: Role) -> None:
    """A reader has none; an editor of the installation may."""
    if role is Role.EDITOR:
        await world.denials.allow(person(role), bad_digest())
        return
    with pytest.raises(Forbidden):
        await world.denials.allow(person(role), bad_digest())


async def test_a_stage_has_its_services_prove_themselves(world: World) -> None:
    """What it promotes bears its policy, before the service's own; without a pipeline, no more."""
    cluster, repository = await world.cluster(), await world.repository()
    dev = await world.service(cluster, repository, "shop")
    prod = await world.service(cluster, repository, "prod", folder="shop", verification=POLICY)
    stage = StageDraft("prod", [prod.id], verification=Verification(900, 0))
    draft = PipelineDraft("shop", [StageDraft("dev", [dev.id]), stage], [EdgeDraft("dev", "prod")])
    await world.pipelines.save(world.admin, draft)
    line = Line(world, dev, prod)
    await push(world, dev, "1")
    await world.report(dev)
    await line.settle()
    now = await world.get(prod)
    assert (now.desired.generation, now.effective_verification) == (1, Verification(900, 0))
    await world.pipelines.delete(world.admin, (await line.view()).row.id)
    assert (await world.get(prod)).effective_verification == POLICY


@pytest.mark.parametrize(
    "policy",
    [
        Verification(30 * 86_400 + 1),
        Verification(-1),
        Verification(60, -1),
        Verification(60, 0, MetricCheck("", "up", 1)),
        Verification(60, 0, MetricCheck("m/p:9090", "x" * 5_000, 1)),
    ],
)
async def test_policies_that_cannot_be_are_refused(
    world: World, service: Service, policy: Verification
) -> None:
    """The field is named."""
    with pytest.raises(Invalid) as raised:
        await world.services.update(world.admin, service.id, ServiceChange(verification=policy))
    assert (raised.value.field or "").startswith("verification")


async def _repository(world: World, service: Service) -> Any:
    async with world.deps.store.read() as tx:
        return await tx[RepositoryStore].get(service.repository_id or "")


def _refused(revision: str, world: World) -> DeniedRevision:
    return DeniedRevision.of(revision, None, SYSTEM.name, "odd", world.clock.now())


async def test_restarts_while_it_soaks_stop_a_release(world: World, service: Service) -> None:
    """The agent counts them: what has failed there never gets past the gate."""
    prod = await world.service(await world.cluster("prod"), await _repository(world, service))
    stages = [StageDraft("dev", [service.id]), StageDraft("prod", [prod.id])]
    soak = EdgeDraft("dev", "prod", [GateDraft("soak", SoakRule(120))])
    await world.pipelines.save(world.admin, PipelineDraft("shop", stages, [soak]))
    line = Line(world, service, prod)
    bad = await push(world, service, "bad")
    await world.report(bad)
    await line.settle()
    (waiting,) = (await line.view()).state.candidates.values()
    (gate,) = waiting.gates.values()
    assert "soaking until" in gate.reason
    await verdict(world, bad, ok=False, instead=service.desired.digest or "")
    await world.clock.advance(600)
    await line.settle()
    now = await world.get(prod)
    assert now.desired.digest != bad_digest()
    assert bad_digest() in (await line.view()).state.known_bad


async def test_a_global_service_hands_its_policy_on(world: World) -> None:
    """To those that there are and to those that come; agents hear of a change."""
    cluster, repository = await world.cluster(), await world.repository()
    targets = GeneratorReconciler(world.deps)
    globals = GlobalServices(world.deps, targets)
    given = ServiceChange(None, None, repository.id, "main", "shop", verification=POLICY)
    template = replace(given, name="shop", namespace="shop")
    change = GlobalChange(name="everywhere", template=template)
    one = await globals.create(world.admin, change)
    key = f"{OwnerKind.GLOBAL.value}/{one.id}"
    await targets.reconcile(key)
    await world.repositories.update_followed_refs(repository.id)
    made = await push(
        world, await world.services.get_by_name(world.admin, cluster.handle, "shop"), "1"
    )
    assert (made.effective_verification, made.desired.generation) == (POLICY, 1)
    stricter = replace(POLICY, max_restarts=0)
    change = GlobalChange(template=ServiceChange(verification=stricter))
    await globals.update(world.admin, one.id, change)
    await targets.reconcile(key)
    after = await world.get(made)
    assert (after.effective_verification, after.desired.generation) == (stricter, 2)
