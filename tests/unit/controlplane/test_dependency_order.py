"""In which order services are delivered that wait for each other, and how circles are found."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from controlplane.platform.cycles import find_cycle
from controlplane.services.model.service import Service
from controlplane.services.operations.dependencies import check_dependency_names, dependency_groups
from core.identity import ClusterId, ServiceId

THEN = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = "abcdef"
GRAPHS = st.dictionaries(
    st.sampled_from(NAMES), st.lists(st.sampled_from(NAMES), unique=True, max_size=4)
)
Graph = dict[str, list[str]]


def services(graph: Graph) -> list[Service]:
    """A service for each name, in one cluster."""
    cluster = ClusterId("c")
    return [
        Service(ServiceId(n), cluster, None, n, "x", THEN, THEN).changed(dependencies=tuple(needs))
        for n, needs in graph.items()
    ]


def reaches(graph: Graph, start: str, goal: str) -> bool:
    """Whether steps along the edges lead from one name to another, by trying them all."""
    known: set[str] = set()
    ahead = set(graph.get(start, ()))
    while ahead:
        known |= ahead
        ahead = {one for name in ahead for one in graph.get(name, ())} - known
    return goal in known


@given(GRAPHS)
def test_a_circle_is_found_exactly_where_a_way_leads_back(graph: Graph) -> None:
    """And what is named is such a way."""
    for name in graph:
        way = find_cycle(name, lambda one: graph.get(one, ()))
        assert bool(way) == reaches(graph, name, name)
        assert all(b in graph[a] for a, b in zip(way, way[1:], strict=False))
        assert not way or way[0] == way[-1] == name


@given(GRAPHS)
def test_every_service_is_delivered_once_after_what_it_needs(graph: Graph) -> None:
    """Those in a circle too, whatever put them there."""
    groups = dependency_groups(services(graph))
    order = {one.name: place for place, group in enumerate(groups) for one in group}
    assert sorted(order) == sorted(graph)
    assert sum(map(len, groups)) == len(graph)
    if not any(reaches(graph, name, name) for name in graph):
        assert all(order[n] > order[o] for n in graph for o in graph[n] if o in graph)


def test_names_count_once_in_the_order_given() -> None:
    assert check_dependency_names(["b", "a", "b"]) == ("b", "a")
