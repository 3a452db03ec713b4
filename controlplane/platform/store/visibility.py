"""Conditions that select rows by scope, and that indexes can answer."""

from collections.abc import Collection

from sqlalchemy import ColumnElement, Table, and_, func, literal, or_, select, type_coerce
from sqlalchemy.dialects.postgresql import JSONB

from controlplane.authorization import DEFAULT_PROJECT, Scope, Visible
from controlplane.platform.store.schema import metadata

OWN_KIND = {
    "clusters": "cluster",
    "services": "service",
    "pipelines": "pipeline",
    "repositories": "repository",
    "projects": "project",
}
"""The kind of scope that selects a row of a table by its id."""

OF_INSTALLATION = frozenset(
    {"global_services", "service_sets", "managed_namespaces", "cluster_groups"}
)
"""Without a project, rows of these tables belong to the installation, not to the default project.
"""


def visible_rows(table: Table, visible: Visible) -> ColumnElement[bool]:
    """Selects visible rows: of each set of scopes, a row is in at least one."""
    return and_(True, *(_any_of(table, scopes) for scopes in visible))


def _any_of(table: Table, scopes: frozenset[Scope]) -> ColumnElement[bool]:
    ids: dict[str, list[str]] = {}
    for scope in scopes:
        kind, _, id = scope.partition(":")
        ids.setdefault(kind, []).append(id)
    terms = [term for kind, of_kind in ids.items() for term in _terms(table, kind, of_kind)]
    return or_(False, *terms)


def _terms(table: Table, kind: str, ids: Collection[str]) -> list[ColumnElement[bool]]:
    if OWN_KIND.get(table.name) == kind:
        return [table.c.id.in_(ids)]
    column = table.c.get(f"{kind}_id")
    if column is not None:
        is_default = kind == "project" and DEFAULT_PROJECT in ids
        if is_default and table.name not in OF_INSTALLATION:
            return [column.in_(ids), column.is_(None)]
        return [column.in_(ids)]
    if kind == "project" and "cluster_id" in table.c:
        clusters = _clusters()
        visible = select(clusters.c.id).where(or_(*_terms(clusters, kind, ids)))
        return [table.c.cluster_id.in_(visible)]
    return []


def rows_with_tag(table: Table, tag: tuple[str, str], dialect: str) -> ColumnElement[bool]:
    """Selects clusters with a tag, or rows of such clusters."""
    if "tags" not in table.c:
        clusters = _clusters()
        tagged = select(clusters.c.id).where(rows_with_tag(clusters, tag, dialect))
        # Tags cover many clusters: SQLite must not sort all their rows for one page.
        column = table.c.cluster_id.concat("") if dialect == "sqlite" else table.c.cluster_id
        return column.in_(tagged)
    name, value = tag
    if dialect == "postgresql":
        return type_coerce(table.c.tags, JSONB).contains({name: value})
    each = func.json_each(table.c.tags).table_valued("key", "value", name="tag")
    return (
        select(literal(1))
        .select_from(each)
        .where(each.c.key == name, each.c.value == value)
        .exists()
    )


def _clusters() -> Table:
    """The table of clusters, by name: the platform imports no noun."""
    return metadata.tables["clusters"]
