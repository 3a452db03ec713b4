"""The digest of a render's inputs."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.errors import Invalid
from fleet.source import Renderer
from gitcache.domain.inputs import Inputs

BASE = Inputs(Renderer.RAW, {".": "1" * 40})
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), json_values, max_size=5))
def test_the_order_of_parameters_does_not_matter(parameters: dict[str, Any]) -> None:
    turned = dict(reversed(parameters.items()))
    one = replace(BASE, parameters=parameters)
    assert one.digest() == replace(BASE, parameters=turned).digest()


@pytest.mark.parametrize(
    "other",
    [
        replace(BASE, renderer=Renderer.KUSTOMIZE),
        replace(BASE, trees={".": "2" * 40}),
        replace(BASE, trees={".": "1" * 40, "../base": "2" * 40}),
        replace(BASE, tool="kustomize v5"),
        replace(BASE, kustomize_path="prod"),
        replace(BASE, parameters={}),
        replace(BASE, parameters={"a": 1}),
        replace(BASE, parameters={"a": "1"}),
    ],
)
def test_every_input_counts(other: Inputs) -> None:
    assert other.digest() != BASE.digest()


@pytest.mark.parametrize("value", [object(), {1, 2}, 2**70, {1: 2}])
def test_parameters_that_are_no_json_are_refused(value: Any) -> None:
    with pytest.raises(Invalid, match="JSON"):
        replace(BASE, parameters={"a": value}).digest()


def test_parameters_have_a_largest_size() -> None:
    with pytest.raises(Invalid, match="bytes"):
        replace(BASE, parameters={"a": "x" * (2 << 20)}).digest()
