"""Secrets: values are write-only, versions are shown, and only the agent opens its values."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from controlplane.access.operations.projects import ProjectChange
from controlplane.authorization import BUILT_IN, INSTALLATION, UNRESTRICTED, Grant, Policy, Scope
from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.operations.groups import ClusterGroupChange, ClusterGroups
from controlplane.platform.ports import PageQuery
from controlplane.secrets.model.rotation import RotationDecision, RotationPhase, RotationPlan
from controlplane.secrets.model.secret import Secret
from controlplane.secrets.operations.rotations import Rotations
from controlplane.secrets.operations.secrets import SecretChange, Secrets
from controlplane.secrets.ports import SecretVersionStore
from controlplane.services.model.service import Service
from controlplane.services.operations.services import ServiceChange
from controlplane.services.ports import LedgerStore
from core.errors import Conflict, Forbidden, Invalid, NotFound
from core.spec.status import Phase
from tests.fakes.audit_rows import audit_rows
from tests.fakes.manifests import config_map
from tests.integration.controlplane.conftest import Role, World, person

CANARY = b"canary-9f31-of-the-store"


@pytest.fixture
def secrets(world: World) -> Secrets:
    return Secrets(world.deps)


async def saved(secrets: Secrets, world: World, value: bytes = CANARY, **more: Any) -> Secret:
    return await secrets.save(world.admin, "db", SecretChange(value, **more))


async def user_of(
    world: World, name: str = "shop", cluster: Cluster | None = None, **uses: str
) -> Service:
    """A delivered service that uses secrets: placeholder to id."""
    cluster = cluster or await world.cluster(name)
    repository = await world.repository(f"https://git.example.org/{name}.git")
    service = await world.service(cluster, repository, name)
    world.manifests.push(repository.id, {name: [config_map(name)]})
    await world.delivery.deliver(repository.id)
    if uses:
        wanted = {key: (id, None) for key, id in uses.items()}
        await Secrets(world.deps).use(world.admin, service.id, wanted)
    return await world.get(service)


async def opened(world: World, service: Service) -> Mapping[str, bytes]:
    """Values that the service's agent opens."""
    boxes = await world.agents.secrets(await world.get(service))
    return {one.name: world.agent_key.open(one, service.id) for one in boxes}


async def test_the_agent_opens_what_its_service_uses(world: World, secrets: Secrets) -> None:
    secret = await saved(secrets, world)
    service = await user_of(world, password=secret.id)
    assert await opened(world, service) == {"password": CANARY}


async def test_no_verb_answers_with_a_value(world: World, secrets: Secrets) -> None:
    """Neither do repr, ledger and audit trail, nor a row of the store."""
    secret = await saved(secrets, world)
    service = await user_of(world, password=secret.id)
    everything = repr(
        [
            await secrets.get(world.admin, secret.id),
            await secrets.versions(world.admin, secret.id),
            await secrets.consumers(world.admin, secret.id),
            await secrets.used_by(world.admin, service.id),
            SecretChange(CANARY),
        ]
    )
    async with world.deps.store.read() as tx:
        rows = await tx[SecretVersionStore].all()
        everything += repr([await tx[LedgerStore].select(), await audit_rows(tx)])
    assert CANARY.decode() not in everything
    assert all(CANARY not in (row.sealed or b"") for row in rows)


async def test_a_new_value_raises_the_sequence_of_each_user_once(
    world: World, secrets: Secrets
) -> None:
    """And the same value again is no new version."""
    secret = await saved(secrets, world)
    service = await user_of(world, password=secret.id)
    stranger = await user_of(world, "other")
    for value, raised, version in ((CANARY, 0, 1), (b"second", 1, 2)):
        before = (await world.get(service)).desired.generation
        after = await saved(secrets, world, value)
        assert (after.current, after.newest) == (version, version)
        assert (await world.get(service)).desired.generation == before + raised
    assert (await world.get(stranger)).desired.generation == stranger.desired.generation
    assert await opened(world, service) == {"password": b"second"}
    async with world.deps.store.read() as tx:
        last = (await tx[LedgerStore].select(service_id=service.id))[-1]
    assert last.message == "secrets: password is version 2 of db"


