"""Bundles: the same objects have the same digest, and nothing else passes for them."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import Invalid
from core.spec.bundle import (
    MAX_OBJECT_BYTES,
    MAX_OBJECTS,
    describe_object,
    make_bundle,
    open_bundle,
)

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
objects = st.lists(st.dictionaries(st.text(), values, max_size=5), max_size=6)


def shuffled(value: object, seed: int) -> object:
    """The same value with the keys of every mapping in another order."""
    if isinstance(value, dict):
        items = list(value.items())
        random.Random(seed).shuffle(items)
        return {key: shuffled(inner, seed) for key, inner in items}
    return [shuffled(one, seed) for one in value] if isinstance(value, list) else value


@given(objects, st.integers())
def test_the_order_of_keys_does_not_matter(given_objects: list[dict], seed: int) -> None:
    """Two renderers that write keys in another order give one digest."""
    again = [shuffled(one, seed) for one in given_objects]
    assert make_bundle(given_objects).digest == make_bundle(again).digest  # ty: ignore


@given(objects)
def test_a_bundle_holds_what_was_put_in(given_objects: list[dict]) -> None:
    """Objects come back equal, in their order."""
    bundle = make_bundle(given_objects)
    assert list(bundle.objects()) == given_objects
    opened = open_bundle(bundle.digest, bundle.data)
    assert (opened.count, list(opened.objects())) == (len(given_objects), given_objects)


@given(objects, st.binary(min_size=1))
def test_other_bytes_are_refused(given_objects: list[dict], more: bytes) -> None:
    """A bundle whose bytes are not what its digest names is never opened."""
    bundle = make_bundle(given_objects)
    with pytest.raises(Invalid, match="refused"):
        open_bundle(bundle.digest, bundle.data + more)


def test_limits_name_what_is_too_large() -> None:
    """One huge object, or too many, is refused with its name or number."""
    huge = {
        "kind": "ConfigMap",
        "metadata": {"name": "big", "namespace": "shop"},
        "data": {"a": "x" * MAX_OBJECT_BYTES},
    }
    with pytest.raises(Invalid, match="ConfigMap shop/big has 1,500,"):
        make_bundle([huge])
    with pytest.raises(Invalid, match="10,001 objects"):
        make_bundle({} for _ in range(MAX_OBJECTS + 1))


def test_objects_are_named_as_people_name_them() -> None:
    """Kind, namespace where there is one, name; also for what is malformed."""
    assert (
        describe_object({"kind": "Pod", "metadata": {"name": "a", "namespace": "b"}}) == "Pod b/a"
    )
    assert describe_object({"kind": "Namespace", "metadata": {"name": "a"}}) == "Namespace a"
    assert describe_object({}) == "object (no name)"
