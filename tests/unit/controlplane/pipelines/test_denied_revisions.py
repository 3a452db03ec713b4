"""Denied revisions belong to projects: nobody reads or decides those of another tenant."""

import pytest

from controlplane.access.model.bindings import Project
from controlplane.authorization import ResourceKind
from controlplane.authorization.resources import scope_of
from controlplane.authorization.roles import BuiltInRole
from controlplane.pipelines.operations.denied_revisions import RevisionDenials
from controlplane.pipelines.operations.engine_runner import EngineRunner
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


def denials_of(world: MemoryOperations) -> RevisionDenials:
    return RevisionDenials(world.context, EngineRunner(world.context))


async def test_an_owner_denies_and_allows_in_their_project_only(world: MemoryOperations) -> None:
    denials = denials_of(world)
    denied = await denials.deny(OWNER, BAD, "loses orders", OURS.id)
    assert (denied.revision, denied.project_id) == (BAD, OURS.id)
    with pytest.raises(Conflict, match="already denied"):
        await denials.deny(OWNER, BAD, "again", OURS.id)
    for project in (THEIRS.id, None):
        with pytest.raises(Forbidden):
            await denials.deny(OWNER, BAD, "theirs too", project)
        with pytest.raises(Forbidden):
            await denials.allow(OWNER, BAD, project)
    await denials.allow(OWNER, BAD, OURS.id)
    assert await world.rows(DeniedRevisionStore) == []
    with pytest.raises(NotFound):
        await denials.allow(OWNER, BAD, OURS.id)


async def test_an_unknown_project_is_not_found(world: MemoryOperations) -> None:
    with pytest.raises(NotFound):
        await denials_of(world).deny(ADMIN, BAD, "why", "nowhere")


async def test_denials_are_listed_to_readers_of_the_project(world: MemoryOperations) -> None:
    denials = denials_of(world)
    for project in (None, OURS.id, THEIRS.id):
        await denials.deny(ADMIN, BAD, "why", project)
    found = {actor: await denials.all(actor) for actor in (OWNER, VIEWER)}
    assert {row.project_id for row in found[OWNER]} == {None, OURS.id}
    assert {row.project_id for row in found[VIEWER]} == {None, OURS.id, THEIRS.id}


async def test_whoever_decides_for_all_projects_allows_in_each(world: MemoryOperations) -> None:
    denials = denials_of(world)
    for project in (None, OURS.id):
        await denials.deny(ADMIN, BAD, "why", project)
    await denials.allow(ADMIN, BAD)
    assert await world.rows(DeniedRevisionStore) == []
