"""Selects the blocks of the audit log that may have rows of a search."""

from collections.abc import Collection

from sqlalchemy import ColumnElement, Select, and_, or_, select

from controlplane.audit.model.blocks import IndexTerm
from controlplane.audit.model.chains import AuditFilter
from controlplane.audit.model.matching import SEARCHED
from controlplane.audit.store import audit_blocks, audit_terms
from controlplane.authorization import Scope
from controlplane.platform.audit_entry import AuditVerdict
from controlplane.platform.ports import PageQuery
from controlplane.platform.store.columns import contains

_BLOCKS, _TERMS = audit_blocks.c, audit_terms.c


def candidate_blocks(
    filter: AuditFilter, query: PageQuery, start: int | None, dialect: str
) -> Select[tuple[int]]:
    """Selects the IDs of blocks from the block `start` on, in the order of the page.

    The rarest term leads: its index has the blocks in order, so that a page reads few entries.
    """
    terms = _exact_terms(filter)
    where = [_has_term(_TERMS.field == field, _TERMS.value == value) for field, value in terms[1:]]
    where += _conditions(filter, query, dialect)
    where += [_in_scopes(scopes) for scopes in query.visible]
    statement, id = select(_BLOCKS.id), _BLOCKS.id
    if terms:
        (field, value), lead = terms[0], audit_terms.alias("lead")
        id = lead.c.block_id
        statement = select(id).join_from(lead, audit_blocks, _BLOCKS.id == id)
        where += [lead.c.field == field, lead.c.value == value]
    if start is not None:
        where.append(id <= start if query.newest else id >= start)
    return statement.where(*where).order_by(id.desc() if query.newest else id)


def _exact_terms(filter: AuditFilter) -> list[IndexTerm]:
    """Returns the terms that a block must have, usually the rarest first."""
    refused = AuditVerdict.REFUSED.value if filter.verdict is AuditVerdict.REFUSED else ""
    terms = [
        ("target", filter.target),
        ("actor", filter.actor),
        ("verdict", refused),
        ("cluster_id", filter.cluster_id),
        ("action", "" if filter.action.endswith("*") else filter.action),
    ]
    return [(field, value) for field, value in terms if value]


def _conditions(filter: AuditFilter, query: PageQuery, dialect: str) -> list[ColumnElement[bool]]:
    where: list[ColumnElement[bool]] = []
    if filter.kind is not None:
        where.append(_BLOCKS.kind == filter.kind)
    if filter.since is not None:
        where.append(_BLOCKS.last_at >= filter.since)
    if filter.until is not None:
        where.append(_BLOCKS.first_at < filter.until)
    if filter.action.endswith("*"):
        has_prefix = _TERMS.value.startswith(filter.action[:-1], autoescape=True)
        where.append(_has_term(_TERMS.field == "action", has_prefix))
    if query.text:
        is_searched = _TERMS.field.in_(SEARCHED)
        where.append(_has_term(is_searched, contains(_TERMS.value, query.text, dialect)))
    return where


def _in_scopes(scopes: Collection[Scope]) -> ColumnElement[bool]:
    """Selects blocks with a row in at least one of the scopes."""
    ids: dict[str, list[str]] = {"cluster": [], "project": []}
    for scope in scopes:
        kind, _, id = scope.partition(":")
        if kind in ids:
            ids[kind].append(id)
    return _has_term(or_(*(_of_kind(kind, some) for kind, some in ids.items())))


def _of_kind(kind: str, ids: Collection[str]) -> ColumnElement[bool]:
    return and_(_TERMS.field == f"{kind}_id", _TERMS.value.in_(ids))


def _has_term(*terms: ColumnElement[bool]) -> ColumnElement[bool]:
    """Selects blocks that have a term."""
    return select(_TERMS.value).where(_TERMS.block_id == _BLOCKS.id, *terms).exists()
