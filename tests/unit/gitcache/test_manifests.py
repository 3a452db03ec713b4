"""Manifest files to objects."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import Invalid
from core.spec.bundle import MAX_OBJECTS, make_bundle
from core.spec.renderers import RenderOptions
from gitcache.render import manifests


def config_map(name: str, extra: str = "") -> bytes:
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}{extra}}}\n".encode()


def names(files: dict[str, bytes], folder: str = "web") -> list[str]:
    return [one.kube_object["metadata"]["name"] for one in manifests.read_manifests(folder, files)]


def test_files_are_read_in_sorted_order_and_documents_in_theirs() -> None:
    files = {
        "web/b.yml": config_map("three"),
        "web/a.yaml": config_map("one") + b"---\n" + config_map("two"),
        "web/c/d.json": b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"four"}}',
    }
    assert names(files) == ["one", "two", "three", "four"]


def test_hidden_and_other_files_are_left_out() -> None:
    files = {
        "web/a.yaml": config_map("a"),
        "web/.hidden.yaml": config_map("b"),
        "web/.github/x.yaml": config_map("c"),
        "web/README.md": b"{{",
        "webshop/x.yaml": config_map("d"),
    }
    assert names(files) == ["a"]


def test_lists_are_flattened() -> None:
    data = b"kind: List\napiVersion: v1\nitems:\n- " + config_map("a").replace(b"\n", b"\n  ")
    assert names({"web/a.yaml": data}) == ["a"]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"kind: A\nmetadata: {name: x}", "web/a.yaml, line 1: the object has no `apiVersion`"),
        (b"apiVersion: v1\nmetadata: {name: x}", "web/a.yaml, line 1: the object has no `kind`"),
        (b"apiVersion: v1\nkind: A", "web/a.yaml, line 1: A has no `metadata`"),
        (b"apiVersion: v1\nkind: A\nmetadata: {}", "A has no `metadata.name`"),
        (b"apiVersion: 1\nkind: A\nmetadata: {name: x}", "the object has no `apiVersion`"),
        (b"apiVersion: ''\nkind: A\nmetadata: {name: x}", "the object has no `apiVersion`"),
        (b"apiVersion: v1\nkind: A\nmetadata: {name: ''}", "A has a `metadata.name`"),
        (b"apiVersion: v1\nkind: A\nmetadata: {name: x, namespace: 1}", "must be text"),
        (b"apiVersion: v1\nkind: A\nmetadata: {name: 012}", "not text (quote it?)"),
        (
            b"apiVersion: v1\nkind: A\nmetadata: {generateName: x-, annotations: {a: b}}",
            "each apply would make another",
        ),
        (
            b"apiVersion: v1\nkind: A\nmetadata: {generateName: 1, annotations: {helm.sh/hook: a}}",
            "each apply would make another",
        ),
        (b"apiVersion: v1\nkind: A\nmetadata: {generateName: x-}", "each apply would make another"),
        (b"kind: List\nitems: [a]", "web/a.yaml, line 1, item 1: not a Kubernetes object but text"),
        (b"kind: List\nitems: [[a]]", "item 1: not a Kubernetes object but a list"),
        (b"a: [", "web/a.yaml, line"),
        (b"a: [", "add it to `rendering.exclude`"),
        (b"a: 1\na: 2", "web/a.yaml, line 2: duplicate key 'a'"),
        (b"a: \xff\xfe", "web/a.yaml, line 1: not UTF-8 text"),
    ],
)
def test_errors_name_file_line_and_reason(data: bytes, reason: str) -> None:
    with pytest.raises(Invalid) as caught:
        manifests.read_manifests("web", {"web/a.yaml": data})
    assert reason in caught.value.message


def test_a_duplicate_key_of_json_is_named() -> None:
    data = b'{"kind": "A", "metadata": {"name": "x", "labels": {}, "labels": {}}}'
    with pytest.raises(Invalid, match=r"web/a\.json, line 1: duplicate key 'labels'"):
        manifests.read_manifests("web", {"web/a.json": data})


@pytest.mark.parametrize("kind", ["kind: Shopping", "kind: ShopList"])
def test_an_object_with_items_is_a_list_only_by_its_kind_and_form(kind: str) -> None:
    items = "items: [a]" if kind.endswith("ing") else "items: {a: b}"
    data = f"apiVersion: v1\n{kind}\nmetadata: {{name: x}}\n{items}\n".encode()
    assert names({"web/a.yaml": data}) == ["x"]


def test_a_service_has_a_largest_number_of_objects() -> None:
    def objects(count: int) -> Iterator[manifests.LocatedObject]:
        for number in range(count):
            metadata = {"name": f"x{number}"}
            kube_object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
            yield manifests.LocatedObject(kube_object, "web/a.yaml, line 1")

    assert len(manifests.collect(objects(MAX_OBJECTS))) == MAX_OBJECTS
    with pytest.raises(Invalid, match="more than 10,000 objects in one service"):
        manifests.collect(objects(MAX_OBJECTS + 1))


def test_a_hook_with_a_name_keeps_it() -> None:
    metadata = b"{name: mine, generateName: x-, annotations: {helm.sh/hook: pre-install}}"
    assert names({"web/a.yaml": b"apiVersion: v1\nkind: Pod\nmetadata: " + metadata}) == ["mine"]


def test_an_object_with_two_contents_names_both_places() -> None:
    other = config_map("x", ", labels: {a: b}")
    files = {"web/a.yaml": config_map("x"), "web/b.yaml": b"# c\n" + other}
    with pytest.raises(Invalid) as caught:
        manifests.read_manifests("web", files)
    expected = (
        "ConfigMap x is defined twice with other content: web/a.yaml, line 1 and web/b.yaml, line 2"
    )
    assert caught.value.message == expected


def test_the_same_object_twice_counts_once() -> None:
    files = {
        "web/a.yaml": config_map("x"),
        "web/b.yaml": config_map("z") + b"---\n" + config_map("x"),
    }
    assert names(files) == ["x", "z"]


@pytest.mark.parametrize(
    "stray",
    [
        b"- a",
        b"text",
        b"replicas: 3\nimage: {kind: local}",
        b"apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [a.yaml]",
        b"apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component",
        b"resources: [a.yaml]",
        b'{"name": "console", "version": "1.0.0"}',
    ],
)
def test_files_that_are_no_manifests_are_left_out(stray: bytes) -> None:
    assert names({"web/a.yaml": config_map("a"), "web/b/kustomization.yaml": stray}) == ["a"]


def test_a_kustomization_of_flux_is_a_manifest() -> None:
    data = b"apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: x}"
    assert names({"web/kustomization.yaml": data}) == ["x"]


@pytest.mark.parametrize(
    "annotation", ["argocd.argoproj.io/hook", "helm.sh/hook", "towline.dev/hook"]
)
def test_a_hook_with_a_generated_name_is_named_after_its_content(annotation: str) -> None:
    def hook(value: str) -> bytes:
        return (
            "apiVersion: batch/v1\nkind: Job\n"
            f"metadata: {{generateName: sync-, annotations: {{{annotation}: PreSync}}}}\n"
            f"spec: {{parallelism: {value}}}"
        ).encode()

    first, again = names({"web/a.yaml": hook("1")}), names({"web/b.yaml": hook("1")})
    assert first == again and first[0].startswith("sync-") and len(first[0]) == len("sync-") + 8
    both = manifests.read_manifests("web", {"web/a.yaml": hook("1"), "web/b.yaml": hook("2")})
    assert len({one.kube_object["metadata"]["name"] for one in both}) == 2
    assert not any("generateName" in one.kube_object["metadata"] for one in both)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (RenderOptions(), ["a", "b", "c", "d"]),
        (RenderOptions(recurse=False), ["a", "b"]),
        (RenderOptions(include=("a.yaml",)), ["a"]),
        (RenderOptions(include=("*.json",)), ["d"]),
        (RenderOptions(include=("sub/*",)), ["c"]),
        (RenderOptions(include=("sub/**",)), ["c", "d"]),
        (RenderOptions(include=("**/?.yaml",)), ["a", "b", "c"]),
        (RenderOptions(exclude=("sub/**", "b.*")), ["a"]),
        (RenderOptions(include=("*.yaml",), exclude=("a.yaml",)), ["b", "c"]),
    ],
)
def test_patterns_choose_files(options: RenderOptions, expected: list[str]) -> None:
    files = {
        "web/a.yaml": config_map("a"),
        "web/b.yaml": config_map("b"),
        "web/sub/c.yaml": config_map("c"),
        "web/sub/x/d.json": b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"d"}}',
    }
    found = manifests.read_manifests("web", files, options)
    assert [one.kube_object["metadata"]["name"] for one in found] == expected


def test_files_are_named_with_their_number_of_objects() -> None:
    files = {
        "web/a.yaml": config_map("a") + b"---\n" + config_map("b"),
        "web/b, line 1.yaml": config_map("c"),
    }
    found = manifests.files_of(manifests.read_manifests("web", files))
    assert found == [("web/a.yaml", 2), ("web/b, line 1.yaml", 1)]


def test_the_same_name_in_another_namespace_is_another_object() -> None:
    files = {"web/a.yaml": config_map("x"), "web/b.yaml": config_map("x", ", namespace: shop")}
    assert names(files) == ["x", "x"]


@pytest.mark.parametrize("files", [{}, {"web/a.yaml": b"# nothing\n"}, {"web/README": b"x"}])
def test_no_objects_never_reads_as_delete_everything(files: dict[str, bytes]) -> None:
    with pytest.raises(Invalid, match="no objects"):
        manifests.read_manifests("web", files)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b'{"a": 1, "a": 2}', "duplicate key 'a'"),
        (b'{"a": NaN}', "not a JSON number"),
        (b'{"a": 1e999}', "not JSON numbers"),
        (b'{"a":\n x}', "web/a.json, line 2"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_json_files_have_the_same_rules(text: bytes, reason: str) -> None:
    with pytest.raises(Invalid) as caught:
        manifests.read_manifests("web", {"web/a.json": text})
    assert reason in caught.value.message


@given(st.binary(max_size=300))
def test_any_file_is_objects_or_invalid(data: bytes) -> None:
    try:
        found = manifests.read_manifests("web", {"web/a.yaml": data})
        make_bundle(one.kube_object for one in found)
    except Invalid as error:
        assert error.message
