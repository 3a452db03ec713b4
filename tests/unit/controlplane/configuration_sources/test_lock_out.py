"""Commits after which a source could not repair the installation: refused with the reason."""

from dataclasses import replace
from datetime import timedelta

import pytest

from controlplane.access.operations.groups import Groups
from controlplane.access.ports import RoleBindingStore, UserStore
from controlplane.authorization import Role, Rule
from controlplane.authorization.roles import BuiltInRole
from controlplane.clusters.ports import ClusterStore
from controlplane.configuration_sources.model.source import SourceResult
from controlplane.configuration_sources.operations.lock_out import LockOutGuard
from controlplane.configuration_sources.ports import ConfigurationSourceStore
from controlplane.manifests.model.documents import DocumentProblem, Source
from controlplane.manifests.model.plan import ApplyOptions
from controlplane.repositories.operations import RepositoryChange, RepositoryOperations
from controlplane.repositories.ports import RepositoryStore
from core.spec.source import GitCredentials
from tests.fakes.access import bind, make_group
from tests.fakes.actors import ADMIN
from tests.fakes.clock import START
from tests.fakes.manifest_world import document
from tests.fakes.source_world import ACCOUNT, REPOSITORY, SourceWorld, source_world

URL = "https://fleet.example.org/fleet.git"
ALL = {"verbs": [], "kinds": []}


def own(**spec: object) -> str:
    given = {"repository": URL, "folder": "fleet", "serviceAccount": ACCOUNT.email, **spec}
    return document("ConfigurationSource", "fleet", given)


@pytest.fixture
async def world() -> SourceWorld:
    world = await source_world()
    await world.create(prune=True, deletion_budget=10)
    return world


async def refused(world: SourceWorld, text: str) -> str:
    """The one problem of a commit, of which nothing was applied."""
    await world.push({"a.yaml": text})
    (problem,) = (await world.status()).problems
    assert await world.result() is SourceResult.FAILED
    assert problem.message.startswith("the commit would ")
    return problem.message


async def test_a_source_may_change_how_it_applies(world: SourceWorld) -> None:
    await world.push({"a.yaml": own(prune=False, intervalSeconds=60, deletionBudget=3)})
    assert await world.result() is SourceResult.SYNCED
    settings = await world.settings()
    assert (settings.prune, settings.interval_s, settings.deletion_budget) == (False, 60, 3)


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"ref": "gone"}, "ref"),
        ({"folder": "elsewhere"}, "folder"),
        ({"serviceAccount": "other@example.org"}, "service_account"),
        ({"repository": "https://other.example.org/fleet.git"}, "repository"),
    ],
)
async def test_a_source_does_not_change_its_own_origin(
    world: SourceWorld, spec: dict[str, str], field: str
) -> None:
    others = document("ServiceAccount", "other@example.org")
    others += document("GitRepository", "https://other.example.org/fleet.git")
    message = await refused(world, others + own(**spec))
    assert f"change the field {field} of its own source" in message


async def test_a_source_does_not_suspend_itself(world: SourceWorld) -> None:
    assert "suspend the configuration source itself" in await refused(world, own(suspended=True))
    (problem,) = (await world.status()).problems
    assert (problem.file, problem.line) == ("fleet/a.yaml", 2)


async def test_a_source_does_not_prune_itself(world: SourceWorld) -> None:
    await world.push({"a.yaml": own(prune=True, deletionBudget=10)})
    message = await refused(world, document("Cluster", "eu-1"))
    assert "delete the configuration source itself" in message
    assert await world.manifests.memory.rows(ConfigurationSourceStore)


async def test_a_source_does_not_prune_its_repository(world: SourceWorld) -> None:
    await world.push({"a.yaml": document("GitRepository", URL)})
    await world.push({"a.yaml": document("Cluster", "eu-1")})
    assert "configuration sources follow this repository: fleet" in (await world.problems())[0]
    assert await world.manifests.memory.rows(RepositoryStore)


