"""Agents and subscribers learn at once of a version that nobody saved by hand."""

import pytest

from controlplane.clusters.model.groups import ClusterGroup
from controlplane.platform.context import DESIRED_STATE, SECRET, SERVICE
from controlplane.secrets.model.rotation import RotationDecision, RotationPlan
from controlplane.secrets.model.secret import Secret
from controlplane.secrets.operations.refresh import SecretRefresher
from controlplane.secrets.operations.rotations import Rotations
from controlplane.secrets.operations.secrets import SecretChange, Secrets
from controlplane.secrets.ports import SecretStore, SecretVersionStore
from controlplane.secrets.sources.environment import EnvironmentSource
from controlplane.services.ports import SecretUseStore
from core.errors import NotFound
from tests.fakes.actors import ADMIN, EDITOR
from tests.fakes.clock import START
from tests.fakes.operations import MemoryOperations
from tests.unit.controlplane.secrets.conftest import API, WEB, FakeSources

AGENT_OF_WEB = [(SERVICE, WEB.id), (DESIRED_STATE, f"dev/{WEB.id}")]
AGENT_OF_API = [(SERVICE, API.id), (DESIRED_STATE, f"dev/{API.id}")]
SOURCE = EnvironmentSource("DB")
PLAN = RotationPlan(batch=1, soak_s=0)
REFRESH = 60


@pytest.fixture
async def sourced(world: MemoryOperations, secrets: Secrets) -> Secret:
    """A secret of a source, which was read once, and which `web` uses."""
    secret = await secrets.save(ADMIN, "db", SecretChange(source=SOURCE, refresh_s=REFRESH))
    await SecretRefresher(world.context, FakeSources(b"one")).refresh(secret.id)
    await secrets.use(EDITOR, WEB.id, {"db": (secret.id, None)})
    await world.clock.advance(REFRESH)
    world.published.clear()
    return secret


@pytest.fixture
async def rotating(world: MemoryOperations, secrets: Secrets) -> Secret:
    """A secret that `api` and `web` use, at the start of a rotation to its second version."""
    secret = await secrets.save(EDITOR, "db", SecretChange(b"one"))
    for service in (API, WEB):
        await secrets.use(EDITOR, service.id, {"db": (secret.id, None)})
    await secrets.save(EDITOR, "db", SecretChange(b"two", plan=PLAN))
    world.published.clear()
    return secret


async def used_versions(world: MemoryOperations) -> dict[str, int]:
    return {use.service_id: use.version for use in await world.rows(SecretUseStore)}


async def test_a_new_value_of_a_source_reaches_its_services(
    world: MemoryOperations, sourced: Secret
) -> None:
    await SecretRefresher(world.context, FakeSources(b"two")).refresh(sourced.id)
    assert world.published == [(SECRET, sourced.id), *AGENT_OF_WEB]
    assert await used_versions(world) == {WEB.id: 2}


async def test_an_error_of_a_source_is_shown_once_and_reaches_no_service(
    world: MemoryOperations, sourced: Secret
) -> None:
    """A source that is away for a day sends its error to subscribers once."""
    away = SecretRefresher(world.context, FakeSources(NotFound("no such variable")))
    for _ in range(3):
        await away.refresh(sourced.id)
        await world.clock.advance(REFRESH)
    assert world.published == [(SECRET, sourced.id)]
    await SecretRefresher(world.context, FakeSources(b"one")).refresh(sourced.id)
    assert world.published == [(SECRET, sourced.id)] * 2


async def test_a_requested_refresh_is_read_before_the_next_one(
    world: MemoryOperations, sourced: Secret
) -> None:
    refresher = SecretRefresher(world.context, FakeSources(b"two"))
    await refresher.refresh(sourced.id)
    world.published.clear()
    assert (await refresher.request(EDITOR, sourced.id)).name == "db"
    assert world.published == [(SECRET, sourced.id)]
    assert await refresher.due() == [sourced.id]


