"""Identities of users, and the identities that the cluster sees."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import lru_cache
from hashlib import sha256
from urllib.parse import quote

from core.errors import Forbidden, Invalid
from core.identity import ClusterId, TokenId, UserId

MAX_BLOCK = 16 << 10
MASTERS = "system:masters"
AUTHENTICATED = "system:authenticated"
_PLAIN_KEY = "!#$&'*+-.^_`|~"
_SYSTEM = "system:"
_ACCOUNT = "system:serviceaccount:"
ANY_NAME = "*"
_KINDS = ("user", "group", "serviceaccount", "uid", "extra")


class CredentialKind(StrEnum):
    """Kind of a user's credential."""

    BEARER = "bearer"
    SESSION = "session"
    TICKET = "ticket"


@dataclass(frozen=True, slots=True)
class Credential:
    """Credential of a request: a token, a browser session, or a ticket for one WebSocket.
    `digest` is the cache key, so that caches never hold the secret itself.
    """

    kind: CredentialKind
    secret: str = field(repr=False)
    digest: bytes = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        shown = f"{self.kind.value} {self.secret}".encode("utf-8", "surrogateescape")
        object.__setattr__(self, "digest", sha256(shown).digest())


@dataclass(frozen=True, slots=True)
class AuthenticatedUser:
    """An authenticated user. `expires_at`: end of the credential, timezone-aware, in UTC."""

    user_id: UserId
    name: str
    token_id: TokenId | None = None
    session_id: str | None = None
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Impersonation:
    """The user that the API server sees; `extra` holds (key, value) pairs."""

    user: str
    groups: tuple[str, ...] = ()
    uid: str | None = None
    extra: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class ImpersonationRule:
    """The users that a user may impersonate (`kubectl --as`), as patterns in which `*` matches any
    text.
    `service_accounts` have the form `namespace:name`; `extras` are key names. Names that start with
    `system:` match only patterns that start so too, and `system:masters` only its full name.
    """

    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    service_accounts: tuple[str, ...] = ()
    uids: tuple[str, ...] = ()
    extras: tuple[str, ...] = ()

    @classmethod
    def of(cls, patterns: Iterable[str]) -> "ImpersonationRule | None":
        """Parses patterns such as `user:*@example.org`, `group:team-*`, `serviceaccount:ci:*`,
        `uid:*` and `extra:*`; a lone `*` allows every kind. None: the patterns allow nothing.
        """
        found: dict[str, list[str]] = {kind: [] for kind in _KINDS}
        for pattern in patterns:
            kind, colon, rest = pattern.partition(":")
            for name in _KINDS if pattern == ANY_NAME else (kind,):
                if name in found and (colon or pattern == ANY_NAME):
                    found[name].append(rest if colon else ANY_NAME)
        return cls(*map(tuple, found.values())) if any(found.values()) else None

    def forbidden_part(self, target: Impersonation) -> str | None:
        """Describes the first part of a target that the rule forbids; None if it allows all
        of it.
        """
        if not self._allows_user(target.user):
            return f'user "{target.user}"'
        for group in target.groups:
            if not _matches(self.groups, group):
                return f'group "{group}"'
        if target.uid is not None and not _matches(self.uids, target.uid):
            return f'uid "{target.uid}"'
        for key, _ in target.extra:
            if not _matches(self.extras, key):
                return f'extra "{key}"'
        return None

    def _allows_user(self, name: str) -> bool:
        if name.startswith(_ACCOUNT):
            return _matches(self.service_accounts, name.removeprefix(_ACCOUNT))
        return _matches(self.users, name)


@dataclass(frozen=True, slots=True)
class LastContact:
    """Last contact of an agent. `problem`: its known problem, for people; empty: none."""

    at: datetime
    problem: str = ""


class RecordingPolicy(StrEnum):
    """The part of a terminal session that is recorded."""

    OFF = "off"
    OUTPUT = "output"
    ALL = "all"

    def keeps_more_than(self, other: "RecordingPolicy") -> bool:
        """Reports whether this setting records anything that the other one omits."""
        kept = list(RecordingPolicy)
        return kept.index(self) > kept.index(other)


@dataclass(frozen=True, slots=True)
class RequestGrant:
    """Authorization of a request: the cluster, and the user to impersonate there.
    `rule`: name of the allowing rule, for the audit log. `may_impersonate`: users that the request
    may name itself (`kubectl --as`); None: nobody. `grant_ids`: the grants behind this decision;
    revoking one of them ends the request. `passthrough`: the API server checks the user's own token
    and the agent adds no identity.
    """

    cluster_id: ClusterId
    impersonate: Impersonation
    may_impersonate: ImpersonationRule | None = None
    rule: str | None = None
    recording: RecordingPolicy = RecordingPolicy.OFF
    grant_ids: tuple[str, ...] = ()
    passthrough: bool = False
    stream_limits: tuple[tuple[str, int], ...] = ()
    """Projects that count the request, with their maximum number of open requests."""
    expires_at: datetime | None = None
    """Time at which the decision must be made again. None: no grant of the user expires."""


def lost_permission(
    acting_as: Impersonation, before: RequestGrant, now: RequestGrant
) -> str | None:
    """Describes the part of an open request's identity that it would no longer get; None if it
    keeps all.
    `before`: the grant under which the request was opened.
    """
    if now.cluster_id != before.cluster_id:
        return "a user of another cluster"
    if acting_as != before.impersonate:
        rule = now.may_impersonate or ImpersonationRule()
        return rule.forbidden_part(acting_as)
    if acting_as.user != now.impersonate.user:
        return f'user "{acting_as.user}"'
    gone = [group for group in acting_as.groups if group not in now.impersonate.groups]
    return f'group "{gone[0]}"' if gone else None


@lru_cache(maxsize=4096)
def identity_block(who: Impersonation) -> bytes:
    """Encodes the `Impersonate-*` header lines for the API server.
    Forbidden: the groups exceed the maximum size. Invalid: a name cannot be a header value.
    """
    if not who.user:
        raise Invalid("cannot impersonate a user without a name")
    lines = [_line("User", who.user), *(_line("Group", group) for group in who.groups)]
    if who.uid:
        lines.append(_line("Uid", who.uid))
    lines += [_line(f"Extra-{quote(key.lower(), safe=_PLAIN_KEY)}", v) for key, v in who.extra]
    block = b"".join(lines)
    if len(block) > MAX_BLOCK:
        raise Forbidden(
            f'user "{who.user}" is in {len(who.groups)} groups: a request cannot carry that many'
        )
    return block


def _matches(patterns: tuple[str, ...], name: str) -> bool:
    return any(_is_like(name, pattern) for pattern in patterns)


def _is_like(name: str, pattern: str) -> bool:
    if name == MASTERS:
        return pattern == MASTERS
    if name.startswith(_SYSTEM) and not pattern.startswith(_SYSTEM):
        return False
    return fnmatchcase(name, pattern.replace("[", "[[]").replace("?", "[?]"))


def _line(name: str, value: str) -> bytes:
    text = value.encode()
    if any(byte < 32 or byte == 127 for byte in text) or text != text.strip():
        raise Invalid(f"{value!r} cannot be sent as Impersonate-{name}")
    return b"Impersonate-%s: %s\r\n" % (name.encode(), text)
