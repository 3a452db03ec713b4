"""An installation with the services `web` and `api` on the cluster `dev`, and its secrets."""

import pytest

from controlplane.access.model.bindings import Project
from controlplane.authorization import Scope
from controlplane.authorization.roles import BuiltInRole
from controlplane.secrets.model.secret_source import SecretSource
from controlplane.secrets.operations.secrets import Secrets
from core.errors import TowlineError
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


class FakeSources:
    """Implements `ExternalSecrets` with one answer."""

    def __init__(self, answer: bytes | TowlineError) -> None:
        self.answer = answer
        self.projects: list[str] = []

    async def read(self, source: SecretSource, project: str) -> bytes:
        self.projects.append(project)
        if isinstance(self.answer, bytes):
            return self.answer
        raise self.answer


@pytest.fixture
async def world() -> MemoryOperations:
    world = operations_over_memory()
    await world.given(DEV, WEB, API)
    return world


@pytest.fixture
def secrets(world: MemoryOperations) -> Secrets:
    return Secrets(world.context)
