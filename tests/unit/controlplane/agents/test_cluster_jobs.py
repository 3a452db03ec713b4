"""Jobs in clusters: whose they are, and what a second run of one has; logs of running ones."""

from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.access.model.bindings import Project
from controlplane.agents.model.jobs import MAX_MANIFEST_BYTES, JobRequest
from controlplane.agents.model.live_logs import LiveLogs
from controlplane.agents.operations.jobs import ClusterJobs
from controlplane.agents.ports import ClusterJobStore
from controlplane.authorization import (
    ANONYMOUS,
    SYSTEM,
    UNRESTRICTED,
    Actor,
    DestinationRule,
    Fence,
    Scope,
)
from controlplane.authorization.roles import BuiltInRole
from controlplane.clusters.model.commands import CommandKind
from controlplane.clusters.ports import ClusterStore, CommandStore
from controlplane.platform.ports import PageQuery
from core.errors import Conflict, Forbidden, Invalid, NotFound, TowlineError, Unauthenticated
from core.spec.jobs import JobPhase
from tests.fakes.actors import EDITOR, NOBODY, VIEWER, person
from tests.fakes.clock import START
from tests.fakes.operations import MemoryOperations, make_cluster, operations_over_memory

POD = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"image": "busybox"}]}}
REQUEST = JobRequest("shop", POD, secrets={"token": "canary-81b2-otter"})
SHOP = Project("shop", "shop", START, START, fence=UNRESTRICTED)
BANK_FENCE = Fence(destinations=(DestinationRule(("bank",), "deployer", ("*",)),))
BANK = Project("bank", "bank", START, START, fence=BANK_FENCE)
DEV, PROD = make_cluster("dev", project_id="shop"), make_cluster("prod", project_id="shop")
EDITOR_OF_SHOP = person(BuiltInRole.EDITOR, "sue", Scope("project:shop"))


@pytest.fixture
async def world() -> MemoryOperations:
    world = operations_over_memory()
    await world.given(SHOP, BANK, DEV, PROD)
    return world


@pytest.fixture
def logs() -> LiveLogs:
    return LiveLogs()


@pytest.fixture
def jobs(world: MemoryOperations, logs: LiveLogs) -> ClusterJobs:
    return ClusterJobs(world.context, logs)


async def end(world: MemoryOperations, id: str, phase: JobPhase = JobPhase.FAILED) -> None:
    async with world.store.write() as tx:
        await tx[ClusterJobStore].change(id, phase=phase, exit_code=1, log_tail="the end")


async def test_a_key_is_one_job_of_one_cluster(world: MemoryOperations, jobs: ClusterJobs) -> None:
    """Also after its end; keys of gates belong to pipelines."""
    keyed = replace(REQUEST, key="nightly")
    job = await jobs.run(EDITOR, "dev", keyed)
    await end(world, job.id)
    assert (await jobs.run(EDITOR_OF_SHOP, "dev", keyed)).id == job.id
    with pytest.raises(Conflict, match="of another cluster"):
        await jobs.run(EDITOR, "prod", keyed)
    with pytest.raises(Invalid, match="reserved for pipelines"):
        await jobs.run(EDITOR, "dev", replace(REQUEST, key="release:gate"))
    gate = await jobs.run(SYSTEM, "dev", replace(REQUEST, key="release:gate"))
    assert gate.key == "release:gate"
    other = [await jobs.run(EDITOR, "dev", REQUEST) for _ in range(2)]
    assert other[0].id != other[1].id and other[0].key == other[0].id


async def test_only_a_pipeline_runs_a_job_for_its_own_project(
    world: MemoryOperations, jobs: ClusterJobs
) -> None:
    """The fence of that project holds; users get the fence of the project of the cluster."""
    for_bank = replace(REQUEST, namespace="bank", project_id="bank")
    assert (await jobs.run(SYSTEM, "dev", for_bank)).project_id == "bank"
    assert (await jobs.run(EDITOR, "dev", for_bank)).project_id == "shop"
    with pytest.raises(Forbidden, match="outside the fence of project 'bank'"):
        await jobs.run(SYSTEM, "dev", replace(for_bank, namespace="shop"))
    assert len(await world.rows(ClusterJobStore)) == 2


