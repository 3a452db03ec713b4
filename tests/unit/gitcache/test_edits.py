"""Single fields of YAML and JSON changed in place."""

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from core.errors import Invalid
from gitcache.domain.edits import file_path, set_field, set_image

TEXT = """# who runs it
apiVersion: apps/v1
spec:
  replicas: 2  # two are enough
  name: 'quoted'
  list: [1, {deep: "x"}]
---
image: registry.test:5000/team/shop:1.0   # ours
other: registry.test:5000/team/shopping:1.0
"""


@pytest.mark.parametrize(
    ("field", "value", "line"),
    [
        (["spec", "replicas"], 3, "  replicas: 3  # two are enough"),
        (["spec", "name"], "it's", "  name: 'it''s'"),
        (["spec", "list", 1, "deep"], "y", '  list: [1, {deep: "y"}]'),
        (["spec", "replicas"], "1.5", '  replicas: "1.5"  # two are enough'),
        (["spec", "replicas"], "no", '  replicas: "no"  # two are enough'),
        (["spec", "replicas"], True, "  replicas: true  # two are enough"),
        (["spec", "name"], "two\nlines", '  name: "two\\nlines"'),
        (["spec", "name"], "a\ttab", '  name: "a\\ttab"'),
    ],
)
def test_one_value_changes_and_all_else_stays(
    field: list[str | int], value: str | int | bool, line: str
) -> None:
    before, after = TEXT.splitlines(), set_field(TEXT, field, value).splitlines()
    changed = [new for old, new in zip(before, after, strict=True) if old != new]
    assert changed == [line]


TEXTS = st.text(max_size=30).filter(lambda text: all(c.isprintable() or c in "\n\t" for c in text))


@given(TEXTS | st.integers() | st.booleans())
def test_a_set_field_is_read_back(value: str | int | bool) -> None:
    text = "a:\n  b: old # why\nc: 1\n"
    found = yaml.safe_load(set_field(text, ["a", "b"], value))
    assert found == {"a": {"b": value}, "c": 1}


@given(TEXTS)
def test_json_stays_json(value: str) -> None:
    text = '{\n  "a": {"b": "old"}, "c": [1]\n}\n'
    assert json.loads(set_field(text, ["a", "b"], value)) == {"a": {"b": value}, "c": [1]}


def test_an_image_gets_another_tag_where_it_is_meant() -> None:
    after = set_image(TEXT, "registry.test:5000/team/shop", "1.1")
    assert 'image: "registry.test:5000/team/shop:1.1"   # ours\n' in after
    assert "shopping:1.0" in after


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("images:\n- name: shop\n  newTag: '1.0'\n", "images:\n- name: shop\n  newTag: '1.1'\n"),
        ("a: [{image: shop}]\n", "a: [{image: shop:1.1}]\n"),
        (
            "images:\n- name: x\n  newName: shop\n  newTag: '1.0'\n",
            "images:\n- name: x\n  newName: shop\n  newTag: '1.1'\n",
        ),
        ('image: {repository: shop, tag: "1.0"}\n', 'image: {repository: shop, tag: "1.1"}\n'),
        (
            'image: {repository: shop, tag: v1, digest: ""}\n',
            'image: {repository: shop, tag: "1.1", digest: ""}\n',
        ),
        (
            "a: {image: shop}\nb: {image: shop:1}\nc: {image: ''}\n",
            "a: {image: shop:1.1}\nb: {image: shop:1.1}\nc: {image: ''}\n",
        ),
        (
            "? [x]\n: {image: shop}\ni: {registry: {a: b}, repository: x, tag: y}\n",
            "? [x]\n: {image: shop:1.1}\ni: {registry: {a: b}, repository: x, tag: y}\n",
        ),
        (f"image: shop:1.0@sha256:{'a' * 64}\n", "image: shop:1.1\n"),
    ],
)
def test_images_of_kustomizations_and_digests(text: str, found: str) -> None:
    assert set_image(text, "shop", "1.1") == found


def test_a_charts_registry_belongs_to_the_images_name() -> None:
    values = "image:\n  registry: ghcr.test\n  repository: team/shop\n  tag: v1\n"
    assert set_image(values, "ghcr.test/team/shop", "v2") == values.replace("v1", "v2")
    with pytest.raises(Invalid, match="does not name"):
        set_image(values, "ghcr.test/team/shopping", "v2")


def test_a_tag_that_a_digest_would_override_is_refused() -> None:
    text = f"images: [{{name: shop, newTag: v1, digest: 'sha256:{'a' * 64}'}}]\n"
    with pytest.raises(Invalid, match="by digest"):
        set_image(text, "shop", "v2")


@pytest.mark.parametrize(
    ("text", "field", "reason"),
    [
        ("a: 1\n", ["b"], "no field b"),
        ("a: [1]\n", ["a", 1], r"no field a\.1"),
        ("a: [1]\n", ["a", "b"], r"no field a\.b"),
        ("a: 1\n", ["a", 0], r"no field a\.0"),
        ("a: {b: 1}\n", ["a"], "only scalar values"),
        ("a: |\n  text\n", ["a"], "only scalar values"),
        ("a: &x 1\nb: *x\n", ["b"], "anchor"),
        ("a: !!str 1\n", ["a"], "anchor or a tag"),
        ("a: [", ["a"], "not YAML"),
        ("", ["a"], "0 documents"),
        ("a: 1\n" + "#" * (1 << 20), ["a"], "more than"),
    ],
)
def test_fields_that_cannot_be_edited_in_place_are_named(
    text: str, field: list[str | int], reason: str
) -> None:
    with pytest.raises(Invalid, match=reason):
        set_field(text, field, 2)


@pytest.mark.parametrize("tag", ["", "a b", "-x", "v1@sha256", "x" * 129])
def test_a_tag_that_no_registry_has_is_refused(tag: str) -> None:
    with pytest.raises(Invalid, match="is not an image tag"):
        set_image("image: shop:1\n", "shop", tag)


def test_a_document_counts_also_if_it_is_empty() -> None:
    assert set_field("---\n---\na: 1\n", ["a"], 2, document=1) == "---\n---\na: 2\n"


def test_a_value_that_no_file_should_hold_is_refused() -> None:
    with pytest.raises(Invalid, match="unprintable"):
        set_field("a: 1\n", ["a"], "\x1b[2J")


def test_a_bomb_of_aliases_is_looked_at_once() -> None:
    lines = ["a0: &a0 {image: shop}"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 40)]
    assert "image: shop:2" in set_image("\n".join(lines), "shop", "2")


def test_files_beside_git_s_own_may_be_edited() -> None:
    assert file_path("./a/.github//b.yaml") == "a/.github/b.yaml"


@pytest.mark.parametrize("path", ["", "../x", "a/.git/config", ".GIT", "a\\b"])
def test_paths_that_leave_the_repository_are_refused(path: str) -> None:
    with pytest.raises(Invalid):
        file_path(path)
