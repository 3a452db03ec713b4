"""A job runs once, whatever is killed or cut; its end and its last words are not lost."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from core.errors import Invalid, Unavailable
from core.sealing import SealingKey, mask_secrets, placeholder, seal
from core.spec.jobs import JobPhase, JobSpec, JobStatus
from core.spec.reports.commands import CommandAnswer, CommandOutcome
from syncagent.autonomy.policy import JobPolicy, LocalPolicy
from syncagent.jobs.logs import TAIL_BYTES
from syncagent.jobs.runner import JobRunner
from syncagent.jobs.template import JobProgress, job_object, progress
from syncagent.state.database import Database
from syncagent.state.jobs import SqliteJobStore
from tests.fakes.clock import FakeClock, settle
from tests.fakes.fences import FakeJobFences
from tests.fakes.jobs import FakeJobCluster

ID = "0197a000-0000-7000-8000-000000000001"
NAME = f"towline-job-{ID}"
KEY = SealingKey.from_bytes(b"k" * 32)
JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "spec": {"template": {"spec": {"containers": [{"name": "main", "image": "check"}]}}},
}


class RecordedReports:
    """Records the reports of a job runner."""

    def __init__(self) -> None:
        self.statuses: list[JobStatus] = []
        self.answers: list[CommandAnswer] = []
        self.live: list[tuple[str, int, bytes]] = []

    def job(self, status: JobStatus) -> None:
        self.statuses.append(status)

    def done(self, done: CommandAnswer) -> None:
        self.answers.append(done)


class World:
    """A runner that can be killed and started anew on the same disk and cluster."""

    def __init__(self, folder: Path) -> None:
        self.cluster, self.reports, self.clock = FakeJobCluster(), RecordedReports(), FakeClock()
        self.database = Database(folder / "agent.db")
        self.policy = JobPolicy(LocalPolicy())
        self.runner = self.make()

    def make(self) -> JobRunner:
        live = lambda *piece: self.reports.live.append(piece)  # noqa: E731
        memory = SqliteJobStore(self.database)
        return JobRunner(
            FakeJobFences(self.cluster),
            memory,
            self.reports,
            KEY,
            lambda refs: self.policy.check(refs),
            live,
            self.clock,
        )

    async def restart(self) -> None:
        await self.runner.stop()
        self.runner = self.make()
        self.runner.start()
        await settle()

    async def run(self, **spec: object) -> None:
        given = {"namespace": "ops", "manifest": JOB, "timeout_s": 60, "follow": True} | spec
        self.runner.run(JobSpec(ID, **given))  # ty: ignore[invalid-argument-type]
        await settle()

    @property
    def last(self) -> JobStatus:
        return self.reports.statuses[-1]


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    one = World(tmp_path)
    yield one
    await one.runner.stop()
    one.database.close()


async def test_a_job_is_created_followed_and_reported(world: World) -> None:
    """Running, then its end with exit code, log and outputs; then the answer."""
    await world.run()
    world.cluster.runs(NAME, log="one\ntwo\n")
    await world.clock.advance(5)
    assert world.last.phase is JobPhase.RUNNING
    assert b"".join(data for _, _, data in world.reports.live) == b"one\ntwo\n"
    world.cluster.ends(NAME, last_words="42")
    await world.clock.advance(10)
    end = world.last
    assert (end.phase, end.log_tail, end.outputs) == (
        JobPhase.SUCCEEDED,
        "one\ntwo\n",
        {"main": "42"},
    )
    assert world.reports.answers == [CommandAnswer(ID, CommandOutcome.SUCCEEDED)]
    assert end.started_at and end.finished_at


async def test_a_failed_job_says_why(world: World) -> None:
    await world.run()
    world.cluster.runs(NAME)
    world.cluster.ends(NAME, code=3)
    await world.clock.advance(5)
    assert (world.last.phase, world.last.exit_code) == (JobPhase.FAILED, 3)
    assert "BackoffLimitExceeded" in world.reports.answers[0].message


async def test_asked_again_it_is_not_run_again(world: World) -> None:
    """While it runs, after its end and after a restart; the end is reported again."""
    await world.run()
    await world.run()
    await world.restart()
    await world.run()
    assert world.cluster.created == [f"Job/{NAME}"]
    world.cluster.runs(NAME)
    world.cluster.ends(NAME)
    await world.clock.advance(5)
    await world.restart()
    await world.run()
    assert world.cluster.created == [f"Job/{NAME}"]
    assert [one.outcome for one in world.reports.answers] == [CommandOutcome.SUCCEEDED] * 2


async def test_after_a_lost_disk_the_running_job_is_found_by_its_name(
    world: World, tmp_path: Path
) -> None:
    await world.run()
    world.database.close()
    world.database = Database(tmp_path / "other" / "agent.db")
    await world.restart()
    await world.run()
    world.cluster.runs(NAME)
    world.cluster.ends(NAME)
    await world.clock.advance(10)
    assert world.cluster.created == [f"Job/{NAME}"]
    assert world.last.phase is JobPhase.SUCCEEDED


async def test_a_foreign_object_of_that_name_is_left_alone(world: World) -> None:
    world.cluster.objects["Job", NAME] = {"kind": "Job", "metadata": {"name": NAME}}
    await world.run()
    assert world.last.phase is JobPhase.FAILED and "is not this job" in world.last.message
    assert ("Job", NAME) in world.cluster.objects


async def test_a_job_that_somebody_deleted_has_failed_and_is_not_made_again(world: World) -> None:
    await world.run()
    del world.cluster.objects["Job", NAME]
    await world.clock.advance(5)
    assert world.last.phase is JobPhase.FAILED and "was deleted" in world.last.message
    assert len(world.cluster.created) == 1


async def test_an_api_server_that_is_away_is_waited_for(world: World) -> None:
    world.cluster.away = True
    await world.run()
    await world.clock.advance(30)
    world.cluster.away = False
    await world.clock.advance(30)
    assert world.cluster.created == [f"Job/{NAME}"]


async def test_a_cancelled_job_is_deleted_and_its_words_are_kept(world: World) -> None:
    await world.run()
    world.cluster.runs(NAME, log="half way\n")
    await world.clock.advance(1)
    world.runner.cancel("c", ID)
    await settle()
    await world.clock.advance(1)
    assert (world.last.phase, world.last.log_tail) == (JobPhase.CANCELLED, "half way\n")
    assert ("Job", NAME) not in world.cluster.objects
    assert [one.command_id for one in world.reports.answers] == ["c", ID]


async def test_a_job_that_takes_too_long_is_ended(world: World) -> None:
    """The Job has the time limit as well."""
    await world.run()
    assert world.cluster.objects["Job", NAME]["spec"]["activeDeadlineSeconds"] == 60
    world.cluster.runs(NAME)
    await world.clock.advance(120)
    assert world.last.phase is JobPhase.FAILED and "60 s" in world.last.message


async def test_secrets_are_references_in_the_job_and_masked_in_what_it_says(
    world: World, tmp_path: Path
) -> None:
    """The Secret goes with the job; neither log, output nor message has the value."""
    sealed = seal(KEY.public, ID, "password", "1", b"hunter2!")
    env = [{"name": "PASSWORD", "value": placeholder("password")}]
    container = {"name": "main", "image": "check", "env": env}
    pod = {"initContainers": [container], "containers": [container]}
    await world.run(manifest={**JOB, "spec": {"template": {"spec": pod}}}, secrets=(sealed,))
    secret = world.cluster.objects["Secret", NAME]
    assert secret["stringData"] == {"password": "hunter2!"}
    assert secret["metadata"]["ownerReferences"][0]["name"] == NAME
    created = world.cluster.objects["Job", NAME]["spec"]["template"]["spec"]
    reference = {"secretKeyRef": {"name": NAME, "key": "password"}}
    for kind in ("initContainers", "containers"):
        assert created[kind][0]["env"] == [{"name": "PASSWORD", "valueFrom": reference}]
    assert "hunter2!" not in str(world.cluster.objects["Job", NAME])
    world.cluster.runs(NAME, log="login with hunter2!\n")
    world.cluster.ends(NAME, last_words="hunter2!")
    await world.clock.advance(10)
    assert "hunter2!" not in str(world.reports.statuses) + str(world.reports.live)
    assert world.last.log_tail == "login with ***\n"
    assert not any(b"hunter2!" in path.read_bytes() for path in tmp_path.iterdir())


async def test_a_job_outside_the_local_allow_list_is_refused(world: World) -> None:
    world.policy = JobPolicy(LocalPolicy.of([], ["shop"]))
    await world.run()
    assert world.cluster.created == []
    assert world.reports.answers[0].outcome is CommandOutcome.FAILED
    assert "namespace ops" in world.reports.answers[0].message


@pytest.mark.parametrize(
    ("policy", "why"),
    [
        (JobPolicy(LocalPolicy(), enabled=False), "turn jobs off"),
        (JobPolicy(LocalPolicy.of(["Job.batch"], [])), "kind Secret"),
    ],
)
async def test_a_job_that_the_operator_did_not_allow_creates_nothing(
    world: World, policy: JobPolicy, why: str
) -> None:
    """Neither a job at all, nor one whose Secret may not be there."""
    world.policy = policy
    await world.run(secrets=(seal(KEY.public, ID, "password", "1", b"hunter2!"),))
    assert world.cluster.created == [] and why in world.reports.answers[0].message


async def test_the_agents_own_job_needs_no_allowance(world: World) -> None:
    world.policy = JobPolicy(LocalPolicy.of(["ConfigMap"], []))
    await world.run(own=True)
    assert world.cluster.created == [f"Job/{NAME}"]


@pytest.mark.parametrize("status", [403, 500, 503])
async def test_a_running_job_outlasts_answers_that_are_no_news_of_it(
    world: World, status: int
) -> None:
    await world.run()
    world.cluster.runs(NAME)
    world.cluster.refusing = status
    await world.clock.advance(30)
    assert world.reports.answers == []
    world.cluster.refusing = 0
    world.cluster.ends(NAME)
    await world.clock.advance(30)
    assert world.reports.answers == [CommandAnswer(ID, CommandOutcome.SUCCEEDED)]


async def test_a_job_that_can_never_be_seen_again_ends_with_its_time(world: World) -> None:
    await world.run()
    world.cluster.refusing = 403
    await world.clock.advance(120)
    assert "cannot read how the job ended" in world.reports.answers[0].message


async def test_a_fault_of_the_server_while_creating_is_waited_out(world: World) -> None:
    world.cluster.refusing = 500
    await world.run()
    await world.clock.advance(20)
    world.cluster.refusing = 0
    await world.clock.advance(20)
    assert world.cluster.created == [f"Job/{NAME}"] and world.reports.answers == []


async def test_a_disk_that_is_full_after_the_creation_does_not_fail_the_job(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, full = SqliteJobStore.keep, True

    def keep(memory: SqliteJobStore, spec: JobSpec, status: JobStatus) -> None:
        if full and status.ref is not None:
            raise Unavailable("the disk is full")
        kept(memory, spec, status)

    monkeypatch.setattr(SqliteJobStore, "keep", keep)
    await world.run()
    world.cluster.runs(NAME)
    await world.clock.advance(10)
    assert world.reports.answers == []
    full = False
    await world.clock.advance(10)
    assert world.last.phase is JobPhase.RUNNING
    world.cluster.ends(NAME)
    await world.clock.advance(10)
    assert world.reports.answers == [CommandAnswer(ID, CommandOutcome.SUCCEEDED)]


async def test_secrets_of_an_ended_job_are_gone(world: World) -> None:
    """Also of one that could not be created, and has nothing to take its Secret with it."""
    sealed = seal(KEY.public, ID, "password", "1", b"hunter2!")
    world.cluster.objects["Job", NAME] = {"kind": "Job", "metadata": {"name": NAME}}
    await world.run(secrets=(sealed,))
    assert world.last.phase is JobPhase.FAILED
    assert ("Secret", NAME) not in world.cluster.objects


async def test_each_line_of_a_secret_is_masked_in_the_live_log(world: World) -> None:
    sealed = seal(KEY.public, ID, "key", "1", b"-----BEGIN-----\nfirsthalf\nsecondhalf\n")
    await world.run(secrets=(sealed,))
    world.cluster.runs(NAME, log="-----BEGIN-----\nfirsthalf\nis secondhalf.\n")
    await world.clock.advance(5)
    assert b"".join(data for _, _, data in world.reports.live) == b"***\n***\nis ***.\n"


async def test_a_secret_that_the_tail_of_a_log_cuts_in_two_does_not_show(world: World) -> None:
    sealed = seal(KEY.public, ID, "password", "1", b"hunter2hunter2")
    await world.run(secrets=(sealed,), follow=False)
    lines = "hunter2hunter2\n" + "x" * (TAIL_BYTES - 8) + "\n"
    world.cluster.runs(NAME, log=lines)
    world.cluster.ends(NAME)
    await world.clock.advance(10)
    assert world.last.log_tail == "x" * (TAIL_BYTES - 8) + "\n"


@pytest.mark.parametrize(("asked", "retries"), [({"backoffLimit": 2}, 2), ({}, 0)])
def test_a_job_is_tried_again_as_often_as_it_says(asked: dict[str, int], retries: int) -> None:
    """By its own controller; what does not say so runs once."""
    manifest = {**JOB, "spec": {"template": {}, **asked}}
    assert job_object(JobSpec(ID, "ops", manifest, 60))["spec"]["backoffLimit"] == retries


def test_a_job_stays_long_enough_to_be_seen_at_its_end() -> None:
    for given, kept in ((0, 3600), (7200, 7200), (None, 86400)):
        inner = {"template": {}, "ttlSecondsAfterFinished": given}
        made = job_object(JobSpec(ID, "ops", {**JOB, "spec": inner}, 60))
        assert made["spec"]["ttlSecondsAfterFinished"] == kept


async def test_a_secret_of_another_job_does_not_open(world: World) -> None:
    stolen = seal(KEY.public, "another", "password", "1", b"hunter2!")
    await world.run(secrets=(stolen,))
    assert "cannot decrypt" in world.reports.answers[0].message and world.cluster.created == []


def test_an_invalid_job_is_refused() -> None:
    for manifest, command_id in (
        ({"apiVersion": "v1", "kind": "ConfigMap"}, ID),
        ({"apiVersion": "v1", "kind": "Pod", "metadata": []}, ID),
        (JOB, "../x"),
        (JOB, "x" * 60),
    ):
        with pytest.raises(Invalid):
            job_object(JobSpec(command_id, "ops", manifest, 60))


def test_a_pod_is_named_and_limited_too() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "x"}, "spec": {}}
    made = job_object(JobSpec(ID, "ops", pod, 60))
    assert made["metadata"]["name"] == NAME and "generateName" not in made["metadata"]
    assert made["spec"] == {"activeDeadlineSeconds": 60, "restartPolicy": "Never"}


@pytest.mark.parametrize("value", ["x" + placeholder("password"), placeholder("other")])
def test_a_variable_that_is_not_exactly_a_given_secret_is_refused(value: str) -> None:
    pod = {"containers": [{"name": "main", "env": [{"name": "PASSWORD", "value": value}]}]}
    manifest = {"apiVersion": "v1", "kind": "Pod", "spec": pod}
    sealed = seal(KEY.public, ID, "password", "1", b"hunter2!")
    with pytest.raises(Invalid, match="PASSWORD refers to an unknown secret, or has text around"):
        job_object(JobSpec(ID, "ops", manifest, 60, secrets=(sealed,)))


def test_other_variables_of_a_job_stay() -> None:
    env = [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"fieldRef": {}}}]
    manifest = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"env": env}]}}
    assert job_object(JobSpec(ID, "ops", manifest, 60))["spec"]["containers"] == [{"env": env}]


UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "message": "no node has room"}
PULLING = {"name": "main", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no"}}}
KILLED = {"name": "main", "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}


@pytest.mark.parametrize(
    ("status", "phase", "message"),
    [
        ({}, JobPhase.PENDING, ""),
        ({"phase": "Pending", "conditions": [UNSCHEDULABLE]}, JobPhase.PENDING, "no node has room"),
        (
            {
                "conditions": [
                    UNSCHEDULABLE | {"status": "True"},
                    {"type": "Ready", "status": "False"},
                ]
            },
            JobPhase.PENDING,
            "",
        ),
        (
            {"containerStatuses": [PULLING], "conditions": [UNSCHEDULABLE]},
            JobPhase.PENDING,
            "main: ImagePullBackOff: no",
        ),
        ({"phase": "Running"}, JobPhase.RUNNING, ""),
        ({"phase": "Succeeded"}, JobPhase.SUCCEEDED, ""),
        ({"phase": "Failed"}, JobPhase.FAILED, "the pod failed (exit code 0)"),
        (
            {"phase": "Failed", "containerStatuses": [KILLED]},
            JobPhase.FAILED,
            "OOMKilled (exit code 137)",
        ),
        (
            {"phase": "Failed", "reason": "Evicted", "containerStatuses": [KILLED]},
            JobPhase.FAILED,
            "Evicted (exit code 137)",
        ),
    ],
)
def test_the_state_of_a_pod_has_its_reason(
    status: dict[str, Any], phase: JobPhase, message: str
) -> None:
    """A waiting container says more than the scheduler."""
    found = progress({"kind": "Pod", "status": status}, ())
    assert (found.phase, found.message) == (phase, message)


def test_a_job_waits_and_fails_for_the_reason_of_its_pods() -> None:
    pending = {"kind": "Pod", "status": {"conditions": [UNSCHEDULABLE]}}
    job = {"kind": "Job", "status": {"active": 1}}
    assert progress(job, [pending]) == JobProgress(JobPhase.RUNNING, "no node has room")
    conditions = [{"type": "Failed", "status": "False"}, {"type": "Failed", "status": "True"}]
    killed = {"status": {"phase": "Failed", "containerStatuses": [KILLED]}}
    ended = {"kind": "Job", "status": {"conditions": conditions}}
    assert progress(ended, [killed]) == JobProgress(JobPhase.FAILED, "the job failed", 137)
    assert progress({"kind": "Job", "status": {"conditions": conditions[:1]}}, ()) == JobProgress(
        JobPhase.PENDING
    )


def test_longer_secrets_are_masked_before_their_parts() -> None:
    assert mask_secrets("secretsecret2 ab", ["secret", "secretsecret2", "ab"]) == "*** ab"
