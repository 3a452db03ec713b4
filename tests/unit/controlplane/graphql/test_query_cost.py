"""The cost of a query comes from its fields, its pages and its lists."""

import importlib
from typing import Any

import pytest
from graphql import DocumentNode, FragmentDefinitionNode, OperationDefinitionNode, parse

from controlplane.api.schema import schema
from controlplane.platform.graphql.limits import (
    MAX_COST,
    OperationCost,
    check_cost,
    has_introspection,
)
from core.errors import LimitExceeded
from towline.cli.generate import MODULE, ROOT
from towline.cli.services.generated import SERVICE_ROWS
from towline.operations import LARGE_PAGE, PAGE, GraphQLDocument

MAX_CONSOLE_PAGE = 1_000
CONSOLE_PAGES = {"PipelineRows": 50}
NODES = "edges { node { id components { id name } } }"


def cost(query: str, **variables: Any) -> int:
    document = parse(query)
    (operation,) = [one for one in document.definitions if hasattr(one, "operation")]
    return OperationCost(schema._schema, document, operation, variables).total()  # ty: ignore


def test_rows_multiply_what_is_selected_of_them() -> None:
    one_row = 4 + 2 * 5
    assert cost("{ me { id name } }") == 3
    assert cost(f"{{ serviceDeployments(first: 2) {{ {NODES} }} }}") == 1 + 2 * one_row


@pytest.mark.parametrize(
    ("arguments", "variables", "rows"),
    [
        ("", {}, 50),
        ("(first: 7)", {}, 7),
        ("(last: 7)", {}, 7),
        ('(q: "x", first: 7)', {}, 7),
        ("(first: 1000000)", {}, 1_000),
        ("(first: -4)", {}, 1),
        ("(first: $n)", {"n": 9}, 9),
        ("(first: $n)", {"n": None}, 50),
        ("(first: $n)", {"n": "many"}, 1_000),
        ("(first: $n)", {}, 50),
        ("(first: $few)", {}, 3),
        ("(first: $few)", {"few": 8}, 8),
        ("(first: null, last: 1000)", {}, 1_000),
        ("(first: $n, last: 70)", {}, 70),
    ],
)
def test_a_page_has_the_rows_that_are_asked_for(arguments, variables, rows) -> None:
    query = f"query ($n: Int, $few: Int = 3) {{ clusters{arguments} {{ edges {{ cursor }} }} }}"
    assert cost(query, **variables) == 1 + rows * 2


def test_each_operation_has_its_own_defaults() -> None:
    pages = " ".join(f"a{n}: clusters(first: $n) {{ edges {{ cursor }} }}" for n in range(30))
    small, large = (f"query q{n} ($n: Int = {n}) {{ {pages} }}" for n in (1, 1_000))
    for document in (f"{small} {large}", f"{large} {small}"):
        with pytest.raises(LimitExceeded):
            check_cost(schema._schema, parse(document), {})
    check_cost(schema._schema, parse(small), {})


def test_fragments_count_each_time_and_are_reckoned_once() -> None:
    links = " ".join(f"fragment f{n} on Query {{ ...f{n + 1} ...f{n + 1} }}" for n in range(40))
    assert cost(f"{{ ...f0 }} {links} fragment f40 on Query {{ me {{ id }} }}") == 2 * 2**40


def test_inline_fragments_cost_what_they_select() -> None:
    assert cost("{ me { ... on User { id name } } }") == cost("{ me { id name } }")
    assert cost("{ ... { clusters(first: 9) { edges { cursor } } } }") == 1 + 9 * 2


def test_an_unknown_fragment_costs_nothing() -> None:
    assert cost("{ ...absent me { id } }") == 2


@pytest.mark.parametrize(
    ("field", "most"),
    [
        ("fleetDiff(repositoryId: 1, ref: 1) { __typename }", 4),
        ("pipelineWhatIf(id: 1) { __typename }", 9),
        ("manifestWhatIf(source: 1) { __typename }", 9),
        ("previewGlobalService(id: 1) { __typename }", 9),
        ("previewServiceSet(id: 1) { __typename }", 9),
        ("manifests", 10),
        ("componentLive(id: 1) { __typename }", 24),
        ("componentEvents(id: 1) { __typename }", 24),
        ("serviceEvents(serviceId: 1) { __typename }", 9),
        ("objectRelations(serviceId: 1) { __typename }", 24),
        ("serviceManifests(id: 1) { __typename }", 24),
        ("serviceDiff(id: 1) { __typename }", 12),
        ("serviceProvenance(serviceId: 1) { __typename }", 24),
        ("serviceFence(serviceId: 1) { __typename }", 24),
        ("serviceGraph { __typename }", 9),
    ],
)
def test_an_expensive_query_is_refused_with_a_remedy(field: str, most: int) -> None:
    """Reports, previews, replays, exports and reads from clusters read more than they return."""
    aliases = [f"a{n}: {field}" for n in range(most + 1)]
    check_cost(schema._schema, parse(f"{{ {' '.join(aliases[1:])} }}"), {})
    with pytest.raises(LimitExceeded, match="50,000 at most; request smaller pages"):
        check_cost(schema._schema, parse(f"{{ {' '.join(aliases)} }}"), {})


def test_cli_queries_stay_within_the_cost_limit() -> None:
    """With the pages that the commands request."""
    names = (path.relative_to(ROOT).with_suffix("") for path in ROOT.glob(f"towline/**/{MODULE}"))
    modules = [importlib.import_module(".".join(name.parts)) for name in names]
    documents = [
        document
        for module in modules
        for document in vars(module).values()
        if isinstance(document, GraphQLDocument)
    ]
    assert len(documents) > 100
    for document in documents:
        assert cost(document, first=PAGE) <= MAX_COST, document
    assert cost(SERVICE_ROWS, first=LARGE_PAGE) <= MAX_COST


def test_lists_of_the_console_stay_within_the_cost_limit() -> None:
    """With all the rows that a sorted list requests: `MAX_PAGE`, or `maxPage` of a list."""
    sources = [path.read_text() for path in (ROOT / "console/src").rglob("*.graphql")]
    definitions = [node for source in sources for node in parse(source).definitions]
    fragments = [node for node in definitions if isinstance(node, FragmentDefinitionNode)]
    lists = [
        node
        for node in definitions
        if isinstance(node, OperationDefinitionNode)
        and "first"
        in {variable.variable.name.value for variable in node.variable_definitions or ()}
    ]
    assert len(lists) > 5
    for operation in lists:
        document = DocumentNode(definitions=(operation, *fragments))
        name = operation.name.value if operation.name else ""
        rows = {"first": CONSOLE_PAGES.get(name, MAX_CONSOLE_PAGE)}
        total = OperationCost(schema._schema, document, operation, rows).total()
        assert total <= MAX_COST, name


def test_looking_at_the_schema_is_seen_anywhere() -> None:
    assert has_introspection(
        parse("{ me { id } ...{ ...f } } fragment f on Query { __type(name: 1) { name } }")
    )
    assert not has_introspection(parse("{ __typename me { id } }"))
