"""The audit trail as hash chains: what kinds of rows there are, and how each vouches for the last.

Every kind has a chain of its own, so that old rows of one kind can go while the others stay. A
row's number counts its chain without a gap; its hash is taken over its content and the hash before
it. The canonical content never changes: rows of old must verify for ever.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple

import orjson

from controlplane.domain.ledger import AuditEntry, Verdict

_FORM = 1
_SORTED = orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS
# Raises TypeError where sorting the keys of mappings with text for keys would not do.
_PLAIN = orjson.OPT_SORT_KEYS | orjson.OPT_PASSTHROUGH_DATACLASS
_SIGN_INS = frozenset(
    """signIn signOut signOutEverywhere useToken setUp setPassword approveDevice refuseDevice
    exchangeToken renewToken endTokens""".split()
)


class AuditKind(StrEnum):
    """Kind of an audit row. Each kind has its own chain and its own retention."""

    CHANGE = "change"
    """A mutation of the API."""
    SIGN_IN = "sign-in"
    """A sign-in, a sign-out or the use of a token."""
    REQUEST = "request"
    """A proxied request to the Kubernetes API of a cluster."""
    AGENT = "agent"
    """An action of an agent."""


def kind_of(action: str) -> AuditKind:
    """The kind of rows with an action."""
    if action.startswith(("kubernetes.", "audit.dropped")):
        return AuditKind.REQUEST
    if action.startswith("agent."):
        return AuditKind.AGENT
    return AuditKind.SIGN_IN if action in _SIGN_INS else AuditKind.CHANGE


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Which rows are wanted; None and empty let every row through.

    `action` may end in `*`; `target` is a name or an id; `since` is included, `until` is not.
    """

    actor: str = ""
    action: str = ""
    target: str = ""
    cluster_id: str = ""
    verdict: Verdict | None = None
    kind: AuditKind | None = None
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Chain:
    """Where a chain ends, and what has been cut off its beginning.

    Rows up to `floor` have been removed in their time; `floor_hash` is the hash of the last one.
    """

    kind: AuditKind
    number: int = 0
    hash: str = ""
    floor: int = 0
    floor_hash: str = ""
    floor_at: datetime | None = None


class Whereabouts(NamedTuple):
    """What the store knows of a row's target: where it stands; its digests before and after."""

    cluster_id: str = ""
    project_id: str = ""
    before_digest: str = ""
    after_digest: str = ""


def canonical(entry: AuditEntry) -> bytes:
    """What a row's hash is taken over: its kind, number and content as a JSON array."""
    where = Whereabouts(entry.cluster_id, entry.project_id, entry.before_digest, entry.after_digest)
    detail = orjson.dumps(entry.detail, option=_SORTED)
    return content(entry, kind_of(entry.action), entry.number, where, detail)


def content(
    entry: AuditEntry, kind: AuditKind, number: int, where: Whereabouts, detail: bytes
) -> bytes:
    """The canonical bytes of a row that gets this number, whereabouts, and detail as text."""
    parts = (
        _FORM,
        kind.value,
        number,
        written_moment(entry.at),
        entry.actor,
        entry.actor_id,
        entry.token_id,
        entry.source,
        entry.action,
        entry.verdict.value,
        entry.target,
        entry.target_id,
        *where,
        entry.status,
        entry.request_id,
        orjson.Fragment(detail),
    )
    return orjson.dumps(parts)


def written_moment(at: datetime) -> str:
    """ISO 8601 in UTC, with microseconds."""
    return (at if at.tzinfo is UTC else at.astimezone(UTC)).isoformat(timespec="microseconds")


def detail_text(entry: AuditEntry) -> bytes:
    """A row's detail as it is hashed and kept: plain JSON, its keys sorted."""
    try:
        return orjson.dumps(entry.detail, option=_PLAIN)
    except TypeError:
        plain = orjson.loads(orjson.dumps(entry.detail, option=orjson.OPT_NON_STR_KEYS))
        return orjson.dumps(plain, option=_SORTED)


def link(previous: str, entry: AuditEntry) -> str:
    """The hash (SHA-256, hex) of a numbered row behind the row with the hash `previous`."""
    return chained(previous, canonical(entry))


def chained(previous: str, content: bytes) -> str:
    """The hash (SHA-256, hex) of canonical bytes behind the row with the hash `previous`."""
    return hashlib.sha256(previous.encode() + b"\n" + content).hexdigest()


@dataclass(frozen=True, slots=True)
class Break:
    """The first row of a chain that is not what was written, and what is wrong with it."""

    kind: AuditKind
    number: int
    text: str

    def __str__(self) -> str:
        return f"{self.kind.value} row {self.number}: {self.text}"


class ChainCheck:
    """Goes along a chain, from what is left of its beginning to its end."""

    def __init__(self, chain: Chain) -> None:
        self._chain = chain
        self.number, self._hash = chain.floor, chain.floor_hash

    def take(self, rows: Iterable[AuditEntry]) -> Break | None:
        """Go on with the next rows, in the order of their numbers; where the chain breaks."""
        for row in rows:
            if row.number != self.number + 1:
                return self._broken(self.number + 1, "is missing")
            if link(self._hash, row) != row.hash:
                return self._broken(row.number, f"was altered: {row.action} by {row.actor!r}")
            self.number, self._hash = row.number, row.hash
        return None

    def end(self) -> Break | None:
        """What is wrong with the end, after all rows have been taken."""
        if self.number < self._chain.number:
            return self._broken(self.number + 1, f"is missing, and all up to {self._chain.number}")
        if (self.number, self._hash) != (self._chain.number, self._chain.hash):
            return self._broken(self.number, "is not where the chain is said to end")
        return None

    def _broken(self, number: int, text: str) -> Break:
        return Break(self._chain.kind, number, text)
