"""Differences between two bundles."""

from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from core.spec.bundle import Bundle, make_bundle
from core.spec.diff import MASKED, MAX_FIELDS, MAX_OBJECTS, ObjectChangeKind, compare_bundles

CANARY = "canary-8c1f"


def one(kind: str = "ConfigMap", name: str = "a", **fields: Any) -> dict[str, Any]:
    """A small object."""
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, **fields}


def bundle(*objects: dict[str, Any]) -> Bundle:
    return make_bundle(objects)


def fields(old: dict[str, Any], new: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """The changed fields of one object."""
    (changed,) = compare_bundles(bundle(old), bundle(new)).objects
    return {field.pointer: (field.old, field.new) for field in changed.fields}


def test_objects_are_added_removed_and_changed() -> None:
    old = bundle(one(name="a", data={"x": "1"}), one(name="b"), one(name="c"))
    new = bundle(one(name="a", data={"x": "2"}), one(name="c"), one(name="d"))
    found = compare_bundles(old, new)
    assert (found.added, found.removed, found.changed) == (1, 1, 1)
    assert [(item.change, item.name) for item in found.objects] == [
        (ObjectChangeKind.CHANGED, "a"),
        (ObjectChangeKind.REMOVED, "b"),
        (ObjectChangeKind.ADDED, "d"),
    ]


def test_equal_bundles_do_not_differ() -> None:
    assert not compare_bundles(bundle(one()), bundle(one()))
    assert compare_bundles(None, bundle(one())).added == 1
    assert compare_bundles(bundle(one()), None).removed == 1


def test_fields_have_pointers_with_their_old_and_new_values() -> None:
    old = one(spec={"replicas": 1, "a/b": {"~": True}, "gone": []})
    new = one(spec={"replicas": 2, "a/b": {"~": 1}, "come": "x"})
    assert fields(old, new) == {
        "/spec/replicas": ("1", "2"),
        "/spec/a~1b/~0": ("true", "1"),
        "/spec/gone": ("[]", ""),
        "/spec/come": ("", '"x"'),
    }


def test_items_with_names_are_compared_by_name() -> None:
    web, log = {"name": "web", "image": "web:1"}, {"name": "log", "image": "log:1"}
    old, new = one(spec=[web, log]), one(spec=[log, {**web, "image": "web:2"}])
    assert fields(old, new) == {"/spec/1/image": ('"web:1"', '"web:2"')}


def test_another_order_is_a_change_of_the_list() -> None:
    items = [{"name": "a"}, {"name": "b"}]
    assert list(fields(one(spec=items), one(spec=items[::-1]))) == ["/spec"]


def test_another_version_of_a_group_is_a_change() -> None:
    old = {**one(), "apiVersion": "apps/v1beta1"}
    assert "/apiVersion" in fields(old, {**one(), "apiVersion": "apps/v1"})


def test_diffs_mask_secret_values_and_show_that_they_differ() -> None:
    old = one("Secret", data={"a": CANARY + "1", "same": CANARY}, stringData={"b": CANARY})
    new = one("Secret", data={"a": CANARY + "2", "same": CANARY})
    found = compare_bundles(bundle(old), bundle(new))
    assert CANARY not in repr(found)
    assert fields(old, new) == {"/data/a": (MASKED, MASKED), "/stringData": (MASKED, "")}


def test_the_last_applied_annotation_is_masked_on_every_kind() -> None:
    note = {"kubectl.kubernetes.io/last-applied-configuration": CANARY}
    for old_annotations, new_annotations in (({}, note), (note, {}), (None, note)):
        old, new = one(), one()
        old["metadata"]["annotations"], new["metadata"]["annotations"] = (
            old_annotations,
            new_annotations,
        )
        assert CANARY not in repr(compare_bundles(bundle(old), bundle(new)))


def test_diffs_are_bounded_and_their_counts_complete() -> None:
    many = [one(name=f"n{number}") for number in range(MAX_OBJECTS + 5)]
    found = compare_bundles(None, bundle(*many))
    assert found.added == MAX_OBJECTS + 5 and len(found.objects) == MAX_OBJECTS
    wide = one(data={f"k{number}": "x" * 5000 for number in range(MAX_FIELDS + 5)})
    (changed,) = compare_bundles(bundle(one(data={})), bundle(wide)).objects
    assert changed.more == 5 and len(changed.fields) == MAX_FIELDS
    assert max(len(field.new) for field in changed.fields) < 2100


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-100, 100) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(json_values, json_values)
def test_a_diff_is_empty_exactly_when_objects_are_equal(old: Any, new: Any) -> None:
    found = compare_bundles(bundle(one(spec=old)), bundle(one(spec=new)))
    assert bool(found) == (
        orjson.dumps(old, option=orjson.OPT_SORT_KEYS)
        != orjson.dumps(new, option=orjson.OPT_SORT_KEYS)
    )
    if found:
        assert found.objects[0].fields
