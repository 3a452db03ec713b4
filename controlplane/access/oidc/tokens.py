"""JWT validation: the algorithm first, then the key, the signature, and every relevant claim."""

from datetime import UTC, datetime

import jwt
from jwt.types import Options

from controlplane.access.model.sign_in import Claims
from core.errors import Unauthenticated
from core.json_object import JsonMapping, JsonObject

# Only asymmetric signatures: a shared secret would let every client sign.
ALGORITHMS = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
)
MAX_TOKEN_LENGTH = 48 << 10
LEEWAY_SECONDS = 30
_MAX_TEXT_LENGTH = 512
_MAX_ADDRESS_LENGTH = 254
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


def header_of(token: str) -> tuple[str, str | None]:
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


def issuer_of(token: str) -> str:
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


def validate_claims(
    claims: JsonMapping,
    *,
    issuer: str,
    audience: str,
    now: datetime,
    groups_claim: str = "groups",
    trust_email: bool = False,
) -> Claims:
    """Validates verified claims for this installation and the current time.

    `trust_email`: an address is verified unless the claims deny it.
    Raises Unauthenticated, naming the failed check.
    """
    subject = claims.get("sub")
    if claims.get("iss") != issuer:
        raise Unauthenticated("this token is from another issuer")
    if not isinstance(subject, str) or not 0 < len(subject) <= _MAX_TEXT_LENGTH:
        raise Unauthenticated("this token has no subject")
    _check_audience(claims, audience)
    expires = _check_times(claims, now.timestamp())
    return Claims(
        issuer=issuer,
        subject=subject,
        expires_at=datetime.fromtimestamp(expires, UTC),
        email=_address(claims.get("email")),
        email_verified=_is_true(claims.get("email_verified", trust_email)),
        name=_text(claims.get("name") or claims.get("preferred_username") or ""),
        groups=_groups(claims.get(groups_claim)),
        every=dict(claims),
    )


def _check_audience(claims: JsonMapping, audience: str) -> None:
    given = claims.get("aud")
    audiences = [given] if isinstance(given, str) else given
    if not isinstance(audiences, list) or audience not in audiences:
        raise Unauthenticated("this token was issued for another audience")
    if claims.get("azp") not in (None, audience):
        raise Unauthenticated("this token was issued for another authorized party")


def _check_times(claims: JsonMapping, now: float) -> float:
    times = {name: claims.get(name) for name in ("exp", "nbf", "iat")}
    numbers = {n: t for n, t in times.items() if isinstance(t, int | float) and abs(t) < 1e11}
    if "exp" not in numbers or any(t is not None and n not in numbers for n, t in times.items()):
        raise Unauthenticated("this token has no expiry")
    if numbers["exp"] + LEEWAY_SECONDS <= now:
        raise Unauthenticated("this token has expired: sign in again")
    if max(numbers.get("nbf", 0), numbers.get("iat", 0)) - LEEWAY_SECONDS > now:
        raise Unauthenticated("this token is not valid yet: check the clocks of both servers")
    return float(numbers["exp"])


def _groups(value: object) -> tuple[str, ...] | None:
    if value is None:
        return None
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list):
        return None
    return tuple(
        group for group in listed if isinstance(group, str) and len(group) <= _MAX_TEXT_LENGTH
    )


def _is_true(value: object) -> bool:
    """Some providers send booleans as text."""
    return value is True or value == "true"


def _address(value: object) -> str:
    """The address in a claim; a part of one would be the address of somebody else."""
    return value if isinstance(value, str) and len(value) <= _MAX_ADDRESS_LENGTH else ""


def _text(value: object) -> str:
    return str(value)[:255]
