"""Lists of the API: their arguments, and the position of a page in its list."""

from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from controlplane.api.schema import schema
from controlplane.authorization import Actor
from controlplane.clusters.model.cluster import Cluster, ClusterHealth
from controlplane.clusters.operations.clusters import Clusters
from controlplane.platform.graphql.context import ApiBackend, Authenticator, Context
from controlplane.platform.graphql.relay import CountKind, connection
from controlplane.platform.labels import parse_selector
from controlplane.platform.ports import MAX_COUNTED, Page, PageQuery
from tests.fakes.actors import ADMIN
from tests.fakes.operations import make_cluster, operations_over_memory

POSITION = "pageInfo { startCursor endCursor hasNextPage hasPreviousPage }"
LIST = f"edges {{ cursor node {{ handle }} }} {POSITION}"


async def ask(operations: object, arguments: str, selection: str = LIST) -> Any:
    """The result of a query for clusters."""
    query = f"{{ clusters{'(' + arguments + ')' if arguments else ''} {{ {selection} }} }}"
    nobody_signs_in = cast(Authenticator, None)
    context = Context(ApiBackend({Clusters: operations}, nobody_signs_in, 0), caller=ADMIN)
    return await schema.execute(query, None, context)


@dataclass
class EmptyList:
    """Operations on clusters that remember their queries."""

    queries: list[PageQuery] = field(default_factory=list)

    async def page(
        self, actor: Actor, query: PageQuery, health: ClusterHealth | None
    ) -> Page[Cluster]:
        self.queries.append(query)
        return Page((), more=False)


@pytest.mark.parametrize(
    ("arguments", "query"),
    [
        ("", PageQuery(50)),
        ('after: "", q: "", labels: "", tags: []', PageQuery(50)),
        ('first: 1000, after: "x"', PageQuery(1_000, "x")),
        ('last: 7, before: "x"', PageQuery(7, "x", backwards=True)),
        ('projectId: "p"', PageQuery(50, equals={"project_id": "p"})),
        ('q: "web"', PageQuery(50, text="web")),
        ('labels: "env=a"', PageQuery(50, labels=parse_selector("env=a"))),
        ('tags: [{name: "a", value: "b"}]', PageQuery(50, tags=(("a", "b"),))),
        ("order: NAME", PageQuery(50, order="handle")),
        ("order: CREATED", PageQuery(50)),
    ],
)
async def test_arguments_select_the_rows_of_a_page(arguments: str, query: PageQuery) -> None:
    clusters = EmptyList()
    assert (await ask(clusters, arguments)).errors is None
    assert clusters.queries == [query]


@pytest.mark.parametrize(
    ("selection", "counting"),
    [
        ("totalCount", True),
        ("totalCountKind", True),
        ("... on ClusterConnection { totalCount }", True),
        ("... on ClusterConnection { edges { cursor } }", False),
        (LIST, False),
    ],
)
async def test_rows_are_counted_only_for_who_asks(selection: str, counting: bool) -> None:
    clusters = EmptyList()
    assert (await ask(clusters, "first: 1", selection)).errors is None
    assert [query.counting for query in clusters.queries] == [counting]


def text(argument: str, length: int) -> str:
    value = length * "x"
    return f'{argument}: "{value}"'


def tags(count: int, name: str = "a") -> str:
    tag = f'{{name: "{name}", value: "b"}}'
    return f"tags: [{', '.join([tag] * count)}]"


@pytest.mark.parametrize(
    ("accepted", "refused", "reason"),
    [
        ("first: 1", "first: 1, last: 1", "use either first and after, or last and before"),
        ("last: 1", 'last: 1, after: "x"', "use either first and after, or last and before"),
        ('last: 1, before: "x"', 'before: "x"', "requires last"),
        ("first: 1", "first: 0", "must be 1 to 1,000, not 0"),
        ("last: 1000", "last: 1001", "must be 1 to 1,000, not 1,001"),
        (text("q", 200), text("q", 201), "at most 200 characters"),
        (text("after", 64), text("after", 65), "after: is not a cursor of this list"),
        (
            f"last: 1, {text('before', 64)}",
            f"last: 1, {text('before', 65)}",
            "before: is not a cursor of this list",
        ),
        (f'after: "{2**63 - 1}"', f'after: "{2**63}"', "not a cursor of this list"),
        (tags(10), tags(11), "at most 10 entries"),
        (tags(1, "x" * 63), tags(1, "x" * 64), "at most 63 characters"),
    ],
)
async def test_arguments_have_limits(accepted: str, refused: str, reason: str) -> None:
    clusters = EmptyList()
    assert (await ask(clusters, accepted)).errors is None
    (error,) = (await ask(clusters, refused)).errors
    assert (error.extensions["code"], reason in error.message) == ("INVALID", True)
    assert len(clusters.queries) == 1


@pytest.mark.parametrize(
    ("arguments", "handles", "has_next", "has_previous"),
    [
        ("", "abcde", False, False),
        ("first: 2", "ab", True, False),
        ('first: 2, after: "b"', "cd", True, True),
        ('first: 3, after: "b"', "cde", False, True),
        ("last: 2", "de", False, True),
        ('last: 2, before: "d"', "bc", True, True),
        ('last: 3, before: "d"', "abc", True, False),
    ],
)
async def test_a_page_tells_where_it_stands(
    arguments: str, handles: str, has_next: bool, has_previous: bool
) -> None:
    world = operations_over_memory()
    await world.given(*map(make_cluster, "abcde"))
    page = (await ask(Clusters(world.context), arguments)).data["clusters"]
    assert [edge["node"]["handle"] for edge in page["edges"]] == [*handles]
    assert [edge["cursor"] for edge in page["edges"]] == [*handles]
    assert page["pageInfo"] == {
        "startCursor": handles[0],
        "endCursor": handles[-1],
        "hasNextPage": has_next,
        "hasPreviousPage": has_previous,
    }


async def test_an_empty_page_has_no_cursors() -> None:
    page = (await ask(EmptyList(), "")).data["clusters"]
    assert page["pageInfo"] == {
        "startCursor": None,
        "endCursor": None,
        "hasNextPage": False,
        "hasPreviousPage": False,
    }


async def test_all_pages_are_counted() -> None:
    world = operations_over_memory()
    await world.given(*map(make_cluster, "abcde"))
    selection = "totalCount totalCountKind edges { cursor }"
    page = (await ask(Clusters(world.context), 'first: 1, after: "b"', selection)).data["clusters"]
    assert page == {"totalCount": 5, "totalCountKind": "EXACT", "edges": [{"cursor": "c"}]}


@pytest.mark.parametrize(
    ("count", "total", "kind"),
    [
        (None, None, None),
        (0, 0, CountKind.EXACT),
        (MAX_COUNTED, MAX_COUNTED, CountKind.EXACT),
        (MAX_COUNTED + 1, MAX_COUNTED, CountKind.AT_LEAST),
    ],
)
def test_a_count_above_its_limit_is_a_lower_bound(
    count: int | None, total: int | None, kind: CountKind | None
) -> None:
    counted = connection(["a"], False, PageQuery(1), str, count)
    assert (counted.total_count, counted.total_count_kind) == (total, kind)
