"""Search in blocks of the audit log: the conditions on a row, and the order of pages."""

import asyncio
from collections.abc import AsyncIterator

from controlplane.audit.model.blocks import MAX_BLOCK_ROWS, AuditBlock, RowContent, RowMatch, unpack
from controlplane.audit.model.chains import AuditFilter
from controlplane.authorization import Visible
from controlplane.platform.audit_entry import AuditEntry
from controlplane.platform.ports import Page, PageQuery
from controlplane.platform.time_text import format_time
from core.errors import Invalid

SEARCHED = ("actor", "action", "target")
_MAX_CURSOR_LENGTH = 20


async def search_blocks(
    candidates: AsyncIterator[AuditBlock], filter: AuditFilter, query: PageQuery
) -> Page[AuditEntry]:
    """Returns a page of the rows that match, from blocks in the order of the page."""
    first, cursor, matches = query.first, _cursor_of(query), row_match(filter, query)
    entries: list[AuditEntry] = []
    async for block in candidates:
        rows = unpack(block, matches)
        if cursor is not None:
            rows = [row for row in rows if _is_after(row, cursor, newest=query.newest)]
        entries += reversed(rows) if query.newest else rows
        if len(entries) > first:
            break
        # Unpacking a block needs milliseconds: other tasks must not wait for all blocks.
        await asyncio.sleep(0)
    return Page(tuple(entries[:first]), len(entries) > first)


def _is_after(row: AuditEntry, cursor: int, *, newest: bool) -> bool:
    id = row.id or 0
    return id < cursor if newest else id > cursor


def cursor_block(query: PageQuery) -> int | None:
    """Returns the ID of the block with the last row of the previous page."""
    cursor = _cursor_of(query)
    return None if cursor is None else cursor // MAX_BLOCK_ROWS


def _cursor_of(query: PageQuery) -> int | None:
    if query.after is None:
        return None
    if not query.after.isdecimal() or len(query.after) > _MAX_CURSOR_LENGTH:
        raise Invalid("is not a cursor of this list", field=query.cursor_argument)
    return int(query.after)


def row_match(filter: AuditFilter, query: PageQuery) -> RowMatch:
    """Returns the condition of a search: its filter, its text and its scopes."""
    terms = [*_filter_conditions(filter), *_time_conditions(filter)]
    action, target = filter.action, filter.target
    if action.endswith("*"):
        terms.append(lambda row: row.action.startswith(action[:-1]))
    elif action:
        terms.append(lambda row: row.action == action)
    if target:
        terms.append(lambda row: target in (row.target, row.target_id))
    if query.text:
        text = query.text.lower()
        terms.append(lambda row: any(text in getattr(row, name).lower() for name in SEARCHED))
    if query.visible:
        terms.append(lambda row: _is_visible(row, query.visible))
    return lambda row: all(matches(row) for matches in terms)


def _filter_conditions(filter: AuditFilter) -> list[RowMatch]:
    values = {
        "actor": filter.actor,
        "cluster_id": filter.cluster_id,
        "verdict": filter.verdict,
        "kind": filter.kind,
    }
    return [
        lambda row, name=name, value=value: getattr(row, name) == value
        for name, value in values.items()
        if value
    ]


def _time_conditions(filter: AuditFilter) -> list[RowMatch]:
    # Times in canonical form sort as text.
    terms: list[RowMatch] = []
    if filter.since is not None:
        since = format_time(filter.since)
        terms.append(lambda row: row.at >= since)
    if filter.until is not None:
        until = format_time(filter.until)
        terms.append(lambda row: row.at < until)
    return terms


def _is_visible(row: RowContent, visible: Visible) -> bool:
    scopes = {f"cluster:{row.cluster_id}", f"project:{row.project_id}"}
    return all(not scopes.isdisjoint(allowed) for allowed in visible)
