"""Verification of users' ID tokens by an agent, with the keys of the issuer or pinned ones."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import orjson

from core.errors import Invalid
from core.id_tokens import parse_keys
from core.outbound.issuers import IssuerHttpClient, IssuerMetadata, check_url
from core.runtime.clock import Clock
from syncagent.settings import IdentitySettings, split_list
from syncagent.tunnel.id_token_proofs import IdentityProofs, PinnedKeys, ProofRules


@asynccontextmanager
async def open_proofs(settings: IdentitySettings, clock: Clock) -> AsyncGenerator[IdentityProofs]:
    """Builds the verification for `syncagent.compose.build`. Invalid: a setting is wrong, or the
    file of keys has none.
    """
    check_url(settings.issuer)
    rules = ProofRules(
        settings.issuer,
        tuple(split_list(settings.audience)),
        settings.username_claim,
        settings.username_prefix,
        settings.groups_claim,
        settings.groups_prefix,
        tuple(split_list(settings.groups)),
        settings.max_age_minutes * 60,
    )
    if settings.keys is not None:
        yield IdentityProofs(rules, _pinned_keys(settings.issuer, settings.keys), clock)
        return
    issuer = IssuerHttpClient(settings.ca_file)
    try:
        yield IdentityProofs(rules, IssuerMetadata(settings.issuer, issuer, clock), clock)
    finally:
        await issuer.close()


def _pinned_keys(issuer: str, path: Path) -> PinnedKeys:
    try:
        document = orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError) as error:
        raise Invalid(f"{path} is not a readable JSON Web Key Set: {error}") from None
    keys = parse_keys(document) if isinstance(document, dict) else []
    if not keys:
        raise Invalid(f"{path} contains no usable public key")
    return PinnedKeys(issuer, keys)
