"""Denied revisions belong to projects: nobody reads or decides those of another tenant."""

import pytest

from controlplane.access.model.bindings import Project
from controlplane.authorization import ResourceKind
from controlplane.authorization.resources import scope_of
from controlplane.authorization.roles import BuiltInRole
from controlplane.pipelines.operations.overrides import ReleaseDecisions
from controlplane.pipelines.operations.pipelines import Pipelines
from controlplane.services.ports import DeniedRevisionStore
from core.errors import Conflict, Forbidden, NotFound
from tests.fakes.actors import ADMIN, VIEWER, person
from tests.fakes.clock import START
from tests.fakes.operations import MemoryOperations, operations_over_memory

OURS = Project("00000000-0000-7000-8000-000000000008", "ours", START, START)
THEIRS = Project("00000000-0000-7000-8000-000000000009", "theirs", START, START)
OWNER = person(BuiltInRole.ADMIN, "owner", scope_of(ResourceKind.PROJECT, OURS.id))
BAD = "a" * 40


@pytest.fixture
async def world() -> MemoryOperations:
    world = operations_over_memory()
    await world.given(OURS, THEIRS)
    return world


def decisions(world: MemoryOperations) -> ReleaseDecisions:
    return ReleaseDecisions(world.context, Pipelines(world.context))


async def test_an_owner_denies_and_allows_in_their_project_only(world: MemoryOperations) -> None:
    releases = decisions(world)
    denied = await releases.deny_revision(OWNER, BAD, "loses orders", OURS.id)
    assert (denied.revision, denied.project_id) == (BAD, OURS.id)
    with pytest.raises(Conflict, match="already denied"):
        await releases.deny_revision(OWNER, BAD, "again", OURS.id)
    for project in (THEIRS.id, None):
        with pytest.raises(Forbidden):
            await releases.deny_revision(OWNER, BAD, "theirs too", project)
        with pytest.raises(Forbidden):
            await releases.allow_revision(OWNER, BAD, project)
    await releases.allow_revision(OWNER, BAD, OURS.id)
    assert await world.rows(DeniedRevisionStore) == []
    with pytest.raises(NotFound):
        await releases.allow_revision(OWNER, BAD, OURS.id)


async def test_an_unknown_project_is_not_found(world: MemoryOperations) -> None:
    with pytest.raises(NotFound):
        await decisions(world).deny_revision(ADMIN, BAD, "why", "nowhere")


async def test_denials_are_listed_to_readers_of_the_project(world: MemoryOperations) -> None:
    releases = decisions(world)
    for project in (None, OURS.id, THEIRS.id):
        await releases.deny_revision(ADMIN, BAD, "why", project)
    found = {actor: await releases.denied_revisions(actor) for actor in (OWNER, VIEWER)}
    assert {row.project_id for row in found[OWNER]} == {None, OURS.id}
    assert {row.project_id for row in found[VIEWER]} == {None, OURS.id, THEIRS.id}


async def test_whoever_decides_for_all_projects_allows_in_each(world: MemoryOperations) -> None:
    releases = decisions(world)
    for project in (None, OURS.id):
        await releases.deny_revision(ADMIN, BAD, "why", project)
    await releases.allow_revision(ADMIN, BAD)
    assert await world.rows(DeniedRevisionStore) == []
