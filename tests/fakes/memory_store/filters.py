"""Conditions on rows, with the meaning that the SQL store gives them."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from sqlalchemy import Column, Table

from controlplane.authorization import Scope, Visible
from controlplane.platform.labels import LabelRequirement
from controlplane.platform.ports import ANY, PageQuery
from controlplane.platform.store.schema import metadata
from controlplane.platform.store.visibility import (
    ANCESTORS,
    CLUSTER_IDS,
    OF_SERVICE,
)
from tests.fakes.memory_store.columns import codec_of
from tests.fakes.memory_store.connection import MemoryConnection, Predicate
from tests.fakes.memory_store.constraints import Row


def every(predicates: Iterable[Predicate]) -> Predicate:
    """Matches rows that match all conditions."""
    kept = list(predicates)
    return lambda row: all(matches(row) for matches in kept)


def equal(table: Table, equals: Mapping[str, Any]) -> Predicate:
    """Matches rows whose columns equal the values, and that are not deleted unless asked for."""
    terms = [_equals(table.c[name], value) for name, value in equals.items()]
    if "deleted_at" in table.c and "deleted_at" not in equals:
        terms.append(lambda row: row["deleted_at"] is None)
    return every(terms)


def listed(
    connection: MemoryConnection, table: Table, searched: Collection[str], query: PageQuery
) -> Predicate:
    """Matches all rows of a list, independent of the page."""
    terms = [equal(table, query.equals), visible_rows(connection, table, query.visible)]
    terms += [_tagged(connection, table, tag) for tag in query.tags]
    terms += [labelled(connection, table, label) for label in query.labels]
    if (since := query.seen_since) is not None:
        terms.append(lambda row: row["pinged_at"] is not None and row["pinged_at"] >= since)
    if (until := query.not_seen_since) is not None:
        terms.append(lambda row: row["pinged_at"] is not None and row["pinged_at"] < until)
    if query.text:
        terms.append(_containing(searched, query.text))
    return every(terms)


def contains(value: str | None, text: str) -> bool:
    """Returns whether a value contains a text, ignoring case."""
    return value is not None and text.lower() in value.lower()


def _containing(searched: Collection[str], text: str) -> Predicate:
    return lambda row: any(contains(row[name], text) for name in searched)


def visible_rows(connection: MemoryConnection, table: Table, visible: Visible) -> Predicate:
    """Matches visible rows: of each set of scopes, a row is in at least one."""
    return every(_any_of(connection, table, scopes) for scopes in visible)


def _any_of(connection: MemoryConnection, table: Table, scopes: Collection[Scope]) -> Predicate:
    ids: dict[str, set[str]] = {}
    for scope in scopes:
        kind, _, id = scope.partition(":")
        ids.setdefault(kind, set()).add(id)
    terms = [_in_scope(connection, table, kind, of_kind) for kind, of_kind in ids.items()]
    return lambda row: any(matches(row) for matches in terms)


def _in_scope(
    connection: MemoryConnection, table: Table, kind: str, ids: Collection[str]
) -> Predicate:
    if kind == "project" and table.name in OF_SERVICE:
        services = metadata.tables["services"]
        found = connection.where(services, _in_scope(connection, services, kind, ids))
        visible = {row["id"] for row in found}
        return lambda row: row["service_id"] in visible
    column = ANCESTORS.get(table.name, {}).get(kind)
    if column is None:
        return lambda row: False
    return lambda row: row[column] in ids


def _tagged(connection: MemoryConnection, table: Table, tag: tuple[str, str]) -> Predicate:
    """Matches clusters with a tag, or rows of such clusters."""
    name, value = tag
    if "tags" in table.c:
        read = codec_of(table.c.tags).read
        return lambda row: read(row["tags"]).get(name) == value
    clusters = metadata.tables["clusters"]
    found = connection.where(clusters, _tagged(connection, clusters, tag))
    tagged = {row["id"] for row in found}
    return lambda row: row["cluster_id"] in tagged


def labelled(connection: MemoryConnection, table: Table, label: LabelRequirement) -> Predicate:
    """Matches rows by a label of their manifest, or a tag of their cluster."""
    own = by_id(connection, "declared_resources", "labels")
    tags = by_id(connection, "clusters", "tags")
    column = CLUSTER_IDS.get(table.name)
    none: dict[str, str] = {}
    return lambda row: label.matches(
        own.get(row["id"], none), tags.get(row[column], none) if column else none
    )


def by_id(connection: MemoryConnection, name: str, column: str) -> dict[str, Any]:
    table = metadata.tables[name]
    read = codec_of(table.c[column]).read
    return {row["id"]: read(row[column]) for row in connection.rows(table)}


def _equals(column: Column[Any], value: Any) -> Predicate:
    name, write = column.name, codec_of(column).write
    if value is ANY:
        return lambda row: True
    if value is None:
        return lambda row: row[name] is None
    if isinstance(value, range):
        return lambda row: row[name] is not None and value.start <= row[name] < value.stop
    if isinstance(value, Collection) and not isinstance(value, str | bytes):
        wanted = [write(member) for member in value if member is not None]
        return lambda row: row[name] is not None and row[name] in wanted
    kept = write(value)
    return lambda row: row[name] is not None and row[name] == kept


def reached(names: Collection[str], is_reached: Callable[[Any], bool]) -> Callable[[Row], bool]:
    """Matches rows of which one of these columns has a value that meets a condition."""
    return lambda row: any(row[name] is not None and is_reached(row[name]) for name in names)
