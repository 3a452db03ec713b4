"""The size of a document is measured in time that grows with its length alone."""

import pytest
from graphql import OperationDefinitionNode, SelectionSetNode, parse
from hypothesis import given
from hypothesis import strategies as st

from controlplane.platform.graphql.limits import (
    MAX_ALIASES,
    MAX_DEPTH,
    MAX_FIELDS,
    MAX_FRAGMENTS,
    MAX_VALUE_DEPTH,
    MAX_VALUES,
    DocumentSize,
    SelectionSize,
    check_values,
)
from core.errors import Invalid


class CountingScale(DocumentSize):
    """Counts the selection sets that it is asked to weigh."""

    visits = 0

    def measure(self, selections: SelectionSetNode, nested: int) -> SelectionSize:
        self.visits += 1
        return super().measure(selections, nested)


def doubling(levels: int) -> str:
    """A document that doubles with each fragment."""
    links = [f"fragment f{n} on Query {{ ...f{n + 1} ...f{n + 1} }}" for n in range(levels)]
    return f"{{ ...f0 }} {' '.join(links)} fragment f{levels} on Query {{ me {{ id }} }}"


def refusal(document: str) -> str:
    with pytest.raises(Invalid) as refused:
        DocumentSize(parse(document)).check()
    return refused.value.message


@pytest.mark.parametrize("levels", [5, 20, MAX_FRAGMENTS - 1])
def test_a_fragment_is_weighed_once_however_often_it_is_spread(levels: int) -> None:
    scale = CountingScale(parse(doubling(levels)))
    try:
        scale.check()
    except Invalid as error:
        assert "fields" in error.message
    assert scale.visits <= levels + 3


def test_fragments_that_expand_beyond_the_limit_are_refused() -> None:
    """A kilobyte that would come to 2**41 fields."""
    assert refusal(doubling(40)) == f"the query has more than {MAX_FIELDS:,} fields; split it"


def test_sixty_fragments_are_refused_unread() -> None:
    scale = CountingScale(parse(doubling(60)))
    with pytest.raises(Invalid, match=f"61 fragments, {MAX_FRAGMENTS} at most"):
        scale.check()
    assert scale.visits == 0


@pytest.mark.parametrize(
    "document",
    [
        "{ ...a } fragment a on Query { ...a }",
        "{ me { id } } fragment a on Query { ...b } fragment b on Query { ...a }",
        "{ ...a } fragment a on Query { ...b me { id } } fragment b on Query { me { ...a } }",
    ],
)
def test_a_fragment_that_contains_itself_is_refused(document: str) -> None:
    """Spread or not, directly or through others."""
    assert "contains itself" in refusal(document)


def test_depth_counts_fields_through_fragments() -> None:
    chain = " ".join(f"fragment f{n} on Q {{ a {{ ...f{n + 1} }} }}" for n in range(MAX_DEPTH))
    deepest = f"fragment f{MAX_DEPTH} on Q {{ b }}"
    assert "depth of the query is 16" in refusal(f"{{ ...f0 }} {chain} {deepest}")


@pytest.mark.parametrize("extra", [0, 1])
def test_the_deepest_query_passes_and_one_deeper_does_not(extra: int) -> None:
    depth = MAX_DEPTH + extra
    document = parse("{ a " * depth + "}" * depth)
    if extra:
        with pytest.raises(Invalid, match="depth"):
            DocumentSize(document).check()
    else:
        DocumentSize(document).check()


def test_long_ways_through_fragments_end_before_the_interpreter_does() -> None:
    """Inline fragments count for no depth, yet each is a level to walk."""
    inner = "... { " * 60 + "{next}" + " }" * 60
    links = [
        f"fragment f{n} on Q {{ {inner.replace('{next}', f'...f{n + 1}')} }}" for n in range(40)
    ]
    assert "nested deeper" in refusal(f"{{ ...f0 }} {' '.join(links)} fragment f40 on Q {{ a }}")


def test_aliases_in_fragments_count_at_each_spread() -> None:
    fragment = "fragment a on Query { " + " ".join(f"x{n}: me {{ id }}" for n in range(11)) + " }"
    DocumentSize(parse(f"{{ ...a ...a }} {fragment}")).check()
    assert f"33 aliases, {MAX_ALIASES} at most" in refusal(f"{{ ...a ...a ...a }} {fragment}")


def test_a_document_may_be_as_large_as_its_limits() -> None:
    fields = ["a"] * (MAX_FIELDS + 1)
    aliases = [f"x{n}: a" for n in range(MAX_ALIASES + 1)]
    for selections, noun in ((fields, "fields"), (aliases, "aliases")):
        DocumentSize(parse(f"{{ {' '.join(selections[1:])} }}")).check()
        assert noun in refusal(f"{{ {' '.join(selections)} }}")


def test_inline_fragments_count_with_their_fields_only() -> None:
    document = parse("{ ... { a x: b { ... on Q { c } } } }")
    (operation,) = document.definitions
    assert isinstance(operation, OperationDefinitionNode)
    size = DocumentSize(document).measure(operation.selection_set, 0)
    assert size == SelectionSize(depth=2, fields=3, aliases=1)


def test_every_operation_is_weighed() -> None:
    """Validation walks them all, whichever is asked for."""
    wide = "me { id } " * MAX_FIELDS
    assert "fields" in refusal(f"query a {{ me {{ id }} }} query b {{ {wide} }}")


def test_an_unknown_fragment_is_left_to_validation() -> None:
    DocumentSize(parse("{ ...absent me { id } }")).check()


@given(
    st.recursive(st.just("a"), lambda inner: st.lists(inner, min_size=1, max_size=4), max_leaves=30)
)
def test_the_weight_without_fragments_is_what_counting_gives(tree: object) -> None:
    """Depth and number of fields of any tree."""

    def text(node: object) -> str:
        return f"a {{ {' '.join(map(text, node))} }}" if isinstance(node, list) else "a"

    def depth(node: object) -> int:
        return 1 + max(map(depth, node)) if isinstance(node, list) else 1

    document = text(tree)
    definition = parse(f"{{ {document} }}").definitions[0]
    assert isinstance(definition, OperationDefinitionNode)
    weight = DocumentSize(parse("{ a }")).measure(definition.selection_set, 0)
    assert weight == SelectionSize(depth(tree), document.count("a"), 0)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("a\0b", "NUL"),
        ({"tags": [{"name": "\0"}]}, "NUL"),
        ({"\0": 1}, "NUL"),
        ("\ud800", "surrogates"),
        ([0] * MAX_VALUES, "values"),
        ([[0] * 100] * 100, "values"),
    ],
)
def test_values_that_cannot_be_kept_are_refused(value: object, said: str) -> None:
    with pytest.raises(Invalid, match=f"^x: .*{said}"):
        check_values(value, "x")


def test_values_nested_too_deep_are_refused_and_good_ones_pass() -> None:
    deep: object = "x"
    for _ in range(MAX_VALUE_DEPTH - 1):
        deep = [deep]
    check_values(deep, "x")
    with pytest.raises(Invalid, match="nested"):
        check_values({"more": deep}, "x")
    check_values({"name": "é💥", "list": [1, None, 2.5, True]}, "x")
