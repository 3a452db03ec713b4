"""The audit trail: reading it with filters, and where its chains end."""

from datetime import datetime

import strawberry

from controlplane.domain.audit import AuditFilter, AuditKind, Chain, kind_of
from controlplane.domain.ledger import AuditEntry, Verdict
from controlplane.graphql import relay
from controlplane.graphql.context import Info
from controlplane.graphql.scalars import Map
from fleet.errors import Invalid

_LONGEST = 320
_KIND = strawberry.enum(AuditKind, name="AuditKind")
_VERDICT = strawberry.enum(Verdict, name="AuditVerdict")


@strawberry.type
class AuditLog:
    """Who asked for what, when, from where, and what was answered."""

    id: strawberry.ID
    at: datetime
    actor: str
    action: str
    verdict: str
    source: str
    target: str
    target_id: str
    status: int | None
    request_id: str
    detail: Map
    kind: AuditKind
    cluster_id: strawberry.ID | None
    project_id: strawberry.ID | None
    before: str | None = strawberry.field(description="SHA-256 of the target's row before.")
    after: str | None = strawberry.field(description="SHA-256 of the target's row after.")
    number: float = strawberry.field(description="Its place in the chain of its kind.")
    hash: str

    @classmethod
    def of(cls, row: AuditEntry) -> "AuditLog":
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


@strawberry.type(
    description="The rows of one kind. Kept elsewhere, number and hash prove later that no row up "
    "to there was changed. Rows up to `expired` have been removed in their time."
)
class AuditChain:
    kind: AuditKind
    number: float
    hash: str
    expired: float
    expired_at: datetime | None

    @classmethod
    def of(cls, chain: Chain) -> "AuditChain":
        return cls(
            kind=chain.kind,
            number=float(chain.number),
            hash=chain.hash,
            expired=float(chain.floor),
            expired_at=chain.floor_at,
        )


@strawberry.input(description="Rows that fit all that is given. `action` may end in `*`; `target` "
                              "is a name or an id; `until` is not included.")  # fmt: skip
class AuditLogFilter:
    actor: str | None = None
    action: str | None = None
    target: str | None = None
    cluster_id: strawberry.ID | None = None
    verdict: Verdict | None = None
    kind: AuditKind | None = None
    since: datetime | None = None
    until: datetime | None = None

    def filter(self) -> AuditFilter:
        """As the domain has it. Invalid: a text is too long."""
        for name in ("actor", "action", "target", "cluster_id"):
            if len(getattr(self, name) or "") > _LONGEST:
                raise Invalid(f"at most {_LONGEST} characters", field=f"filter.{name}")
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
    @strawberry.field(description="The audit trail, newest first.")
    async def audit_logs(
        self,
        info: Info,
        first: int | None = None,
        after: str | None = None,
        q: str | None = None,
        filter: AuditLogFilter | None = None,
    ) -> relay.Connection[AuditLog]:
        asked, wanted = relay.query(first, after, q), filter.filter() if filter else None
        page = await info.context.verbs.records.page(info.context.actor, asked, wanted)
        return relay.listed(page, asked, AuditLog.of)

    @strawberry.field(description="Where the chains of the audit trail begin and end.")
    async def audit_chains(self, info: Info) -> list[AuditChain]:
        chains = await info.context.verbs.records.chains(info.context.actor)
        return [AuditChain.of(one) for one in chains]
