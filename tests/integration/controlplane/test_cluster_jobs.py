"""Jobs of clusters: asked for once, sealed to the agent, their end kept; and who may."""

import asyncio

import pytest

from controlplane.agents.model.jobs import JobRequest
from controlplane.agents.ports import ClusterJobStore
from controlplane.authorization.roles import BuiltInRole as Role
from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.ports import CommandStore
from core.errors import Conflict, Forbidden, Invalid, NotFound
from core.identity import ClusterId
from core.runtime.clock import SystemClock
from core.spec.jobs import JobPhase
from core.spec.reports.commands import CommandAnswer, CommandOutcome
from core.spec.reports.report import Report
from core.spec.sealed_secrets import SealedSecret
from core.wire.report_codec import report_from_message
from core.wire.v1 import agent_pb2 as wire
from tests.integration.controlplane.conftest import World, person
from tests.integration.controlplane.test_agentlink import Hub, listening, registered

CANARY = "canary-0c4d-job"

POD = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": []}}


@pytest.fixture
async def cluster(world: World) -> Cluster:
    return await world.cluster()


@pytest.fixture
async def hub(world: World):
    async with listening(world, world.identity, SystemClock()) as running:
        yield running


def request(**given: object) -> JobRequest:
    return JobRequest(**{"namespace": "ops", "manifest": POD, **given})  # ty: ignore


async def test_a_key_makes_a_second_request_the_same_job(world: World, cluster: Cluster) -> None:
    """So that a pipeline that is killed and asks again runs no gate twice."""
    first = await world.jobs.run(world.admin, cluster.id, request(key="gate-1"))
    again = await world.jobs.run(world.admin, cluster.id, request(key="gate-1"))
    other = await world.jobs.run(world.admin, cluster.id, request())
    assert again.id == first.id != other.id
    assert len((await world.agents.desired_state(cluster.id)).commands) == 2
    elsewhere = await world.cluster("prod")
    with pytest.raises(Conflict):
        await world.jobs.run(world.admin, elsewhere.id, request(key="gate-1"))


async def test_nobody_runs_the_job_of_a_gate_in_its_place(world: World, cluster: Cluster) -> None:
    """The key of a gate's job can be reckoned: one of that key that succeeds would open it."""
    with pytest.raises(Invalid, match="reserved for pipelines"):
        await world.jobs.run(world.admin, cluster.id, request(key="p:check/g/r1/1/c/check/1"))


@pytest.mark.parametrize(
    "given",
    [
        {"namespace": "Ops"},
        {"manifest": {"apiVersion": "apps/v1", "kind": "Deployment"}},
        {"manifest": {**POD, "x": "y" * 600_000}},
        {"timeout_s": 0},
        {"timeout_s": 8 * 24 * 3600},
        {"secrets": {"not a name": "x"}},
        {"secrets": {f"s{n}": "x" for n in range(65)}},
    ],
)
async def test_jobs_that_no_agent_could_run_are_refused(
    world: World, cluster: Cluster, given: dict[str, object]
) -> None:
    with pytest.raises(Invalid):
        await world.jobs.run(world.admin, cluster.id, request(**given))
    assert (await world.agents.desired_state(cluster.id)).commands == []


async def test_a_viewer_can_read_jobs_and_run_none(world: World, cluster: Cluster) -> None:
    viewer = person(Role.VIEWER)
    job = await world.jobs.run(world.admin, cluster.id, request())
    assert (await world.jobs.get(viewer, job.id)).id == job.id
    for verb in (
        world.jobs.run(viewer, cluster.id, request()),
        world.jobs.cancel(viewer, job.id),
        world.jobs.retry(viewer, job.id),
    ):
        with pytest.raises(Forbidden):
            await verb
    with pytest.raises((Forbidden, NotFound)):
        await world.jobs.get(person(None), job.id)


async def test_a_job_goes_to_its_agent_with_secrets_that_only_it_opens(
    world: World, hub: Hub
) -> None:
    """Then its log as it comes, its end, and the answer; a log of another job is passed over."""
    cluster_id, token = await registered(world)
    agent = await hub.agent(token)
    await agent.hello(sealing_key=world.agent_key.public)
    await agent.difference()
    job = await world.jobs.run(world.admin, cluster_id, request(secrets={"password": CANARY}))
    command = (await agent.read("command")).command
    assert command.id == job.id and command.run_job.timeout_s == 3600
    box = command.run_job.secrets[0]
    sealed = SealedSecret(box.name, box.version, box.box)
    assert world.agent_key.open(sealed, job.id) == CANARY.encode()
    for name in (job.id, "another"):
        piece = wire.JobLog(command_id=name, offset=0, data=b"line\n")
        await agent.call.write(wire.AgentMessage(job_log=piece))
    status = wire.JobStatus(
        command_id=job.id,
        phase=wire.JOB_PHASE_FAILED,
        object=wire.ObjectRef(version="v1", kind="Pod", namespace="ops", name="p"),
        message="exit code 3",
        exit_code=3,
        started_ms=1_767_225_600_000,
        finished_ms=1_767_225_601_000,
        log_tail=b"line\n\xff",
        outputs={"main": "42"},
    )
    await agent.report(1, job=status)
    await agent.report(2, job=wire.JobStatus(command_id=job.id, phase=wire.JOB_PHASE_RUNNING))
    result = wire.CommandResult(command_id=job.id, outcome=wire.OUTCOME_FAILED, message="x")
    await agent.report(3, result=result)
    async with asyncio.timeout(60):
        while (await agent.read("ack")).ack.number < 3:
            pass
    end = await world.jobs.get(world.admin, job.id)
    assert (end.phase, end.exit_code, end.message) == (JobPhase.FAILED, 3, "exit code 3")
    assert end.outputs == {"main": "42"} and str(end.object) == "Pod ops/p"
    assert await world.jobs.log(world.admin, job.id, 0) == (5, "line\n", False)
    assert await world.jobs.log(world.admin, job.id, 5) == (5, "", True)
    assert world.logs.read("another", 0) == (0, b"")


