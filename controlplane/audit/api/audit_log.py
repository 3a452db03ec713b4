"""The audit log in the API: filtered rows and hash chains."""

import strawberry

from controlplane.audit.model.chains import AuditFilter, AuditKind, ChainHead, kind_of
from controlplane.audit.operations.audit_log import AuditLogOperations
from controlplane.platform.audit_entry import AuditEntry, AuditVerdict
from controlplane.platform.graphql import relay
from controlplane.platform.graphql.context import Info
from controlplane.platform.graphql.derive import Draft, Output, computed, draft, output
from controlplane.platform.limits import check_length

_MAX_LENGTH = 320
strawberry.enum(AuditKind, name="AuditKind")
strawberry.enum(AuditVerdict, name="AuditVerdict")


@output(
    AuditEntry,
    rename={"before": "before_digest", "after": "after_digest"},
    hide={"actor_id", "token_id"},
    nullable={"cluster_id", "project_id", "before", "after"},
)
class AuditLogType(Output[AuditEntry]):
    """A row of the audit log."""

    id: strawberry.ID = computed(lambda row: strawberry.ID(str(row.id)))
    verdict: str = computed(lambda row: row.verdict.value)
    target_id: str
    request_id: str
    kind: AuditKind = computed(lambda row: kind_of(row.action))
    """Kind of row."""
    number: float


@output(ChainHead, rename={"expired": "floor", "expired_at": "floor_at"}, hide={"floor_hash"})
class AuditChain(Output[ChainHead]):
    """Hash chain of all rows of one kind. A stored number and hash prove later that no earlier row
    has changed."""

    number: float
    expired: float


@draft(AuditFilter)
class AuditLogFilter(Draft[AuditFilter]):
    """Filter for audit rows. A row must match every given field."""

    def change(self) -> AuditFilter:
        """Returns the filter of the log. Invalid: a text is too long."""
        filter = super().change()
        for name in ("actor", "action", "target", "cluster_id"):
            check_length(getattr(filter, name), f"filter.{name}", _MAX_LENGTH)
        return filter


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
        query, log_filter = relay.page_query(first, after, q), filter.change() if filter else None
        page = await info.context[AuditLogOperations].page(info.context.actor, query, log_filter)
        return relay.connection_of(page, query, AuditLogType.of)

    @strawberry.field
    async def audit_chains(self, info: Info) -> list[AuditChain]:
        """Hash chains of the audit log."""
        return AuditChain.of_each(await info.context[AuditLogOperations].chains(info.context.actor))
