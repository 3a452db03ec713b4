"""A world in which people sign in: an identity provider, passwords that are quick to hash."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp
from argon2 import PasswordHasher

from controlplane.domain.access import Actor
from controlplane.domain.signin import Issuer
from controlplane.oidc.issuers import OidcClient, OidcIssuers
from controlplane.secrets.passwords import ArgonPasswords
from controlplane.usecases.accounts import TokenExchange
from controlplane.usecases.federation import Federation
from controlplane.usecases.identity import CredentialAuthenticator
from controlplane.usecases.signin import SignIn
from tests.fakes.issuer import CLIENT, FakeIssuer
from tests.integration.controlplane.conftest import World

REDIRECT = "https://towline.test/oauth/callback"


@dataclass
class Gate:
    """All verbs of signing in over one world."""

    world: World
    issuer: FakeIssuer
    issuers: OidcIssuers
    identity: CredentialAuthenticator
    signin: SignIn
    accounts: TokenExchange
    http: aiohttp.ClientSession

    async def by_provider(self) -> Actor:
        """Whoever the provider says, signed in by a browser."""
        begun = await self.signin.begin_oidc("corp", REDIRECT, "/clusters")
        code, state = await self.issuer.visit(begun.url, self.http)
        secret, back = await self.signin.finish_oidc(state, code, begun.browser, "10.0.0.1")
        assert back == "/clusters"
        return await self.identity.authenticate(secret)


@asynccontextmanager
async def gate(world: World, *required: str) -> AsyncGenerator[Gate, None]:
    """Signing in, with one provider called corp."""
    async with FakeIssuer(world.clock).serve() as issuer, aiohttp.ClientSession() as http:
        known = OidcClient(Issuer("corp", issuer.url, "Corp", required), CLIENT, "secret")
        issuers = OidcIssuers([known], world.clock)
        passwords = ArgonPasswords(PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))
        federation = Federation(world.deps, issuers)
        try:
            yield Gate(
                world,
                issuer,
                issuers,
                CredentialAuthenticator(world.deps, federation),
                SignIn(world.deps, federation, passwords),
                TokenExchange(world.deps, issuers),
                http,
            )
        finally:
            passwords.close()
            await issuers.close()