async def test_an_agent_sends_logs_of_any_number_of_jobs_in_one_call(
    world: World, hub: Hub
) -> None:
    cluster_id, token = await registered(world)
    agent = await hub.agent(token)
    await agent.hello(sealing_key=world.agent_key.public)
    job = await world.jobs.run(world.admin, cluster_id, request())
    for name in (*(f"former {number}" for number in range(1_001)), job.id):
        piece = wire.JobLog(command_id=name, offset=0, data=b"line\n")
        await agent.call.write(wire.AgentMessage(job_log=piece))
    async with asyncio.timeout(60):
        while await world.jobs.log(world.admin, job.id, 0) != (5, "line\n", False):
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("phase", "reported", "code"),
    [
        (wire.JOB_PHASE_SUCCEEDED, 0, 0),
        (wire.JOB_PHASE_FAILED, 3, 3),
        (wire.JOB_PHASE_FAILED, 0, None),
        (wire.JOB_PHASE_CANCELLED, 0, None),
        (wire.JOB_PHASE_RUNNING, 0, None),
    ],
)
async def test_only_what_has_ended_by_itself_has_an_exit_code(
    world: World, cluster: Cluster, phase: wire.JobPhase, reported: int, code: int | None
) -> None:
    """What was cancelled, or took too long, has none: it did not end well."""
    job = await world.jobs.run(world.admin, cluster.id, request())
    status = wire.JobStatus(command_id=job.id, phase=phase, exit_code=reported)
    report = report_from_message(wire.Report(number=1, job=status))
    await world.agents.record_reports(cluster.id, [report])
    assert (await world.jobs.get(world.admin, job.id)).exit_code == code


async def test_secrets_for_an_agent_without_a_key_are_not_sent(world: World, hub: Hub) -> None:
    """An agent of an older version: the job has failed, with the reason."""
    cluster_id, token = await registered(world)
    agent = await hub.agent(token)
    await agent.hello()
    await agent.difference()
    job = await world.jobs.run(world.admin, cluster_id, request(secrets={"password": CANARY}))
    async with asyncio.timeout(60):
        while not (end := await world.jobs.get(world.admin, job.id)).phase.final:
            await asyncio.sleep(0.02)
    assert end.phase is JobPhase.FAILED and "no key" in end.message
    assert (await world.agents.desired_state(ClusterId(cluster_id))).commands == []


async def test_old_finished_jobs_are_deleted_and_waiting_ones_stay(
    world: World, cluster: Cluster
) -> None:
    """Commands after a week, jobs after a month; one that waits is never too old."""
    done = await world.jobs.run(world.admin, cluster.id, request())
    waiting = await world.jobs.run(world.admin, cluster.id, request())
    end = CommandAnswer(done.id, CommandOutcome.FAILED, "no")
    await world.agents.record_reports(cluster.id, [Report(1, world.clock.now(), end)])

    async def left() -> tuple[set[str], set[str]]:
        await world.agents.delete_finished()
        async with world.deps.store.read() as tx:
            commands, jobs = await tx[CommandStore].all(), await tx[ClusterJobStore].all()
        return {one.id for one in commands}, {one.id for one in jobs}

    both = {done.id, waiting.id}
    assert await left() == (both, both)
    await world.clock.advance(8 * 24 * 3600)
    assert await left() == ({waiting.id}, both)
    await world.clock.advance(23 * 24 * 3600)
    assert await left() == ({waiting.id}, {waiting.id})


async def test_cancel_is_asked_once_and_a_job_that_ended_can_be_run_again(
    world: World, cluster: Cluster
) -> None:
    job = await world.jobs.run(world.admin, cluster.id, request(secrets={"a": "b"}))
    with pytest.raises(Conflict, match="not ended"):
        await world.jobs.retry(world.admin, job.id)
    await world.jobs.cancel(world.admin, job.id)
    await world.jobs.cancel(world.admin, job.id)
    waiting = (await world.agents.desired_state(cluster.id)).commands
    assert [one.payload.get("job") for one in waiting] == [None, job.id]
    async with world.deps.store.write() as tx:
        await tx[ClusterJobStore].change(job.id, phase=JobPhase.CANCELLED)
    again = await world.jobs.retry(world.admin, job.id)
    assert again.retry_of == job.id and again.phase is JobPhase.PENDING
    desired = await world.agents.job(cluster.id, again.id)
    assert world.agent_key.open(desired.secrets[0], again.id) == b"b"
    with pytest.raises(NotFound):
        await world.agents.job((await world.cluster("prod")).id, again.id)
