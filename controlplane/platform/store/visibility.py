"""Conditions that select rows by scope, and that indexes can answer."""

from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Select,
    Table,
    and_,
    func,
    literal,
    not_,
    or_,
    select,
    type_coerce,
    union,
)
from sqlalchemy.dialects.postgresql import JSONB

from controlplane.authorization import Scope, Visible
from controlplane.platform.labels import LabelRequirement
from controlplane.platform.store.schema import metadata

_OF_PROJECT = {"project": "project_id"}
_OF_SERVICE = {"cluster": "cluster_id", "service": "service_id"}
ANCESTORS: Mapping[str, Mapping[str, str]] = {
    "projects": {"project": "id"},
    "clusters": {**_OF_PROJECT, "cluster": "id"},
    "services": {**_OF_PROJECT, "cluster": "cluster_id", "service": "id"},
    "components": _OF_SERVICE,
    "ledger": {**_OF_PROJECT, **_OF_SERVICE},
    "deployments": {**_OF_PROJECT, **_OF_SERVICE},
    "pipelines": {**_OF_PROJECT, "pipeline": "id"},
    "repositories": {**_OF_PROJECT, "repository": "id"},
    "cluster_groups": _OF_PROJECT,
    "cluster_sources": _OF_PROJECT,
    "global_services": _OF_PROJECT,
    "service_sets": _OF_PROJECT,
    "managed_namespaces": _OF_PROJECT,
    "contexts": _OF_PROJECT,
    "configuration_sources": _OF_PROJECT,
    "secrets": _OF_PROJECT,
    "notification_sinks": _OF_PROJECT,
    "notification_routers": _OF_PROJECT,
    "notifications": {**_OF_PROJECT, **_OF_SERVICE, "pipeline": "pipeline_id"},
    "deliveries": _OF_PROJECT,
}
"""The scopes of each table's rows, as in the path of their target: for each kind, the column of
its id. Rows of other tables are visible only in the whole installation.
"""

CLUSTER_IDS: Mapping[str, str] = {"clusters": "id", "services": "cluster_id"}
"""Columns with the cluster whose tags are labels of the rows."""

OF_SERVICE = frozenset({"components"})
"""Rows of these tables are in the project of their service, which exists as long as they do."""


def visible_rows(table: Table, visible: Visible) -> ColumnElement[bool]:
    """Selects visible rows: of each set of scopes, a row is in at least one."""
    return and_(True, *(_in_any_scope(table, scopes) for scopes in visible))


def _in_any_scope(table: Table, scopes: frozenset[Scope]) -> ColumnElement[bool]:
    ids: dict[str, list[str]] = {}
    for scope in scopes:
        kind, _, id = scope.partition(":")
        ids.setdefault(kind, []).append(id)
    conditions = [
        condition
        for kind, kind_ids in ids.items()
        for condition in _scope_conditions(table, kind, kind_ids)
    ]
    return or_(False, *conditions)


def _scope_conditions(table: Table, kind: str, ids: Collection[str]) -> list[ColumnElement[bool]]:
    if kind == "project" and table.name in OF_SERVICE:
        services = metadata.tables["services"]
        visible = select(services.c.id).where(or_(*_scope_conditions(services, kind, ids)))
        return [table.c.service_id.in_(visible)]
    name = ANCESTORS.get(table.name, {}).get(kind)
    if name is None:
        return []
    column = table.c[name]
    return [column.in_(ids)]


def rows_with_tag(table: Table, tag: tuple[str, str], dialect: str) -> ColumnElement[bool]:
    """Selects clusters with a tag, or rows of such clusters."""
    if "tags" not in table.c:
        clusters = _clusters_table()
        tagged = select(clusters.c.id).where(rows_with_tag(clusters, tag, dialect))
        # Tags cover many clusters: SQLite must not sort all their rows for one page.
        column = table.c.cluster_id.concat("") if dialect == "sqlite" else table.c.cluster_id
        return column.in_(tagged)
    name, value = tag
    return _has_pair(table.c.tags, name, (value,), dialect)


def rows_with_label(table: Table, label: LabelRequirement, dialect: str) -> ColumnElement[bool]:
    """Selects rows by a label of their manifest, or a tag of their cluster."""
    declared = metadata.tables["declared_resources"]
    labelled = _has_pair(declared.c.labels, label.key, label.values, dialect)
    condition = table.c.id.in_(select(declared.c.id).where(labelled))
    clusters = _clusters_table()
    if (column := table.c.get(CLUSTER_IDS.get(table.name, ""))) is not None:
        tagged = _has_pair(clusters.c.tags, label.key, label.values, dialect)
        condition = or_(condition, column.in_(select(clusters.c.id).where(tagged)))
    return not_(condition) if label.operator.is_negative else condition


def label_values(table: Table, key: str, visible: Visible, dialect: str) -> Select[tuple[str]]:
    """Selects the different values of a label of visible rows, as `rows_with_label` finds them."""
    rows = select(table.c.id).where(visible_rows(table, visible))
    declared, clusters = metadata.tables["declared_resources"], _clusters_table()
    own = _values_at(declared.c.labels, key, dialect).where(declared.c.id.in_(rows))
    column = table.c[CLUSTER_IDS[table.name]]
    cluster_ids = select(column).where(visible_rows(table, visible))
    tags = _values_at(clusters.c.tags, key, dialect).where(clusters.c.id.in_(cluster_ids))
    found = union(own, tags).subquery()
    return select(found.c.value).order_by(found.c.value)


def _values_at(column: Column[object], key: str, dialect: str) -> Select[tuple[str]]:
    """Selects the texts at a key of JSON objects."""
    if dialect == "postgresql":
        pairs = type_coerce(column, JSONB)
        return select(pairs[key].astext.label("value")).where(pairs.has_key(key))
    each = func.json_each(column).table_valued("key", "value", name="pair")
    statement = select(each.c.value.label("value")).select_from(
        column.table.join(each, literal(True))
    )
    return statement.where(each.c.key == key)


def _has_pair(
    column: Column[Any], name: str, values: Collection[str], dialect: str
) -> ColumnElement[bool]:
    """Matches JSON objects with one of the texts at a key; without texts, with any one there."""
    if dialect == "postgresql":
        pairs = type_coerce(column, JSONB)
        if not values:
            return pairs.has_key(name)
        return or_(*(pairs.contains({name: value}) for value in values))
    each = func.json_each(column).table_valued("key", "value", name="pair")
    statement = select(literal(1)).select_from(each).where(each.c.key == name)
    return (statement.where(each.c.value.in_(values)) if values else statement).exists()


def _clusters_table() -> Table:
    """The table of clusters, by name: the platform imports no noun."""
    return metadata.tables["clusters"]
