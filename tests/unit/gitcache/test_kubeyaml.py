"""YAML scalars and structures as the Kubernetes API server reads them."""

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from core.errors import Invalid
from gitcache.render.kubeyaml import YamlError, load_all, load_file

# YAML 1.1 as go-yaml resolves plain scalars, in the JSON that Go then writes.
SCALARS: list[tuple[str, Any]] = [
    ("012", 10),
    ("08", 8),
    ("0o14", 12),
    ("yes", True),
    ("y", True),
    ("Y", True),
    ("n", False),
    ("on", True),
    ("off", False),
    ("On", True),
    ("TRUE", True),
    ("true", True),
    ("tRue", "tRue"),
    ("1e3", 1000),
    ("1E3", 1000),
    ("1.5e+3", 1500),
    (".5", 0.5),
    ("5.", 5),
    ("1_000", 1000),
    ("12:30:45", "12:30:45"),
    ("2024-01-01", "2024-01-01"),
    ("2024-01-01T00:00:00Z", "2024-01-01T00:00:00Z"),
    ("0x1F", 31),
    ("0b11", 3),
    ("+1", 1),
    ("-1", -1),
    ("-012", -10),
    ("~", None),
    ("null", None),
    ("Null", None),
    ("NULL", None),
    ("nULL", "nULL"),
    ("1.0", 1),
    ("1.10", 1.1),
    ("0", 0),
    ("00", 0),
    ("1e", "1e"),
    ("0x", "0x"),
    ("1__0", 10),
    ("_1", "_1"),
    ("-.5", -0.5),
    ("+.5", 0.5),
    ("=", "="),
    ("1,000", "1,000"),
    ("'y'", "y"),
    ('"012"', "012"),
    ("!!str 012", "012"),
    ("! 012", "012"),
    ("! yes", "yes"),
    ("18446744073709551615", 18446744073709551615),
    ("123456789012345678901", 123456789012345678901.0),
]


def load(text: str) -> Any:
    """The only document of a text."""
    ((_, value),) = load_all(text, 10)
    return value


@pytest.mark.parametrize(("text", "value"), SCALARS)
def test_scalars_are_read_like_the_api_server_reads_them(text: str, value: Any) -> None:
    read = load(f"k: {text}\n")["k"]
    assert read == value and type(read) is type(value)


@pytest.mark.parametrize("text", [".inf", "-.Inf", ".nan"])
def test_values_that_json_lacks_are_refused(text: str) -> None:
    with pytest.raises(YamlError, match="line 1"):
        load(f"k: {text}\n")


def test_keys_become_text() -> None:
    assert load("y: 1\n2: x\n") == {"true": 1, "2": "x"}


def test_merged_maps_fill_in_what_is_not_set() -> None:
    text = "a: &a {x: 1, y1: 2}\nb: &b {x: 9, z: 3}\nc: {<<: [*a, *b], y1: 7}\n"
    assert load(text)["c"] == {"x": 1, "y1": 7, "z": 3}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: 1\nb: 2\na: 3\n", "line 3: duplicate key 'a'"),
        ("a: [1\n", "line 2"),
        ("a: *nobody\n", "line 1: the alias *nobody has no anchor"),
        ("a: !ruby/object {}\n", "line 1"),
        ("? [a]\n: b\n", "line 1: a key must be text"),
        ("~: b\n", "line 1: a key must be text"),
        ("a: &x [*x]\n", "the alias *x has no anchor"),
        ("[" * 5000, "nested too deeply"),
        ("- " * 200_000, "nested too deeply"),
        ("{a: " * 5000, "nested too deeply"),
        ("{<<: " * 5000, "nested too deeply"),
        ("? " * 5000, "nested too deeply"),
        ("a: !!int x\n", "line 1: 'x' is not a number"),
        ("a: !!float x\n", "line 1: 'x' is not a number"),
        ("a: .inf\n", "line 1: infinity and NaN are not JSON numbers"),
        ("a: !!binary eA==\n", "line 1: unknown tag"),
        ("a: !set [b]\n", "line 1: unknown tag '!set'"),
        ("a: !!map [b]\n", "line 1: unknown tag"),
        ("<<: 3\n", "line 1: `<<` needs a map"),
        ("<<: [{a: 1}, 3]\n", "line 1: `<<` needs a map"),
        ("a: \x01\n", "line 1: control characters are not allowed"),
    ],
)
def test_errors_name_the_line_and_the_reason(text: str, reason: str) -> None:
    with pytest.raises(YamlError) as caught:
        list(load_all(text, 10))
    assert reason in str(caught.value)


def test_aliases_cannot_grow_without_bound() -> None:
    """A billion laughs: nine levels of nine aliases."""
    lines = ["a0: &a0 [x,x,x,x,x,x,x,x,x]"]
    lines += [f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]
    with pytest.raises(YamlError, match="values in one document"):
        load("\n".join(lines))


def test_an_alias_counts_as_many_values_as_its_anchor() -> None:
    """Also if the anchor follows many others."""
    numbers = ",".join(["1"] * 1_000)
    aliases = ",".join(["*a"] * 1_000)
    value = load(f"b: [{numbers}]\na: &a [x]\nc: [{aliases}]\n")
    assert value["c"] == [["x"]] * 1_000


def test_a_file_beyond_the_limit_is_refused_before_it_is_parsed() -> None:
    limit = 16 << 20
    assert load_file("a.yaml", b"a: 1\n".ljust(limit, b"\n"), 10) == [{"a": 1}]
    with pytest.raises(Invalid, match=r"a\.yaml: 16,777,217 bytes; the limit is 16,777,216"):
        load_file("a.yaml", b"a: [".ljust(limit + 1), 10)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"a: 1\nb: \xff\n", "a.yaml, line 2: not UTF-8 text"),
        (b"a: [", "a.yaml, line 2: "),
        (b"--- 1\n--- 2\n--- 3\n", "a.yaml, more than 2 documents"),
    ],
)
def test_the_error_of_a_file_names_it(data: bytes, reason: str) -> None:
    with pytest.raises(Invalid) as caught:
        load_file("a.yaml", data, 2)
    assert caught.value.message.startswith(reason)


def test_documents_have_a_largest_number() -> None:
    with pytest.raises(YamlError, match="more than 10 documents"):
        list(load_all("---\na: 1\n" * 12, 10))


def test_empty_documents_are_skipped_and_lines_counted() -> None:
    assert list(load_all("---\n---\n# nothing\n---\na: 1\n", 10)) == [(5, {"a": 1})]


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.text(st.characters(min_codepoint=32, max_codepoint=126)),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(["a", "b", "c"]), json_values, min_size=1))
def test_quoted_yaml_round_trips(value: dict[str, Any]) -> None:
    text = yaml.safe_dump(value, default_style='"')
    assert json.dumps(load(text), sort_keys=True) == json.dumps(value, sort_keys=True)


@given(st.text(max_size=200))
def test_any_text_is_values_or_a_yaml_error(text: str) -> None:
    try:
        for _, value in load_all(text, 10):
            json.dumps(value, allow_nan=False)
    except YamlError:
        return
