"""What the door is told of who asks."""

from dataclasses import replace
from datetime import timedelta

import pytest

from controlplane.domain.access.roles import BuiltInRole as Role
from fleet.errors import Unauthenticated
from proxy.domain.access import Credential, CredentialKind
from tests.integration.controlplane.conftest import World, person
from towline.serve.door import DoorIdentity


async def test_the_door_knows_when_a_token_ends(world: World) -> None:
    """The first answer and the remembered one both carry the end of the token itself."""
    user = await world.people.upsert(world.admin, "ann@example.org", "Ann", Role.VIEWER)
    owner = replace(person(Role.VIEWER, "ann"), id=user.id)
    token, secret = await world.identity.create_token(owner, "brief", timedelta(hours=1))
    door = DoorIdentity(world.identity)
    shown = Credential(CredentialKind.BEARER, secret)
    for _ in range(2):
        found = await door.authenticate(shown, source="127.0.0.1:1")
        assert found.expires_at == token.expires_at == world.clock.now() + timedelta(hours=1)
    await world.clock.advance(3600)
    with pytest.raises(Unauthenticated, match="expired"):
        await door.authenticate(shown, source="127.0.0.1:1")
