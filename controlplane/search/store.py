"""Search over the inventory and names: trigrams and keys in PostgreSQL, scans in SQLite."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import orjson
from sqlalchemy import (
    ColumnElement,
    Select,
    and_,
    case,
    func,
    literal,
    or_,
    select,
    text,
    type_coerce,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.exc import PendingRollbackError
from sqlalchemy.types import Text

from controlplane.access.store import groups
from controlplane.authorization import Visible
from controlplane.clusters.store import clusters
from controlplane.pipelines.store import pipelines
from controlplane.platform.ports import MAX_FOUND
from controlplane.platform.store.columns import contains, is_like
from controlplane.platform.store.connection import StoreConnection
from controlplane.platform.store.rows import SqlReading
from controlplane.platform.store.transaction import Repositories
from controlplane.platform.store.visibility import visible_rows
from controlplane.repositories.store import repositories
from controlplane.search.model import (
    UNKNOWN,
    ImageTerm,
    Key,
    NamedItem,
    NamedItemKind,
    ParsedSearch,
    SearchHit,
    check_images,
    removed_by,
)
from controlplane.search.ports import SearchPage, SearchStore
from controlplane.services.model.service import Component, ComponentState
from controlplane.services.store.tables import components, images, services

_C = components.c
_AVOID_SCANS, _ALLOW_SCANS = (text(f"SET enable_seqscan = {how}") for how in ("off", "DEFAULT"))
_CANDIDATES = 50
NAME_COLUMNS = {
    NamedItemKind.CLUSTER: clusters.c.handle,
    NamedItemKind.SERVICE: services.c.name,
    NamedItemKind.GROUP: groups.c.name,
    NamedItemKind.REPOSITORY: repositories.c.url,
    NamedItemKind.PIPELINE: pipelines.c.name,
}


class SqlSearch(SqlReading[Component]):
    """Implements `SearchStore` on a connection."""

    def __init__(self, connection: StoreConnection) -> None:
        super().__init__(connection, components, Component)
        self._dialect = connection.dialect
        self._is_postgres = connection.dialect == "postgresql"

    async def objects(
        self, search: ParsedSearch, visible: Visible, first: int, after: str | None
    ) -> SearchPage:
        """Returns objects in the order of their ids, and their number up to the count limit.

        A search with few results is answered from all of them: the planner must not scan two
        million rows in order for a few matches. A search with many results is scanned in order.
        """
        where = and_(visible_rows(components, visible), *await self._conditions(search))
        ids = await self._limited_ids(where, by_indexes=self._has_rare_terms(search))
        if len(ids) > MAX_FOUND:
            following = where if after is None else and_(where, _C.id > after)
            page = select(_C.id).where(following).order_by(_C.id).limit(first + 1)
            page_ids = list((await self._connection.execute(page)).scalars())
        else:
            page_ids = [id for id in ids if after is None or id > after][: first + 1]
        rows = await self._load_hits(page_ids[:first])
        return SearchPage(tuple(rows), len(page_ids) > first, len(ids))

    def _has_rare_terms(self, search: ParsedSearch) -> bool:
        """Returns whether words and terms may match fewer rows together than PostgreSQL expects.

        PostgreSQL assumes that terms are independent of each other.
        """
        several = len(search.words) + len(search.terms) > 1
        return self._is_postgres and several and any(len(word) > 2 for word in search.words)

    async def _limited_ids(self, where: ColumnElement[bool], *, by_indexes: bool) -> list[str]:
        """Returns the ids of the first matches, up to the count limit, in order.

        `by_indexes` plans as if all matches were requested, by the indexes for all terms. With a
        limit, PostgreSQL expects to find enough matches early, and reads a million rows if there
        are none.
        """
        matches: Select[Any] = select(_C.id).where(where)
        if not by_indexes:
            return sorted((await self._connection.execute(matches.limit(MAX_FOUND + 1))).scalars())
        all_matches = matches.cte("every").prefix_with("MATERIALIZED")
        try:
            await self._connection.execute(_AVOID_SCANS)
            found = await self._connection.execute(select(all_matches.c.id).limit(MAX_FOUND + 1))
        finally:
            # No transaction ends the setting after a read; it ends with the connection.
            with suppress(PendingRollbackError):
                await self._connection.execute(_ALLOW_SCANS)
        return sorted(found.scalars())

    async def places(self, text: str, allowed: dict[NamedItemKind, Visible]) -> list[NamedItem]:
        """Returns candidates: of each kind the shortest names.

        `CLUSTER/NAME` also finds services by a part of each.
        """
        items: list[NamedItem] = []
        for kind, visible in allowed.items():
            items += await self._find_by_name(kind, text, visible)
        cluster, slash, name = text.partition("/")
        if slash:
            service = NamedItemKind.SERVICE
            items += await self._find_by_name(service, name, allowed[service], cluster)
        return items

    async def _find_by_name(
        self, kind: NamedItemKind, text: str, visible: Visible, cluster: str = ""
    ) -> list[NamedItem]:
        name = NAME_COLUMNS[kind]
        table: Any = name.table
        where = [contains(name, text, self._dialect), visible_rows(table, visible)]
        if cluster:
            handle = contains(clusters.c.handle, cluster, self._dialect)
            where.append(table.c.cluster_id.in_(select(clusters.c.id).where(handle)))
        if "deleted_at" in table.c:
            where.append(table.c.deleted_at.is_(None))
        exact_rank = case((func.lower(name) == text.lower(), 0), else_=1)
        prefix_rank = case((name.istartswith(text, autoescape=True), 0), else_=1)
        order = (exact_rank, prefix_rank, func.length(name), name)
        best = select(table.c.id).where(*where).order_by(*order).limit(_CANDIDATES)
        statement: Any = select(table.c.id, name, literal(""))
        if table is services:
            statement = select(table.c.id, name, clusters.c.handle).join(
                clusters, clusters.c.id == services.c.cluster_id
            )
        rows: Any = await self._connection.execute(statement.where(table.c.id.in_(best)))
        return [NamedItem(kind, *row) for row in rows]

    async def _load_hits(self, ids: Sequence[str]) -> list[SearchHit]:
        if not ids:
            return []
        service = func.coalesce(services.c.name, "")
        cluster = func.coalesce(clusters.c.handle, "")
        joined = components.outerjoin(services, services.c.id == _C.service_id)
        found = await self._connection.execute(
            self._rows.add_columns(service, cluster, clusters.c.pinged_at)
            .select_from(joined.outerjoin(clusters, clusters.c.id == _C.cluster_id))
            .where(_C.id.in_(ids))
            .order_by(_C.id)
        )
        width = len(self._names)
        return [SearchHit(Component(*row[:width]), *row[width:]) for row in map(tuple, found)]

    async def _conditions(self, search: ParsedSearch) -> list[ColumnElement[bool]]:
        terms: list[ColumnElement[bool]] = [
            contains(_C.name, word, self._dialect) for word in search.words
        ]
        terms += [self._condition_for(key, values) for key, values in search.terms.items()]
        if search.images:
            terms.append(self._has_image(search.images, await self._matching_images(search.images)))
        return terms

    def _condition_for(self, key: Key, values: Sequence[str]) -> ColumnElement[bool]:
        if key is Key.HEALTH:
            states = [ComponentState(value) for value in values if value != UNKNOWN]
            has_state = _C.state.in_(states)
            return or_(has_state, _C.state.is_(None)) if UNKNOWN in values else has_state
        if key is Key.LABEL:
            return or_(*(self._has_label(value) for value in values))
        if key is Key.DEPRECATED:
            return _is_api(api for value in values for api in removed_by(value))
        if key is Key.API:
            return or_(*(_has_version(value) for value in values))
        if key in _JOINED:
            outer, column, name = _JOINED[key]
            within = select(column).where(or_(*(self._like(name, value) for value in values)))
            return outer.in_(within)
        return or_(*(self._like(_C[key.value], value) for value in values))

    def _like(self, column: Any, value: str) -> ColumnElement[bool]:
        """Matches a column by value or pattern; kinds ignore case."""
        if column is _C.kind and "*" not in value:
            return column.in_({value, value.capitalize(), value[:1].upper() + value[1:]})
        return (
            is_like(column, _like_pattern(value), self._dialect)
            if "*" in value
            else column == value
        )

    async def _matching_images(self, terms: Sequence[ImageTerm]) -> list[str]:
        """Selects the matching images; there are few, so versions are compared here.

        LimitExceeded: too many images match.
        """
        has_name = or_(
            *(images.c.name.like(_like_pattern(f"*{t.name}"), escape="\\") for t in terms)
        )
        rows = await self._connection.execute(select(images).where(has_name))
        found = [
            row.image for row in rows if any(term.matches(row.name, row.tag) for term in terms)
        ]
        check_images(len(found))
        return found

    def _has_image(self, terms: Sequence[ImageTerm], names: list[str]) -> ColumnElement[bool]:
        if self._is_postgres:
            searched = literal(names, ARRAY(Text()))
            return type_coerce(_C.images, JSONB).has_any(searched)
        elements = func.json_each(_C.images).table_valued("value", name="image")
        found = select(literal(1)).select_from(elements).where(elements.c.value.in_(names)).exists()
        # Most rows are excluded by their text, before the JSON is parsed.
        images = type_coerce(_C.images, Text)
        return and_(
            or_(*(images.like(_like_pattern(f"*{t.name}*"), escape="\\") for t in terms)), found
        )

    def _has_label(self, text: str) -> ColumnElement[bool]:
        name, equals, value = text.partition("=")
        if self._is_postgres:
            labels = type_coerce(_C.labels, JSONB)
            return labels.contains({name: value}) if equals else labels.has_key(name)
        elements = func.json_each(_C.labels).table_valued("key", "value", name="label")
        found = select(literal(1)).select_from(elements).where(elements.c.key == name)
        # Most rows are excluded by their text, before the JSON is parsed.
        likely = func.instr(type_coerce(_C.labels, Text), orjson.dumps(value or name).decode()) > 0
        return and_(likely, (found.where(elements.c.value == value) if equals else found).exists())


_OWNERS = components.alias("owners")
_JOINED = {
    Key.OWNER: (_C.owner_uid, _OWNERS.c.uid, _OWNERS.c.name),
    Key.SERVICE: (_C.service_id, services.c.id, services.c.name),
    Key.CLUSTER: (_C.cluster_id, clusters.c.id, clusters.c.handle),
}


def _like_pattern(value: str) -> str:
    plain = value.replace("\\", r"\\").replace("%", r"\%").replace("_", r"\_")
    return plain.replace("*", "%")


def _has_version(api: str) -> ColumnElement[bool]:
    group, slash, version = api.rpartition("/")
    return and_(_C.group == group, _C.version == version) if slash else _C.version == version


def _is_api(apis: Any) -> ColumnElement[bool]:
    return or_(False, *(and_(_C.kind == k, _C.group == g, _C.version == v) for g, v, k in apis))


REPOSITORIES: Repositories = {SearchStore: lambda tx: SqlSearch(tx.connection)}
