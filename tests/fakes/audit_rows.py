"""Rows of the audit log, for tests."""

from controlplane.audit.model.chains import AuditFilter
from controlplane.audit.ports import AuditLog
from controlplane.platform.audit_entry import AuditEntry
from controlplane.platform.ports import MAX_PAGE_ROWS, PageQuery, Transaction


async def audit_rows(tx: Transaction, action: str = "") -> list[AuditEntry]:
    """All rows with an action, oldest first."""
    rows: list[AuditEntry] = []
    more, after = True, None
    while more:
        query = PageQuery(MAX_PAGE_ROWS, after)
        page = await tx[AuditLog].search(AuditFilter(action=action), query)
        rows += page.items
        more, after = page.more, str(rows[-1].id) if rows else None
    return rows
