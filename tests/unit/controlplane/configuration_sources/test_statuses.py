"""Statuses of configuration sources: what a run shows, keeps and clears, and when the next is."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

import pytest

from controlplane.clusters.ports import ClusterStore
from controlplane.configuration_sources.model.source import ApplyMode, SourceResult
from controlplane.configuration_sources.operations.sources import RECONCILE
from controlplane.manifests.model.documents import DocumentProblem
from controlplane.platform.ports import JobStore
from core.errors import Invalid, Unavailable
from core.identity import RepositoryId
from core.spec.sync import DriftPolicy
from tests.fakes.actors import ADMIN
from tests.fakes.manifest_world import document
from tests.fakes.source_world import REPOSITORY, SourceWorld, change_of, source_world


def cluster(name: str, **tags: str) -> str:
    return document("Cluster", name, {"tags": tags} if tags else None)


async def tags(world: SourceWorld) -> Mapping[str, str]:
    (row,) = await world.manifests.memory.rows(ClusterStore, handle="eu-1")
    return row.tags


async def next_run(world: SourceWorld) -> timedelta | None:
    """The time until the next run of a source."""
    memory = world.manifests.memory
    async with memory.store.read() as tx:
        due = await tx[JobStore].next_due([RECONCILE])
    return None if due is None else due - memory.clock.now()


@pytest.fixture
async def world() -> SourceWorld:
    return await source_world()


async def test_a_success_clears_what_failed_before(world: SourceWorld) -> None:
    await world.create(interval_s=3_600)
    await world.push({"a.yaml": "kind: ["})
    failed = await world.status()
    assert failed.message == "1 problems: nothing was changed"
    assert (failed.result, len(failed.problems)) == (SourceResult.FAILED, 1)
    sha = await world.push({"a.yaml": cluster("eu-1")})
    now = world.manifests.memory.clock.now()
    shown = await world.status()
    assert shown == replace(
        failed, result=SourceResult.SYNCED, message="", problems=(), seen_sha=sha,
        applied_sha=sha, applied_at=now, checked_at=now,
    )  # fmt: skip
    await world.pass_interval()
    later = world.manifests.memory.clock.now()
    assert await world.status() == replace(shown, checked_at=later)


async def test_an_approved_plan_is_gone_after_its_apply(world: SourceWorld) -> None:
    source = await world.create(mode=ApplyMode.APPROVAL)
    await world.push({"a.yaml": cluster("eu-1")})
    waiting = await world.status()
    assert waiting.message == "1 changes wait for an approval"
    assert (waiting.plan_size, len(waiting.plan)) == (1, 1)
    await world.sources.approve(ADMIN, source.id, waiting.plan_digest)
    assert (await world.status()).approved_by == "root@example.org"
    await world.run_due()
    status = await world.status()
    shown = (status.plan, status.plan_size, status.plan_digest)
    assert shown == ((), 0, "")
    assert (status.approved_digest, status.approved_by, status.message) == ("", "", "")


async def test_an_error_is_shown_as_a_problem_without_a_plan(world: SourceWorld) -> None:
    await world.create(mode=ApplyMode.APPROVAL, interval_s=3_600)
    await world.push({"a.yaml": cluster("eu-1")})
    world.git.push_files(REPOSITORY, {"elsewhere/a.yaml": cluster("eu-1")})
    await world.reconciler.commits_changed(REPOSITORY)
    await world.run_due()
    status = await world.status()
    assert (status.plan, status.plan_size, status.plan_digest) == ((), 0, "")
    (problem,) = status.problems
    assert problem == DocumentProblem(status.message, code=Invalid.code.value)
    assert await next_run(world) == timedelta(hours=1)


async def test_a_source_whose_repository_is_away_runs_again_soon(world: SourceWorld) -> None:
    source = await world.create(interval_s=3_600)
    assert await next_run(world) == timedelta(hours=1)
    world.git.away = Unavailable("the server is away")
    await world.sources.update(ADMIN, source.id, change_of(prune=True))
    await world.run_due()
    assert await world.result() is SourceResult.FAILED
    assert await next_run(world) == timedelta(seconds=30)


async def test_a_repository_that_cannot_be_fetched_is_named(world: SourceWorld) -> None:
    world.git.error = "no such host"
    await world.create(ref="release")
    assert await world.problems() == ["the repository cannot be fetched: no such host"]


async def test_a_file_that_is_no_text_is_named(
    world: SourceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def binary(*_: object) -> Mapping[str, bytes]:
        return {"fleet/logo.yaml": b"\xff\xfe"}

    monkeypatch.setattr(world.git, "files", binary)
    await world.create()
    assert await world.problems() == ["fleet/logo.yaml is not UTF-8 text"]


async def test_a_commit_that_was_seen_requests_no_run(world: SourceWorld) -> None:
    await world.create(interval_s=3_600)
    await world.push({"a.yaml": cluster("eu-1")})
    published = len(world.manifests.memory.published)
    for repository in (REPOSITORY, "unknown"):
        await world.reconciler.commits_changed(repository)
    assert await next_run(world) == timedelta(hours=1)
    assert len(world.manifests.memory.published) == published


async def test_an_older_state_of_this_replica_takes_nothing_back(
    world: SourceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another replica has applied a newer commit."""
    await world.create()
    await world.push({"a.yaml": cluster("eu-1", env="old")})
    old = world.git.state(RepositoryId(REPOSITORY))
    new_sha = await world.push({"a.yaml": cluster("eu-1", env="new")})
    seen_at = (await world.status()).seen_at
    assert seen_at is not None
    stale = replace(old, polled_at=seen_at - timedelta(seconds=1))
    monkeypatch.setattr(world.git, "state", lambda _: stale)
    await world.pass_interval()
    status = await world.status()
    assert (status.seen_sha, status.seen_at, status.result) == (
        new_sha, seen_at, SourceResult.SYNCED,
    )  # fmt: skip
    assert await tags(world) == {"env": "new"}


