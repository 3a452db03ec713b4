"""Deployment settings, and the deploy tokens of agents."""

import pytest

from controlplane.access.model.users import Token
from controlplane.authorization import Scope
from controlplane.authorization.roles import BuiltInRole
from controlplane.clusters.model.agent_settings import SETTINGS_ID, DeploymentSettings
from controlplane.clusters.operations.agent_settings import (
    DeploymentSettingsChange,
    DeploymentSettingsOperations,
)
from controlplane.clusters.operations.deploy_tokens import DeployTokenReader
from controlplane.clusters.ports import DeploymentSettingsStore
from core.errors import Forbidden, Invalid
from core.identity import TokenKind
from tests.fakes.actors import ADMIN, EDITOR, NOBODY, VIEWER, person
from tests.fakes.clock import START
from tests.fakes.operations import MemoryOperations, make_cluster, operations_over_memory

AUDIT = ("root@example.org", "updateDeploymentSettings", "deployment settings")


@pytest.fixture
def world() -> MemoryOperations:
    return operations_over_memory()


@pytest.fixture
def settings(world: MemoryOperations) -> DeploymentSettingsOperations:
    return DeploymentSettingsOperations(world.context)


async def test_settings_have_defaults(
    world: MemoryOperations, settings: DeploymentSettingsOperations
) -> None:
    """Users who may register clusters in one project may read them; nobody else."""
    of_project = person(BuiltInRole.EDITOR, "sue", Scope("project:shop"))
    for actor in (EDITOR, of_project):
        assert await settings.settings(actor) == DeploymentSettings(SETTINGS_ID, START)
    for actor in (VIEWER, NOBODY):
        with pytest.raises(Forbidden):
            await settings.settings(actor)
    assert await world.rows(DeploymentSettingsStore) == []


async def test_a_change_keeps_what_it_does_not_name(
    world: MemoryOperations, settings: DeploymentSettingsOperations
) -> None:
    await settings.change(ADMIN, DeploymentSettingsChange("replicas: 2", True))
    await world.clock.advance(1)
    await settings.change(ADMIN, DeploymentSettingsChange(agent_values_templated=False))
    (row,) = await world.rows(DeploymentSettingsStore)
    assert row == DeploymentSettings(SETTINGS_ID, world.clock.now(), "replicas: 2", False)
    emptied = await settings.change(ADMIN, DeploymentSettingsChange(""))
    assert emptied.agent_values is None
    assert await settings.settings(EDITOR) == emptied
    assert await world.audited() == [AUDIT] * 3


async def test_only_administrators_change_settings(
    world: MemoryOperations, settings: DeploymentSettingsOperations
) -> None:
    with pytest.raises(Forbidden):
        await settings.change(EDITOR, DeploymentSettingsChange("x"))
    with pytest.raises(Invalid) as error:
        await settings.change(ADMIN, DeploymentSettingsChange("x" * (64 * 1024 + 1)))
    assert error.value.field == "agentHelmValues"
    assert await world.rows(DeploymentSettingsStore) == [] and await world.audited() == []


async def test_a_deploy_token_is_found_with_its_cluster(world: MemoryOperations) -> None:
    def token(id: str, cluster: str | None) -> Token:
        return Token(id, TokenKind.AGENT, id, f"hash-{id}", START, cluster_id=cluster)

    kept, ended = make_cluster("kept"), make_cluster("ended", deleted_at=START)
    tokens = [token("t1", "kept"), token("t2", "ended"), token("t3", None)]
    await world.given(kept, ended, *tokens)
    reader = DeployTokenReader(world.store)
    assert await reader.find("hash-t1") == (tokens[0], "kept")
    assert await reader.find("hash-t2") == (tokens[1], None)
    assert await reader.find("hash-t3") == (tokens[2], None)
    assert await reader.find("nonsense") is None
