"""Implements the port `Issuers`: configured identity providers, and issuers of trust rules."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode

import orjson

from controlplane.access.model.sign_in import Claims, Issuer
from controlplane.access.oidc.tokens import validate_claims
from core.errors import NotFound, Unauthenticated, Unavailable
from core.id_tokens import (
    choose_key,
    parse_keys,
    unverified_header,
    unverified_issuer,
    verify_signature,
)
from core.outbound.issuers import IssuerHttpClient, IssuerMetadata
from core.runtime.clock import Clock

_MAX_FOREIGN = 100


@dataclass(frozen=True, slots=True)
class OidcClient:
    """This installation as a client of one identity provider."""

    issuer: Issuer
    client_id: str
    client_secret: str = field(default="", repr=False)
    scopes: tuple[str, ...] = ("openid", "email", "profile")
    groups_claim: str = "groups"
    trust_email: bool = False
    audience: str = ""


class OidcIssuers:
    """Verifies tokens of issuers, and runs the browser's sign-in flow."""

    def __init__(
        self, clients: Sequence[OidcClient], clock: Clock, ca_file: Path | None = None
    ) -> None:
        self._clients = {client.issuer.name: client for client in clients}
        self._clock = clock
        self._fetcher = IssuerHttpClient(ca_file)
        self._metadata: dict[str, IssuerMetadata] = {}

    def configured(self) -> tuple[Issuer, ...]:
        return tuple(client.issuer for client in self._clients.values())

    async def close(self) -> None:
        """Closes all connections."""
        await self._fetcher.close()

    async def authorization_url(
        self, name: str, redirect: str, state: str, nonce: str, challenge: str
    ) -> str:
        client = self._client(name)
        endpoint = await self._issuer_metadata(client.issuer.url).endpoint("authorization_endpoint")
        parameters = {
            "response_type": "code",
            "client_id": client.client_id,
            "redirect_uri": redirect,
            "scope": " ".join(client.scopes),
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(parameters)}"

    async def check_reply(self, name: str, issuer: str) -> None:
        client = self._client(name)
        if (
            not issuer
            and not await self._issuer_metadata(client.issuer.url).sends_issuer_parameter()
        ):
            return
        if issuer != client.issuer.url:
            raise Unauthenticated(
                f"this reply is of the issuer {issuer[:200] or '(none)'}, not of "
                f"{client.issuer.url}: start again"
            )

    async def redeem_code(
        self, name: str, redirect: str, code: str, verifier: str, nonce: str
    ) -> Claims:
        client = self._client(name)
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect,
            "client_id": client.client_id,
            "code_verifier": verifier,
        }
        if client.client_secret:
            form["client_secret"] = client.client_secret
        endpoint = await self._issuer_metadata(client.issuer.url).endpoint("token_endpoint")
        try:
            response = await self._fetcher.post(endpoint, form)
        except Unavailable as error:
            raise Unauthenticated(f"the sign-in was not completed: {error.message}") from None
        claims = await self._verify_for_client(
            str(response.get("id_token", "")), client, client.client_id
        )
        if claims.raw.get("nonce") != nonce:
            raise Unauthenticated("this sign-in was started by another browser: start again")
        return claims

    def unverified_issuer(self, token: str) -> str:
        return unverified_issuer(token)

    async def verify(self, token: str) -> Claims:
        issuer = unverified_issuer(token)
        clients = [client for client in self._clients.values() if client.issuer.url == issuer]
        if not clients:
            raise Unauthenticated("the token's issuer is not trusted")
        last_error = Unauthenticated("the token is not valid here")
        for client in clients:
            try:
                return await self._verify_for_client(
                    token, client, client.audience or client.client_id
                )
            except Unauthenticated as error:
                last_error = error
        raise last_error

    async def verify_for_audience(
        self, token: str, issuer: str, audience: str, keys: str | None
    ) -> Claims:
        algorithm, kid = unverified_header(token)
        if keys is None:
            key = await self._issuer_metadata(issuer).key(kid, algorithm)
        else:
            try:
                key = choose_key(parse_keys(orjson.loads(keys)), kid, algorithm)
            except (orjson.JSONDecodeError, AttributeError):
                key = None
        if key is None:
            raise Unauthenticated("no key matches this token")
        return validate_claims(
            verify_signature(token, key, algorithm),
            issuer=issuer,
            audience=audience,
            now=self._clock.now(),
            # Google and Entra name the account that asked for the token.
            any_party=True,
        )

    async def _verify_for_client(self, token: str, client: OidcClient, audience: str) -> Claims:
        algorithm, kid = unverified_header(token)
        key = await self._issuer_metadata(client.issuer.url).key(kid, algorithm)
        return validate_claims(
            verify_signature(token, key, algorithm),
            issuer=client.issuer.url,
            audience=audience,
            now=self._clock.now(),
            groups_claim=client.groups_claim,
            trust_email=client.trust_email,
        )

    def _client(self, name: str) -> OidcClient:
        client = self._clients.get(name)
        if client is None:
            raise NotFound(f"unknown identity provider {name[:80]!r}")
        return client

    def _issuer_metadata(self, issuer: str) -> IssuerMetadata:
        if issuer not in self._metadata:
            if len(self._metadata) >= _MAX_FOREIGN:
                self._metadata.clear()
            self._metadata[issuer] = IssuerMetadata(issuer, self._fetcher, self._clock)
        return self._metadata[issuer]
