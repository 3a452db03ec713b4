"""Verification of users' ID tokens from the issuer that the cluster's operator has pinned."""

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from hashlib import sha256
from typing import Protocol

import jwt

from core.errors import Invalid, Unauthenticated
from core.id_tokens import (
    LEEWAY_SECONDS,
    check_audience,
    check_times,
    choose_key,
    missing_key,
    unverified_header,
    unverified_issuer,
    verify_signature,
)
from core.mux.codec import MAX_PROOF
from core.runtime.clock import Clock
from syncagent.tunnel.proof import UNPROVEN

_SYSTEM = "system:"
_MAX_NAME, _MAX_GROUPS = 512, 200
# A key that the issuer withdraws is accepted this long, beyond the hour for which `IssuerMetadata`
# keeps fetched keys.
_CACHED_SECONDS = 300.0
_CACHED = 4096


class IssuerKeys(Protocol):
    """Public keys of the issuer."""

    async def key(self, kid: str | None, algorithm: str) -> jwt.PyJWK:
        """Returns the key for a token's header. Unauthenticated: the issuer has none.
        Unavailable: the keys cannot be fetched.
        """
        ...


class PinnedKeys:
    """Keys of an issuer that the cluster's operator has pinned."""

    def __init__(self, issuer: str, keys: list[jwt.PyJWK]) -> None:
        self._issuer, self._keys = issuer, keys

    async def key(self, kid: str | None, algorithm: str) -> jwt.PyJWK:
        pinned = choose_key(self._keys, kid, algorithm)
        if pinned is None:
            raise Unauthenticated(missing_key(self._issuer, self._keys, kid, algorithm))
        return pinned


@dataclass(frozen=True, slots=True)
class ProofRules:
    """Rules of the cluster's operator: the accepted tokens, and the names that they give.

    `groups`: patterns of groups, with their prefix, that tokens may give; others are dropped.
    Empty: all. Names with the prefix `system:` are never accepted.
    """

    issuer: str
    audiences: tuple[str, ...]
    username_claim: str = "email"
    username_prefix: str = ""
    groups_claim: str = "groups"
    groups_prefix: str = "oidc:"
    groups: tuple[str, ...] = ()
    max_age_seconds: int = 3600

    def __post_init__(self) -> None:
        if not self.audiences:
            raise Invalid("must name at least one audience", field="identity.audience")

    def identity_block(self, claims: Mapping[str, object]) -> bytes:
        """Encodes the `Impersonate-*` header lines of verified claims. Raises Unauthenticated
        without a usable name.
        """
        name = self._username(claims)
        groups = [group for group in self._groups(claims) if self._is_permitted(group)]
        lines = [f"Impersonate-User: {name}\r\n"]
        lines += [f"Impersonate-Group: {group}\r\n" for group in groups[:_MAX_GROUPS]]
        return "".join(lines).encode()

    def _username(self, claims: Mapping[str, object]) -> str:
        claim = self.username_claim
        value = claims.get(claim)
        if not isinstance(value, str) or not _is_name(value):
            raise Unauthenticated(f"this token has no usable claim {claim!r} for the user's name")
        if claim == "email" and claims.get("email_verified", True) not in (True, "true"):
            raise Unauthenticated(f"{self.issuer} has not verified the address {value!r}")
        name = self.username_prefix + value
        if name.startswith(_SYSTEM):
            raise Unauthenticated(f"the name {name!r} has the reserved prefix {_SYSTEM}")
        return name

    def _groups(self, claims: Mapping[str, object]) -> list[str]:
        claim = claims.get(self.groups_claim)
        values = [claim] if isinstance(claim, str) else claim
        names = values if isinstance(values, list) else []
        return [
            f"{self.groups_prefix}{name}"
            for name in dict.fromkeys(name for name in names if isinstance(name, str))
            if _is_name(name)
        ]

    def _is_permitted(self, group: str) -> bool:
        if group.startswith(_SYSTEM) or group == UNPROVEN:
            return False
        return not self.groups or any(fnmatchcase(group, pattern) for pattern in self.groups)


class IdentityProofs:
    """Implements `proof.ProofVerifier`; caches results by the token's digest, never the token."""

    def __init__(self, rules: ProofRules, keys: IssuerKeys, clock: Clock) -> None:
        self._rules, self._keys, self._clock = rules, keys, clock
        self._blocks: dict[bytes, tuple[bytes, float]] = {}

    def cached_block(self, token: bytes) -> bytes | None:
        """Returns the identity block of a token that was verified recently."""
        entry = self._blocks.get(sha256(token).digest())
        if entry is None or entry[1] <= self._clock.now().timestamp():
            return None
        return entry[0]

    async def verify(self, token: bytes) -> bytes:
        """Returns the identity block of a token. Raises Unauthenticated, naming the failed check
        with the expected value. Unavailable: the issuer's keys cannot be fetched.
        """
        if len(token) > MAX_PROOF:
            raise Unauthenticated(f"this token exceeds {MAX_PROOF} bytes")
        token_text = token.decode("latin-1")
        rules, now = self._rules, self._clock.now()
        algorithm, kid = unverified_header(token_text)
        issuer = unverified_issuer(token_text)
        if issuer != rules.issuer:
            raise Unauthenticated(
                f"this token is from {issuer[:200] or 'no issuer'}; this cluster accepts proofs of "
                f"{rules.issuer}"
            )
        key = await self._keys.key(kid, algorithm)
        claims = verify_signature(token_text, key, algorithm)
        check_audience(claims, rules.audiences)
        expires = check_times(claims, now)
        issued = claims.get("iat")
        age_limit = rules.max_age_seconds + LEEWAY_SECONDS
        if not isinstance(issued, int | float) or issued + age_limit <= now.timestamp():
            minutes = rules.max_age_seconds // 60
            raise Unauthenticated(f"this token is older than {minutes} minutes: sign in again")
        block = rules.identity_block(claims)
        expiry = min(
            expires + LEEWAY_SECONDS, issued + age_limit, now.timestamp() + _CACHED_SECONDS
        )
        if len(self._blocks) >= _CACHED:
            self._blocks.clear()
        self._blocks[sha256(token).digest()] = (block, expiry)
        return block


def _is_name(name: str) -> bool:
    """Reports whether a name can be sent in a header field unchanged."""
    return 0 < len(name) <= _MAX_NAME and name.isprintable() and name == name.strip()
