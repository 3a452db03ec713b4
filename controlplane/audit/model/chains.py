"""The audit log as hash chains: kinds of rows, and the hash that links each row to the previous
one.

Every kind has its own chain, so that old rows of one kind can be removed while the others stay. Row
numbers have no gaps within a chain. A row's hash covers its content and the previous hash. The
canonical content must never change: old rows have to stay verifiable.
"""

import hashlib
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from controlplane.platform.audit_entry import AuditVerdict

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
