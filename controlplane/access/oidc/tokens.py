"""Validation of the claims of a verified ID token."""

from datetime import UTC, datetime

from controlplane.access.model.sign_in import Claims
from core.errors import Unauthenticated
from core.id_tokens import check_audience, check_times
from core.json_object import JsonMapping

_MAX_TEXT_LENGTH = 512
_MAX_ADDRESS_LENGTH = 254


def validate_claims(
    claims: JsonMapping,
    *,
    issuer: str,
    audience: str,
    now: datetime,
    groups_claim: str = "groups",
    trust_email: bool = False,
    any_party: bool = False,
) -> Claims:
    """Validates verified claims for this installation and the current time.

    `trust_email`: an address is verified unless the claims deny it. `any_party`: a token for this
    audience alone may name another authorized party (`azp`, OpenID Connect Core section 2).
    Raises Unauthenticated, naming the failed check.
    """
    subject = claims.get("sub")
    if claims.get("iss") != issuer:
        raise Unauthenticated("this token is from another issuer")
    if not isinstance(subject, str) or not 0 < len(subject) <= _MAX_TEXT_LENGTH:
        raise Unauthenticated("this token has no subject")
    check_audience(claims, (audience,))
    is_ours_alone = claims["aud"] in (audience, [audience])
    if claims.get("azp") not in (None, audience) and not (any_party and is_ours_alone):
        raise Unauthenticated("this token was issued for another authorized party")
    expires = check_times(claims, now)
    return Claims(
        issuer=issuer,
        subject=subject,
        expires_at=datetime.fromtimestamp(expires, UTC),
        email=_address(claims.get("email")),
        email_verified=_is_true(claims.get("email_verified", trust_email)),
        name=_text(claims.get("name") or claims.get("preferred_username") or ""),
        groups=_groups(claims.get(groups_claim)),
        raw=dict(claims),
    )


def _groups(value: object) -> tuple[str, ...] | None:
    if value is None:
        return None
    groups = [value] if isinstance(value, str) else value
    if not isinstance(groups, list):
        return None
    return tuple(
        group for group in groups if isinstance(group, str) and len(group) <= _MAX_TEXT_LENGTH
    )


def _is_true(value: object) -> bool:
    """Some providers send booleans as text."""
    return value is True or value == "true"


def _address(value: object) -> str:
    """The address in a claim; a part of one would be the address of somebody else."""
    return value if isinstance(value, str) and len(value) <= _MAX_ADDRESS_LENGTH else ""


def _text(value: object) -> str:
    return str(value)[:255]