async def test_a_source_that_leaves_its_repository_does_not_delete_it(world: SourceWorld) -> None:
    """Without the source, nothing else would refuse the deletion."""
    other = "https://other.example.org/fleet.git"
    await world.push({"a.yaml": document("GitRepository", URL)})
    text = document("GitRepository", other) + own(repository=other, prune=True, deletionBudget=10)
    await world.push({"a.yaml": text})
    problems = {p.document: p.message for p in (await world.status()).problems}
    assert "field repository of its own source" in problems["ConfigurationSource fleet"]
    assert "delete its own repository" in problems[f"GitRepository {URL}"]
    assert len(await world.manifests.memory.rows(RepositoryStore)) == 1


async def test_a_source_does_not_change_the_credentials_of_its_repository(
    world: SourceWorld,
) -> None:
    text = document("GitRepository", URL, {"username": "git", "password": "canary-0000-word"})
    assert "change the credentials of its own repository" in await refused(world, text)


async def test_a_source_does_not_change_the_route_to_its_repository(world: SourceWorld) -> None:
    text = document("Cluster", "eu-1") + document("GitRepository", URL, {"viaCluster": "eu-1"})
    assert "change the route to its own repository" in await refused(world, text)


async def test_a_source_does_not_disable_its_own_account(world: SourceWorld) -> None:
    await world.push({"a.yaml": document("ServiceAccount", ACCOUNT.email)})
    await world.push({"a.yaml": document("Cluster", "eu-1")})
    assert "you cannot disable your own account" in (await world.problems())[0]
    assert (await world.manifests.memory.row(UserStore, ACCOUNT.id)).disabled_at is None


async def with_role(world: SourceWorld, group: bool) -> None:
    """Replaces the account's role by one that manifests can change."""
    memory = world.manifests.memory
    devs = make_group("devs")
    async with memory.store.write() as tx:
        for row in await tx[RoleBindingStore].all():
            await tx[RoleBindingStore].remove(row.id)
    role = Role("own", "own", START, START, rules=(Rule(),))
    await memory.given(role, devs, bind("own", devs if group else ACCOUNT))
    if group:
        await Groups(memory.context).add_member(ADMIN, "devs", ACCOUNT.id)


async def test_a_source_does_not_narrow_its_role(world: SourceWorld) -> None:
    await with_role(world, group=False)
    text = document("Cluster", "eu-1")
    text += document("Role", "own", {"rules": [{"verbs": ["READ"], "kinds": ["CLUSTER"]}]})
    assert "take role own in installation from its service account" in await refused(world, text)
    (problem,) = (await world.status()).problems
    assert problem.document == "Role own"


async def test_a_source_does_not_leave_the_group_of_its_role(world: SourceWorld) -> None:
    await with_role(world, group=True)
    text = document("Group", "devs", {"members": []})
    assert "take role own in installation from its service account" in await refused(world, text)


@pytest.mark.parametrize(
    "narrowed", [{"expiresAt": "2100-01-31T09:30:00Z"}, {"clusterTags": "env=dev"}]
)
async def test_a_source_does_not_bound_the_binding_of_its_role(
    world: SourceWorld, narrowed: dict[str, str]
) -> None:
    """A role that ends is lost later, and nobody could repair that with a commit."""
    await with_role(world, group=True)
    async with world.manifests.memory.store.write() as tx:
        (row,) = await tx[RoleBindingStore].all()
        await tx[RoleBindingStore].put(replace(row, name="cfg"))
    spec = {"role": "own", "subject": {"group": "devs"}, **narrowed}
    text = document("RoleBinding", "cfg", spec)
    assert "take role own in installation from its service account" in await refused(world, text)
    (problem,) = (await world.status()).problems
    assert problem.document == "RoleBinding cfg"


