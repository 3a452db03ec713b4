"""Differences between two JSON values."""

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.json_differences import (
    MISSING,
    differing_fields,
    dotted_path,
    json_pointer,
)
from core.json_object import JsonValue

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(["", "a"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["name", "a", "b/~"]), inner, max_size=3)
        | st.lists(st.fixed_dictionaries({"name": st.sampled_from("abc"), "x": inner}), max_size=3)
    ),
    max_leaves=12,
)


def found(old: JsonValue, new: JsonValue) -> list[tuple[str, JsonValue, JsonValue]]:
    return [(dotted_path(path), was, will) for path, was, will in differing_fields(old, new)]


def test_named_items_are_paired_by_name() -> None:
    old = {"containers": [{"name": "web", "image": "a"}, {"name": "log", "image": "l"}]}
    new = {"containers": [{"name": "log", "image": "l"}, {"name": "web", "image": "b"}]}
    assert found(old, new) == [("containers[web].image", "a", "b")]
    paths = [difference.path for difference in differing_fields(old, new)]
    assert list(map(json_pointer, paths)) == ["/containers/1/image"]


def test_a_named_item_comes_and_goes_as_a_whole() -> None:
    web, log = {"name": "web"}, {"name": "log"}
    assert found([web], [log]) == [("[log]", MISSING, log), ("[web]", web, MISSING)]


def test_the_order_of_names_differs_as_a_whole() -> None:
    old = {"env": [{"name": "a"}, {"name": "b"}]}
    new = {"env": [{"name": "b"}, {"name": "a"}]}
    assert found(old, new) == [("env", old["env"], new["env"])]


def test_items_without_names_of_their_own_are_paired_by_index() -> None:
    assert found({"ports": [80]}, {"ports": [81, 82]}) == [
        ("ports[0]", 80, 81),
        ("ports[1]", MISSING, 82),
    ]
    twice = [{"name": "a", "x": 1}, {"name": "a", "x": 2}]
    assert found(twice, [*twice[:1], {"name": "a", "x": 3}]) == [("[1].x", 2, 3)]


@pytest.mark.parametrize(("old", "new"), [(1, True), (0, False), (1, 1.0), ({}, []), (None, "")])
def test_values_of_other_types_differ(old: JsonValue, new: JsonValue) -> None:
    assert found({"a": old}, {"a": new}) == [("a", old, new)]


def test_a_pointer_escapes_its_keys() -> None:
    (difference,) = differing_fields({"a/b": {"c~": 1}}, {"a/b": {}})
    assert json_pointer(difference.path) == "/a~1b/c~0"


@given(VALUES, VALUES)
def test_values_without_a_difference_are_equal(old: JsonValue, new: JsonValue) -> None:
    is_same = json.dumps(old, sort_keys=True) == json.dumps(new, sort_keys=True)
    assert (not list(differing_fields(old, new))) == is_same


def test_the_command_line_compares_without_large_packages() -> None:
    program = (
        "import sys\n"
        "import towline.cli.services.live_diff, towline.cli.cockpit.action_effects\n"
        "print([name for name in sys.modules if name.startswith(('core.spec', 'orjson'))])"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.stdout == "[]\n", ran.stderr
