"""Secrets that the template of a definition hands to each of its services."""

from dataclasses import replace
from typing import Any

import pytest

from controlplane.authorization import INSTALLATION, Grant, Policy, Verb
from controlplane.authorization.roles import Role as AccessRole
from controlplane.authorization.roles import Rule
from controlplane.generators.model.global_service import GlobalService
from controlplane.generators.operations.global_services import GlobalChange
from controlplane.secrets.model.secret import Secret
from controlplane.secrets.operations.secrets import SecretChange, Secrets
from controlplane.services.operations.services import ServiceChange
from controlplane.services.ports import SecretUseStore
from core.errors import Forbidden, Invalid
from tests.integration.controlplane.conftest import person
from tests.integration.controlplane.test_targets_of_globals import Fleet, fleet

__all__ = ["fleet"]


class Vault:
    """A fleet with secrets, and global services that hand them out."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet, self.world = fleet, fleet.world
        self.secrets = Secrets(fleet.world.deps)

    async def secret(self, name: str, value: bytes = b"v") -> Secret:
        return await self.secrets.save(self.world.admin, name, SecretChange(value))

    async def create(self, actor: Any = None, **uses: tuple[str, int | None]) -> GlobalService:
        change = self.fleet.change()
        assert change.template is not None
        change = replace(change, template=replace(change.template, uses=uses))
        one = await self.fleet.globals.create(actor or self.world.admin, change)
        await self.fleet.look(one)
        return one

    async def change(self, one: GlobalService, **uses: tuple[str, int | None]) -> None:
        change = GlobalChange(template=ServiceChange(uses=uses))
        await self.fleet.globals.update(self.world.admin, one.id, change)
        await self.fleet.look(one)

    async def held(self) -> dict[str, set[tuple[str, str, int]]]:
        """By service: name, secret and version of each use."""
        async with self.world.deps.store.read() as tx:
            rows = await tx[SecretUseStore].all()
        found: dict[str, set[tuple[str, str, int]]] = {}
        for row in rows:
            found.setdefault(row.service_id, set()).add((row.name, row.secret_id, row.version))
        return found


@pytest.fixture
def vault(fleet: Fleet) -> Vault:
    return Vault(fleet)


async def test_all_services_of_a_template_have_its_secrets_and_follow_them(vault: Vault) -> None:
    """Also those of clusters that join, and after a new value; another list replaces the first."""
    fleet, db, key = vault.fleet, await vault.secret("db"), await vault.secret("key")
    await fleet.clusters("eu", "us")
    one = await vault.create(password=(db.id, None))
    await fleet.clusters("asia")
    await fleet.look(one)
    services = [service.id for service in await fleet.owned(one)]
    assert await vault.held() == dict.fromkeys(services, {("password", db.id, 1)})
    await vault.secret("db", b"next")
    assert await vault.held() == dict.fromkeys(services, {("password", db.id, 2)})
    await vault.change(one, key=(key.id, None))
    assert await vault.held() == dict.fromkeys(services, {("key", key.id, 1)})
    assert (await fleet.targets.plan(await fleet.now(one))).size == 0
    await vault.change(one)
    assert await vault.held() == {}


async def test_a_template_that_names_none_leaves_each_services_own_alone(vault: Vault) -> None:
    fleet, db = vault.fleet, await vault.secret("db")
    await fleet.clusters("eu")
    one = await fleet.create()
    (service,) = await fleet.owned(one)
    await vault.secrets.use(vault.world.admin, service.id, {"own": (db.id, None)})
    await fleet.look(one)
    assert await vault.held() == {service.id: {("own", db.id, 1)}}


async def test_nobody_hands_out_secrets_that_they_may_not_use(vault: Vault) -> None:
    """Nor versions, which services follow by themselves, nor what has no value."""
    db, all_but_use = await vault.secret("db"), Rule((Verb.READ, Verb.WRITE))
    role = AccessRole("makers", "makers", rules=(all_but_use,))
    eve = replace(person(None, "eve"), policy=Policy((Grant(role, INSTALLATION),)))
    await vault.create(eve)
    with pytest.raises(Forbidden):
        await vault.create(eve, password=(db.id, None))
    with pytest.raises(Invalid, match="must not specify a version"):
        await vault.create(password=(db.id, 1))


async def test_deleted_template_secrets_are_reported_and_the_others_applied(vault: Vault) -> None:
    fleet, db, key = vault.fleet, await vault.secret("db"), await vault.secret("key")
    one = await vault.create(password=(db.id, None), key=(key.id, None))
    await vault.secrets.delete(vault.world.admin, db.id)
    await fleet.clusters("eu")
    await fleet.look(one)
    assert [*(await vault.held()).values()] == [{("key", key.id, 1)}]
    assert "1 secrets of the template were deleted" in (await fleet.now(one)).problem