async def test_a_source_may_widen_its_role(world: SourceWorld) -> None:
    await with_role(world, group=False)
    await world.push({"a.yaml": document("Role", "own", {"rules": [ALL], "description": "All"})})
    assert await world.result() is SourceResult.SYNCED


async def test_the_role_on_a_deleted_project_is_no_loss(world: SourceWorld) -> None:
    bindings = {"viewer": {"users": [ACCOUNT.email]}}
    project = document("Project", "shop", {"bindings": bindings})
    await world.push({"a.yaml": project + document("Cluster", "eu-1")})
    await world.push({"a.yaml": document("Cluster", "eu-1")})
    assert await world.result() is SourceResult.SYNCED


async def test_a_plan_shows_the_lock_out_before_its_approval(world: SourceWorld) -> None:
    await world.push({"a.yaml": own(mode="APPROVAL", prune=True, deletionBudget=10)})
    assert await world.result() is SourceResult.SYNCED
    assert "suspend the configuration source" in await refused(world, own(suspended=True))


async def test_others_change_the_credentials_as_before(world: SourceWorld) -> None:
    repositories = RepositoryOperations(world.manifests.memory.context)
    change = RepositoryChange(credentials=GitCredentials(username="git", password="x"))
    await repositories.update(ADMIN, REPOSITORY, change)
    await world.push({"a.yaml": document("Cluster", "eu-1")})
    assert await world.result() is SourceResult.SYNCED


async def test_a_role_that_ends_anyway_is_no_loss() -> None:
    world = await source_world(BuiltInRole.EDITOR)
    await world.create()
    role = Role("own", "own", START, START, rules=(Rule(),))
    end = replace(bind("own", ACCOUNT), expires_at=START + timedelta(days=30))
    await world.manifests.memory.given(role, end)
    await world.push({"a.yaml": document("Cluster", "eu-1")})
    assert await world.result() is SourceResult.SYNCED


async def applied(world: SourceWorld, approved: str = "") -> list[DocumentProblem]:
    """The problems of a commit whose plan and account were read before other changes."""
    memory = world.manifests.memory
    (source,), (repository,) = await world.rows(), await memory.rows(RepositoryStore)
    guard = LockOutGuard(source, repository, ACCOUNT, memory.clock.now(), "a" * 40, approved)
    files = [Source("fleet/a.yaml", document("Cluster", "eu-1"))]
    options = ApplyOptions(manager=source.manager)
    plan = await world.manifests.manifests.apply(ADMIN, files, options, guard)
    assert not plan.applied and await memory.rows(ClusterStore) == []
    return list(plan.problems)


async def test_an_account_that_was_disabled_during_a_run_applies_nothing(
    world: SourceWorld,
) -> None:
    async with world.manifests.memory.store.write() as tx:
        await tx[UserStore].change(ACCOUNT.id, disabled_at=START)
    (problem,) = await applied(world)
    assert "disable its own service account" in problem.message
    assert (problem.file, problem.line, problem.document, problem.code) == (
        "", 0, "ConfigurationSource fleet", "CONFLICT",
    )  # fmt: skip


async def test_a_source_that_was_deleted_during_a_run_applies_nothing(world: SourceWorld) -> None:
    memory = world.manifests.memory
    (source,), (repository,) = await world.rows(), await memory.rows(RepositoryStore)
    guard = LockOutGuard(source, repository, ACCOUNT, memory.clock.now(), "a" * 40)
    await world.sources.delete(ADMIN, source.id)
    async with memory.store.write() as tx:
        await guard.begin(tx)
        (problem,) = await guard.problems(tx, [], ())
    assert "delete the configuration source itself" in problem.message


async def test_a_plan_that_changed_since_its_approval_is_not_applied(world: SourceWorld) -> None:
    (problem,) = await applied(world, approved="another")
    assert "the plan changed since its approval" in problem.message
    assert (problem.document, problem.code) == ("ConfigurationSource fleet", "CONFLICT")
