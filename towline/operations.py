"""Typed GraphQL operations: a document, and the type of its answer."""

from collections.abc import Iterator, Mapping
from typing import Generic, Protocol, TypedDict, TypeVar

from core.errors import NotFound

PAGE = 250
"""Rows of a page; the cost limit of queries allows no more rows of the widest lists."""
LARGE_PAGE = 1_000
"""Rows of a page with few fields: the maximum of the API."""

Answer = TypeVar("Answer", covariant=True)
Data = TypeVar("Data")
Node = TypeVar("Node")


class GraphQLDocument(str, Generic[Answer]):
    """Text of one operation; `Answer` is the type of `data` in the response."""

    __slots__ = ()


class GraphQLApi(Protocol):
    """Client of the control plane's GraphQL API."""

    def ask(self, document: GraphQLDocument[Data], /, **variables: object) -> Data:
        """Returns `data` of the response; raises the error that matches its first error."""
        ...


class PageInfo(TypedDict):
    """Position of a page in its connection."""

    hasNextPage: bool
    endCursor: str | None


class Edge(TypedDict, Generic[Node]):
    """One element of a page."""

    node: Node


class Page(TypedDict, Generic[Node]):
    """Part of a connection."""

    edges: list[Edge[Node]]
    pageInfo: PageInfo


def run(
    api: GraphQLApi, document: GraphQLDocument[Mapping[str, Data | None]], /, **variables: object
) -> Data:
    """Runs an operation with one root field, and returns its value. Raises NotFound for null.

    Omits variables that are None, so that the API's defaults apply.
    """
    (data,) = whole(api, document, **variables).values()
    if data is None:
        raise NotFound
    return data


def whole(api: GraphQLApi, document: GraphQLDocument[Data], /, **variables: object) -> Data:
    """Runs an operation, and returns all its root fields."""
    present_variables = {name: value for name, value in variables.items() if value is not None}
    return api.ask(document, **present_variables)


def nodes(
    api: GraphQLApi, document: GraphQLDocument[Mapping[str, Page[Node]]], /, **variables: object
) -> list[Node]:
    """Returns the nodes of one page of a connection."""
    return [edge["node"] for edge in run(api, document, **variables)["edges"]]


def pages(
    api: GraphQLApi,
    document: GraphQLDocument[Mapping[str, Page[Node]]],
    rows: int = PAGE,
    /,
    **variables: object,
) -> Iterator[Node]:
    """Yields all nodes of a connection; fetches the next page when it is needed."""
    cursor = None
    while True:
        page = run(api, document, first=rows, after=cursor, **variables)
        yield from (edge["node"] for edge in page["edges"])
        if not page["pageInfo"]["hasNextPage"]:
            return
        cursor = page["pageInfo"]["endCursor"]
