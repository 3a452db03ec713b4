"""Relay connections (GraphQL Cursor Connections Specification): paging by ID in both directions."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Any, Generic, Protocol, TypeVar

import strawberry
from strawberry.types.nodes import SelectedField

from controlplane.platform.labels import parse_selector
from controlplane.platform.limits import check_count, check_range
from controlplane.platform.names import check_text
from controlplane.platform.ports import MAX_COUNTED, MAX_PAGE_ROWS, Page, PageQuery
from core.errors import Invalid

T = TypeVar("T")
N = TypeVar("N", bound="Identified")
Row = TypeVar("Row")
C = TypeVar("C")

_MAX_SEARCH_LENGTH = 200
_MAX_CURSOR_LENGTH = 64
_MAX_ROW_NUMBER = 2**63 - 1
_MAX_TAGS = 10


class TagLike(Protocol):
    """A tag of a client."""

    name: str
    value: str


class Identified(Protocol):
    """An object with an ID."""

    id: strawberry.ID


@strawberry.type
class PageInfo:
    """Position of a page in its list."""

    has_next_page: bool
    """True if rows follow the page."""
    has_previous_page: bool
    """True if rows precede the page."""
    start_cursor: str | None
    """Cursor of the first row. Null for an empty page."""
    end_cursor: str | None
    """Cursor of the last row. Null for an empty page."""


@strawberry.type
class Edge(Generic[T]):
    """A row of a list and its cursor."""

    cursor: str
    """Cursor of the row, for `after` and `before`."""
    node: T
    """The row."""


class CountKind(StrEnum):
    """Precision of a count."""

    EXACT = "EXACT"
    """The count is exact."""
    AT_LEAST = "AT_LEAST"
    """The count stopped at its limit; there may be more rows."""


strawberry.enum(CountKind, name="CountKind")


class ListOrder(StrEnum):
    """Sort order of a list."""

    CREATED = "CREATED"
    """By creation time."""
    NAME = "NAME"
    """By name or handle."""


strawberry.enum(ListOrder, name="ListOrder")


@strawberry.type
class Connection(Generic[T]):
    """A page of a list (GraphQL Cursor Connections Specification)."""

    edges: list[Edge[T]]
    """Rows of the page."""
    page_info: PageInfo
    """Position of the page."""
    total_count: int | None = None
    """Number of rows on all pages, up to 10,000. Null if the list is not counted."""
    total_count_kind: CountKind | None = None
    """Precision of `totalCount`. Null if the list is not counted."""


def page_query(
    first: int | None,
    after: str | None,
    text: str | None = None,
    *,
    last: int | None = None,
    before: str | None = None,
    tags: Sequence[TagLike] | None = None,
    labels: str | None = None,
    info: object = None,
    order: str = "id",
    **equals: object,
) -> PageQuery:
    """Returns a page query from arguments; None means no filter. Invalid: a value is out of range.

    With `info`, rows are counted if the query selects their number. `order` is a column.
    """
    if last is not None and (first is not None or after):
        raise Invalid("use either first and after, or last and before", field="last")
    if before and last is None:
        raise Invalid("requires last", field="before")
    field, count = ("last", last) if last is not None else ("first", 50 if first is None else first)
    check_range(count, field, 1, MAX_PAGE_ROWS)
    if text:
        check_text(text, "q", _MAX_SEARCH_LENGTH)
    filters = {name: value for name, value in equals.items() if value is not None}
    query = PageQuery(
        count,
        (before if last is not None else after) or None,
        filters,
        text or None,
        backwards=last is not None,
        tags=_checked_tags(tags or ()),
        labels=parse_selector(labels or ""),
        counting=info is not None and _selects_count(info),
        order=order,
    )
    _check_cursor(query)
    return query


def _selects_count(info: Any) -> bool:
    return any(
        selected.name in ("totalCount", "totalCountKind")
        for field in info.selected_fields
        for selected in _selected_fields(field)
    )


def _selected_fields(node: Any) -> Iterator[SelectedField]:
    for selection in node.selections:
        if isinstance(selection, SelectedField):
            yield selection
        else:
            yield from _selected_fields(selection)


def _checked_tags(tags: Sequence[TagLike]) -> tuple[tuple[str, str], ...]:
    check_count(len(tags), "tags", _MAX_TAGS)
    return tuple(
        (check_text(tag.name, "tags.name", 63), check_text(tag.value, "tags.value")) for tag in tags
    )


def _check_cursor(query: PageQuery) -> None:
    """Raises Invalid for text that is neither an ID nor a row number."""
    cursor = query.after or ""
    if len(cursor) > _MAX_CURSOR_LENGTH or (cursor.isdecimal() and int(cursor) > _MAX_ROW_NUMBER):
        raise Invalid(
            "is not a cursor of this list; use endCursor or startCursor",
            field=query.cursor_argument,
        )


def connection(
    nodes: Iterable[T],
    more: bool,
    query: PageQuery,
    cursor: Callable[[T], str],
    count: int | None = None,
    max_count: int = MAX_COUNTED,
) -> Connection[T]:
    """Returns a connection of sorted nodes. `more`: rows follow in the requested direction.

    A `count` above `max_count` is a lower bound.
    """
    edges = [Edge(cursor=cursor(node), node=node) for node in nodes]
    before, after = query.after is not None, more
    info = PageInfo(
        has_next_page=before if query.backwards else after,
        has_previous_page=after if query.backwards else before,
        start_cursor=edges[0].cursor if edges else None,
        end_cursor=edges[-1].cursor if edges else None,
    )
    return Connection(
        edges=edges,
        page_info=info,
        total_count=None if count is None else min(count, max_count),
        total_count_kind=None if count is None else _count_kind(count, max_count),
    )


def connection_of(page: Page[Row], query: PageQuery, make: Callable[[Row], N]) -> Connection[N]:
    """Returns a connection of rows, each converted to a node whose ID is its cursor."""
    nodes = [make(row) for row in page.items]
    return connection(nodes, page.more, query, lambda node: node.id, page.count)


async def connection_of_many(
    context: C,
    page: Page[Row],
    query: PageQuery,
    make: Callable[[C, Sequence[Row]], Awaitable[Sequence[N]]],
) -> Connection[N]:
    """Returns a connection of rows that `make` converts together, with their related resources."""
    nodes = await make(context, page.items)
    return connection(nodes, page.more, query, lambda node: node.id, page.count)


def _count_kind(count: int, max_count: int) -> CountKind:
    return CountKind.AT_LEAST if count > max_count else CountKind.EXACT
