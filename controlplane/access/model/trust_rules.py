"""Trust rules: tokens of other issuers that are exchanged for those of service accounts."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from controlplane.access.model.sign_in import Claims
from controlplane.authorization import Resource, ResourceKind
from controlplane.platform.limits import check_count, check_length, check_range
from controlplane.platform.names import check_text
from controlplane.platform.parts import NamedRow, part
from core.errors import Invalid

MAX_MINUTES = 24 * 60
_MAX_CLAIMS = 20
_MAX_TEXT_LENGTH = 512
_MAX_KEYS_LENGTH = 64 << 10
_WILDCARDS = re.compile(r"[*?]|\[[^]]*\]")


@dataclass(frozen=True, slots=True)
class TrustRuleSpec:
    """Conditions for external tokens, and the service account that they stand for."""

    service_account_id: str = ""
    """ID of the service account whose tokens are issued. Required on creation."""
    issuer: str = ""
    """Issuer of the external tokens (`iss`), an https URL. Required on creation."""
    audience: str = ""
    """Required audience (`aud`). Required on creation."""
    subject: str = ""
    """Pattern for the subject (`sub`). `*` matches any text. Required on creation."""
    claims: Mapping[str, str] = field(default_factory=dict)
    """Patterns for further claims. The token needs each of them, and all must match. Limit: 20,
    with 512 characters each."""
    minutes: int = 60
    """Lifetime of exchanged tokens in minutes. Default: 60. Limit: 1,440."""
    keys: str | None = None
    """JSON Web Key Set of the issuer. Needed if the control plane cannot reach the issuer over
    https. Empty: none. Limit: 64 KiB."""

    def checked(self) -> "TrustRuleSpec":
        """Returns the spec. Raises Invalid if a value is not allowed."""
        if not self.issuer.startswith("https://"):
            raise Invalid("must begin with https://", field="issuer")
        for name in ("issuer", "audience", "subject"):
            check_text(getattr(self, name), name, _MAX_TEXT_LENGTH)
        check_range(self.minutes, "minutes", 1, MAX_MINUTES)
        check_count(len(self.claims), "claims", _MAX_CLAIMS)
        for text in (*self.claims, *self.claims.values()):
            check_length(text, "claims", _MAX_TEXT_LENGTH)
        patterns = (self.subject, *self.claims.values())
        if all(_matches_everything(pattern) for pattern in patterns):
            raise Invalid(
                "specify a subject or claims: this rule would trust every token", field="subject"
            )
        return replace(self, keys=check_length(self.keys or "", "keys", _MAX_KEYS_LENGTH) or None)

    def matches(self, claims: Claims) -> bool:
        """Returns whether a token with these claims matches. An absent claim never matches."""
        return fnmatchcase(claims.subject, self.subject) and all(
            name in claims.raw and fnmatchcase(str(claims.raw[name]), pattern)
            for name, pattern in self.claims.items()
        )


@dataclass(frozen=True, slots=True)
class TrustRule(NamedRow):
    """Rule for the exchange of external tokens for a service account's token (RFC 8693)."""

    spec: TrustRuleSpec = part(TrustRuleSpec)

    @property
    def target(self) -> Resource:
        """Returns the rule's location for authorization: it gives access as a user."""
        return Resource.whole(ResourceKind.USER, self.id, self.name)


def _matches_everything(pattern: str) -> bool:
    """Returns whether a pattern has nothing but wildcards."""
    return _WILDCARDS.sub("", pattern) == ""
