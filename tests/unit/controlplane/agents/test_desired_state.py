"""Connections of agents: the rows that one leaves, and the desired state that it brings back."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

import orjson
import pytest

from controlplane.access.model.bindings import Project
from controlplane.agents.model.jobs import ClusterJob
from controlplane.agents.operations.agents import AgentOperations
from controlplane.agents.operations.sessions import AgentConnected, AgentHello
from controlplane.agents.ports import ClusterJobStore
from controlplane.authorization import UNRESTRICTED, DestinationRule, Fence
from controlplane.clusters.model.cluster import AgentMode, Distribution
from controlplane.clusters.model.commands import (
    UPLOADED_DIGEST,
    Command,
    CommandKind,
    CommandState,
)
from controlplane.clusters.ports import ClusterStore, CommandStore
from controlplane.platform.context import AGENT_CHANGED, CLUSTER, RENDER_SERVICES, SERVICE
from controlplane.secrets.operations.service_secrets import StoredSecrets
from controlplane.services.model.ledger import LedgerEntry, LedgerStage
from controlplane.services.model.parts import SecretValue
from controlplane.services.model.service import Service
from controlplane.services.ports import ServiceStore
from core.errors import Conflict, Forbidden, Invalid, NotFound
from core.identity import ClusterId, RepositoryId
from core.sealing import SealingKey
from core.spec.bundle import make_bundle
from core.spec.facts import ClusterFacts
from core.spec.jobs import JobPhase
from core.spec.reports.report import Report
from core.spec.status import Phase
from core.spec.sync import Removal
from tests.fakes.clock import START
from tests.fakes.manifests import config_map
from tests.fakes.operations import (
    MemoryOperations,
    make_cluster,
    make_repository,
    make_service,
    operations_over_memory,
)

KEY = SealingKey.generate()
EU, US = make_cluster("eu", project_id="shop"), make_cluster("us")
SHOP_FENCE = Fence(destinations=(DestinationRule(("shop",), "deployer", ("eu",)),))
SHOP = Project("shop", "shop", START, START, fence=SHOP_FENCE)
WEB = make_service(
    "web", EU, generation=3, digest="sha256:a", input_digest="sha256:in", project_id="shop"
)
FACTS = ClusterFacts("v1.36.3", "eks", 3, api_versions=("v1",), token_expires_at=START)
HELLO = AgentHello("instance-1", "0.1.0", FACTS, AgentMode.AUTONOMOUS, KEY.public)
POD = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"image": "busybox"}]}}
JOB = ClusterJob("j", EU.id, "k", "shop", POD, 60, True, "ada", START, project_id="shop")


@pytest.fixture
async def world() -> MemoryOperations:
    world = operations_over_memory()
    await world.given(SHOP, EU, US, make_repository("fleet"), WEB)
    return world


@pytest.fixture
def agents(world: MemoryOperations) -> AgentOperations:
    return AgentOperations(world.context)


def command(id: str, **columns: object) -> Command:
    return replace(Command(id, EU.id, CommandKind.RENDER, START), **columns)


async def test_a_connection_leaves_the_facts_of_the_agent(
    world: MemoryOperations, agents: AgentOperations
) -> None:
    await world.clock.advance(60)
    connected = await agents.record_connection(EU.id, HELLO)
    row = await world.row(ClusterStore, EU.id)
    assert row == connected.cluster and row is not None
    assert (row.agent_instance, row.agent_version, row.mode) == (
        "instance-1",
        "0.1.0",
        AgentMode.AUTONOMOUS,
    )
    assert (row.sealing_key, row.pinged_at) == (KEY.public, world.clock.now())
    assert (row.kubernetes_version, row.distribution, row.nodes, row.facts) == (
        "v1.36.3",
        Distribution.EKS,
        3,
        FACTS,
    )
    assert row.agent_token_expires_at == START
    assert await world.audited() == [("agent of eu", "agent.connect", "instance instance-1")]
    assert await world.audit_details() == [
        ("agent.connect", {"version": "0.1.0", "mode": "AUTONOMOUS"})
    ]
    odd = replace(HELLO, facts=replace(FACTS, distribution="home-made"))
    assert (await agents.record_connection(EU.id, odd)).cluster.distribution is None


async def test_only_another_instance_ends_the_session_of_a_former_one(
    world: MemoryOperations, agents: AgentOperations
) -> None:
    """Of agents that connect at the same time, the last one stays."""
    published: list[set[tuple[str, str]]] = []
    for instance in ("instance-1", "instance-1", "instance-2"):
        world.bus.published.clear()
        await agents.record_connection(EU.id, replace(HELLO, instance=instance))
        published.append({wake for wake in world.published if wake[0] != RENDER_SERVICES})
    seen, changed = (CLUSTER, "eu"), (AGENT_CHANGED, "eu")
    assert published == [{seen, changed}, {seen}, {seen, changed}]
    results = await asyncio.gather(
        *(
            agents.record_connection(ClusterId(id), replace(HELLO, instance=f"{id}-{number}"))
            for number, id in enumerate(("eu", "gone", "us", "eu"))
        ),
        return_exceptions=True,
    )
    assert [type(result) for result in results] == [
        AgentConnected,
        NotFound,
        AgentConnected,
        AgentConnected,
    ]
    assert await agents.instances([EU.id, US.id]) == {"eu": "eu-3", "us": "us-2"}
    assert await agents.instances([]) == {}


@pytest.mark.parametrize(
    ("facts", "is_marked"),
    [
        (FACTS, False),
        (replace(FACTS, nodes=9, distribution="gke"), False),
        (replace(FACTS, kubernetes_version="v1.37.0"), True),
        (replace(FACTS, api_versions=("v1", "monitoring.coreos.com/v1")), True),
    ],
)
@pytest.mark.parametrize("by_report", [False, True])
async def test_services_render_again_only_if_helm_may_see_another_cluster(
    world: MemoryOperations,
    agents: AgentOperations,
    facts: ClusterFacts,
    is_marked: bool,
    by_report: bool,
) -> None:
    await agents.record_connection(EU.id, HELLO)
    async with world.store.write() as tx:
        columns = {"repository_id": RepositoryId("fleet"), "input_digest": "sha256:in"}
        await tx[ServiceStore].change(WEB.id, **columns)
    world.bus.published.clear()
    if by_report:
        await agents.record_reports(EU.id, [Report(1, START, facts)])
    else:
        await agents.record_connection(EU.id, replace(HELLO, facts=facts))
    row = await world.row(ServiceStore, WEB.id)
    assert row is not None and (row.desired.input_digest is None) is is_marked
    assert ((RENDER_SERVICES, f"fleet/{WEB.id}") in world.published) is is_marked
    assert (CLUSTER, "eu") in world.published


async def test_the_desired_state_has_what_the_control_plane_defines(
    world: MemoryOperations, agents: AgentOperations
) -> None:
    """Deleted services until their objects are gone; none that was never rendered."""
    leaving = make_service("leaving", EU, generation=2, deleted_at=START, removal=Removal.CASCADE)
    await world.given(
        leaving,
        make_service("new", EU, generation=0),
        make_service("mirror", EU, generation=4, mirrored=True),
        make_service("theirs", US, generation=1),
        command("older", inserted_at=START - timedelta(hours=1)),
        command("waiting"),
        command("ended", state=CommandState.FAILED),
        command("theirs", cluster_id=US.id),
    )
    state = await agents.desired_state(EU.id)
    assert {service.id for service in state.services} == {WEB.id, leaving.id}
    assert {each.id for each in state.commands} == {"older", "waiting"}
    fence = state.fences[WEB.id]
    assert (fence.project, fence.service_account) == ("shop", "")
    some, others = await asyncio.gather(
        agents.desired_state(EU.id, [WEB.id, "us-theirs"]), agents.desired_state(US.id)
    )
    assert [service.id for service in some.services] == [WEB.id]
    assert [service.id for service in others.services] == ["us-theirs"]
    assert [each.id for each in others.commands] == ["theirs"]
    assert (await agents.desired_state(EU.id, [])).services == []
    connected = await agents.record_connection(EU.id, HELLO)
    assert {service.id for service in connected.desired_state.services} == {WEB.id, leaving.id}


@pytest.mark.parametrize(
    ("held", "rewound", "generation"),
    [
        (2, False, 3),
        (3, False, 3),
        (3, True, 4),
        (4, False, 5),
        (1 << 30, False, (1 << 30) + 1),
        ((1 << 30) + 1, False, 3),
        (0, True, 3),
        (-1, True, 3),
    ],
)
async def test_a_store_from_a_backup_goes_on_above_what_the_agent_has(
    world: MemoryOperations, agents: AgentOperations, held: int, rewound: bool, generation: int
) -> None:
    """A number that no control plane ever gave out moves nothing."""
    mirror = make_service("mirror", EU, generation=1, mirrored=True)
    theirs = make_service("theirs", US, generation=1)
    fresh = make_service("fresh", EU)
    await world.given(mirror, theirs, fresh)
    claims = {WEB.id: held, mirror.id: 9, theirs.id: 9, fresh.id: 9, "unknown": 9}
    await agents.catch_up_generations(EU.id, claims, rewound=rewound)
    rows = {row.id: row.desired.generation for row in await world.rows(ServiceStore)}
    assert rows == {WEB.id: generation, mirror.id: 1, theirs.id: 1, fresh.id: 0}


async def test_liveness_and_offers_are_stored_together(
    world: MemoryOperations, agents: AgentOperations
) -> None:
    at = START + timedelta(minutes=1)
    offer = LedgerEntry.of(WEB, LedgerStage.OFFERED, at)
    await agents.record_liveness({EU.id: at}, [])
    await agents.record_liveness({}, [offer])
    await agents.record_liveness({}, [])
    seen = {row.id: row.pinged_at for row in await world.rows(ClusterStore)}
    assert seen == {"eu": at, "us": None}
    assert [(row.stage, row.at) for row in await world.ledger()] == [(LedgerStage.OFFERED, at)]


async def test_a_job_goes_to_the_agent_of_its_cluster_within_its_fence(
    world: MemoryOperations, agents: AgentOperations
) -> None:
    async with world.store.write() as tx:
        await tx[ClusterJobStore].add(JOB)
    spec = await agents.job(EU.id, "j")
    assert (spec.command_id, spec.namespace, spec.manifest, spec.timeout_s, spec.follow) == (
        "j",
        "shop",
        POD,
        60,
        True,
    )
    assert spec.fence is not None and spec.fence.service_account == "shop:deployer"
    assert (spec.secrets, spec.own) == ((), False)
    owners = [await agents.owns_job(cluster.id, "j") for cluster in (EU, US)]
    assert owners == [True, False]
    for cluster_id, id in ((US.id, "j"), (EU.id, "gone")):
        with pytest.raises(NotFound, match="this job was deleted"):
            await agents.job(cluster_id, id)
    async with world.store.write() as tx:
        await tx[ClusterJobStore].change("j", namespace="bank")
    with pytest.raises(Forbidden, match="outside the fence of project 'shop'"):
        await agents.job(EU.id, "j")


async def test_the_secrets_of_a_job_are_sealed_for_its_agent(
    world: MemoryOperations, agents: AgentOperations
) -> None:
    secret = "canary-42aa-heron"
    sealed = world.context.sealer.seal(orjson.dumps({"token": secret}), "cluster-job:j")
    async with world.store.write() as tx:
        await tx[ClusterJobStore].add(replace(JOB, sealed=sealed))
    with pytest.raises(Conflict, match="upgrade it"):
        await agents.job(EU.id, "j")
    await agents.record_connection(EU.id, HELLO)
    (box,) = (await agents.job(EU.id, "j")).secrets
    assert secret not in repr(box) and KEY.open(box, "j").decode() == secret


async def test_the_secrets_of_a_service_are_sealed_for_its_agent(world: MemoryOperations) -> None:
    """A service that is deleted needs none."""

    class Kept(StoredSecrets):
        async def of(self, service: Service) -> Mapping[str, SecretValue]:
            return {"token": SecretValue("v1", b"canary-42aa-heron")}

    agents = AgentOperations(world.context, Kept(world.context))
    with pytest.raises(Conflict, match="upgrade it"):
        await agents.secrets(WEB)
    await agents.record_connection(EU.id, HELLO)
    (box,) = await agents.secrets(WEB)
    assert KEY.open(box, WEB.id) == b"canary-42aa-heron"
    assert not await agents.secrets(replace(WEB, removal=Removal.CASCADE))
    assert not await AgentOperations(world.context).secrets(WEB)


async def test_what_ended_is_kept_for_a_while(
    world: MemoryOperations, agents: AgentOperations
) -> None:
    """Commands for seven days, jobs for thirty; what waits stays."""

    def ago(days: int, seconds: int = 0) -> object:
        return world.clock.now() - timedelta(days=days, seconds=seconds)

    await world.given(
        command("old", state=CommandState.FAILED, finished_at=ago(7)),
        command("new", state=CommandState.FAILED, finished_at=ago(7, -1)),
        command("waiting", inserted_at=ago(90)),
    )
    async with world.store.write() as tx:
        for id, finished in (("old", ago(30)), ("new", ago(30, -1)), ("runs", None)):
            phase = JobPhase.FAILED if finished else JobPhase.RUNNING
            job = replace(JOB, id=id, key=id, phase=phase, finished_at=finished)
            await tx[ClusterJobStore].add(job)
    await agents.delete_finished()
    assert {row.id for row in await world.rows(CommandStore)} == {"new", "waiting"}
    assert {row.id for row in await world.rows(ClusterJobStore)} == {"new", "runs"}


@pytest.mark.parametrize(
    ("order", "is_pending"),
    [
        (command("r"), True),
        (command("r", state=CommandState.FAILED), False),
        (command("r", kind=CommandKind.SYNC_NOW, payload={"service": WEB.id}), False),
        (command("r", cluster_id=US.id), False),
        (command("another"), False),
    ],
)
async def test_an_agent_uploads_only_the_render_that_it_was_asked_for(
    world: MemoryOperations, agents: AgentOperations, order: Command, is_pending: bool
) -> None:
    """The command of another cluster, and one that has ended, stores nothing."""
    bundle = make_bundle([config_map("a")])
    await world.given(replace(order, payload={**order.payload, "box": "AA=="}))
    if is_pending:
        await agents.check_render_pending(EU.id, "r")
        with pytest.raises(Invalid):
            await agents.store_render(EU.id, "r", b"no bundle")
        assert await agents.store_render(EU.id, "r", bundle.data) == bundle.digest
        (row,) = await world.rows(CommandStore)
        assert row.payload == {"box": "AA==", UPLOADED_DIGEST: bundle.digest}
        return
    for upload in (
        agents.check_render_pending(EU.id, "r"),
        agents.store_render(EU.id, "r", bundle.data),
    ):
        with pytest.raises(NotFound, match="no command waits for this render"):
            await upload
    assert world.manifests.bundles == {}
    (row,) = await world.rows(CommandStore)
    assert UPLOADED_DIGEST not in row.payload


async def test_a_desired_state_that_cannot_be_sent_fails_visibly(
    world: MemoryOperations, agents: AgentOperations
) -> None:
    """Once for each generation, and only for a service of the cluster."""
    await agents.record_unsent_state(US.id, WEB.id, 3, "of another cluster")
    await agents.record_unsent_state(EU.id, WEB.id, 3, "its fence is gone")
    await agents.record_unsent_state(EU.id, WEB.id, 3, "again")
    row = await world.row(ServiceStore, WEB.id)
    assert row is not None
    assert (row.observed.phase, row.observed.observed_generation) == (Phase.FAILED, 3)
    assert [problem.message for problem in row.observed.problems] == ["its fence is gone"]
    assert row.observed.observed_at == world.clock.now()
    (entry,) = await world.ledger()
    assert (entry.stage, entry.message, entry.digest) == (
        LedgerStage.FAILED,
        "its fence is gone",
        "sha256:a",
    )
    assert world.published == [(SERVICE, WEB.id)]


async def test_a_command_that_cannot_be_sent_is_refused_once(
    world: MemoryOperations, agents: AgentOperations
) -> None:
    sync = command("c", kind=CommandKind.SYNC_NOW, service_id=WEB.id, payload={"service": WEB.id})
    await world.given(sync)
    await agents.reject_command(US.id, sync, "of another cluster")
    await agents.reject_command(EU.id, sync, "too large")
    (row,) = await world.rows(CommandStore)
    assert (row.state, row.message) == (CommandState.REFUSED, "not sent: too large")
    assert (SERVICE, WEB.id) in world.published
    assert len(await world.audited()) == 1


async def test_a_project_of_which_everything_is_allowed_leaves_no_rules(
    world: MemoryOperations, agents: AgentOperations
) -> None:
    opened = replace(SHOP, id="open", name="open", fence=UNRESTRICTED)
    await world.given(opened, make_service("free", EU, generation=1, project_id="open"))
    fences = (await agents.desired_state(EU.id)).fences
    assert (fences["eu-free"].rules, len(fences[WEB.id].rules)) == ((), 1)
