"""Search over the inventory and names in memory."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

from sqlalchemy import Table

from controlplane.authorization import Visible
from controlplane.clusters.store import clusters
from controlplane.platform.ports import MAX_FOUND
from controlplane.search.model import (
    UNKNOWN,
    ImageTerm,
    Key,
    NamedItem,
    NamedItemKind,
    ParsedSearch,
    SearchHit,
    check_images,
    is_like,
    removed_by,
)
from controlplane.search.ports import SearchPage
from controlplane.search.store import NAME_COLUMNS
from controlplane.services.model.service import Component
from controlplane.services.store.tables import components, services
from core.spec.images import split_image
from tests.fakes.memory_store.connection import MemoryConnection
from tests.fakes.memory_store.constraints import Row
from tests.fakes.memory_store.filters import contains, visible_rows
from tests.fakes.memory_store.rows import MemoryReading

_CANDIDATES = 50
_NAMES_OF = {Key.SERVICE: (services, "name"), Key.CLUSTER: (clusters, "handle")}
_NO_ROW: Row = {"name": "", "handle": "", "pinged_at": None}
Matches = Callable[[Component], bool]


class MemorySearch:
    """Implements `SearchStore`."""

    def __init__(self, connection: MemoryConnection) -> None:
        self._connection = connection
        self._components = MemoryReading(connection, components, Component)

    async def objects(
        self, question: ParsedSearch, visible: Visible, first: int, after: str | None
    ) -> SearchPage:
        is_visible = visible_rows(self._connection, components, visible)
        ids = [row["id"] for row in self._connection.where(components, is_visible)]
        terms = self._terms(question)
        known = {image for row in await self._components.select() for image in row.images}
        check_images(
            sum(
                any(t.matches(*split_image(name.lower())) for t in question.images)
                for name in known
            )
        )
        rows = [c for c in await self._components.select(id=ids) if all(fits(c) for fits in terms)]
        shown = [row for row in rows if after is None or row.id > after]
        items = tuple(self._hit(row) for row in shown[:first])
        return SearchPage(items, len(shown) > first, min(len(rows), MAX_FOUND + 1))

    async def places(self, text: str, allowed: dict[NamedItemKind, Visible]) -> list[NamedItem]:
        found: list[NamedItem] = []
        for kind, visible in allowed.items():
            found += self._named(kind, text, visible)
        cluster, slash, name = text.partition("/")
        service = NamedItemKind.SERVICE
        if slash and service in allowed:
            found += self._named(service, name, allowed[service], cluster)
        return found

    def _named(
        self, kind: NamedItemKind, text: str, visible: Visible, cluster: str = ""
    ) -> list[NamedItem]:
        table, column = NAME_COLUMNS[kind].table, NAME_COLUMNS[kind].name
        rows = self._connection.where(table, visible_rows(self._connection, table, visible))
        rows = [r for r in rows if r.get("deleted_at") is None and contains(r[column], text)]
        rows = [r for r in rows if not cluster or contains(self._within(table, r), cluster)]

        def rank(row: Row) -> tuple[Any, ...]:
            name = row[column]
            is_other = name.lower() != text.lower()
            return is_other, not name.lower().startswith(text.lower()), len(name), name

        return [
            NamedItem(kind, row["id"], row[column], self._within(table, row))
            for row in sorted(rows, key=rank)[:_CANDIDATES]
        ]

    def _within(self, table: Table, row: Row) -> str:
        return self._row(clusters, row["cluster_id"])["handle"] if table is services else ""

    def _hit(self, row: Component) -> SearchHit:
        cluster = self._row(clusters, row.cluster_id)
        service = self._row(services, row.service_id)["name"]
        return SearchHit(row, service, cluster["handle"], cluster["pinged_at"])

    def _row(self, table: Table, id: str) -> Row:
        return self._connection.row(table, id) or _NO_ROW

    def _terms(self, question: ParsedSearch) -> list[Matches]:
        terms: list[Matches] = [
            lambda row, word=word: contains(row.name, word) for word in question.words
        ]
        terms += [self._term(key, values) for key, values in question.terms.items()]
        if images := question.images:
            terms.append(lambda row: any(_has_image(row, term) for term in images))
        return terms

    def _term(self, key: Key, values: Sequence[str]) -> Matches:
        if key is Key.OWNER:
            rows = self._connection.rows(components)
            owners = {row["uid"] for row in rows if _any_like(row["name"], values)}
            return lambda row: row.owner_uid in owners
        if key in _NAMES_OF:
            table, column = _NAMES_OF[key]
            rows = self._connection.rows(table)
            ids = {row["id"] for row in rows if _any_like(row[column], values)}
            return lambda row: getattr(row, f"{key.value}_id") in ids
        return _TERMS.get(key, _named_like(key.value))(values)


def _health(values: Sequence[str]) -> Matches:
    return lambda row: (UNKNOWN if row.state is None else row.state.value) in values


def _label(values: Sequence[str]) -> Matches:
    def has_label(row: Component, text: str) -> bool:
        name, equals, value = text.partition("=")
        return row.labels.get(name) == value if equals else name in row.labels

    return lambda row: any(has_label(row, text) for text in values)


def _deprecated(values: Sequence[str]) -> Matches:
    apis = {api for value in values for api in removed_by(value)}
    return lambda row: (row.group, row.version, row.kind) in apis


def _api(values: Sequence[str]) -> Matches:
    def is_api(row: Component, api: str) -> bool:
        return api == (f"{row.group}/{row.version}" if "/" in api else row.version)

    return lambda row: any(is_api(row, api) for api in values)


def _kind(values: Sequence[str]) -> Matches:
    names = {name for v in values for name in (v, v.capitalize(), v[:1].upper() + v[1:])}
    return lambda row: row.kind in names or _any_like(row.kind, [v for v in values if "*" in v])


def _named_like(column: str) -> Callable[[Sequence[str]], Matches]:
    return lambda values: lambda row: _any_like(getattr(row, column), values)


def _any_like(text: str, values: Collection[str]) -> bool:
    return any(is_like(text, value) if "*" in value else text == value for value in values)


def _has_image(row: Component, term: ImageTerm) -> bool:
    return any(_has_image_name(image, term) for image in row.images)


def _has_image_name(image: str, term: ImageTerm) -> bool:
    return term.matches(*split_image(image.lower()))


_TERMS: dict[Key, Callable[[Sequence[str]], Matches]] = {
    Key.HEALTH: _health,
    Key.LABEL: _label,
    Key.DEPRECATED: _deprecated,
    Key.API: _api,
    Key.KIND: _kind,
}
