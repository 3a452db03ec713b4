"""Reads and verifies the audit log, and writes entries that no operation writes itself."""

from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import replace
from datetime import timedelta

from controlplane.access.operations.refusal_aggregation import RefusalAggregator
from controlplane.audit.model.chains import AuditFilter, AuditKind, ChainBreak, ChainHead
from controlplane.audit.model.verification import ChainVerifier
from controlplane.audit.ports import AuditLog
from controlplane.authorization import Actor, Resource, ResourceKind, Verb, require, require_any
from controlplane.platform.audit_entry import AuditEntry, AuditVerdict
from controlplane.platform.context import StoreContext
from controlplane.platform.ports import MAX_PAGE_ROWS, Page, PageQuery, Store

_REFUSALS_LISTED = 60
_ROWS_AT_ONCE = 20_000
_CUT_AT_ONCE = 20_000


class AuditLogOperations:
    """Operations on the audit log."""

    def __init__(self, context: StoreContext) -> None:
        self._context = context
        self._refusals = RefusalAggregator(context.clock, max_entries=_REFUSALS_LISTED)
        self._refused: list[AuditEntry] = []

    async def page(
        self, actor: Actor, query: PageQuery, filter: AuditFilter | None = None
    ) -> Page[AuditEntry]:
        """Audit entries of the projects and clusters whose log the actor may read, newest first."""
        require_any(actor, Verb.READ, ResourceKind.AUDIT)
        visible = replace(query, newest=True, visible=actor.policy.visible(ResourceKind.AUDIT))
        async with self._context.store.read() as tx:
            return await tx[AuditLog].search(filter or AuditFilter(), visible)

    async def export(
        self, actor: Actor, filter: AuditFilter, text: str = ""
    ) -> AsyncIterator[list[AuditEntry]]:
        """All entries that match the filter, oldest first, in batches.

        With `text`, only entries whose actor, action or target contains it.
        """
        require_any(actor, Verb.READ, ResourceKind.AUDIT)
        visible, after = actor.policy.visible(ResourceKind.AUDIT), None
        has_more = True
        while has_more:
            query = PageQuery(MAX_PAGE_ROWS, after, text=text or None, visible=visible)
            async with self._context.store.read() as tx:
                page = await tx[AuditLog].search(filter, query)
            yield list(page.items)
            has_more = page.more
            after = str(page.items[-1].id) if page.items else None

    async def chains(self, actor: Actor) -> list[ChainHead]:
        """First and last entry of each chain, to be stored elsewhere and compared later."""
        require(actor, Verb.READ, Resource.whole(ResourceKind.AUDIT))
        async with self._context.store.read() as tx:
            return await tx[AuditLog].chains()

    async def append(self, entries: Iterable[AuditEntry]) -> None:
        """Adds entries; they are committed when this returns."""
        async with self._context.store.write() as tx:
            await tx[AuditLog].append(entries)

    def record_refusal(
        self, actor: Actor, action: str, target_id: str, request_id: str, *, target: str = ""
    ) -> None:
        """Records a refused call; the next `flush` writes it.

        The first 60 refusals of a caller in a minute are entries; later ones are one entry with a
        count.
        """
        entry = self._context.audit_entry(actor, action, target, target_id[:64])
        entry = replace(entry, verdict=AuditVerdict.REFUSED, request_id=request_id[:64])
        row = self._refusals.record(entry, actor.id)
        if row is not None:
            self._refused.append(row)

    async def flush(self, *, ending: bool = False) -> None:
        """Writes recorded refusals; keeps them for the next call if the store does not answer."""
        self._refused += self._refusals.pop_summaries(include_current=ending)
        entries = list(self._refused)
        if entries:
            await self.append(entries)
            del self._refused[: len(entries)]

    async def expire(self, retention: Mapping[AuditKind, timedelta]) -> int:
        """Deletes entries older than their retention period; returns their number."""
        now, removed = self._context.clock.now(), 0
        for kind, period in retention.items():
            while True:
                async with self._context.store.write() as tx:
                    cut = await tx[AuditLog].cut(kind, now - period, now, _CUT_AT_ONCE)
                removed += cut
                if not cut:
                    break
        return removed


async def check_chains(store: Store) -> tuple[int, list[ChainBreak]]:
    """The number of verified entries, and the first broken entry of each broken chain."""
    async with store.read() as tx:
        chains = await tx[AuditLog].chains()
        checks = [await _verify_chain(tx[AuditLog], chain) for chain in chains]
    return sum(rows for rows, _ in checks), [
        chain_break for _, chain_break in checks if chain_break
    ]


async def _verify_chain(audit_log: AuditLog, chain: ChainHead) -> tuple[int, ChainBreak | None]:
    """Verifies a chain to which others append, and whose first rows may expire meanwhile."""
    verifier, chain_break = ChainVerifier(chain), None
    while chain_break is None and (
        blocks := await audit_log.blocks(chain.kind, verifier.number, _ROWS_AT_ONCE)
    ):
        chain_break = verifier.verify(blocks)
    (now,) = (head for head in await audit_log.chains() if head.kind is chain.kind)
    if chain_break and now.floor != chain.floor:
        return await _verify_chain(audit_log, now)
    return verifier.number - chain.floor, chain_break or verifier.end(now)
