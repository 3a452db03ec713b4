"""JWT validation: the algorithm first, then the key, the signature, audience and times.

The control plane verifies tokens of identity providers with it, and the agent the proofs of users.
"""

from collections.abc import Collection
from datetime import datetime

import jwt
from jwt.types import Options

from core.errors import Unauthenticated
from core.json_object import JsonMapping, JsonObject

# Only asymmetric signatures: a shared secret would let every client sign.
ALGORITHMS = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
)
MAX_TOKEN_LENGTH = 48 << 10
LEEWAY_SECONDS = 30
MAX_KEYS = 100
_MAX_NAMED_KEYS = 5
# Times and audience are checked here, against our own clock.
_UNCHECKED: Options = {
    "verify_exp": False,
    "verify_nbf": False,
    "verify_iat": False,
    "verify_aud": False,
    "verify_iss": False,
    "verify_sub": False,
    "verify_jti": False,
}


def unverified_header(token: str) -> tuple[str, str | None]:
    """Returns (algorithm, key id) of a token. Raises Unauthenticated
    if no such token can be valid.
    """
    if len(token) > MAX_TOKEN_LENGTH:
        raise Unauthenticated("this token is too long")
    try:
        header = jwt.get_unverified_header(token)
    except (jwt.PyJWTError, ValueError) as error:
        raise Unauthenticated(f"invalid token: {str(error)[:100]}") from None
    algorithm, kid = header.get("alg"), header.get("kid")
    if algorithm not in ALGORITHMS:
        raise Unauthenticated(f"tokens signed with {str(algorithm)[:20]!r} are not accepted")
    if "crit" in header or not (kid is None or isinstance(kid, str)):
        raise Unauthenticated("the token has an unsupported critical header")
    return algorithm, kid


def unverified_issuer(token: str) -> str:
    """Returns the unverified issuer of a token."""
    try:
        claims = jwt.decode(token[: MAX_TOKEN_LENGTH + 1], options={"verify_signature": False})
    except (jwt.PyJWTError, ValueError, RecursionError):
        raise Unauthenticated("invalid token") from None
    return str(claims.get("iss", ""))


def verify_signature(token: str, key: jwt.PyJWK, algorithm: str) -> JsonObject:
    """Returns the claims of a token that this key has signed."""
    try:
        return jwt.decode(token, key.key, algorithms=[algorithm], options=_UNCHECKED)
    except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
        raise Unauthenticated("the signature of this token is wrong") from None


def check_audience(claims: JsonMapping, audiences: Collection[str]) -> None:
    """Checks that the token was issued for one of the audiences. Raises Unauthenticated."""
    audience_claim = claims.get("aud")
    claimed = [audience_claim] if isinstance(audience_claim, str) else audience_claim
    if not isinstance(claimed, list) or not any(audience in claimed for audience in audiences):
        raise Unauthenticated(
            f"this token was issued for another audience, not for {', '.join(audiences)}"
        )


def check_times(claims: JsonMapping, now: datetime) -> float:
    """Returns the expiry in Unix seconds. Raises Unauthenticated outside of the token's time."""
    timestamp = now.timestamp()
    times = {name: claims.get(name) for name in ("exp", "nbf", "iat")}
    numbers = {n: t for n, t in times.items() if isinstance(t, int | float) and abs(t) < 1e11}
    if "exp" not in numbers or any(t is not None and n not in numbers for n, t in times.items()):
        raise Unauthenticated("this token has no expiry")
    if numbers["exp"] + LEEWAY_SECONDS <= timestamp:
        raise Unauthenticated("this token has expired: sign in again")
    if max(numbers.get("nbf", 0), numbers.get("iat", 0)) - LEEWAY_SECONDS > timestamp:
        raise Unauthenticated("this token is not valid yet: check the clocks of both servers")
    return float(numbers["exp"])


def parse_keys(document: JsonObject) -> list[jwt.PyJWK]:
    """Returns the public signing keys of a JWKS; unsupported ones are skipped."""
    entries = document.get("keys")
    keys = []
    for key in entries[:MAX_KEYS] if isinstance(entries, list) else ():
        if not isinstance(key, dict) or key.get("kty") == "oct" or key.get("use") == "enc":
            continue
        try:
            keys.append(jwt.PyJWK(key))
        except (jwt.PyJWTError, ValueError, TypeError, KeyError):
            continue
    return keys


def choose_key(keys: list[jwt.PyJWK], kid: str | None, algorithm: str) -> jwt.PyJWK | None:
    """Returns the one key that fits a token's header."""
    candidates = [
        key for key in keys if _fits_algorithm(key, algorithm) and kid in (None, key.key_id)
    ]
    return candidates[0] if len(candidates) == 1 or (candidates and kid is not None) else None


def _fits_algorithm(key: jwt.PyJWK, algorithm: str) -> bool:
    """True if a key suits the algorithm; one without an algorithm suits all of its type."""
    if key.algorithm_name == algorithm:
        return True
    return key.key_type == "RSA" and algorithm[:2] in ("RS", "PS")


def missing_key(issuer: str, keys: list[jwt.PyJWK], kid: str | None, algorithm: str) -> str:
    """Explains that no key of an issuer fits a token's header."""
    ids = [str(key.key_id) for key in keys[:_MAX_NAMED_KEYS]]
    return (
        f"{issuer} has no key {str(kid)[:80]!r} for {algorithm}, only {', '.join(ids) or 'none'}: "
        "sign in again"
    )
