"""The audit log in the API: filtered rows and hash chains."""

from datetime import datetime

import strawberry

from controlplane.domain.audit import AuditFilter, AuditKind, ChainHead, kind_of
from controlplane.domain.ledger import AuditEntry, AuditVerdict
from controlplane.graphql import relay
from controlplane.graphql.context import Info
from controlplane.graphql.scalars import Map
from core.errors import Invalid

_MAX_LENGTH = 320
_KIND = strawberry.enum(AuditKind, name="AuditKind")
_VERDICT = strawberry.enum(AuditVerdict, name="AuditVerdict")


@strawberry.type
class AuditLogType:
    """A row of the audit log."""

    id: strawberry.ID
    at: datetime
    """Time of the action."""
    actor: str
    """E-mail address of the user, or name of the agent."""
    action: str
    """Action, such as `updateCluster`."""
    verdict: str
    """`allowed` or `refused`."""
    source: str
    """IP address of the client."""
    target: str
    """Name of the resource."""
    target_id: str
    """ID of the resource."""
    status: int | None
    """HTTP status of the response. Null for rows without one."""
    request_id: str
    """ID of the request, as in logs."""
    detail: Map
    """Further facts about the action."""
    kind: AuditKind
    """Kind of row."""
    cluster_id: strawberry.ID | None
    """ID of the cluster of the resource."""
    project_id: strawberry.ID | None
    """ID of the project of the resource."""
    before: str | None
    """SHA-256 of the resource's row before the action."""
    after: str | None
    """SHA-256 of the resource's row after the action."""
    number: float
    """Position in the hash chain of its kind, from 1."""
    hash: str
    """Hash over the row and the previous hash."""

    @classmethod
    def of(cls, row: AuditEntry) -> "AuditLogType":
        return cls(
            id=strawberry.ID(str(row.id)),
            at=row.at,
            actor=row.actor,
            action=row.action,
            verdict=row.verdict.value,
            source=row.source,
            target=row.target,
            target_id=row.target_id,
            status=row.status,
            request_id=row.request_id,
            detail=Map(dict(row.detail)),
            kind=kind_of(row.action),
            cluster_id=strawberry.ID(row.cluster_id) if row.cluster_id else None,
            project_id=strawberry.ID(row.project_id) if row.project_id else None,
            before=row.before_digest or None,
            after=row.after_digest or None,
            number=float(row.number),
            hash=row.hash,
        )


@strawberry.type
class AuditChain:
    """Hash chain of all rows of one kind. A stored number and hash prove later that no earlier row
    has changed."""

    kind: AuditKind
    """Kind of row."""
    number: float
    """Number of the last row."""
    hash: str
    """Hash of the last row."""
    expired: float
    """Number of the last row removed by retention. 0 if none was removed."""
    expired_at: datetime | None
    """Time of the last row removed by retention."""

    @classmethod
    def of(cls, chain: ChainHead) -> "AuditChain":
        return cls(
            kind=chain.kind,
            number=float(chain.number),
            hash=chain.hash,
            expired=float(chain.floor),
            expired_at=chain.floor_at,
        )


@strawberry.input
class AuditLogFilter:
    """Filter for audit rows. A row must match every given field."""

    actor: str | None = None
    """Exact actor. Limit: 320 characters."""
    action: str | None = None
    """Exact action, or a prefix followed by `*`. Limit: 320 characters."""
    target: str | None = None
    """Name or ID of the resource. Limit: 320 characters."""
    cluster_id: strawberry.ID | None = None
    """ID of the cluster."""
    verdict: AuditVerdict | None = None
    """Only allowed, or only denied actions."""
    kind: AuditKind | None = None
    """Kind of row."""
    since: datetime | None = None
    """Start of the time range, included."""
    until: datetime | None = None
    """End of the time range, excluded."""

    def filter(self) -> AuditFilter:
        """Returns the filter of the domain. Invalid: a text is too long."""
        for name in ("actor", "action", "target", "cluster_id"):
            if len(getattr(self, name) or "") > _MAX_LENGTH:
                raise Invalid(f"longer than {_MAX_LENGTH} characters", field=f"filter.{name}")
        return AuditFilter(
            actor=self.actor or "",
            action=self.action or "",
            target=self.target or "",
            cluster_id=self.cluster_id or "",
            verdict=self.verdict,
            kind=self.kind,
            since=self.since,
            until=self.until,
        )


@strawberry.type
class AuditQuery:
    @strawberry.field
    async def audit_logs(
        self,
        info: Info,
        first: int | None = None,
        after: str | None = None,
        q: str | None = None,
        filter: AuditLogFilter | None = None,
    ) -> relay.Connection[AuditLogType]:
        """Audit log, newest first.

        Args:
            q: Text to search for in actor, action and target. Limit: 200 characters.
            filter: Filter for rows.
        """
        asked, wanted = relay.page_query(first, after, q), filter.filter() if filter else None
        page = await info.context.verbs.records.page(info.context.actor, asked, wanted)
        return relay.connection_of(page, asked, AuditLogType.of)

    @strawberry.field
    async def audit_chains(self, info: Info) -> list[AuditChain]:
        """Hash chains of the audit log."""
        chains = await info.context.verbs.records.chains(info.context.actor)
        return [AuditChain.of(chain) for chain in chains]
