"""Managed fields of a cluster's objects, as blame reads them."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.services.model.blame import ManagedField, managed_fields, value_at

LIVE = {
    "metadata": {"labels": {"a/b~c": "x"}, "finalizers": ["one", "two"]},
    "spec": {
        "replicas": 3,
        "containers": [{"name": "side", "image": "s:1"}, {"name": "web", "image": "w:2"}],
    },
    "data": {"password": "(hidden)"},
}
APPLIED = {
    "manager": "towline",
    "operation": "Apply",
    "time": "2026-01-02T03:04:05Z",
    "fieldsV1": {
        "f:metadata": {"f:labels": {"f:a/b~c": {}}, "f:finalizers": {'v:"two"': {}}},
        "f:spec": {"f:containers": {'k:{"name":"web"}': {".": {}, "f:image": {}, "f:gone": {}}}},
    },
}
SCALED = {
    "manager": "kubectl",
    "operation": "Update",
    "subresource": "scale",
    "time": "2026-01-03T00:00:00Z",
    "fieldsV1": {"f:spec": {"f:replicas": {}}},
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["f:spec", "f:x", "k:{}", "k:[", "v:1", ".", "?"]), inner)
    ),
    max_leaves=10,
)


def test_each_noted_field_has_its_value_and_its_manager() -> None:
    """Items of lists are found by keys or values, names are escaped, deleted fields left out."""
    found = {one.pointer: one for one in managed_fields([APPLIED, SCALED], LIVE)}
    assert {pointer: one.value for pointer, one in found.items()} == {
        "/metadata/finalizers/1": '"two"',
        "/metadata/labels/a~1b~0c": '"x"',
        "/spec/containers/1/image": '"w:2"',
        "/spec/replicas": "3",
    }
    image, replicas = found["/spec/containers/1/image"], found["/spec/replicas"]
    assert image.is_ours and not replicas.is_ours
    assert (replicas.manager, replicas.subresource) == ("kubectl", "scale")
    assert replicas.at == datetime(2026, 1, 3, tzinfo=UTC)


def test_managed_fields_are_limited_to_the_pointer() -> None:
    assert [one.pointer for one in managed_fields([APPLIED, SCALED], LIVE, "/spec/repl")] == []
    assert [one.pointer for one in managed_fields([APPLIED, SCALED], LIVE, "/spec/replicas")] == [
        "/spec/replicas"
    ]
    assert len(managed_fields([APPLIED, SCALED], LIVE, "/spec")) == 2


def test_a_field_is_found_in_another_state_whatever_its_place_in_a_list() -> None:
    (image,) = managed_fields([APPLIED], LIVE, "/spec/containers/1/image")
    earlier = {"spec": {"containers": [{"name": "web", "image": "w:1"}]}}
    assert value_at(earlier, image.steps) == b'"w:1"'
    assert value_at({"spec": {"containers": []}}, image.steps) is None


@pytest.mark.parametrize(
    ("more", "ours"),
    [({}, True), ({"subresource": "status"}, False), ({"manager": "kubectl"}, False)],
)
def test_only_fields_that_the_agent_applied_are_ours(more: dict[str, str], ours: bool) -> None:
    fields = managed_fields([APPLIED | more], LIVE)
    assert {field.is_ours for field in fields} == {ours}


def test_an_item_of_a_list_has_all_the_fields_of_its_key() -> None:
    ports = [{"port": 80, "protocol": "UDP"}, {"port": 80, "protocol": "TCP"}]
    key = 'k:{"port":80,"protocol":"TCP"}'
    noted = {"fieldsV1": {"f:ports": {key: {"f:port": {}}, 'k:{"port":1}': {"f:port": {}}}}}
    assert [field.pointer for field in managed_fields([noted], {"ports": ports})] == [
        "/ports/1/port"
    ]


def test_texts_of_any_length_and_depth_are_cut() -> None:
    names = ["x" * 400, "y" * 400, "z" * 400]
    deep: dict[str, Any] = {}
    live: Any = "end"
    for _ in range(45):
        deep, live = {"f:a": deep}, {"a": live}
    noted = {
        "manager": names[0], "operation": names[1], "subresource": names[2],
        "fieldsV1": {"f:text": {}, **deep},
    }  # fmt: skip
    (field,) = managed_fields([noted], {"text": "t" * 600, **live})
    assert (len(field.manager), len(field.operation), len(field.subresource)) == (253, 16, 63)
    assert (field.pointer, field.value) == ("/text", '"' + "t" * 499)


@given(st.lists(JSON | st.fixed_dictionaries({"fieldsV1": JSON, "time": JSON}), max_size=4), JSON)
def test_no_notes_break_it(noted: list[Any], live: Any) -> None:
    """A cluster may say what it likes."""
    shown = live if isinstance(live, dict) else {}
    assert all(isinstance(one, ManagedField) for one in managed_fields(noted, shown))