async def test_a_job_that_ended_runs_again_with_its_secrets(
    world: MemoryOperations, jobs: ClusterJobs
) -> None:
    """As a new job of the same project, whose secrets are bound to it."""
    old = await jobs.run(SYSTEM, "dev", replace(REQUEST, namespace="bank", project_id="bank"))
    with pytest.raises(Conflict, match="has not ended yet"):
        await jobs.retry(EDITOR, old.id)
    await end(world, old.id)
    await world.clock.advance(60)
    new = await jobs.retry(EDITOR_OF_SHOP, old.id)
    assert (new.retry_of, new.key, new.project_id) == (old.id, new.id, "bank")
    assert (new.actor, new.inserted_at) == (EDITOR_OF_SHOP.email, world.clock.now())
    assert (new.phase, new.exit_code, new.log_tail) == (JobPhase.PENDING, None, "")
    sealer, sealed = world.context.sealer, new.sealed or b""
    assert orjson.loads(sealer.open(sealed, f"cluster-job:{new.id}")) == REQUEST.secrets
    with pytest.raises(TowlineError, match="moved to another row"):
        sealer.open(sealed, f"cluster-job:{old.id}")
    assert "canary-81b2" not in repr(new)
    assert [row.id for row in await world.rows(CommandStore)] == [old.id, new.id]


async def test_a_job_that_ended_is_not_cancelled(
    world: MemoryOperations, jobs: ClusterJobs
) -> None:
    first, second = [await jobs.run(EDITOR, "dev", REQUEST) for _ in range(2)]
    await end(world, first.id)
    before = len(await world.audited())
    assert (await jobs.cancel(EDITOR, first.id)).phase is JobPhase.FAILED
    assert len(await world.audited()) == before
    await jobs.cancel(EDITOR, second.id)
    cancels = await world.rows(CommandStore, kind=CommandKind.CANCEL_JOB)
    assert [row.payload for row in cancels] == [{"job": second.id}]


@pytest.mark.parametrize(
    ("columns", "field"),
    [
        ({"namespace": "Not a label"}, "namespace"),
        ({"manifest": {"apiVersion": "apps/v1", "kind": "Deployment"}}, "manifest"),
        ({"manifest": POD | {"x": "y" * MAX_MANIFEST_BYTES}}, "manifest"),
        ({"timeout_s": 0}, "timeout"),
        ({"timeout_s": 604_801}, "timeout"),
        ({"secrets": {f"s{number}": "x" for number in range(65)}}, "secrets"),
        ({"key": "k" * 256}, "key"),
    ],
)
async def test_a_job_has_limits(
    world: MemoryOperations, jobs: ClusterJobs, columns: dict[str, Any], field: str
) -> None:
    with pytest.raises(Invalid) as raised:
        await jobs.run(EDITOR, "dev", replace(REQUEST, **columns))
    assert raised.value.field == field
    assert await world.rows(ClusterJobStore) == []


async def test_a_job_at_its_limits_runs(jobs: ClusterJobs) -> None:
    secrets = {f"s{number}": "x" for number in range(64)}
    request = replace(REQUEST, timeout_s=604_800, secrets=secrets, key="k" * 255)
    assert (await jobs.run(EDITOR, "dev", request)).timeout_s == 604_800
    assert (await jobs.run(EDITOR, "dev", replace(REQUEST, timeout_s=1))).timeout_s == 1


async def test_a_job_without_secrets_runs_again_without_them(
    world: MemoryOperations, jobs: ClusterJobs
) -> None:
    old = await jobs.run(EDITOR, "dev", replace(REQUEST, secrets={}))
    await end(world, old.id)
    new = await jobs.retry(EDITOR, old.id)
    assert (old.sealed, new.sealed) == (None, None)


async def test_a_list_has_the_jobs_of_its_cluster_with_the_newest_first(
    jobs: ClusterJobs,
) -> None:
    made = [(await jobs.run(EDITOR, "dev", REQUEST)).id for _ in range(3)]
    await jobs.run(EDITOR, "prod", REQUEST)
    page = await jobs.page(EDITOR, "dev", PageQuery())
    assert [job.id for job in page.items] == made[::-1]


async def test_a_job_is_gone_with_its_cluster(world: MemoryOperations, jobs: ClusterJobs) -> None:
    job = await jobs.run(EDITOR, "dev", REQUEST)
    async with world.store.write() as tx:
        await tx[ClusterStore].delete("dev", START)
    with pytest.raises(NotFound):
        await jobs.get(EDITOR, job.id)


