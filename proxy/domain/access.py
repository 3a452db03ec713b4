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
        keyed = f"{self.kind.value} {self.secret}".encode("utf-8", "surrogateescape")
        object.__setattr__(self, "digest", sha256(keyed).digest())


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
        by_kind: dict[str, list[str]] = {kind: [] for kind in _KINDS}
        for pattern in patterns:
            kind, colon, name_pattern = pattern.partition(":")
            for name in _KINDS if pattern == ANY_NAME else (kind,):
                if name in by_kind and (colon or pattern == ANY_NAME):
                    by_kind[name].append(name_pattern if colon else ANY_NAME)
        return cls(*map(tuple, by_kind.values())) if any(by_kind.values()) else None

    def forbidden_part(self, target: Impersonation) -> str | None:
        """Describes the first part of a target that the rule forbids; None if it allows all
        of it.
        """
        if not self._allows_user(target.user):
            return f'user "{target.user}"'
        for group in target.groups:
            if not _matches_any(self.groups, group):
                return f'group "{group}"'
        if target.uid is not None and not _matches_any(self.uids, target.uid):
            return f'uid "{target.uid}"'
        for key, _ in target.extra:
            if not _matches_any(self.extras, key):
                return f'extra "{key}"'
        return None

    def _allows_user(self, name: str) -> bool:
        if name.startswith(_ACCOUNT):
            return _matches_any(self.service_accounts, name.removeprefix(_ACCOUNT))
        return _matches_any(self.users, name)


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

    def records_more_than(self, other: "RecordingPolicy") -> bool:
        """Reports whether this setting records anything that the other one omits."""
        levels = list(RecordingPolicy)
        return levels.index(self) > levels.index(other)


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


def lost_permission(acting_as: Impersonation, old: RequestGrant, new: RequestGrant) -> str | None:
    """Describes the part of an open request's identity that it would no longer get; None if it
    keeps all.
    `old`: the grant under which the request was opened.
    """
    if new.cluster_id != old.cluster_id:
        return "a user of another cluster"
    if acting_as != old.impersonate:
        rule = new.may_impersonate or ImpersonationRule()
        return rule.forbidden_part(acting_as)
    if acting_as.user != new.impersonate.user:
        return f'user "{acting_as.user}"'
    lost_groups = [group for group in acting_as.groups if group not in new.impersonate.groups]
    return f'group "{lost_groups[0]}"' if lost_groups else None


@lru_cache(maxsize=4096)
def identity_block(identity: Impersonation) -> bytes:
    """Encodes the `Impersonate-*` header lines for the API server.
    Forbidden: the groups exceed the maximum size. Invalid: a name cannot be a header value.
    """
    if not identity.user:
        raise Invalid("cannot impersonate a user without a name")
    lines = [
        _header_line("User", identity.user),
        *(_header_line("Group", group) for group in identity.groups),
    ]
    if identity.uid:
        lines.append(_header_line("Uid", identity.uid))
    lines += [
        _header_line(f"Extra-{quote(key.lower(), safe=_PLAIN_KEY)}", value)
        for key, value in identity.extra
    ]
    block = b"".join(lines)
    if len(block) > MAX_BLOCK:
        raise Forbidden(
            f'user "{identity.user}" is in {len(identity.groups)} groups: '
            "a request cannot carry that many"
        )
    return block


def _matches_any(patterns: tuple[str, ...], name: str) -> bool:
    return any(_matches_pattern(name, pattern) for pattern in patterns)


def _matches_pattern(name: str, pattern: str) -> bool:
    if name == MASTERS:
        return pattern == MASTERS
    if name.startswith(_SYSTEM) and not pattern.startswith(_SYSTEM):
        return False
    return fnmatchcase(name, pattern.replace("[", "[[]").replace("?", "[?]"))


def _header_line(name: str, value: str) -> bytes:
    encoded = value.encode()
    if any(byte < 32 or byte == 127 for byte in encoded) or encoded != encoded.strip():
        raise Invalid(f"{value!r} cannot be sent as Impersonate-{name}")
    return b"Impersonate-%s: %s\r\n" % (name.encode(), encoded)
