"""A world in which people sign in: an identity provider, passwords that are quick to hash."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp
from argon2 import PasswordHasher

from controlplane.access.model.sign_in import Issuer
from controlplane.access.oidc.issuers import OidcClient, OidcIssuers
from controlplane.access.operations.federation import Federation
from controlplane.access.operations.identity import CredentialAuthenticator
from controlplane.access.operations.sign_in import ProviderReply, SignIn
from controlplane.access.operations.token_exchange import TokenExchange
from controlplane.access.operations.trust_rules import TrustRules
from controlplane.authorization import Actor
from controlplane.clusters.operations.deploy_tokens import DeployTokenReader
from controlplane.secrets.backends.passwords import ArgonPasswords
from tests.fakes.issuer import CLIENT, FakeIssuer
from tests.integration.controlplane.conftest import World

HASHER = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
"""Hashes passwords fast."""
REDIRECT = "https://towline.test/oauth/callback"


@dataclass
class AccessOperations:
    """All verbs of signing in over one world."""

    world: World
    issuer: FakeIssuer
    issuers: OidcIssuers
    identity: CredentialAuthenticator
    signin: SignIn
    accounts: TokenExchange
    trust_rules: TrustRules
    http: aiohttp.ClientSession

    async def by_provider(self) -> Actor:
        """The user that the provider names, signed in by a browser."""
        begun = await self.signin.begin_oidc("corp", REDIRECT, "/clusters", "10.0.0.1")
        code, state = await self.issuer.visit(begun.url, self.http)
        secret, back = await self.signin.finish_oidc(
            ProviderReply(REDIRECT, state, code), begun.browser, "10.0.0.1"
        )
        assert back == "/clusters"
        return await self.identity.authenticate(secret)


@asynccontextmanager
async def access_operations(world: World, *required: str) -> AsyncGenerator[AccessOperations, None]:
    """Signing in, with one provider called corp."""
    async with FakeIssuer(world.clock).serve() as issuer, aiohttp.ClientSession() as http:
        known = OidcClient(Issuer("corp", issuer.url, "Corp", required), CLIENT, "secret")
        issuers = OidcIssuers([known], world.clock)
        passwords = ArgonPasswords(HASHER)
        federation = Federation(world.deps, issuers)
        try:
            yield AccessOperations(
                world,
                issuer,
                issuers,
                CredentialAuthenticator(
                    world.deps, DeployTokenReader(world.deps.store), federation
                ),
                SignIn(world.deps, federation, passwords),
                TokenExchange(world.deps, issuers),
                TrustRules(world.deps),
                http,
            )
        finally:
            passwords.close()
            await issuers.close()
