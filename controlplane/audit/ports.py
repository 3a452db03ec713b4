"""Ports of the audit log."""

from collections.abc import Iterable
from datetime import datetime
from typing import Protocol

from controlplane.audit.model.chains import AuditFilter, AuditKind, ChainHead
from controlplane.audit.model.verification import IndexedBlock
from controlplane.platform.audit_entry import AuditEntry
from controlplane.platform.ports import Page, PageQuery


class AuditLog(Protocol):
    """Audit rows in hash chains, one chain for each kind; see `controlplane.audit.model.chains`.

    Appended rows get their number and hash right before the transaction ends.
    """

    async def append(self, entries: Iterable[AuditEntry]) -> None: ...

    async def search(self, filter: AuditFilter, query: PageQuery) -> Page[AuditEntry]:
        """Returns a page of the rows that match the filter, in the order in which they were
        written.

        Reads `first`, `after`, `newest`, `text` and `visible` of the query.
        """
        ...

    async def chains(self) -> list[ChainHead]:
        """Returns the beginning and the end of each chain."""
        ...

    async def rows_after(self, kind: AuditKind, number: int, limit: int) -> list[AuditEntry]:
        """Returns the next rows of a chain after a number, in order."""
        ...

    async def blocks(self, kind: AuditKind, number: int, limit: int) -> list[IndexedBlock]:
        """Returns the blocks of the next rows of a chain after a number, with their indexes."""
        ...

    async def cut(self, kind: AuditKind, before: datetime, now: datetime, limit: int) -> int:
        """Removes the oldest blocks of a chain, up to the first with a newer row.

        Removes at most `limit` rows, but at least one block; returns the number of rows.
        """
        ...
