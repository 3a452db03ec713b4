"""Gates that find something out, against real servers: Prometheus, HTTP, jobs, versions, fleets."""

import asyncio
import base64
import hashlib
import hmac
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta

import orjson
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from controlplane.access.ports import RoleBindingStore
from controlplane.agents.ports import ClusterJobStore
from controlplane.authorization import INSTALLATION, Actor, Grant, Policy, ResourceKind, Scope, Verb
from controlplane.authorization.roles import BuiltInRole as Role
from controlplane.authorization.roles import Role as AccessRole
from controlplane.authorization.roles import Rule as AccessRule
from controlplane.clusters.model.selectors import Selector
from controlplane.clusters.operations.clusters import ClusterChange
from controlplane.clusters.operations.groups import ClusterGroupChange, ClusterGroups
from controlplane.clusters.ports import ClusterStore
from controlplane.kinds import all_kinds
from controlplane.manifests.model.documents import Source
from controlplane.manifests.operations.what_if import ManifestReplays
from controlplane.pipelines.engine import effects as fx
from controlplane.pipelines.gates.kinds import (
    ApprovalRule,
    ExternalRule,
    HttpRule,
    JobRule,
    MetricRule,
    SoakRule,
    VersionRule,
    WorkflowRule,
)
from controlplane.pipelines.gates.kinds.metric import SeriesPolicy
from controlplane.pipelines.model.gate_rules import GateRule, Patience, Step
from controlplane.pipelines.model.pipeline import ServiceSelector, Verification
from controlplane.pipelines.model.rollout import Progress, Rollout, Strategy
from controlplane.pipelines.model.state import GateState, GateStatus, Health, StageState
from controlplane.pipelines.operations.drafts import EdgeDraft, GateDraft, PipelineDraft, StageDraft
from controlplane.pipelines.operations.engine_runner import CHECK, PROMOTE, RENDER, TICK
from controlplane.pipelines.operations.gate_checks import CheckRunner
from controlplane.pipelines.operations.views import PipelineView
from controlplane.pipelines.operations.what_if import PipelineReplays
from controlplane.platform.outbound.outbound import GuardedSender
from controlplane.platform.ports import JobStore
from controlplane.repositories.ports import RepositoryStore
from controlplane.services.model.service import Service
from controlplane.services.operations.services import ServiceChange
from controlplane.services.ports import LiveObjects
from core.errors import Conflict, Forbidden, Invalid, NotFound
from core.spec.jobs import JobPhase
from core.spec.reports.report import Report
from core.spec.status import Phase, Problem
from core.spec.thresholds import Comparison
from core.spec.verification import VerificationResult
from tests.fakes.manifest_world import document, kind_operations
from tests.fakes.manifests import config_map
from tests.integration.controlplane.conftest import World, person
from tests.servers.prometheus import Prometheus, find_prometheus

SECRET = "whsec_" + base64.b64encode(b"s" * 32).decode()
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "migrate"},
    "spec": {"containers": [{"name": "main", "args": ["${release}", "$HOME"]}]},
}


@pytest.fixture(scope="module")
def prometheus() -> Iterator[Prometheus]:
    program = find_prometheus()
    if program is None:
        pytest.skip("no prometheus on this machine: your system's package manager has it")
    with Prometheus(program) as server:
        yield server


@dataclass
class Answering:
    """A server that returns the given answers and records its requests."""

    url: str = ""
    status: int = 200
    text: str = "all green"
    together: asyncio.Barrier = field(default_factory=lambda: asyncio.Barrier(1))
    got: list[tuple[dict[str, str], bytes]] = field(default_factory=list)

    async def take(self, request: web.Request) -> web.Response:
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.got.append((headers, await request.read()))
        await self.together.wait()
        return web.Response(status=self.status, text=self.text)


@pytest.fixture
async def server() -> AsyncIterator[Answering]:
    one, app = Answering(), web.Application()
    app.router.add_route("*", "/{path:.*}", one.take)
    async with TestServer(app, host="127.0.0.1") as running:
        one.url = f"http://127.0.0.1:{running.port}/hook"
        yield one


