"""Uses of secrets: who sees them, and which of them a change replaces."""

from dataclasses import replace

import pytest

from controlplane.authorization import BUILT_IN, Grant, Policy, Scope
from controlplane.authorization.roles import BuiltInRole
from controlplane.secrets.operations.secrets import SecretChange, Secrets
from controlplane.services.ports import SecretUseStore
from core.errors import NotFound
from tests.fakes.actors import ADMIN, EDITOR, NOBODY, VIEWER, person
from tests.fakes.operations import MemoryOperations, make_service
from tests.unit.controlplane.secrets.conftest import API, DEV, EDITOR_OF_SHOP, SHOP, WEB


async def test_consumers_are_shown_to_those_who_see_the_secret_and_the_service(
    world: MemoryOperations, secrets: Secrets
) -> None:
    """Sorted by service. The secret of a service is shown only with the permission on both."""
    shop = make_service("shop", DEV, project_id="shop")
    await world.given(SHOP, shop)
    secret = await secrets.save(EDITOR, "db", SecretChange(b"one"))
    for service in (WEB, API):
        await secrets.use(EDITOR, service.id, {"db": (secret.id, None)})
    await secrets.use(ADMIN, shop.id, {"b": (secret.id, None), "a": (secret.id, 1)})
    views = await secrets.consumers(VIEWER, secret.id)
    found = [(view.service.name, view.use.name) for view in views]
    assert found == [("api", "db"), ("shop", "a"), ("shop", "b"), ("web", "db")]
    reader = person(BuiltInRole.VIEWER, "sam", Scope(f"secret:{secret.id}"))
    assert await secrets.consumers(reader, secret.id) == []
    of_web = Grant(BUILT_IN["viewer"], Scope(f"service:{WEB.id}"))
    both = replace(reader, policy=Policy((*reader.policy.grants, of_web)))
    assert [view.service.name for view in await secrets.consumers(both, secret.id)] == ["web"]
    assert [view.secret.id for view in await secrets.used_by(both, WEB.id)] == [secret.id]
    only_web = replace(reader, policy=Policy((of_web,)))
    assert await secrets.used_by(only_web, WEB.id) == []
    for actor, error in ((only_web, NotFound), (EDITOR_OF_SHOP, NotFound), (NOBODY, NotFound)):
        with pytest.raises(error):
            await secrets.consumers(actor, secret.id)


@pytest.mark.parametrize(
    ("pins", "is_change"),
    [((None, None), False), ((1, 1), False), ((None, 2), True), ((2, None), True), ((1, 2), True)],
)
async def test_a_use_that_stays_the_same_changes_nothing(
    world: MemoryOperations,
    secrets: Secrets,
    pins: tuple[int | None, int | None],
    is_change: bool,
) -> None:
    """A pin to the current version is a change: the service stays at it."""
    await secrets.save(EDITOR, "db", SecretChange(b"one"))
    secret = await secrets.save(EDITOR, "db", SecretChange(b"two"))
    first, second = pins
    await secrets.use(EDITOR, WEB.id, {"db": (secret.id, first)})
    (row,) = await world.rows(SecretUseStore)
    await secrets.use(EDITOR, WEB.id, {"db": (secret.id, second)})
    (again,) = await world.rows(SecretUseStore)
    assert (again != row) is is_change
    assert (again.version, again.pinned) == (second or 2, second is not None)