async def test_a_version_says_when_the_value_changes_and_only_then(
    world: World, secrets: Secrets
) -> None:
    secret = await saved(secrets, world)
    service = await user_of(world, password=secret.id)
    first = (await world.agents.secrets(service))[0].version
    assert (await world.agents.secrets(service))[0].version == first
    await saved(secrets, world, b"second")
    assert (await world.agents.secrets(service))[0].version != first


async def test_a_pinned_use_keeps_its_version(world: World, secrets: Secrets) -> None:
    secret = await saved(secrets, world)
    service = await user_of(world)
    await secrets.use(world.admin, service.id, {"password": (secret.id, 1)})
    await saved(secrets, world, b"second")
    assert await opened(world, service) == {"password": CANARY}
    with pytest.raises(Conflict, match="used by 1"):
        await secrets.revoke(world.admin, secret.id, 1)
    await secrets.use(world.admin, service.id, {"password": (secret.id, None)})
    await secrets.revoke(world.admin, secret.id, 1)
    async with world.deps.store.read() as tx:
        row = await tx[SecretVersionStore].numbered(secret.id, 1)
    assert row.sealed is None and row.revoked_at is not None
    with pytest.raises(Conflict, match="current"):
        await secrets.revoke(world.admin, secret.id, 2)


async def test_a_clone_uses_the_same_secrets(world: World, secrets: Secrets) -> None:
    """If whoever clones may hand them out."""
    secret, cluster = await saved(secrets, world), await world.cluster()
    model = await user_of(world, cluster=cluster, password=secret.id)
    plain = await user_of(world, "plain", cluster)
    grants = (
        Grant(BUILT_IN[Role.VIEWER], INSTALLATION),
        Grant(BUILT_IN[Role.EDITOR], cluster.target.scope),
    )
    local = replace(person(None, "eve"), policy=Policy(grants))
    wanted = ((world.admin, model, {"password": CANARY}), (local, plain, {}))
    for actor, one, values in wanted:
        change = ServiceChange(name=f"{one.name}-twin")
        twin = await world.services.clone(actor, one.id, cluster.id, change)
        assert await opened(world, twin) == values
    with pytest.raises(Forbidden):
        await world.services.clone(local, model.id, cluster.id, ServiceChange(name="third"))


async def test_a_secret_in_use_stays_and_goes_with_its_last_user(
    world: World, secrets: Secrets
) -> None:
    secret = await saved(secrets, world)
    service = await user_of(world, password=secret.id)
    with pytest.raises(Conflict, match="shop"):
        await secrets.delete(world.admin, secret.id)
    await secrets.use(world.admin, service.id, {})
    await secrets.delete(world.admin, secret.id)
    with pytest.raises(NotFound):
        await secrets.get(world.admin, secret.id)


async def test_a_project_with_secrets_stays_and_a_service_takes_its_uses_along(
    world: World, secrets: Secrets
) -> None:
    project = await world.projects.create(
        world.admin, ProjectChange(name="vault", fence=UNRESTRICTED)
    )
    secret = await saved(secrets, world, project_id=project.id)
    with pytest.raises(Conflict, match="1 secrets"):
        await world.projects.delete(world.admin, project.id)
    unseen = await world.cluster("new", connected=False)
    service = await user_of(world, cluster=unseen, password=secret.id)
    await world.services.delete(world.admin, service.id)
    assert await secrets.consumers(world.admin, secret.id) == []
    await secrets.delete(world.admin, secret.id)
    await world.projects.delete(world.admin, project.id)


async def test_an_agent_without_a_key_gets_none(world: World, secrets: Secrets) -> None:
    secret = await saved(secrets, world)
    service = await user_of(
        world, cluster=await world.cluster("old", connected=False), password=secret.id
    )
    with pytest.raises(Conflict, match="no key"):
        await world.agents.secrets(service)