class Stand:
    """dev → prod, with a worker for everything that the engine asks for."""

    def __init__(self, world: World, live: LiveObjects | None = None) -> None:
        self.world = world
        self.outward = GuardedSender(("127.0.0.0/8",))
        self.checks = CheckRunner(
            world.deps, world.pipelines.engine, world.jobs, self.outward, live
        )
        self.services: dict[str, list[Service]] = {}

    async def fleet(self, prod: int = 1) -> None:
        """A service in dev, and one in each of so many clusters of prod."""
        repository = await self.world.repository()
        for stage, count in (("dev", 1), ("prod", prod)):
            self.services[stage] = []
            for number in range(count):
                change = ClusterChange(name=f"{stage}-{number}", tags={"stage": stage})
                cluster, _ = await self.world.clusters.create(self.world.admin, change)
                service = await self.world.service(cluster, repository, "shop", folder=stage)
                self.services[stage].append(service)

    async def save(
        self, *rules: GateRule, stage: StageDraft | None = None, **patience: int
    ) -> None:
        gates = [GateDraft(f"gate {n}", rule, Patience(**patience)) for n, rule in enumerate(rules)]
        prod = stage or StageDraft("prod", [one.id for one in self.services["prod"]])
        draft = PipelineDraft(
            "shop",
            [StageDraft("dev", [self.services["dev"][0].id]), prod],
            [EdgeDraft("dev", "prod", gates)],
        )
        await self.world.pipelines.save(self.world.admin, draft)

    async def push(self, value: str = "1") -> None:
        objects = [config_map("a", v=value)]
        repository = self.services["dev"][0].repository_id or ""
        self.world.manifests.push(repository, {"dev": objects, "prod": objects})
        await self.world.delivery.deliver(repository)
        await self.world.report(self.services["dev"][0])
        await self.settle()

    async def settle(self) -> None:
        world = self.world
        work = {
            RENDER: world.promotions.render,
            PROMOTE: world.promotions.promote,
            CHECK: self.checks.run,
            TICK: world.promotions.tick,
        }
        await world.pipelines.engine.advance((await self.view()).row.id)
        for _ in range(30):
            async with world.deps.store.write() as tx:
                jobs = await tx[JobStore].claim(work, "test", world.clock.now(), 100)
            await asyncio.gather(*(work[job.kind](job) for job in jobs))
            async with world.deps.store.write() as tx:
                for job in jobs:
                    await tx[JobStore].finish(job)
            if not jobs:
                return

    async def view(self) -> PipelineView:
        return await self.world.pipelines.get(self.world.admin, None, "shop")

    async def gate(self) -> GateState:
        """The first gate, as it is for what waits; open if nothing does."""
        view = await self.view()
        (edge,) = view.spec.edges
        candidate = view.state.candidates.get(edge.id)
        if candidate is None:
            return GateState(GateStatus.OPEN)
        return candidate.gates[edge.gates[0].id]

    async def prod(self) -> StageState:
        view = await self.view()
        return view.state.stages[view.spec.stages[1].id]

    async def waiting(self) -> tuple[str, str]:
        """The gate, and the release that waits there."""
        view = await self.view()
        (edge,) = view.spec.edges
        return edge.gates[0].id, view.state.candidates[edge.id].release

    async def deployed(self) -> list[bool]:
        """Whether each service of prod was given anything."""
        rows = [await self.world.get(one) for one in self.services["prod"]]
        return [one.desired.generation > 0 for one in rows]


@pytest.fixture
async def stand(world: World) -> AsyncIterator[Stand]:
    one = Stand(world)
    await one.fleet()
    yield one
    await one.outward.close()


def metric(prometheus: Prometheus, query: str, threshold: float = 1, **more: object) -> MetricRule:
    return replace(MetricRule(query, threshold, url=prometheus.url), **more)


