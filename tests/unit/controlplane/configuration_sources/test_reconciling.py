"""Reconciliation of configuration sources: commits, plans, drift, sets and fights."""

import pytest

from controlplane.authorization.roles import BuiltInRole
from controlplane.clusters.operations.clusters import ClusterChange, Clusters
from controlplane.clusters.ports import ClusterStore
from controlplane.configuration_sources.model.drift import MAX_REVERTS
from controlplane.configuration_sources.model.source import ApplyMode, SourceResult
from controlplane.configuration_sources.operations.sources import (
    RECONCILE,
)
from controlplane.manifests.model.plan import ManifestAction
from controlplane.platform.ports import JobStore
from core.errors import Conflict, Unavailable
from core.spec.sync import DriftPolicy
from tests.fakes.actors import ADMIN
from tests.fakes.audit_rows import audit_rows
from tests.fakes.manifest_world import document
from tests.fakes.source_world import REPOSITORY, SourceWorld, change_of, source_world


def cluster(name: str, **tags: str) -> str:
    return document("Cluster", name, {"tags": tags} if tags else None)


async def handles(world: SourceWorld) -> list[str]:
    return sorted(row.handle for row in await world.manifests.memory.rows(ClusterStore))


async def tags(world: SourceWorld, handle: str = "eu-1") -> dict[str, str]:
    (row,) = await world.manifests.memory.rows(ClusterStore, handle=handle)
    return dict(row.tags)


async def retag(world: SourceWorld, **given: str) -> None:
    """Changes the tags of the cluster in the console."""
    (row,) = await world.manifests.memory.rows(ClusterStore)
    clusters = Clusters(world.manifests.memory.context)
    await clusters.update(ADMIN, row.id, ClusterChange(tags=given))


@pytest.fixture
async def world() -> SourceWorld:
    return await source_world()


async def test_a_commit_is_applied_as_the_service_account(world: SourceWorld) -> None:
    await world.create()
    sha = await world.push({"clusters.yaml": cluster("eu-1"), "more/us.yml": cluster("us-1")})
    assert await handles(world) == ["eu-1", "us-1"]
    status = await world.status()
    assert (status.result, status.applied_sha, status.seen_sha) == (SourceResult.SYNCED, sha, sha)
    async with world.manifests.memory.store.read() as tx:
        (first, _) = await audit_rows(tx, "createCluster")
    assert first.actor == "robot@example.org"
    assert first.detail["configurationSource"] == "fleet"
    assert first.detail["commit"] == sha


