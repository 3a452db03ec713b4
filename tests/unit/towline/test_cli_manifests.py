"""`towline apply` before it sends manifests: their files, and the values of secrets in them."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from core.errors import Invalid
from tests.fakes.api import FakeApi
from tests.fakes.manifest_world import manifest_world
from towline.cli.manifests import generated as operations
from towline.cli.manifests.manifests import read_sources
from towline.cli.manifests.values import fill_secret_values, no_value
from towline.generated_inputs import ManifestSource

MANIFESTS = manifest_world().manifests
HEAD = "apiVersion: towline.io/v1\nkind: {}\nmetadata: {{name: x}}\nspec:\n"


def schema_of(kind: str) -> dict[str, Any]:
    return {"manifestSchema": json.dumps(MANIFESTS.schema(kind))}


def resolved(tmp_path: Path, text: str, **options: Any) -> str:
    source: ManifestSource = {"file": str(tmp_path / "fleet.yaml"), "content": text}
    api = FakeApi({operations.MANIFEST_SCHEMA: schema_of})
    return fill_secret_values(api, [source], **options)[0]["content"]


def spec_of(text: str) -> Any:
    return yaml.safe_load(text)["spec"]


def test_secrets_come_from_the_environment_or_a_file_beside_the_manifest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "key").write_text("PEM\n")
    monkeypatch.setenv("PASSWORD", "canary-77aa-secret: {x} \u2028é🚢")
    text = HEAD.format("GitRepository") + (
        "  password:\n    env: PASSWORD\n    # of the robot\n\n  privateKey: {file: key}\n"
        "  httpsPath: '{env: PASSWORD}'\n"
    )
    found = resolved(tmp_path, text)
    assert spec_of(found) == {
        "password": "canary-77aa-secret: {x} \u2028é🚢",
        "privateKey": "PEM\n",
        "httpsPath": "{env: PASSWORD}",
    }
    lines = [line.strip() for line in found.splitlines()]
    assert lines.index("httpsPath: '{env: PASSWORD}'") == text.splitlines().index(
        "  httpsPath: '{env: PASSWORD}'"
    )


@pytest.mark.parametrize(
    ("kind", "spec", "found"),
    [
        ("Cluster", {"tags": {"env": "A"}}, {"tags": {"env": "A"}}),
        ("Service", {"configuration": {"file": "a"}}, {"configuration": {"file": "a"}}),
        (
            "Context",
            {"secrets": {"a": {"env": "A"}, "b": "plain"}, "values": {"env": "A"}},
            {"secrets": {"a": "the value", "b": "plain"}, "values": {"env": "A"}},
        ),
        (
            "NotificationSink",
            {"settings": {"kind": "WEBHOOK", "webhook": {"url": {"env": "A"}}}},
            {"settings": {"kind": "WEBHOOK", "webhook": {"url": "the value"}}},
        ),
        (
            "Pipeline",
            {"edges": [{"gates": [{"rule": {"kind": "EXTERNAL", "secret": {"env": "A"}}}]}]},
            {"edges": [{"gates": [{"rule": {"kind": "EXTERNAL", "secret": "the value"}}]}]},
        ),
        ("Nothing", {"value": {"env": "A"}}, {"value": {"env": "A"}}),
    ],
)
@pytest.mark.parametrize("in_one_line", [True, False])
def test_only_fields_for_secrets_are_read(
    tmp_path: Path, kind: str, spec: Any, found: Any, in_one_line: bool
) -> None:
    document = {"kind": kind, "spec": spec}
    text = yaml.safe_dump(document, default_flow_style=in_one_line)
    read = resolved(tmp_path, "# first\n" + text, read=lambda *_: "the value")
    assert spec_of(read) == found


@given(st.text(st.characters(exclude_categories=["Cs"])), st.sampled_from(["\n", "\r\n"]))
def test_any_text_keeps_its_value_and_the_lines_around_it(value: str, end: str) -> None:
    text = HEAD.format("Secret") + "  # ü🚢\n  value:\n    env: A\n\n  description: b\n"
    text = text.replace("\n", end)
    found = resolved(Path(), text, read=lambda *_: value)
    assert spec_of(found) == {"value": value, "description": "b"}
    assert found.count("\n") == text.count("\n")


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("{env: NONE_SUCH}", "environment variable NONE_SUCH is not set"),
        ("{file: /none}", "cannot read /none"),
        ("{env: A, file: b}", "a secret is a text"),
        ("{env: [A]}", "a secret is a text"),
    ],
)
def test_a_missing_value_is_refused_with_its_line(
    tmp_path: Path, source: str, sentence: str
) -> None:
    with pytest.raises(Invalid, match=f"fleet.yaml:5: .*{sentence}"):
        resolved(tmp_path, HEAD.format("Secret") + f"  value: {source}\n")


def test_a_deletion_needs_no_values(tmp_path: Path) -> None:
    text = HEAD.format("Secret") + "  value: {env: NONE_SUCH}\n"
    assert spec_of(resolved(tmp_path, text, read=no_value)) == {"value": ""}


def test_what_is_no_yaml_is_left_to_the_control_plane(tmp_path: Path) -> None:
    for text in ("env: [", "a: &x {env: [*x]}"):
        assert resolved(tmp_path, text) == text


def test_files_of_folders_are_read_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "deep").mkdir()
    for name in ("b.yaml", "deep/a.yml", "deep-er.json", "notes.txt"):
        (tmp_path / name).write_text("kind: x")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"kind: y")))
    found = read_sources([tmp_path, Path("-")])
    names = [str(tmp_path / name) for name in ("b.yaml", "deep-er.json", "deep/a.yml")]
    assert [source["file"] for source in found] == [*names, "-"]


def test_hidden_folders_and_links_are_left_out_as_in_git(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / ".fleet", tmp_path / "elsewhere"
    for path in (folder, folder / ".github" / "deep", elsewhere):
        path.mkdir(parents=True)
    for path in (folder / ".a.yaml", folder / ".github" / "deep" / "b.yaml", elsewhere / "c.yaml"):
        path.write_text("kind: x")
    (folder / "d.yaml").symlink_to(elsewhere / "c.yaml")
    (folder / "e").symlink_to(elsewhere)
    assert [source["file"] for source in read_sources([folder])] == [str(folder / ".a.yaml")]


@pytest.mark.parametrize("content", [None, "", "# nothing yet\n---\n...\n", "%YAML 1.2\n---\n"])
def test_a_path_without_manifests_is_refused(tmp_path: Path, content: str | None) -> None:
    (tmp_path / "a.yaml").write_text("kind: x")
    (tmp_path / "empty").mkdir()
    if content is not None:
        (tmp_path / "empty" / "b.yaml").write_text(content)
    with pytest.raises(Invalid, match="empty contains no manifests"):
        read_sources([tmp_path / "a.yaml", tmp_path / "empty"])
    with pytest.raises(Invalid, match="No such file"):
        read_sources([tmp_path / "none.yaml"])