@pytest.mark.parametrize(
    ("query", "more", "passes", "message"),
    [
        ("vector(0.5)", {}, True, "0.5, wanted at most 1"),
        ("vector(1.5)", {}, False, "1.5, wanted at most 1"),
        ("1 + 1", {"comparison": Comparison.ABOVE}, True, "2, wanted above 1"),
        ("vector(0) / 0", {}, False, "NaN"),
        ("vector(1) / 0", {}, False, "inf"),
        ("absent(vector(1))", {}, False, "no series"),
        ("absent(vector(1))", {"empty_passes": True}, True, ""),
        ("vector(0) or label_replace(vector(2), 'a', 'b', '', '')", {}, False, "0, 2"),
        (
            "vector(0) or label_replace(vector(2), 'a', 'b', '', '')",
            {"several": SeriesPolicy.ANY},
            True,
            "",
        ),
        (
            "vector(0) or label_replace(vector(2), 'a', 'b', '', '')",
            {"several": SeriesPolicy.ERROR},
            False,
            "2 series",
        ),
        ("vector(11)", {"baseline": "vector(10)"}, False, "1.1 of the baseline"),
        ("vector(9)", {"baseline": "vector(10)"}, True, ""),
        ("vector(9)", {"baseline": "vector(0)"}, False, "baseline"),
        ("vector(9)", {"baseline": "absent(vector(1))"}, False, "nothing"),
        ("sum(", {}, False, "query fails"),
        ("vector(1)[5m:1m]", {}, False, "ranges"),
    ],
)
async def test_a_metric_as_a_real_prometheus_answers_it(
    stand: Stand, prometheus: Prometheus, query: str, more: dict, passes: bool, message: str
) -> None:
    await stand.save(metric(prometheus, query, **more))
    await stand.push()
    assert await stand.deployed() == [passes]
    assert passes or message in (await stand.gate()).reason


