"""The digest of a render's inputs."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import Invalid
from core.spec.renderers import KUSTOMIZE, RenderOptions
from gitcache.domain.inputs import Inputs, input_digest
from gitcache.domain.parameters import union

BASE = Inputs("raw", {".": "1" * 40})
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), json_values, max_size=5))
def test_the_order_of_parameters_does_not_matter(parameters: dict[str, Any]) -> None:
    turned = dict(reversed(parameters.items()))
    assert input_digest("s", [[]], parameters) == input_digest("s", [[]], turned)


@given(st.dictionaries(st.text(), json_values, min_size=1, max_size=5), json_values)
def test_only_what_was_read_counts(parameters: dict[str, Any], other: Any) -> None:
    name, *rest = parameters
    reads = [[one] for one in rest]
    assert input_digest("s", reads, parameters) == input_digest(
        "s", reads, {**parameters, name: other}
    )
    changed = input_digest("s", [[name]], {**parameters, name: {"other": other}})
    assert (parameters[name] == {"other": other}) or input_digest(
        "s", [[name]], parameters
    ) != changed


def test_nothing_and_null_are_two_things() -> None:
    reads = [["a", "b"]]
    assert input_digest("s", reads, {"a": {}}) != input_digest("s", reads, {"a": {"b": None}})


def test_the_union_of_read_sets_has_no_path_below_another() -> None:
    assert union([[["a", "b"], ["c"]], [["a"], ["c", "d"]]]) == [["a"], ["c"]]
    assert union([[]]) == []
    assert union([[[]], [["a"]]]) == [[]]


@pytest.mark.parametrize(
    "other",
    [
        replace(BASE, renderer=KUSTOMIZE),
        replace(BASE, options=RenderOptions(recurse=False)),
        replace(BASE, trees={".": "2" * 40}),
        replace(BASE, trees={".": "1" * 40, "../base": "2" * 40}),
        replace(BASE, tool="kustomize v5"),
        replace(BASE, root="prod"),
        replace(BASE, templated=True),
        replace(BASE, settings={"release": "a"}),
        replace(BASE, settings={"release": "b"}),
        replace(BASE, charts={"charts/db": "sha256:1"}),
        replace(BASE, mounts=[("values", "2" * 40)]),
    ],
)
def test_every_input_counts(other: Inputs) -> None:
    assert other.digest() != BASE.digest()


@pytest.mark.parametrize("value", [object(), {1, 2}, 2**70, {1: 2}])
def test_parameters_that_are_no_json_are_refused(value: Any) -> None:
    with pytest.raises(Invalid, match="JSON"):
        input_digest("s", [["a"]], {"a": value})


def test_parameters_have_a_largest_size() -> None:
    with pytest.raises(Invalid, match="bytes"):
        input_digest("s", [["a"]], {"a": "x" * (2 << 20)})


def test_projects_share_no_render() -> None:
    """Two tenants with the same content have two digests; without projects nothing changes."""
    digests = {replace(BASE, project=one).digest() for one in (None, "p", "q")}
    assert len(digests) == 3
