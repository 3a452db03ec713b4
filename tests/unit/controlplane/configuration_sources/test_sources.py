"""Operations on configuration sources: rights, references, folders and nested sources."""

from dataclasses import replace
from typing import Any

import pytest

from controlplane.access.operations.projects import Projects
from controlplane.access.operations.service_accounts import ServiceAccounts
from controlplane.access.operations.users import Users
from controlplane.authorization import UNRESTRICTED, ResourceKind, Role, Rule, Verb
from controlplane.authorization.roles import BuiltInRole
from controlplane.configuration_sources.model.source import ApplyMode, SourceResult
from controlplane.configuration_sources.operations.sources import (
    ConfigurationSourceChange,
    count_results,
)
from controlplane.manifests.model.plan import ApplyOptions
from controlplane.platform.ports import PageQuery
from controlplane.repositories.operations import RepositoryChange, RepositoryOperations
from controlplane.services.operations.fences import ServiceFences
from core.errors import Conflict, Forbidden, Invalid, NotFound
from core.spec.source import GitCredentials
from tests.fakes.access import bind
from tests.fakes.actors import ADMIN, EDITOR, NOBODY, VIEWER, person
from tests.fakes.clock import START
from tests.fakes.manifest_world import document
from tests.fakes.operations import make_repository
from tests.fakes.source_world import ACCOUNT, REPOSITORY, SourceWorld, change_of, source_world

URL = "https://fleet.example.org/fleet.git"


@pytest.fixture
async def world() -> SourceWorld:
    return await source_world()


def nested(name: str, **spec: object) -> str:
    given = {"repository": URL, "folder": name, "serviceAccount": ACCOUNT.email, **spec}
    return document("ConfigurationSource", name, given)


async def test_nobody_gets_more_rights_through_a_source(world: SourceWorld) -> None:
    """The account is an administrator: an editor who made a source would be one as well."""
    with pytest.raises(Forbidden, match="permissions that you have"):
        await world.create(actor=EDITOR)
    with pytest.raises(Forbidden):
        await world.create(actor=VIEWER)
    assert await world.rows() == []


async def test_an_editor_makes_a_source_with_rights_of_an_editor() -> None:
    world = await source_world(BuiltInRole.EDITOR)
    await world.create(actor=EDITOR)
    await world.push({"a.yaml": document("Cluster", "eu-1")})
    assert await world.result() is SourceResult.SYNCED


async def test_an_editor_redirects_no_source_with_more_rights(world: SourceWorld) -> None:
    source = await world.create()
    for change in (change_of(folder="mine"), change_of(ref="mine"), change_of(prune=True)):
        with pytest.raises(Forbidden):
            await world.sources.update(EDITOR, source.id, change)
    suspended = await world.sources.update(EDITOR, source.id, change_of(suspended=True))
    assert suspended.settings.suspended


async def test_an_editor_redirects_no_repository_of_a_source_with_more_rights(
    world: SourceWorld,
) -> None:
    await world.create()
    repositories = RepositoryOperations(world.manifests.memory.context)
    for change in (
        RepositoryChange(url="https://evil.example.org/fleet.git"),
        RepositoryChange(credentials=GitCredentials(proxy="http://evil.example.org:8080")),
        RepositoryChange(submodules=True),
    ):
        with pytest.raises(Forbidden):
            await repositories.update(EDITOR, REPOSITORY, change)
    await repositories.update(EDITOR, REPOSITORY, RepositoryChange(https_path="https://x.example"))
    with pytest.raises(Conflict, match="configuration sources follow this repository: fleet"):
        await repositories.delete(ADMIN, REPOSITORY)


async def test_a_project_with_a_source_is_not_empty(world: SourceWorld) -> None:
    await world.manifests.apply(document("Project", "shop"))
    memory = world.manifests.memory
    projects = Projects(memory.context, ServiceFences(), UNRESTRICTED)
    project = await projects.get(ADMIN, None, "shop")
    await world.create(project_id=project.id)
    with pytest.raises(Conflict, match="1 configuration sources"):
        await projects.delete(ADMIN, project.id)


async def test_only_readers_see_a_source(world: SourceWorld) -> None:
    source = await world.create()
    assert (await world.sources.get(VIEWER, source.id)).name == "fleet"
    assert len((await world.sources.page(VIEWER, PageQuery())).items) == 1
    assert (await world.sources.page(NOBODY, PageQuery())).items == ()
    with pytest.raises(NotFound):
        await world.sources.get(NOBODY, source.id)


async def test_a_viewer_of_one_project_sees_no_fields_of_others(world: SourceWorld) -> None:
    await world.manifests.apply(document("Project", "shop"))
    projects = Projects(world.manifests.memory.context, ServiceFences(), UNRESTRICTED)
    project = await projects.get(ADMIN, None, "shop")
    await world.create(project_id=project.id, mode=ApplyMode.APPROVAL)
    await world.push({"a.yaml": document("Cluster", "eu-1", {"tags": {"env": "prod"}})})
    viewer = person(BuiltInRole.VIEWER, "shop", project.target.scope)
    (listed,) = (await world.sources.page(viewer, PageQuery())).items
    (item,) = listed.status.plan
    assert (item.name, item.changes) == ("eu-1", ())
    (item,) = (await world.sources.get(VIEWER, None, "fleet")).status.plan
    assert item.changes


async def test_the_account_of_a_source_does_not_approve_its_plans(world: SourceWorld) -> None:
    source = await world.create(mode=ApplyMode.APPROVAL)
    await world.push({"a.yaml": document("Cluster", "eu-1")})
    digest = (await world.status()).plan_digest
    with pytest.raises(Forbidden, match="cannot approve its plan"):
        await world.sources.approve(replace(ADMIN, id=ACCOUNT.id), source.id, digest)
    with pytest.raises(Forbidden):
        await world.sources.approve(VIEWER, source.id, digest)
    await world.sources.approve(EDITOR, source.id, digest)
    await world.run_due()
    assert await world.result() is SourceResult.SYNCED