async def test_metric_results_are_stored_with_their_gate(
    stand: Stand, prometheus: Prometheus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each answer with its release, failed ones too; numbers that are none are not kept; of many
    the newest stay, also when the pipeline is saved anew, and none outlives its gate."""
    world = stand.world
    monkeypatch.setattr("controlplane.pipelines.operations.engine_runner.MAX_MEASURED", 2)
    twice = "vector(1) / 0 or label_replace(vector(2), 'a', 'b', '', '')"
    seen = []
    for release, query in enumerate(("vector(1.5)", twice, "vector(0.5)"), 1):
        await stand.save(metric(prometheus, query))
        await stand.push(str(release))
        gate = (await stand.view()).spec.edges[0].gates[0].id
        seen.append(
            [
                (one.release, one.passed, one.values)
                for one in await world.pipelines.measurements(gate)
            ]
        )
    first, second, third = (1, False, (1.5,)), (2, False, (2.0,)), (3, True, (0.5,))
    assert seen == [[first], [first, second], [second, third]]
    rows = await world.pipelines.readable_measurements(world.admin, gate)
    assert [(one.release, one.passed, one.values) for one in rows] == [second, third]
    stranger = person(Role.VIEWER, scope=Scope("project:other"))
    for actor, asked in ((stranger, gate), (stranger, "absent"), (world.admin, "absent")):
        with pytest.raises(NotFound, match="could not find resource"):
            await world.pipelines.readable_measurements(actor, asked)
    await world.pipelines.delete(world.admin, (await stand.view()).row.id)
    assert await world.pipelines.measurements(gate) == ()


async def test_a_metric_of_a_cluster_is_asked_as_who_saved_the_pipeline(world: World) -> None:
    """Through the API server's proxy of services; and no longer once they have left."""
    asked: list[tuple[str, str, str]] = []

    class Live:
        async def read(self, actor, handle: str, path: str):
            asked.append((actor.email, handle, path))
            value = {"metric": {}, "value": [1, "0.2"]}
            return {"status": "success", "data": {"resultType": "vector", "result": [value]}}

    stand = Stand(world, Live())
    await stand.fleet()
    user = await world.people.upsert(world.admin, "root@example.org")
    world.admin = replace(world.admin, id=user.id)
    cluster = stand.services["prod"][0].cluster_id
    await stand.save(MetricRule("up", 1, cluster_id=cluster, service="monitoring/prom:9090"))
    await stand.push()
    path = "/api/v1/namespaces/monitoring/services/prom:9090/proxy/api/v1/query?query=up"
    assert asked == [("root@example.org", "prod-0", path)]
    assert await stand.deployed() == [True]
    await stand.outward.close()


async def test_an_http_check_is_signed_and_says_what_is_asked(
    stand: Stand, server: Answering
) -> None:
    await stand.save(HttpRule(server.url, contains="green", sealed=SECRET))
    await stand.push()
    ((headers, body),) = server.got
    request = orjson.loads(body)
    assert (request["pipeline"], request["stage"]) == ("shop", "prod")
    assert request["digests"].keys() == {stand.services["prod"][0].id}
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    wanted = base64.b64encode(hmac.new(b"s" * 32, signed, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{wanted}"
    assert await stand.deployed() == [True]
    assert SECRET not in str((await stand.view()).row.spec)


@pytest.mark.parametrize(("status", "text"), [(500, "green"), (200, "red"), (301, "green")])
async def test_another_answer_over_http_stops_the_release(
    stand: Stand, server: Answering, status: int, text: str
) -> None:
    server.status, server.text = status, text
    await stand.save(HttpRule(server.url, contains="green"))
    await stand.push()
    assert (await stand.gate()).status is GateStatus.CLOSED
    assert await stand.deployed() == [False]


async def test_not_yet_is_asked_again(stand: Stand, server: Answering) -> None:
    server.status = 202
    await stand.save(HttpRule(server.url))
    await stand.push()
    assert "not ready yet" in (await stand.gate()).reason
    server.status = 200
    await stand.world.clock.advance(15)
    await stand.settle()
    assert await stand.deployed() == [True]


async def test_a_private_address_is_not_asked(stand: Stand, server: Answering) -> None:
    """Without the operator's leave a gate reaches nothing inside."""
    stand.checks = CheckRunner(
        stand.world.deps, stand.world.pipelines.engine, stand.world.jobs, GuardedSender()
    )
    await stand.save(HttpRule(server.url), timeout_seconds=60)
    await stand.push()
    assert "private address" in (await stand.gate()).reason
    assert server.got == []


async def end_job(stand: Stand, phase: JobPhase, **more: object) -> None:
    world = stand.world
    async with world.deps.store.write() as tx:
        (job,) = [one for one in await tx[ClusterJobStore].all() if not one.phase.final]
        await tx[ClusterJobStore].put(replace(job, phase=phase, **more))
    assert await world.pipelines.engine.pipeline_of_job(job.id) == (await stand.view()).row.id
    await stand.settle()


async def test_a_job_runs_once_in_the_cluster_and_hands_its_outputs_on(stand: Stand) -> None:
    """The next step's manifest has the outputs of the first job; a shell's variables stay."""
    second = {**POD, "spec": {"containers": [{"name": "x", "args": ["${steps.one.IMAGE}"]}]}}
    steps = (Step("one", JobRule("ops", POD)), Step("two", JobRule("ops", second), ("one",)))
    await stand.save(WorkflowRule(steps))
    await stand.push()
    await stand.settle()
    async with stand.world.deps.store.read() as tx:
        (job,) = await tx[ClusterJobStore].all()
    _, release = await stand.waiting()
    assert job.manifest["spec"]["containers"][0]["args"] == [release, "$HOME"]
    assert (await stand.gate()).checks["one"].job_id == job.id
    await end_job(stand, JobPhase.SUCCEEDED, outputs={"main": "IMAGE=shop:1.2\nx"})
    async with stand.world.deps.store.read() as tx:
        args = [
            one.manifest["spec"]["containers"][0]["args"] for one in await tx[ClusterJobStore].all()
        ]
    assert ["shop:1.2"] in args
    await end_job(stand, JobPhase.SUCCEEDED)
    assert await stand.deployed() == [True]


async def test_a_job_that_fails_stops_the_release(stand: Stand) -> None:
    await stand.save(JobRule("ops", POD))
    await stand.push()
    await end_job(stand, JobPhase.FAILED, exit_code=3, message="no table orders")
    assert "exit code 3: no table orders" in (await stand.gate()).reason
    assert await stand.deployed() == [False]


async def test_a_stages_own_job_runs_once_its_services_are_healthy(stand: Stand) -> None:
    """Its cluster is that of the stage; what it asks people is bound to what runs there."""
    steps = (Step("test", JobRule("ops", POD)), Step("sign", ApprovalRule(), ("test",)))
    workflow = GateDraft("prod workflow", WorkflowRule(steps))
    prod = [one.id for one in stand.services["prod"]]
    await stand.save(stage=StageDraft("prod", prod, workflow=workflow))
    await stand.push()
    async with stand.world.deps.store.read() as tx:
        assert await tx[ClusterJobStore].all() == []
    await stand.world.report(stand.services["prod"][0])
    await stand.settle()
    assert (await stand.prod()).health is Health.PROGRESSING
    await end_job(stand, JobPhase.SUCCEEDED)
    held, (_, gate) = await stand.prod(), (await stand.view()).spec.all_gates[0]
    assert held.reason == "its workflow: sign: waiting for approval"
    other = dict.fromkeys(held.revisions, "other")
    with pytest.raises(Conflict, match="the release has changed since it was shown"):
        await stand.world.decisions.approve(stand.world.admin, gate.id, other)
    digests = {id: one.digest for id, one in held.revisions.items()}
    await stand.world.decisions.approve(stand.world.admin, gate.id, digests)
    assert (await stand.prod()).verified
    stand.world.admin = person(Role.VIEWER, "eve")
    with pytest.raises(Forbidden):
        await stand.save(stage=StageDraft("prod", prod, workflow=workflow))


async def test_a_job_needs_the_right_to_run_one_there(stand: Stand) -> None:
    """A user who may only change pipelines runs nothing in clusters by a gate."""
    role = person(Role.VIEWER, "eve")
    stand.world.admin = role
    with pytest.raises(Forbidden):
        await stand.save(JobRule("ops", POD))


async def beside_shop(stand: Stand, name: str, version: str) -> Service:
    """A further service in the cluster of prod."""
    world = stand.world
    async with world.deps.store.read() as tx:
        prod = await tx[ClusterStore].get(stand.services["prod"][0].cluster_id)
    assert prod is not None
    repository = await world.repository(f"https://git.example.org/{name}.git")
    return await world.service(prod, repository, name, version=version)


async def make_healthy(stand: Stand, service: Service) -> None:
    world, repository = stand.world, service.repository_id or ""
    world.manifests.push(repository, {service.name: [config_map(service.name)]})
    await world.delivery.deliver(repository)
    await world.report(service)


async def stored_admin(stand: Stand) -> Actor:
    """An administrator with an account, which a check looks up."""
    user = await stand.world.people.upsert(stand.world.admin, "bo@example.org", "Bo", Role.ADMIN)
    return await stand.world.identity.actor_of(user.id)


async def test_another_services_version_is_waited_for(stand: Stand) -> None:
    """shop waits until db is healthy with 2.x in the same cluster."""
    world = stand.world
    db = await beside_shop(stand, "db", "1.9.0")
    world.admin = await stored_admin(stand)
    await stand.save(VersionRule("db", ">=2.0.0"))
    await stand.push()
    assert "db has version 1.9.0" in (await stand.gate()).reason
    await world.services.update(world.admin, db.id, ServiceChange(version="2.0.1"))
    await make_healthy(stand, db)
    await world.clock.advance(15)
    await stand.settle()
    assert await stand.deployed() == [True]


async def test_a_version_is_read_with_the_owners_present_permissions(stand: Stand) -> None:
    """A pipeline tells nobody about a service that its owner may not read."""
    world = stand.world
    await make_healthy(stand, await beside_shop(stand, "db", "2.0.1"))
    owner = await stored_admin(stand)
    keep, world.admin = world.admin, owner
    await stand.save(VersionRule("db", ">=2.0.0"))
    world.admin = keep
    async with world.deps.store.write() as tx:
        (binding,) = await tx[RoleBindingStore].of_subjects([owner.id])
        await tx[RoleBindingStore].remove(binding.id)
    await stand.push()
    assert "have no service db" in (await stand.gate()).reason
    async with world.deps.store.write() as tx:
        await tx[RoleBindingStore].add(binding)
    await world.clock.advance(15)
    await stand.settle()
    assert await stand.deployed() == [True]


async def test_independent_gates_are_asked_at_the_same_time(
    stand: Stand, server: Answering
) -> None:
    """None of ten servers answers before all of them have been asked."""
    server.together = asyncio.Barrier(10)
    await stand.save(*[HttpRule(f"{server.url}/{n}") for n in range(10)])
    async with asyncio.timeout(30):
        await stand.push()
    assert await stand.deployed() == [True]


async def test_only_the_named_account_answers_at_an_external_gate(stand: Stand) -> None:
    await stand.save(ExternalRule("ci@example.org"))
    await stand.push()
    gate, release = await stand.waiting()
    with pytest.raises(Conflict, match="only the account"):
        await stand.world.decisions.answer(stand.world.admin, gate, release, True)
    await stand.world.decisions.answer(person(Role.VIEWER, "ci"), gate, release, True, "412 tests")
    await stand.settle()
    assert await stand.deployed() == [True]


async def test_skipping_is_a_right_of_its_own(stand: Stand) -> None:
    await stand.save(ApprovalRule())
    await stand.push()
    gate, release = await stand.waiting()
    with pytest.raises(Forbidden):
        await stand.world.decisions.skip(person(Role.EDITOR, "bo"), gate, release, "fire")
    with pytest.raises(Invalid):
        await stand.world.decisions.skip(stand.world.admin, gate, release, " ")
    await stand.world.decisions.skip(stand.world.admin, gate, release, "fire")
    await stand.settle()
    assert await stand.deployed() == [True]


async def test_stopping_the_line_and_letting_it_run_are_two_rights(stand: Stand) -> None:
    """An on-call user may stop the line, and not more."""
    await stand.save(ApprovalRule())
    await stand.push()
    pipelines, id = stand.world.pipelines, (await stand.view()).row.id
    rule = AccessRule((Verb.READ, Verb.PAUSE), (ResourceKind.PIPELINE,))
    on_call = person(Role.VIEWER, "cy")
    policy = Policy((Grant(AccessRole("calls", "calls", rules=(rule,)), INSTALLATION),))
    on_call = replace(on_call, policy=policy)
    with pytest.raises(Forbidden):
        await pipelines.pause(person(Role.VIEWER, "eve"), id)
    await pipelines.pause(on_call, id, "alarm")
    decisions = stand.world.decisions
    for refused in (pipelines.resume(on_call, id), decisions.retry(on_call, id, "prod")):
        with pytest.raises(Forbidden):
            await refused
    with pytest.raises(Conflict, match="not rolling out"):
        await stand.world.decisions.abort(on_call, id, "dev")
    await pipelines.resume(person(Role.EDITOR, "bo"), id)
    assert (await stand.view()).state.paused is None


async def test_a_refused_commit_moves_nowhere_until_it_is_lifted(stand: Stand) -> None:
    await stand.save()
    repository = stand.services["dev"][0].repository_id or ""
    objects = [config_map("a", v="1")]
    sha = stand.world.manifests.push(repository, {"dev": objects, "prod": objects})
    await stand.world.denials.deny(stand.world.admin, sha, "loses orders")
    await stand.world.delivery.deliver(repository)
    await stand.world.report(stand.services["dev"][0])
    await stand.settle()
    assert await stand.deployed() == [False]
    assert (await stand.world.get(stand.services["dev"][0])).desired.quarantined == sha
    await stand.world.denials.allow(stand.world.admin, sha)
    await stand.world.delivery.deliver(repository)
    await stand.world.report(stand.services["dev"][0])
    await stand.settle()
    assert await stand.deployed() == [True]


def chosen(rollout: Rollout) -> StageDraft:
    selector = ServiceSelector(("shop",), Selector(tags={"stage": "prod"}))
    return StageDraft("prod", selector=selector, rollout=rollout)


async def test_a_selector_chooses_services_and_waves_follow_health(world: World) -> None:
    """Five clusters in waves of two; a sixth that joins takes the next release."""
    stand = Stand(world)
    await stand.fleet(5)
    await stand.save(stage=chosen(Rollout(Strategy.WAVES, wave_size=2)))
    await stand.push()
    assert await stand.deployed() == [True, True, False, False, False]
    for number in range(5):
        await world.report(stand.services["prod"][number])
        await stand.settle()
    held = await stand.prod()
    assert (held.health, set(held.progress.values())) == (Health.HEALTHY, {Progress.HEALTHY})
    change = ClusterChange(name="prod-9", tags={"stage": "prod"})
    cluster, _ = await world.clusters.create(world.admin, change)
    async with world.deps.store.read() as tx:
        repository = await tx[RepositoryStore].get(stand.services["dev"][0].repository_id or "")
    assert repository is not None
    late = await world.service(cluster, repository, "shop", folder="prod", promoted=True)
    stand.services["prod"].append(late)
    await stand.settle()
    assert (await stand.deployed())[-1] is False
    await stand.push("2")
    for number in range(6):
        await world.report(stand.services["prod"][number])
        await stand.settle()
    assert all(await stand.deployed())


async def test_a_selector_that_matches_nothing_says_so(stand: Stand) -> None:
    selector = ServiceSelector(("shop",), Selector(tags={"stage": "mars"}))
    await stand.save(stage=StageDraft("prod", selector=selector))
    await stand.push()
    view = await stand.view()
    (candidate,) = view.state.candidates.values()
    assert candidate.reason == "the selector of stage prod matches no service"


async def test_a_group_by_which_a_roll_out_goes_is_there_and_stays(stand: Stand) -> None:
    """Without it all clusters would be of one wave."""
    world, groups = stand.world, ClusterGroups(stand.world.deps)
    with pytest.raises(Invalid, match="cluster group nowhere does not exist"):
        await stand.save(stage=chosen(Rollout(Strategy.WAVES, groups=("nowhere",))))
    group = await groups.create(world.admin, ClusterGroupChange(name="eu"))
    await stand.save(stage=chosen(Rollout(Strategy.WAVES, groups=(group.id,))))
    with pytest.raises(Conflict, match="pipeline 'shop' selects clusters by this group"):
        await groups.delete(world.admin, group.id)


async def test_the_freeze_of_a_group_stops_it_there_only(world: World) -> None:
    stand = Stand(world)
    await stand.fleet(3)
    groups = ClusterGroups(world.deps)
    change = ClusterGroupChange(name="eu", cluster_ids=[stand.services["prod"][1].cluster_id])
    group = await groups.create(world.admin, change)
    await groups.freeze(world.admin, group.id, "sale")
    await stand.save(stage=chosen(Rollout(Strategy.WAVES, wave_size=3)))
    await stand.push()
    assert await stand.deployed() == [True, False, True]
    await groups.unfreeze(world.admin, group.id)
    await stand.settle()
    assert await stand.deployed() == [True, True, True]


async def test_a_release_that_fails_its_verification_is_rolled_back(stand: Stand) -> None:
    prod = stand.services["prod"][0]
    stage = StageDraft("prod", [prod.id], verification=Verification(600))
    await stand.save(stage=stage)
    await stand.push("1")
    await stand.world.report(prod)
    await stand.settle()
    await stand.world.clock.advance(600)
    await stand.settle()
    good = await stand.world.get(prod)
    await stand.push("2")
    bad = await stand.world.get(prod)
    assert bad.desired.digest != good.desired.digest
    await stand.world.report(prod, Phase.FAILED, (Problem("crash loop"),))
    await stand.settle()
    assert (await stand.world.get(prod)).desired.digest == good.desired.digest
    assert "crash loop" in (await stand.prod()).hold
    assert [row.revision for row in await stand.world.denials.all(stand.world.admin)] == [
        bad.desired.digest
    ]


async def test_a_cluster_that_went_back_by_itself_takes_its_stage_with_it(world: World) -> None:
    """One agent of two has found the release bad; the other cluster goes back as well."""
    stand = Stand(world)
    await stand.fleet(2)
    ids = [one.id for one in stand.services["prod"]]
    await stand.save(stage=StageDraft("prod", ids, verification=Verification(600)))
    await stand.push("1")
    for one in stand.services["prod"]:
        await world.report(one)
    await stand.settle()
    await world.clock.advance(600)
    await stand.settle()
    good = [(await world.get(one)).desired.digest for one in stand.services["prod"]]
    await stand.push("2")
    first = await world.get(stand.services["prod"][0])
    async with world.deps.store.read() as tx:
        cluster = await tx[ClusterStore].get(first.cluster_id)
    assert cluster is not None and first.desired.digest is not None
    body = VerificationResult(
        first.id, first.desired.generation, first.desired.digest, False, "error rate 7 %", ""
    )
    await world.agents.record_reports(
        cluster.id, [Report(cluster.acknowledged + 1, world.clock.now(), body)]
    )
    await stand.settle()
    assert [(await world.get(one)).desired.digest for one in stand.services["prod"]] == good
    assert "error rate 7 %" in (await stand.prod()).hold


async def test_pipelines_that_promote_in_a_circle_are_refused(stand: Stand) -> None:
    await stand.save()
    dev, prod = stand.services["dev"][0], stand.services["prod"][0]
    draft = PipelineDraft(
        "back",
        [StageDraft("a", [prod.id]), StageDraft("b", [dev.id])],
        [EdgeDraft("a", "b")],
    )
    with pytest.raises(Invalid, match="in a cycle: .*shop"):
        await stand.world.pipelines.save(stand.world.admin, draft)


def test_every_effect_that_is_work_has_a_worker() -> None:
    kinds = {fx.RenderStage, fx.Promote, fx.RunCheck, fx.WakeAt, fx.FollowChange, fx.WriteFinding}
    without_worker = {fx.OpenGate, fx.Notify, fx.EventIgnored}
    assert kinds | without_worker == set(fx.Effect.__args__)


async def test_a_past_week_is_replayed_with_other_gates(stand: Stand) -> None:
    """With an approval that nobody gave, the release would not have moved; as it was, it did."""
    clock = stand.world.clock
    await stand.save(SoakRule(60))
    begun = clock.now()
    await stand.push("1")
    await clock.advance(60)
    await stand.settle()
    await stand.world.report(stand.services["prod"][0])
    await stand.settle()
    view = await stand.view()
    whatifs = PipelineReplays(stand.world.deps, stand.world.pipelines)
    kinds = all_kinds(kind_operations(stand.world.deps))
    manifests = ManifestReplays(stand.world.deps, kinds, whatifs)
    rules = {
        SoakRule(60): {"kind": "SOAK", "soakSeconds": 60},
        SoakRule(10): {"kind": "SOAK", "soakSeconds": 10},
        ApprovalRule(): {"kind": "APPROVAL"},
    }
    promoted = begun + timedelta(seconds=60)
    for rule, would in (
        (SoakRule(60), promoted),
        (SoakRule(10), begun + timedelta(seconds=10)),
        (ApprovalRule(), None),
    ):
        draft = PipelineDraft("x", [], [EdgeDraft("dev", "prod", [GateDraft("gate 0", rule)])])
        until = clock.now() + timedelta(seconds=1)
        replay = await whatifs.run(stand.world.admin, view.row.id, draft, begun, until)
        (step,) = replay.steps
        assert (step.stage, step.was, step.would) == ("prod", promoted, would)
        assert [one.reason for one in replay.waiting] == ([] if would else ["waiting for gate 0"])
        edge = {
            "source": "dev",
            "target": "prod",
            "gates": [{"name": "gate 0", "rule": rules[rule]}],
        }
        text = document("Pipeline", view.row.name, {"stages": [], "edges": [edge]})
        source = Source("shop.yaml", text)
        assert await manifests.run(stand.world.admin, source, begun, until) == replay
