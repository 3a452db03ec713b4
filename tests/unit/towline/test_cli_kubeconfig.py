"""Kubeconfig entries, merging them, and the plugin that gives credentials."""

import base64
import json
import sys
from pathlib import Path
from stat import S_IMODE

import pytest
import yaml
from typer.testing import CliRunner

from core.errors import Invalid
from towline import kubectl_login
from towline.cli.program import app
from towline.context_file import write
from towline.contexts import ControlPlaneTarget, SavedContexts
from towline.kubeconfig import build, default_path, dump, merge, merge_into_file

TARGET = ControlPlaneTarget("https://towline.example:8443", "twu_secret", "PEM")


def test_each_cluster_has_a_context_that_goes_through_the_proxy() -> None:
    made = build(TARGET, ["dev", "prod"], embed_token=False)
    assert [one["name"] for one in made["contexts"]] == ["towline-dev", "towline-prod"]
    assert made["current-context"] == "towline-dev"
    assert made["clusters"][1]["cluster"] == {
        "server": "https://towline.example:8443/k8s/clusters/prod",
        "certificate-authority-data": base64.b64encode(b"PEM").decode(),
    }


def test_a_public_authority_is_not_in_the_file() -> None:
    made = build(TARGET._replace(ca=""), ["dev"], embed_token=False)
    assert list(made["clusters"][0]["cluster"]) == ["server"]


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("https://towline.example:8443", "https://dev.clusters.example:8443"),
        ("https://towline.example", "https://dev.clusters.example"),
    ],
)
def test_a_cluster_can_have_a_host_of_its_own(url: str, server: str) -> None:
    target = TARGET._replace(url=url)
    made = build(target, ["dev"], embed_token=False, cluster_domain="clusters.example")
    assert made["clusters"][0]["cluster"]["server"] == server


def test_the_plugin_is_named_as_the_path_finds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else by its place beside the interpreter, where it is installed."""

    def command() -> str:
        return build(TARGET, ["dev"], embed_token=False)["users"][0]["user"]["exec"]["command"]

    plugin = tmp_path / "bin" / "towline-kubectl-login"
    plugin.parent.mkdir()
    monkeypatch.setenv("PATH", str(plugin.parent))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert command() == "towline-kubectl-login"
    (tmp_path / "towline-kubectl-login").touch()
    assert command() == str(tmp_path / "towline-kubectl-login")
    plugin.touch(mode=0o755)
    assert command() == "towline-kubectl-login"


def test_a_file_has_its_fields_in_the_order_of_kubectl() -> None:
    made = build(TARGET, ["dev"], embed_token=False)
    assert list(yaml.safe_load(dump(made))) == [
        *("apiVersion", "kind", "clusters", "users", "contexts", "current-context")
    ]


def test_an_empty_file_is_filled(tmp_path: Path) -> None:
    path, new = tmp_path / "config", build(TARGET, ["dev"], embed_token=False)
    path.touch()
    merge_into_file(path, new)
    assert yaml.safe_load(path.read_text()) == new


def test_the_plugin_gets_the_url_and_no_secret() -> None:
    made = build(TARGET, ["dev"], embed_token=False, config=Path("/etc/towline.toml"))
    plugin = made["users"][0]["user"]["exec"]
    assert plugin["apiVersion"] == "client.authentication.k8s.io/v1"
    assert plugin["args"] == ["--url", TARGET.url, "--config", "/etc/towline.toml"]
    assert "twu_secret" not in json.dumps(made)


def test_a_token_lies_in_the_file_only_when_asked_for() -> None:
    made = build(TARGET, ["dev"], embed_token=True)
    assert made["users"] == [
        {"name": "towline-towline.example:8443", "user": {"token": "twu_secret"}}
    ]


def test_a_plugin_of_the_users_own_sends_id_tokens() -> None:
    made = build(TARGET, ["dev"], embed_token=False, id_token_command="kubectl oidc-login 'a b'")
    (user,) = made["users"]
    assert user["name"] == "towline-towline.example:8443-id-token"
    assert made["contexts"][0]["context"]["user"] == user["name"]
    assert (user["user"]["exec"]["command"], user["user"]["exec"]["args"]) == (
        "kubectl",
        ["oidc-login", "a b"],
    )
    assert "twu_secret" not in json.dumps(made)
    for text in ("'", " "):
        with pytest.raises(Invalid, match="id-token-command"):
            build(TARGET, ["dev"], embed_token=False, id_token_command=text)


def test_merging_replaces_what_has_the_same_name_and_keeps_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "kube" / "config"
    path.parent.mkdir()
    mine = {
        "current-context": "mine",
        "preferences": {"colors": True},
        "contexts": [{"name": "mine", "context": {}}, {"name": "towline-dev", "context": {}}],
    }
    path.write_text(yaml.safe_dump(mine))
    merge_into_file(path, build(TARGET, ["dev"], embed_token=False))
    merged = yaml.safe_load(path.read_text())
    assert [one["name"] for one in merged["contexts"]] == ["mine", "towline-dev"]
    assert merged["contexts"][1]["context"]["cluster"] == "towline-dev"
    assert (merged["current-context"], merged["preferences"]) == ("mine", {"colors": True})
    assert S_IMODE(path.stat().st_mode) == 0o600


def test_merging_twice_changes_nothing_more() -> None:
    new = build(TARGET, ["dev", "prod"], embed_token=False)
    once = merge({}, new)
    assert merge(once, new) == once == new


def test_merging_keeps_a_link_to_the_file_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "config").symlink_to(tmp_path / "real")
    merge_into_file(tmp_path / "config", build(TARGET, ["dev"], embed_token=False))
    assert (tmp_path / "config").is_symlink()
    assert (tmp_path / "real").exists()


@pytest.mark.parametrize(
    "text",
    [
        *("contexts: [", "- a", "clusters: x"),
        *("users: [1]", "users: [{name: a}, 1]", "users: {a: {}}"),
    ],
)
def test_a_file_that_is_no_kubeconfig_is_left_alone(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(Invalid, match="nothing was changed"):
        merge_into_file(path, build(TARGET, ["dev"], embed_token=False))
    assert path.read_text() == text


def test_the_file_is_the_one_that_kubectl_would_write() -> None:
    assert default_path({"KUBECONFIG": "/a:/b"}) == Path("/a")
    assert default_path({}) == Path.home() / ".kube" / "config"


def test_the_plugin_prints_the_saved_token(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "config.toml"
    write(path, SavedContexts().with_target("here", TARGET))
    kubectl_login.main(["--url", TARGET.url, "--config", str(path)])
    assert json.loads(capsys.readouterr().out) == {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": "twu_secret"},
    }


def test_the_plugin_has_no_token_for_another_control_plane(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "config.toml"
    write(path, SavedContexts().with_target("here", TARGET))
    with pytest.raises(SystemExit) as ended:
        kubectl_login.main(["--url", "https://other.example", "--config", str(path)])
    assert ended.value.code == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert "towline login https://other.example" in said.err


def test_a_kubeconfig_has_one_kind_of_credential(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ID token command silently won over the embedded token."""
    monkeypatch.setenv("TOWLINE_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("TOWLINE_TOKEN", "x")
    words = ["kubeconfig", "dev", "--embed-token", "--id-token-command", "oidc"]
    refused = CliRunner().invoke(app, words).exception
    assert isinstance(refused, Invalid) and "either --embed-token" in refused.message