async def test_a_source_waits_for_the_first_fetch(
    world: SourceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new source has not failed."""
    with monkeypatch.context() as patch:
        patch.setattr(world.git, "state", lambda _: None)
        await world.create()
    status = await world.status()
    assert (status.result, status.problems) == (SourceResult.UNKNOWN, ())
    assert status.message == "waiting for the first fetch of the repository"
    await world.push({"a.yaml": cluster("eu-1")})
    assert (await world.status()).message == ""


async def test_a_second_run_writes_only_its_own_status(world: SourceWorld) -> None:
    await world.create()
    await world.push({"a.yaml": cluster("eu-1")})
    before = await world.manifests.memory.audited()
    await world.pass_interval()
    await world.sources.sync(ADMIN, (await world.rows())[0].id)
    await world.run_due()
    after = await world.manifests.memory.audited()
    assert after[len(before) :] == [("root@example.org", "syncConfigurationSource", "fleet")]


async def test_all_problems_are_recorded_and_nothing_is_changed(world: SourceWorld) -> None:
    await world.create()
    await world.push({"a.yaml": cluster("eu-1"), "b.yaml": "kind: [", "c.yaml": "kind: Cluster"})
    status = await world.status()
    assert status.result is SourceResult.FAILED
    assert {problem.file for problem in status.problems} == {"fleet/b.yaml", "fleet/c.yaml"}
    assert all(problem.line for problem in status.problems)
    assert status.applied_sha == ""
    assert await handles(world) == []


async def test_rights_are_checked_across_the_batch() -> None:
    world = await source_world(BuiltInRole.EDITOR)
    await world.create()
    await world.push({"a.yaml": cluster("eu-1") + document("Project", "shop")})
    status = await world.status()
    assert [(p.document, p.code) for p in status.problems] == [("Project shop", "FORBIDDEN")]
    assert await handles(world) == []


async def test_a_resource_that_left_the_folder_is_pruned_within_the_budget(
    world: SourceWorld,
) -> None:
    await world.create(prune=True, deletion_budget=1)
    await world.push({"a.yaml": "".join(cluster(f"c{n}") for n in range(3))})
    await world.push({"a.yaml": cluster("c0")})
    (problem,) = await world.problems()
    assert "would lose 2 resources, but at most 1" in problem
    assert await handles(world) == ["c0", "c1", "c2"]
    await world.push({"a.yaml": cluster("c0") + cluster("c1")})
    assert await world.result() is SourceResult.SYNCED
    live = [r for r in await world.manifests.memory.rows(ClusterStore) if not r.ending_at]
    assert sorted(row.handle for row in live) == ["c0", "c1"]


async def test_without_pruning_a_resource_stays(world: SourceWorld) -> None:
    await world.create()
    await world.push({"a.yaml": cluster("c0") + cluster("c1")})
    await world.push({"a.yaml": cluster("c0")})
    assert await world.result() is SourceResult.SYNCED
    assert await handles(world) == ["c0", "c1"]


async def test_a_folder_that_is_gone_deletes_nothing(world: SourceWorld) -> None:
    await world.create(prune=True, deletion_budget=100)
    await world.push({"a.yaml": cluster("c0")})
    await world.push({"a.yaml": cluster("c0")}, name="elsewhere")
    assert "there is no folder" in (await world.problems())[0]
    assert await handles(world) == ["c0"]


async def test_a_plan_waits_for_its_approval(world: SourceWorld) -> None:
    source = await world.create(mode=ApplyMode.APPROVAL)
    await world.push({"a.yaml": cluster("eu-1")})
    status = await world.status()
    assert status.result is SourceResult.AWAITING_APPROVAL
    assert [(item.action, item.name) for item in status.plan] == [(ManifestAction.CREATE, "eu-1")]
    assert await handles(world) == []
    await world.sources.approve(ADMIN, source.id, status.plan_digest)
    await world.run_due()
    assert await world.result() is SourceResult.SYNCED
    assert await handles(world) == ["eu-1"]


async def test_an_approval_is_for_one_plan(world: SourceWorld) -> None:
    source = await world.create(mode=ApplyMode.APPROVAL)
    await world.push({"a.yaml": cluster("eu-1")})
    old = (await world.status()).plan_digest
    await world.push({"a.yaml": cluster("eu-1") + cluster("us-1")})
    with pytest.raises(Conflict, match="no plan with this digest"):
        await world.sources.approve(ADMIN, source.id, old)
    assert await handles(world) == []


async def test_a_plan_that_changed_after_its_approval_waits_again(world: SourceWorld) -> None:
    source = await world.create(mode=ApplyMode.APPROVAL)
    await world.push({"a.yaml": cluster("eu-1", env="prod")})
    await world.sources.approve(ADMIN, source.id, (await world.status()).plan_digest)
    await world.manifests.apply(cluster("eu-1"))
    await world.run_due()
    assert await world.result() is SourceResult.AWAITING_APPROVAL
    assert await tags(world) == {}


async def test_drift_is_reported_with_its_field(world: SourceWorld) -> None:
    await world.create()
    await world.push({"a.yaml": cluster("eu-1", env="prod")})
    await retag(world, env="test")
    await world.pass_interval()
    status = await world.status()
    assert status.result is SourceResult.OUT_OF_SYNC
    (change,) = status.plan[0].changes
    assert (change.path, change.before, change.after) == ("spec.tags.env", '"test"', '"prod"')
    assert await tags(world) == {"env": "test"}


async def test_drift_names_the_manager_who_took_the_field_over(world: SourceWorld) -> None:
    await world.create()
    await world.push({"a.yaml": cluster("eu-1", env="prod")})
    await world.manifests.apply(cluster("eu-1", env="test"), force=True)
    await world.pass_interval()
    status = await world.status()
    assert status.result is SourceResult.OUT_OF_SYNC
    assert [(c.path, c.owner) for c in status.plan[0].conflicts] == [("spec.tags.env", "cli")]


async def test_drift_that_is_ignored_is_not_looked_for(world: SourceWorld) -> None:
    await world.create(drift=DriftPolicy.IGNORE)
    await world.push({"a.yaml": cluster("eu-1", env="prod")})
    await retag(world, env="test")
    await world.pass_interval()
    assert await world.result() is SourceResult.SYNCED
    assert await tags(world) == {"env": "test"}


@pytest.mark.parametrize("by_cli", [False, True])
async def test_a_source_that_heals_reverts_drift(world: SourceWorld, by_cli: bool) -> None:
    await world.create(drift=DriftPolicy.HEAL)
    await world.push({"a.yaml": cluster("eu-1", env="prod")})
    if by_cli:
        await world.manifests.apply(cluster("eu-1", env="test"), force=True)
    else:
        await retag(world, env="test")
    await world.pass_interval()
    assert await world.result() is SourceResult.SYNCED
    assert await tags(world) == {"env": "prod"}


async def test_a_fight_with_another_manager_ends(world: SourceWorld) -> None:
    """Another program sets the field again after each revert."""
    source = await world.create(drift=DriftPolicy.HEAL)
    await world.push({"a.yaml": cluster("eu-1", env="prod")})
    for _ in range(MAX_REVERTS + 2):
        await world.manifests.apply(cluster("eu-1", env="test"), force=True)
        await world.pass_interval()
    status = await world.status()
    assert status.result is SourceResult.OUT_OF_SYNC
    assert "spec.tags.env (set by cli)" in status.message
    assert await tags(world) == {"env": "test"}
    await world.sources.sync(ADMIN, source.id)
    await world.run_due()
    assert await tags(world) == {"env": "prod"}


async def test_a_field_of_another_manager_is_a_conflict_until_it_is_forced(
    world: SourceWorld,
) -> None:
    source = await world.create()
    await world.manifests.apply(cluster("eu-1", env="test"))
    await world.push({"a.yaml": cluster("eu-1", env="prod")})
    assert "spec.tags.env was set by cli" in (await world.problems())[0]
    await world.sources.sync(ADMIN, source.id, force=True)
    await world.run_due()
    assert await world.result() is SourceResult.SYNCED
    assert await tags(world) == {"env": "prod"}


async def test_two_sources_never_take_a_field_from_each_other(world: SourceWorld) -> None:
    files = {"one/a.yaml": cluster("eu-1", env="one"), "two/a.yaml": cluster("eu-1", env="two")}
    world.git.push_files(REPOSITORY, files)
    await world.create("one", drift=DriftPolicy.HEAL)
    await world.create("two", drift=DriftPolicy.HEAL)
    for _ in range(3):
        await world.pass_interval()
    assert await world.result("one") is SourceResult.SYNCED
    assert await world.result("two") is SourceResult.FAILED
    assert (
        "was set by git source one: remove it from one of both folders"
        in ((await world.problems("two"))[0])
    )
    assert await tags(world) == {"env": "one"}


async def test_two_sources_never_take_a_resource_from_each_others_set(
    world: SourceWorld,
) -> None:
    files = {"one/a.yaml": cluster("eu-1"), "two/a.yaml": cluster("eu-1")}
    world.git.push_files(REPOSITORY, files)
    await world.create("one", prune=True, drift=DriftPolicy.HEAL)
    await world.create("two", prune=True, drift=DriftPolicy.HEAL)
    assert await world.result("one") is SourceResult.SYNCED
    assert "belongs to the set 'git source one'" in (await world.problems("two"))[0]


async def test_changed_settings_are_applied_at_the_same_commit(world: SourceWorld) -> None:
    files = {"fleet/a.yaml": cluster("eu-1"), "other/a.yaml": cluster("us-1")}
    world.git.push_files(REPOSITORY, files)
    source = await world.create()
    await world.sources.update(ADMIN, source.id, change_of(folder="other"))
    await world.run_due()
    assert await handles(world) == ["eu-1", "us-1"]
    assert await world.result() is SourceResult.SYNCED


async def test_a_suspended_source_does_nothing_until_it_is_resumed(world: SourceWorld) -> None:
    source = await world.create()
    await world.sources.update(ADMIN, source.id, change_of(suspended=True))
    await world.push({"a.yaml": cluster("eu-1")})
    assert await handles(world) == []
    with pytest.raises(Conflict, match="suspended"):
        await world.sources.sync(ADMIN, source.id)
    await world.sources.update(ADMIN, source.id, change_of(suspended=False))
    await world.run_due()
    assert await handles(world) == ["eu-1"]


async def test_a_repository_that_does_not_answer_keeps_the_last_commit(
    world: SourceWorld,
) -> None:
    await world.create()
    sha = await world.push({"a.yaml": cluster("eu-1")})
    world.git.away = Unavailable("the server is away")
    await world.push({"a.yaml": cluster("us-1")})
    status = await world.status()
    assert (status.result, status.applied_sha) == (SourceResult.FAILED, sha)
    assert status.message == "the server is away"
    world.git.away = None
    await world.pass_interval()
    assert await handles(world) == ["eu-1", "us-1"]


async def test_a_ref_that_is_missing_is_named(world: SourceWorld) -> None:
    await world.create(ref="release")
    assert await world.problems() == ["the repository has no branch, tag or commit 'release'"]


async def test_a_commit_during_a_run_is_reconciled_next(world: SourceWorld) -> None:
    """The finished run does not put the newer request off until the next interval."""
    await world.create()
    memory = world.manifests.memory
    world.git.push_files(REPOSITORY, {"fleet/a.yaml": cluster("eu-1")})
    await world.reconciler.commits_changed(REPOSITORY)
    async with memory.store.write() as tx:
        (job,) = await tx[JobStore].claim([RECONCILE], "here", memory.clock.now(), 1)
    world.git.push_files(REPOSITORY, {"fleet/a.yaml": cluster("us-1")})
    await world.reconciler.commits_changed(REPOSITORY)
    await world.reconciler.run(job)
    await world.run_due()
    assert await handles(world) == ["us-1"]


async def test_the_job_of_a_deleted_source_ends(world: SourceWorld) -> None:
    source = await world.create()
    await world.push({"a.yaml": cluster("eu-1", env="prod")})
    await world.sources.delete(ADMIN, source.id)
    await world.pass_interval()
    async with world.manifests.memory.store.read() as tx:
        assert await tx[JobStore].next_due([RECONCILE]) is None
    plan = await world.manifests.apply(cluster("eu-1", env="test"))
    assert plan.problems == ()
