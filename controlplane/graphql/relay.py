"""Relay connections (GraphQL Cursor Connections Specification): forward paging by id."""

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

import strawberry

from controlplane.domain.names import check_text
from controlplane.ports import MOST_ROWS_A_PAGE, PageQuery
from fleet.errors import Invalid

T = TypeVar("T")
Row = TypeVar("Row")

_LONGEST_SEARCH = 200
_LONGEST_CURSOR = 64
_LAST_ROW = 2**63 - 1


@strawberry.type
class PageInfo:
    has_next_page: bool
    has_previous_page: bool
    start_cursor: str | None
    end_cursor: str | None


@strawberry.type
class Edge(Generic[T]):
    cursor: str
    node: T


@strawberry.type
class Connection(Generic[T]):
    edges: list[Edge[T]]
    page_info: PageInfo


def query(
    first: int | None, after: str | None, text: str | None = None, **equals: object
) -> PageQuery:
    """A page query from arguments; None means no filter. Invalid: a page or text too long."""
    count = 50 if first is None else first
    if not 1 <= count <= MOST_ROWS_A_PAGE:
        raise Invalid(f"a page has 1 to {MOST_ROWS_A_PAGE} rows", field="first")
    if text:
        check_text(text, "q", _LONGEST_SEARCH)
    _check_cursor(after or "")
    given = {name: value for name, value in equals.items() if value is not None}
    return PageQuery(count, after or None, given, text or None)


def _check_cursor(after: str) -> None:
    """Cursors are ids, or the numbers of rows."""
    if len(after) > _LONGEST_CURSOR or (after.isdecimal() and int(after) > _LAST_ROW):
        raise Invalid("is not a cursor of this list", field="after")


def connection(
    nodes: Iterable[T], more: bool, asked: PageQuery, cursor: Callable[[T], str]
) -> Connection[T]:
    """A connection of nodes already in order."""
    edges = [Edge(cursor=cursor(node), node=node) for node in nodes]
    info = PageInfo(
        has_next_page=more,
        has_previous_page=asked.after is not None,
        start_cursor=edges[0].cursor if edges else None,
        end_cursor=edges[-1].cursor if edges else None,
    )
    return Connection(edges=edges, page_info=info)
