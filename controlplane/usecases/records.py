"""Reading the audit trail, and writing what is not a mutation into it."""

from collections.abc import Iterable
from dataclasses import replace

from controlplane.domain.access import Actor, Kind, Target, Verb, require
from controlplane.domain.ledger import AuditEntry
from controlplane.ports import Page, PageQuery
from controlplane.usecases.deps import Deps


class Records:
    """Verbs on the audit trail."""

    def __init__(self, deps: Deps) -> None:
        self._deps = deps

    async def page(self, actor: Actor, query: PageQuery) -> Page[AuditEntry]:
        """Audit entries, newest first."""
        require(actor, Verb.READ, Target.whole(Kind.AUDIT))
        async with self._deps.store.read() as tx:
            return await tx.audit.page(replace(query, newest=True))

    async def append(self, entries: Iterable[AuditEntry]) -> None:
        """Add entries, committed when this returns."""
        async with self._deps.store.write() as tx:
            await tx.audit.append(entries)
