"""An installation with the services `web` and `api` on the cluster `dev`, and its secrets."""

import pytest

from controlplane.access.model.bindings import Project
from controlplane.authorization import Scope
from controlplane.authorization.roles import BuiltInRole
from controlplane.secrets.operations.secrets import Secrets
from tests.fakes.actors import person
from tests.fakes.clock import START
from tests.fakes.operations import (
    MemoryOperations,
    make_cluster,
    make_service,
    operations_over_memory,
)

SHOP = Project("shop", "shop", START, START)
EDITOR_OF_SHOP = person(BuiltInRole.EDITOR, "sue", Scope("project:shop"))
DEV = make_cluster("dev")
WEB, API = make_service("web", DEV), make_service("api", DEV)


@pytest.fixture
async def world() -> MemoryOperations:
    world = operations_over_memory()
    await world.given(DEV, WEB, API)
    return world


@pytest.fixture
def secrets(world: MemoryOperations) -> Secrets:
    return Secrets(world.context)
