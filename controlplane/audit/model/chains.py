"""The audit log as hash chains: kinds of rows, and the hash that links each row to the previous
one.

Every kind has its own chain, so that old rows of one kind can be removed while the others stay. Row
numbers have no gaps within a chain. A row's hash covers its content and the previous hash. The
canonical content must never change: old rows have to stay verifiable.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

import orjson

from controlplane.platform.audit_entry import AuditEntry, AuditVerdict
from controlplane.platform.time_text import format_time

_FORM = 1
_SORTED = orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS
# Raises TypeError if keys are not text, where sorting would fail.
_PLAIN = orjson.OPT_SORT_KEYS | orjson.OPT_PASSTHROUGH_DATACLASS
_SIGN_INS = frozenset(
    """signIn signOut signOutEverywhere useToken setUp approveDevice refuseDevice exchangeToken
    renewToken endTokens""".split()
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
    """Returns the kind of the rows that record this action."""
    if action.startswith(("kubernetes.", "audit.dropped")):
        return AuditKind.REQUEST
    if action.startswith("agent."):
        return AuditKind.AGENT
    return AuditKind.SIGN_IN if action in _SIGN_INS else AuditKind.CHANGE


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Filter for audit rows. A row must match every given field."""

    actor: str = ""
    """Exact actor. Limit: 320 characters."""
    action: str = ""
    """Exact action, or a prefix followed by `*`. Limit: 320 characters."""
    target: str = ""
    """Name or ID of the resource. Limit: 320 characters."""
    cluster_id: str = ""
    """ID of the cluster."""
    verdict: AuditVerdict | None = None
    """Only allowed, or only denied actions."""
    kind: AuditKind | None = None
    """Kind of row."""
    since: datetime | None = None
    """Start of the time range, included."""
    until: datetime | None = None
    """End of the time range, excluded."""


@dataclass(frozen=True, slots=True)
class ChainHead:
    """Head of a chain, and the point up to which old rows were removed."""

    kind: AuditKind
    """Kind of row."""
    number: int = 0
    """Number of the last row."""
    hash: str = ""
    """Hash of the last row."""
    floor: int = 0
    """Number of the last row removed by retention. 0 if none was removed."""
    floor_hash: str = ""
    """Hash of the last row removed by retention."""
    floor_at: datetime | None = None
    """Time of the last row removed by retention."""


class TargetLocation(NamedTuple):
    """The store's knowledge of a row's target: its cluster and project, and its digests before and
    after.
    """

    cluster_id: str = ""
    project_id: str = ""
    before_digest: str = ""
    after_digest: str = ""


def canonical(entry: AuditEntry) -> bytes:
    """Returns the bytes that a row's hash covers: its kind, number and content as a JSON array."""
    where = TargetLocation(
        entry.cluster_id, entry.project_id, entry.before_digest, entry.after_digest
    )
    detail = orjson.dumps(entry.detail, option=_SORTED)
    return content(entry, kind_of(entry.action), entry.number, where, detail)


def content(
    entry: AuditEntry, kind: AuditKind, number: int, where: TargetLocation, detail: bytes
) -> bytes:
    """Returns the canonical bytes of a row with this number, location and detail text."""
    parts = (
        _FORM,
        kind.value,
        number,
        format_time(entry.at),
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


def detail_json(entry: AuditEntry) -> bytes:
    """Serializes a row's detail as it is hashed and stored: plain JSON with sorted keys."""
    try:
        return orjson.dumps(entry.detail, option=_PLAIN)
    except TypeError:
        plain = orjson.loads(orjson.dumps(entry.detail, option=orjson.OPT_NON_STR_KEYS))
        return orjson.dumps(plain, option=_SORTED)


def row_hash(previous: str, entry: AuditEntry) -> str:
    """Returns the hash (SHA-256, hex) of a numbered row that follows the row with the hash
    `previous`.
    """
    return chain_hash(previous, canonical(entry))


def chain_hash(previous: str, content: bytes) -> str:
    """Returns the hash (SHA-256, hex) of canonical bytes that follow the row with the hash
    `previous`.
    """
    return hashlib.sha256(previous.encode() + b"\n" + content).hexdigest()


@dataclass(frozen=True, slots=True)
class ChainBreak:
    """The first altered or missing row of a chain, with a description of the damage."""

    kind: AuditKind
    number: int
    text: str

    def __str__(self) -> str:
        return f"{self.kind.value} row {self.number}: {self.text}"


class ChainVerifier:
    """Verifies a chain row by row, from its oldest remaining row to its end."""

    def __init__(self, chain: ChainHead) -> None:
        self._chain = chain
        self.number, self._hash = chain.floor, chain.floor_hash

    def take(self, rows: Iterable[AuditEntry]) -> ChainBreak | None:
        """Verifies the next rows, in the order of their numbers;
        returns the first break, if any.
        """
        for row in rows:
            if row.number != self.number + 1:
                return self._broken(self.number + 1, "is missing")
            if row_hash(self._hash, row) != row.hash:
                return self._broken(row.number, f"was altered: {row.action} by {row.actor!r}")
            self.number, self._hash = row.number, row.hash
        return None

    def end(self) -> ChainBreak | None:
        """Verifies the end of the chain after all rows; returns the break, if any."""
        if self.number < self._chain.number:
            return self._broken(self.number + 1, f"is missing, and all up to {self._chain.number}")
        if (self.number, self._hash) != (self._chain.number, self._chain.hash):
            return self._broken(self.number, "does not match the recorded end of the chain")
        return None

    def _broken(self, number: int, text: str) -> ChainBreak:
        return ChainBreak(self._chain.kind, number, text)