async def test_a_commit_without_changes_needs_no_approval(world: SourceWorld) -> None:
    source = await world.create(mode=ApplyMode.APPROVAL)
    await world.push({"a.yaml": cluster("eu-1")})
    await world.sources.approve(ADMIN, source.id, (await world.status()).plan_digest)
    await world.run_due()
    await world.manifests.memory.clock.advance(1)
    sha = await world.push({"moved.yaml": cluster("eu-1")})
    now = world.manifests.memory.clock.now()
    status = await world.status()
    assert (status.result, status.applied_sha, status.applied_at) == (
        SourceResult.SYNCED, sha, now,
    )  # fmt: skip


async def test_a_revert_of_drift_is_an_apply_and_a_check_is_none(world: SourceWorld) -> None:
    await world.create(drift=DriftPolicy.HEAL)
    await world.push({"a.yaml": cluster("eu-1", env="prod")})
    before = await world.status()
    await world.pass_interval()
    assert (await world.status()).applied_at == before.applied_at
    await world.manifests.apply(cluster("eu-1", env="test"), force=True)
    await world.pass_interval()
    healed = await world.status()
    assert (healed.applied_at, healed.checked_at) == (world.manifests.memory.clock.now(),) * 2
    assert healed.applied_sha == before.applied_sha


async def test_drift_is_reverted_after_an_approval(world: SourceWorld) -> None:
    source = await world.create(mode=ApplyMode.APPROVAL, drift=DriftPolicy.HEAL)
    await world.push({"a.yaml": cluster("eu-1", env="prod")})
    await world.sources.approve(ADMIN, source.id, (await world.status()).plan_digest)
    await world.run_due()
    await world.manifests.apply(cluster("eu-1", env="test"), force=True)
    await world.pass_interval()
    waiting = await world.status()
    assert waiting.result is SourceResult.AWAITING_APPROVAL
    assert await tags(world) == {"env": "test"}
    await world.sources.approve(ADMIN, source.id, waiting.plan_digest)
    await world.run_due()
    assert await tags(world) == {"env": "prod"}


@pytest.mark.parametrize("mode", ApplyMode)
async def test_a_forced_sync_takes_fields_over_once(world: SourceWorld, mode: ApplyMode) -> None:
    """With approvals, the request waits for its own."""
    source = await world.create(mode=mode)
    await world.manifests.apply(cluster("eu-1", env="test"))
    await world.push({"a.yaml": cluster("eu-1", env="prod")})
    assert await world.result() is SourceResult.FAILED
    await world.sources.sync(ADMIN, source.id, force=True)
    await world.run_due()
    if mode is ApplyMode.APPROVAL:
        status = await world.status()
        assert (status.is_requested, status.is_forced) == (True, True)
        await world.sources.approve(ADMIN, source.id, status.plan_digest)
        await world.run_due()
    assert await tags(world) == {"env": "prod"}
    status = await world.status()
    assert (status.is_requested, status.is_forced) == (False, False)
    await world.manifests.apply(cluster("eu-1", env="test"), force=True)
    await world.push({"a.yaml": cluster("eu-1", env="next")})
    assert await world.result() is SourceResult.FAILED
    assert await tags(world) == {"env": "test"}