CALLS = {
    "run": lambda jobs, actor, id: jobs.run(actor, "dev", REQUEST),
    "retry": lambda jobs, actor, id: jobs.retry(actor, id),
    "cancel": lambda jobs, actor, id: jobs.cancel(actor, id),
    "get": lambda jobs, actor, id: jobs.get(actor, id),
    "log": lambda jobs, actor, id: jobs.log(actor, id, 0),
    "page": lambda jobs, actor, id: jobs.page(actor, "dev", PageQuery()),
}


@pytest.mark.parametrize("name", sorted(CALLS))
async def test_jobs_are_those_of_their_cluster(
    world: MemoryOperations, jobs: ClusterJobs, name: str
) -> None:
    """Readers of the cluster see them, and its editors run them."""
    job = await jobs.run(EDITOR, "dev", REQUEST)
    await end(world, job.id)
    before = await world.audited()
    for_readers = name in ("get", "log", "page")
    cases: list[tuple[Actor, type[TowlineError]]] = [
        (NOBODY, NotFound),
        (person(BuiltInRole.EDITOR, "eve", Scope("cluster:prod")), NotFound),
        (ANONYMOUS, Unauthenticated),
    ]
    for actor, error in cases if for_readers else [*cases, (VIEWER, Forbidden)]:
        with pytest.raises(error):
            await CALLS[name](jobs, actor, job.id)
    assert await world.audited() == before
    if name not in ("run", "page"):
        with pytest.raises(NotFound):
            await CALLS[name](jobs, EDITOR, "none")
    await CALLS[name](jobs, VIEWER if for_readers else EDITOR_OF_SHOP, job.id)


async def test_the_log_of_a_job_is_what_its_agent_sent_and_then_its_tail(
    world: MemoryOperations, jobs: ClusterJobs, logs: LiveLogs
) -> None:
    """Another process, or a later one, has only the tail."""
    job = await jobs.run(EDITOR, "dev", REQUEST)
    assert await jobs.log(EDITOR, job.id, 0) == (0, "", False)
    logs.append(job.id, 0, b"one ")
    assert await jobs.log(EDITOR, job.id, 0) == (4, "one ", False)
    logs.append(job.id, 4, b"two\xff")
    assert await jobs.log(EDITOR, job.id, 4) == (8, "two\ufffd", False)
    await end(world, job.id)
    assert await jobs.log(EDITOR, job.id, 0) == (8, "one two\ufffd", False)
    assert await jobs.log(EDITOR, job.id, 4) == (8, "two\ufffd", False)
    assert await jobs.log(EDITOR, job.id, 8) == (8, "", True)
    elsewhere = ClusterJobs(world.context, LiveLogs())
    assert await elsewhere.log(EDITOR, job.id, 0) == (0, "the end", True)


STREAM = bytes(range(200))


@given(st.lists(st.tuples(st.integers(0, 150), st.integers(1, 50)), max_size=12))
def test_pieces_of_a_log_give_the_newest_unbroken_part(pieces: list[tuple[int, int]]) -> None:
    """Agents repeat pieces after a reconnect; after a gap, the log starts over."""
    logs, start, last = LiveLogs(), 0, 0
    for number, (offset, length) in enumerate(pieces):
        logs.append("j", offset, STREAM[offset : offset + length])
        if number == 0 or offset > last:
            start, last = offset, offset
        last = max(last, offset + length)
    for offset in (0, start, (start + last) // 2):
        begin = max(offset, start)
        expected = (begin, STREAM[begin:last]) if offset < last else (offset, b"")
        assert logs.read("j", offset) == expected
    assert logs.read("j", last) == (last, b"") and logs.read("other", 5) == (5, b"")


def test_logs_are_bounded_in_length_and_number() -> None:
    logs, mebibyte = LiveLogs(), 1 << 20
    for number in range(3):
        logs.append("long", number * mebibyte // 2, bytes([number]) * (mebibyte // 2))
    begin, data = logs.read("long", 0)
    assert (begin, len(data), data[0], data[-1]) == (mebibyte // 2, mebibyte, 1, 2)
    for number in range(63):
        logs.append(f"job {number}", 0, b"x")
    logs.append("long", 3 * mebibyte // 2, b"end")
    logs.append("one more", 0, b"x")
    assert logs.read("job 0", 0) == (0, b""), "the least recently written is dropped"
    assert logs.read("job 1", 0) == (0, b"x") and logs.read("long", 0)[1].endswith(b"end")
