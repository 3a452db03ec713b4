"""Ports of the audit log."""

from datetime import datetime
from typing import Protocol

from controlplane.audit.model.chains import AuditFilter, AuditKind, ChainHead
from controlplane.platform.audit_entry import AuditEntry
from controlplane.platform.ports import AppendOnlyRows, Page, PageQuery


class AuditLog(AppendOnlyRows[AuditEntry], Protocol):
    """Audit rows in hash chains, one chain for each kind; see `controlplane.audit.model.chains`.

    Appended rows get their number and hash right before the transaction ends.
    """

    async def search(self, filter: AuditFilter, query: PageQuery) -> Page[AuditEntry]:
        """Returns a page of the rows that match the filter."""
        ...

    async def chains(self) -> list[ChainHead]:
        """Returns the beginning and the end of each chain."""
        ...

    async def behind(self, kind: AuditKind, number: int, most: int) -> list[AuditEntry]:
        """Returns the next rows of a chain after a number, in order."""
        ...

    async def cut(self, kind: AuditKind, before: datetime, now: datetime, most: int) -> int:
        """Removes the oldest rows of a chain, up to the first newer one; returns their number."""
        ...