@pytest.mark.parametrize(
    ("columns", "field"),
    [
        ({"name": "Fleet"}, "name"),
        ({"name": "x" * 53}, "name"),
        ({"interval_s": 5}, "intervalSeconds"),
        ({"deletion_budget": -1}, "deletionBudget"),
        ({"folder": "../x"}, "git.folder"),
        ({"ref": "a..b"}, "git.ref"),
        ({"repository_id": None}, "repository"),
        ({"service_account_id": None}, "service_account"),
    ],
)
async def test_values_outside_of_their_limits_are_refused(
    world: SourceWorld, columns: dict[str, Any], field: str
) -> None:
    with pytest.raises(Invalid) as raised:
        await world.create(**columns)
    assert raised.value.field == field


async def test_references_have_to_exist(world: SourceWorld) -> None:
    for name in ("repository_id", "service_account_id"):
        with pytest.raises(NotFound, match="does not exist"):
            given: Any = {name: "none"}
            await world.create(**given)


async def test_a_name_is_unique_and_stays(world: SourceWorld) -> None:
    source = await world.create()
    with pytest.raises(Conflict, match="already exists"):
        await world.create()
    with pytest.raises(Invalid, match="cannot be changed"):
        await world.sources.update(ADMIN, source.id, ConfigurationSourceChange(name="other"))


async def test_a_source_moves_to_no_other_project(world: SourceWorld) -> None:
    source = await world.create()
    await world.sources.update(ADMIN, source.id, replace(change_of(), project_id=source.project_id))
    with pytest.raises(Conflict, match="cannot be moved to another project"):
        await world.sources.update(ADMIN, source.id, replace(change_of(), project_id="shop"))


async def test_a_folder_belongs_to_one_source(world: SourceWorld) -> None:
    await world.create()
    for folder in ("fleet", "fleet/teams", ""):
        with pytest.raises(Conflict, match="would belong to both"):
            await world.create("other", folder=folder)
    await world.create("fleets", folder="fleets")
    await world.create("branch", folder="fleet", ref="branch")
    await world.manifests.memory.given(make_repository("second"))
    await world.create("second", folder="fleet", repository_id="second")


async def test_a_source_creates_sources_of_other_folders(world: SourceWorld) -> None:
    files = {"fleet/apps.yaml": nested("apps"), "apps/eu.yaml": document("Cluster", "eu-1")}
    world.git.push_files(REPOSITORY, files)
    await world.create()
    await world.run_due()
    assert await world.result("fleet") is SourceResult.SYNCED
    assert await world.result("apps") is SourceResult.SYNCED
    assert "kind: Cluster" in await world.manifests.export("Cluster")


async def test_sources_that_manage_each_other_are_refused(world: SourceWorld) -> None:
    back = nested("fleet", folder="fleet")
    world.git.push_files(REPOSITORY, {"fleet/a.yaml": nested("apps"), "apps/a.yaml": back})
    await world.create()
    await world.run_due()
    assert await world.result("fleet") is SourceResult.SYNCED
    assert await world.problems("apps") == [
        "configuration sources manage each other: fleet → apps → fleet"
    ]


async def test_sources_that_manage_each_other_through_others_are_refused(
    world: SourceWorld,
) -> None:
    """A resource of another kind may have the name of an ancestor."""
    files = {
        "fleet/a.yaml": nested("apps"),
        "apps/a.yaml": nested("teams") + document("Cluster", "fleet"),
        "teams/a.yaml": nested("fleet", folder="fleet"),
    }
    world.git.push_files(REPOSITORY, files)
    await world.create()
    await world.run_due()
    assert await world.result("apps") is SourceResult.SYNCED
    assert await world.problems("teams") == [
        "configuration sources manage each other: fleet → apps → teams → fleet"
    ]


async def test_a_nested_source_gets_no_more_rights_than_its_parent() -> None:
    world = await source_world(BuiltInRole.EDITOR)
    reader = Role(
        "reader", "reader", START, START, rules=(Rule((Verb.READ,), (ResourceKind.USER,)),)
    )
    await world.manifests.memory.given(reader, bind("reader", ACCOUNT))
    operations = world.manifests.operations
    root = await operations[ServiceAccounts].create(ADMIN, "root")
    await operations[Users].upsert(ADMIN, root.email, role="admin")
    await world.create()
    await world.push({"a.yaml": nested("apps", serviceAccount=root.email)})
    assert "you can only grant permissions that you have" in (await world.problems())[0]
    assert [row.name for row in await world.rows()] == ["fleet"]


async def test_sources_are_counted_by_their_results(world: SourceWorld) -> None:
    await world.create("failing", folder="none")
    suspended = await world.create("suspended", folder="other")
    await world.sources.update(ADMIN, suspended.id, change_of(suspended=True))
    async with world.manifests.memory.store.read() as tx:
        counts = await count_results(tx)
    assert counts == {
        "unknown": 0, "synced": 0, "out-of-sync": 0, "awaiting-approval": 0, "failed": 1,
    }  # fmt: skip


async def test_names_of_sources_are_no_managers_of_others(world: SourceWorld) -> None:
    name = "git source fleet"
    for options in (ApplyOptions(manager=name), ApplyOptions(prune_set=name)):
        with pytest.raises(Invalid, match="is the name of a configuration source"):
            await world.manifests.manifests.apply(ADMIN, [], options)
