"""Manifests as YAML: the frame of a document, the line of each problem, and limits."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.manifests.model import documents
from controlplane.manifests.model.documents import (
    MAX_BYTES,
    MAX_DEPTH,
    MAX_DOCUMENTS,
    DocumentProblem,
    Manifest,
    Source,
    dotted,
    plain_scalar,
    read_documents,
    write_documents,
)

HEAD = "apiVersion: towline.io/v1\nkind: Service\nmetadata: {name: web}\n"


def read(text: str, file: str = "a.yaml") -> tuple[list[Manifest], list[DocumentProblem]]:
    problems: list[DocumentProblem] = []
    return read_documents([Source(file, text)], problems), problems


def spec_of(text: str) -> Any:
    """The spec of a manifest that has no problems."""
    (manifest,), problems = read(HEAD + text)
    assert problems == []
    return manifest.spec


def test_a_manifest_knows_its_place_and_the_line_of_each_field() -> None:
    text = """# a comment
apiVersion: towline.io/v1
kind: Service
metadata:
  name: web
  cluster: eu-1
  project: shop
  labels: {team: web}
  annotations:
    note: "1"
spec:
  sources:
  - folder: a
  -
    folder: b
---
apiVersion: towline.io/v1
kind: Cluster
metadata: {name: eu-1}
"""
    (service, cluster), problems = read(text)
    assert problems == []
    assert (service.kind, service.key, service.title) == ("Service", "eu-1/web", "Service eu-1/web")
    assert (service.project, service.labels) == ("shop", {"team": "web"})
    assert (service.annotations, service.line, service.file) == ({"note": "1"}, 2, "a.yaml")
    assert service.spec == {"sources": [{"folder": "a"}, {"folder": "b"}]}
    assert (cluster.key, cluster.line, cluster.project, cluster.spec) == ("eu-1", 17, None, {})
    for path, line, field in (
        (("spec", "sources", 1, "folder"), 15, "spec.sources[1].folder"),
        (("spec", "sources", 1), 15, "spec.sources[1]"),
        (("spec", "sources", 0, "ref"), 13, "spec.sources[0].ref"),
        (("spec", "name"), 11, "spec.name"),
        ((), 2, ""),
    ):
        problem = service.problem("is wrong", path, "CONFLICT")
        assert (problem.line, problem.field, problem.code) == (line, field, "CONFLICT")
        assert (problem.file, problem.document) == ("a.yaml", "Service eu-1/web")


@pytest.mark.parametrize(
    ("text", "line", "field", "message", "is_kept"),
    [
        ("- a", 1, "", "must be an object with apiVersion, kind, metadata and spec", False),
        ("kind: Service\nmetadata: {name: a}", 1, "apiVersion", "must be towline.io/v1", False),
        (HEAD.replace("/v1", "/v2"), 1, "apiVersion", "must be towline.io/v1, not 'towline", False),
        (HEAD.replace("towline.io/v1", "apps/v1"), 1, "apiVersion",
         "must be towline.io/v1, not 'apps/v1'; put objects of Kubernetes into the folder", False),
        (HEAD.replace("towline.io/v1", "1"), 1, "apiVersion", "not '1'; put objects", False),
        (HEAD.replace("Service", "3"), 2, "kind", "must be the name of a kind", False),
        (HEAD + "status: {}", 4, "status", "status", True),
        (HEAD + "spec: [a]", 4, "spec", "must be an object", True),
        (HEAD.replace("{name: web}", "web"), 3, "metadata", "must be an object with a name", True),
        (HEAD.replace("name: web", "labels: {}"), 3, "metadata.name", "is required", True),
        (HEAD.replace("name: web", "name: ''"), 3, "metadata.name", "is required", True),
        (HEAD.replace("name: web", "name: 1"), 3, "metadata.name", "must be text; quote it", True),
        (HEAD.replace("web}", "web, cluster: 1}"), 3, "metadata.cluster", "must be text", True),
        (HEAD.replace("web}", "web, uid: x}"), 3, "metadata.uid", "uid", True),
        (HEAD.replace("web}", "web, labels: [a]}"), 3, "metadata.labels", "object of texts", True),
        (HEAD.replace("web}", "web, labels: {a: 1}}"), 3, "metadata.labels", "quote", True),
        (HEAD.replace("web}", "web, annotations: {a: 1}}"), 3, "metadata.annotations", "", True),
        (HEAD.replace("web}", "web, labels: {a: 'x y'}}"), 3, "metadata.labels.a", "", True),
        (HEAD.replace("web}", "web, labels: {'a b': x}}"), 3, "metadata.labels.a b", "", True),
        (HEAD.replace("web}", "web, annotations: {'a b': x}}"), 3, "metadata.annotations.a b", "",
         True),
    ],
)  # fmt: skip
def test_a_problem_of_the_frame_has_its_line_and_its_field(
    text: str, line: int, field: str, message: str, is_kept: bool
) -> None:
    """A document whose kind is known is kept, so that its spec is checked as well."""
    manifests, problems = read(text)
    (problem,) = problems
    assert (problem.line, problem.field, problem.file) == (line, field, "a.yaml")
    assert message in problem.message and bool(manifests) is is_kept
    for manifest in manifests:
        assert len(manifest.wrong) == 1
        is_entry = field.count(".") > 1
        assert is_entry or manifest.labels == manifest.annotations == manifest.spec == {}


def test_what_kubernetes_adds_to_exports_and_free_annotations_are_accepted() -> None:
    extra = "web, managedFields: [{manager: a}], annotations: {note: 'any text, of any length'}}"
    (manifest,), problems = read(HEAD.replace("web}", extra))
    assert problems == [] and manifest.annotations["note"].startswith("any text")


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a: 1\nb: [2\n", 3, "is not YAML: did not find expected"),
        ("a: 1\nb: 2\na: 3\n", 3, "the field 'a' occurs twice"),
        ("a: 1\n? [b]\n: c\n", 2, "a key must be text"),
        ("a: &x 1\n", 1, "anchors and aliases are not supported: repeat the value"),
        ("a: 1\nb: *x\n", 2, "anchors and aliases are not supported"),
        ("a: \x00\n", 1, "is not YAML: "),
    ],
)
def test_yaml_that_cannot_be_read_has_a_line(text: str, line: int, message: str) -> None:
    """The other files are read nevertheless."""
    problems: list[DocumentProblem] = []
    found = read_documents([Source("a.yaml", text), Source("b.yaml", HEAD)], problems)
    (problem,) = problems
    assert (problem.file, problem.line) == ("a.yaml", line) and message in problem.message
    assert [manifest.file for manifest in found] == ["b.yaml"]


def test_manifests_are_nested_at_most_so_deep() -> None:
    """Without recursion of the parser, which has no limit of its own."""

    def nested(levels: int) -> str:
        return "spec: " + "{a: " * levels + "x" + "}" * levels

    assert spec_of(nested(MAX_DEPTH - 1))
    for levels in (MAX_DEPTH, 10_000):
        _, (problem,) = read(HEAD + nested(levels))
        assert f"nested deeper than {MAX_DEPTH} levels" in problem.message


def test_the_size_of_manifests_is_limited() -> None:
    """In bytes, documents and values, of all files together."""
    pad = MAX_BYTES - len(HEAD)
    sources = [Source("a", HEAD), Source("b", "#" + "ü" * (pad // 2 - 1) + "#" * (pad % 2 + 1))]
    problems: list[DocumentProblem] = []
    assert len(read_documents(sources, problems)) == 1 and problems == []
    assert read_documents([*sources, Source("c", "#")], problems) == []
    assert f"{MAX_BYTES + 1:,} bytes of manifests, at most" in problems[0].message
    small = "---\n" + HEAD
    for count, accepted in ((MAX_DOCUMENTS, True), (MAX_DOCUMENTS + 1, False)):
        manifests, problems = read(small * count)
        assert len(manifests) == MAX_DOCUMENTS
        assert (problems == []) is accepted
    assert problems[0].message.startswith(f"more than {MAX_DOCUMENTS:,} documents")


def test_empty_documents_are_left_out() -> None:
    manifests, problems = read(f"---\n---\n# nothing\n---\n{HEAD}---\n")
    assert (len(manifests), problems) == (1, [])
    assert read("") == ([], [])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True), ("False", False), ("null", None), ("~", None), ("", None),
        ("on", "on"), ("yes", "yes"), ("0", 0), ("-12", -12), ("+3", 3), ("012", "012"),
        ("1_000", "1_000"), ("0x1f", "0x1f"), ("1.5", 1.5), ("1.", 1.0), (".5", 0.5),
        ("-2e3", -2000.0), ("1e999", "1e999"), ("-1.5e999", "-1.5e999"),
        ("1.2.3", "1.2.3"), ("12:30:45", "12:30:45"), ("2026-01-01", "2026-01-01"), (".", "."),
        ("9" * 40, int("9" * 40)), ("9" * 41, "9" * 41), ("1e", "1e"), ("ä", "ä"),
    ],
)  # fmt: skip
def test_a_text_without_quotes_is_read_by_the_rules_of_yaml_1_2(text: str, value: object) -> None:
    found = plain_scalar(text)
    assert found == value and type(found) is type(value)
    assert spec_of(f"spec: {{a: {text}}}") == {"a": value}
    quoted = f"'{text}'"
    spec = spec_of(f'spec: {{a: {quoted}, b: "{text}", c: !!str {text or quoted}}}')
    assert spec == {"a": text, "b": text, "c": text}


printable = st.characters(exclude_categories=("Cs", "Cc"), include_characters="\n\t")
texts = st.text(printable, max_size=20)
scalars = st.none() | st.booleans() | st.integers(-(10**20), 10**20) | texts
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(texts, values, max_size=4))
def test_what_is_written_is_read_again(spec: dict[str, Any]) -> None:
    """Texts stay texts, also those that look like a number or a word, and values that repeat."""
    document = {
        "apiVersion": documents.API_VERSION,
        "kind": "Service",
        "metadata": {"name": "web"},
        "spec": {"first": spec, "second": spec},
    }
    (one, two), problems = read(write_documents([document, document]))
    assert problems == [] and one.spec == two.spec == document["spec"]


def test_paths_are_shown_as_in_programs() -> None:
    assert dotted(("spec", "sources", 0, "folder")) == "spec.sources[0].folder"
    assert dotted((0, "a")) == "[0].a" and dotted(()) == ""


def test_texts_of_several_lines_are_blocks_and_texts_like_numbers_are_quoted() -> None:
    text = write_documents([{"values": "a: 1\nb: 2\n", "version": "1.10", "on": "on", "n": 1}])
    assert text == "values: |\n  a: 1\n  b: 2\nversion: '1.10'\n'on': 'on'\nn: 1\n"
