"""The proxy identifies users by tokens, sessions and tickets."""

from dataclasses import replace
from datetime import timedelta

import pytest

from controlplane.access.operations.auth_throttle import MAX_PER_ADDRESS
from controlplane.authorization.roles import BuiltInRole as Role
from core.errors import LimitExceeded, Unauthenticated
from core.identity import TokenKind, new_token
from proxy.domain.access import Credential, CredentialKind
from tests.integration.controlplane.conftest import World, person
from towline.serve.proxy_adapters import ProxyAuthenticator


async def test_the_proxy_knows_when_a_token_ends(world: World) -> None:
    """The first answer and the remembered one both carry the end of the token itself."""
    user = await world.people.upsert(world.admin, "ann@example.org", "Ann", Role.VIEWER)
    owner = replace(person(Role.VIEWER, "ann"), id=user.id)
    token, secret = await world.identity.create_token(owner, "brief", timedelta(hours=1))
    cluster_identity = ProxyAuthenticator(world.identity)
    shown = Credential(CredentialKind.BEARER, secret)
    for _ in range(2):
        found = await cluster_identity.authenticate(shown, source="127.0.0.1:1")
        assert found.expires_at == token.expires_at == world.clock.now() + timedelta(hours=1)
    await world.clock.advance(3600)
    with pytest.raises(Unauthenticated, match="expired"):
        await cluster_identity.authenticate(shown, source="127.0.0.1:1")


async def test_guesses_at_the_proxy_lock_out_no_known_user(world: World) -> None:
    """From whatever port; an address is what is counted, and what nobody sends twice.

    Pages of whoever is signed in go on: their tickets were made here.
    """
    user = await world.people.upsert(world.admin, "ann@example.org", "Ann", Role.VIEWER)
    owner = replace(person(Role.VIEWER, "ann"), id=user.id)
    _, secret = await world.identity.create_token(owner, "laptop", timedelta(hours=1))
    cluster_identity = ProxyAuthenticator(world.identity)

    async def show(token: str, port: int) -> None:
        shown = Credential(CredentialKind.BEARER, token)
        await cluster_identity.authenticate(shown, source=f"10.0.0.1:{port}")

    await show(secret, 1)
    for port in range(MAX_PER_ADDRESS):
        with pytest.raises(Unauthenticated, match="invalid token"):
            await show(new_token(TokenKind.USER), port)
    with pytest.raises(LimitExceeded, match=r"10\.0\.0\.1:"):
        await show(new_token(TokenKind.SERVICE_ACCOUNT), 2)
    world.identity.drop_user("")
    await show(secret, 3)
    actor = await world.identity.authenticate(secret, "10.0.0.1")
    ticket = await world.identity.create_ticket(actor)
    assert (await world.identity.authenticate(ticket, "10.0.0.1")).id == user.id
    with pytest.raises(Unauthenticated, match="invalid token"):
        await show("twu_malformed", 4)