async def test_a_batch_of_a_rotation_reaches_its_services_only(
    world: MemoryOperations, rotating: Secret
) -> None:
    await Rotations(world.context).advance(rotating.id)
    assert world.published == [(SECRET, rotating.id), *AGENT_OF_API]
    assert await used_versions(world) == {API.id: 2, WEB.id: 1}
    world.published.clear()
    await Rotations(world.context).advance(rotating.id)
    assert world.published == []


async def test_an_aborted_rotation_gives_services_the_old_version_back(
    world: MemoryOperations, secrets: Secrets, rotating: Secret
) -> None:
    await Rotations(world.context).advance(rotating.id)
    world.published.clear()
    await secrets.decide(EDITOR, rotating.id, RotationDecision.ABORT)
    assert world.published == [(SECRET, rotating.id), *AGENT_OF_API]
    assert await used_versions(world) == {API.id: 1, WEB.id: 1}


async def test_a_new_use_gets_the_new_version_only_during_a_rotation(
    world: MemoryOperations, secrets: Secrets, rotating: Secret
) -> None:
    """It needs no move then; after an abort nobody else has the new version."""
    for decision, version in ((None, 2), (RotationDecision.ABORT, 1)):
        if decision is not None:
            await secrets.decide(EDITOR, rotating.id, decision)
        await secrets.use(EDITOR, WEB.id, {})
        await secrets.use(EDITOR, WEB.id, {"db": (rotating.id, None)})
        assert (await used_versions(world))[WEB.id] == version


async def test_a_rotation_waits_for_a_frozen_cluster(
    world: MemoryOperations, rotating: Secret
) -> None:
    """Nothing in the cluster changes, and the old version stays valid."""
    frozen = ClusterGroup("g", "eu", START, START, cluster_ids=("dev",), frozen=True)
    await world.given(frozen)
    await Rotations(world.context).advance(rotating.id)
    assert await used_versions(world) == {API.id: 1, WEB.id: 1}
    (row,) = await world.rows(SecretStore)
    assert row.rotation is not None
    assert row.rotation.reason == "pinned, or in frozen clusters: api, web"


async def test_services_that_were_left_behind_follow_after_the_end_of_a_rotation(
    world: MemoryOperations, secrets: Secrets, rotating: Secret
) -> None:
    """A service whose cluster was frozen during an abort, for example."""
    await secrets.decide(EDITOR, rotating.id, RotationDecision.ABORT)
    rotations = Rotations(world.context)
    assert await rotations.outdated() == []
    async with world.store.write() as tx:
        (use,) = [use for use in await tx[SecretUseStore].all() if use.service_id == WEB.id]
        await tx[SecretUseStore].change(use.id, version=2)
    world.published.clear()
    assert await rotations.outdated() == [rotating.id]
    await rotations.advance(rotating.id)
    assert world.published == AGENT_OF_WEB
    assert await used_versions(world) == {API.id: 1, WEB.id: 1}


async def test_a_secret_without_a_value_moves_nothing(
    world: MemoryOperations, secrets: Secrets
) -> None:
    """Its source was not read yet."""
    secret = await secrets.save(ADMIN, "db", SecretChange(source=SOURCE))
    world.published.clear()
    await Rotations(world.context).advance(secret.id)
    assert world.published == []
    assert await world.rows(SecretStore) == [secret]


async def test_a_revoked_version_keeps_the_time_of_its_end(
    world: MemoryOperations, secrets: Secrets
) -> None:
    for value in (b"one", b"two"):
        secret = await secrets.save(EDITOR, "db", SecretChange(value))
    for _ in range(2):
        assert await secrets.revoke(EDITOR, secret.id, 1) == secret
        await world.clock.advance(1)
    ends = {row.number: row.revoked_at for row in await world.rows(SecretVersionStore)}
    assert ends == {1: START, 2: None}


async def test_a_secret_that_got_a_value_by_hand_is_not_read(
    world: MemoryOperations, secrets: Secrets, sourced: Secret
) -> None:
    await secrets.save(EDITOR, "db", SecretChange(b"set by hand"))
    sources = FakeSources(b"two")
    refresher = SecretRefresher(world.context, sources)
    assert await refresher.due() == []
    await refresher.refresh(sourced.id)
    assert sources.projects == []