async def test_rights_are_asked_for_by_verb(world: World, secrets: Secrets) -> None:
    """An editor of a service may not hand it a secret for that; viewers change nothing."""
    project = await world.projects.create(
        world.admin, ProjectChange(name="vault", fence=UNRESTRICTED)
    )
    secret = await saved(secrets, world, project_id=project.id)
    service = await user_of(world)
    own = person(Role.EDITOR, "bob", service.target.scope)
    with pytest.raises(NotFound):
        await secrets.use(own, service.id, {"password": (secret.id, None)})
    viewer = person(Role.VIEWER, "eve", INSTALLATION)
    assert (await secrets.get(viewer, secret.id)).name == "db"
    for attempt in (
        secrets.save(viewer, "db", SecretChange(b"x")),
        secrets.delete(viewer, secret.id),
        secrets.revoke(viewer, secret.id, 1),
        secrets.use(viewer, service.id, {}),
    ):
        with pytest.raises(Forbidden):
            await attempt
    stranger = person(Role.VIEWER, "sam", Scope(f"cluster:{service.cluster_id}"))
    assert (await secrets.page(stranger, PageQuery())).items == ()
    editor = person(Role.EDITOR, "joe", INSTALLATION)
    await secrets.use(editor, service.id, {"password": (secret.id, None)})


@pytest.mark.parametrize("value", [b"", b"x" * (512 * 1024 + 1)], ids=["empty", "huge"])
async def test_values_that_cannot_be_kept_are_refused(
    world: World, secrets: Secrets, value: bytes
) -> None:
    with pytest.raises(Invalid):
        await saved(secrets, world, value)


async def test_a_frozen_cluster_gets_the_new_value_when_it_thaws(
    world: World, secrets: Secrets
) -> None:
    secret = await saved(secrets, world)
    service = await user_of(world, password=secret.id)
    groups = ClusterGroups(world.deps)
    group = await groups.create(
        world.admin, ClusterGroupChange(name="eu", cluster_ids=[service.cluster_id])
    )
    await groups.freeze(world.admin, group.id, "holidays")
    await saved(secrets, world, b"second")
    await Rotations(world.deps).advance(secret.id)
    assert await opened(world, service) == {"password": CANARY}
    await groups.unfreeze(world.admin, group.id)
    await Rotations(world.deps).advance(secret.id)
    assert await opened(world, service) == {"password": b"second"}


async def test_a_rotation_moves_consumers_one_by_one_and_then_revokes(
    world: World, secrets: Secrets
) -> None:
    """No consumer loses the old version before it is healthy with the new one."""
    secret = await saved(secrets, world)
    users = [await user_of(world, name, password=secret.id) for name in ("a", "b")]
    plan = RotationPlan(batch=1, soak_s=5)
    await saved(secrets, world, b"second", plan=plan)
    for turn in (1, 2):
        await Rotations(world.deps).advance(secret.id)
        values = [(await opened(world, one))["password"] for one in users]
        assert sorted(values) == sorted([b"second"] * turn + [CANARY] * (2 - turn))
        for one in users:
            await world.report(one, Phase.HEALTHY)
    await Rotations(world.deps).advance(secret.id)
    await world.clock.advance(6)
    await Rotations(world.deps).advance(secret.id)
    found = await secrets.get(world.admin, secret.id)
    assert found.rotation.phase is RotationPhase.READY and found.current == 1
    done = await secrets.decide(world.admin, secret.id, RotationDecision.REVOKE)
    assert (done.current, done.rotation.phase) == (2, RotationPhase.REVOKED)
    versions = {one.number: one for one in await secrets.versions(world.admin, secret.id)}
    assert versions[1].revoked_at is not None and versions[2].revoked_at is None


async def test_an_aborted_rotation_takes_everybody_back(world: World, secrets: Secrets) -> None:
    secret = await saved(secrets, world)
    service = await user_of(world, password=secret.id)
    await saved(secrets, world, b"second", plan=RotationPlan())
    await Rotations(world.deps).advance(secret.id)
    assert await opened(world, service) == {"password": b"second"}
    with pytest.raises(Conflict, match="is active"):
        await saved(secrets, world, b"third")
    await world.report(service, Phase.DEGRADED)
    await Rotations(world.deps).advance(secret.id)
    held = await secrets.get(world.admin, secret.id)
    assert held.rotation.phase is RotationPhase.HELD and "shop" in held.rotation.reason
    await secrets.decide(world.admin, secret.id, RotationDecision.ABORT)
    assert await opened(world, service) == {"password": CANARY}
