"""Selection of the control plane, and storage of its token."""

import os
from pathlib import Path
from stat import S_IMODE

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from core.errors import Invalid, Unauthenticated
from towline.cli.program import app
from towline.context_file import write
from towline.contexts import (
    ControlPlaneTarget,
    GlobalFlags,
    SavedContexts,
    config_path,
    normal_url,
    read,
    resolve,
)

HERE = ControlPlaneTarget("https://here.example", "token-here", "PEM")
THERE = ControlPlaneTarget("https://there.example", "token-there")
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Signed in to two control planes, `here` last."""
    path = tmp_path / "towline" / "config.toml"
    write(path, SavedContexts().with_target("there", THERE).with_target("here", HERE))
    return path


def test_the_file_is_for_its_owner_only(config: Path) -> None:
    assert S_IMODE(config.stat().st_mode) == 0o600
    assert S_IMODE(config.parent.stat().st_mode) == 0o700
    assert os.listdir(config.parent) == ["config.toml"]


@given(st.dictionaries(TEXT, st.builds(ControlPlaneTarget, TEXT, TEXT, TEXT), max_size=3), TEXT)
def test_saved_contexts_round_trip(targets: dict[str, ControlPlaneTarget], current: str) -> None:
    path = Path(os.environ["HOME"]) / "contexts.toml"
    write(path, SavedContexts(current, targets))
    assert read(path) == SavedContexts(current, targets)


def test_the_current_context_is_meant_when_nothing_is_said(config: Path) -> None:
    assert resolve(GlobalFlags(config=config), {}) == HERE


def test_a_flag_wins_over_the_environment_and_the_environment_over_the_file(config: Path) -> None:
    environ = {"TOWLINE_URL": "https://there.example/", "TOWLINE_CONFIG": str(config)}
    assert resolve(GlobalFlags(), environ) == THERE
    assert resolve(GlobalFlags(url="here.example"), environ) == HERE
    assert resolve(GlobalFlags(context="here"), environ) == HERE


def test_a_saved_token_never_goes_to_another_control_plane(config: Path) -> None:
    assert resolve(GlobalFlags(url="https://elsewhere.example", config=config), {}).token == ""


def test_a_token_from_the_environment_goes_only_where_the_environment_says(config: Path) -> None:
    environ = {"TOWLINE_URL": "https://here.example", "TOWLINE_TOKEN": "mine"}
    assert resolve(GlobalFlags(config=config), environ).token == "mine"
    assert resolve(GlobalFlags(url=THERE.url, config=config), environ).token == "token-there"


def test_secrets_and_authorities_come_from_files_too(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret\n")
    (tmp_path / "ca.crt").write_text("PEM of a CA")
    environ = {
        "TOWLINE_URL": "here.example",
        "TOWLINE_TOKEN_FILE": str(tmp_path / "token"),
        "TOWLINE_CA_FILE": str(tmp_path / "ca.crt"),
    }
    wish = GlobalFlags(config=tmp_path / "none.toml")
    assert resolve(wish, environ) == ControlPlaneTarget(
        "https://here.example", "secret", "PEM of a CA"
    )


def test_without_a_control_plane_the_error_suggests_login(tmp_path: Path) -> None:
    with pytest.raises(Unauthenticated, match="towline login URL"):
        resolve(GlobalFlags(config=tmp_path / "none.toml"), {})


def test_the_file_lies_where_the_desktop_says(tmp_path: Path) -> None:
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    assert config_path(GlobalFlags(), environ) == str(tmp_path / "towline" / "config.toml")
    assert config_path(GlobalFlags(), {}) == str(
        Path.home() / ".config" / "towline" / "config.toml"
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("current = ", "is not TOML"),
        ("colour = 'red'", "unknown key colour"),
        ("[contexts.a]\nurl = 'x'\npassword = 'y'", "unknown key contexts.a.password"),
        ("[contexts.a]\ntoken = 'x'", "contexts.a has no url"),
        ("[contexts.a]\nurl = 7", "contexts.a is not text"),
        ("current = 1", "current is not text"),
    ],
)
def test_a_file_that_cannot_be_meant_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "config.toml"
    path.write_text(text)
    with pytest.raises(Invalid, match=sentence):
        read(path)


def test_signing_out_of_an_unknown_context_is_refused(config: Path) -> None:
    with pytest.raises(Invalid, match="not signed in to nowhere"):
        read(config).without("nowhere")
    assert read(config).without("here") == SavedContexts("", {"there": THERE})


@pytest.mark.parametrize(
    ("given_url", "url"),
    [
        ("host:8443", "https://host:8443"),
        ("https://host/", "https://host"),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
    ],
)
def test_urls_are_brought_into_one_form(given_url: str, url: str) -> None:
    assert normal_url(given_url) == url


@pytest.mark.parametrize("url", ["ftp://host", "https://", "https:///x"])
def test_an_invalid_url_is_refused(url: str) -> None:
    with pytest.raises(Invalid, match="is not an http or https URL"):
        normal_url(url)


def test_a_token_is_not_in_what_python_prints() -> None:
    assert "token-here" not in repr(HERE)


def run(config: Path, *words: str) -> Result:
    """A command of `towline contexts` on a file."""
    return CliRunner().invoke(app, ["--config", str(config), "contexts", *words])


def test_contexts_are_listed_without_their_tokens(config: Path) -> None:
    said = run(config, "list")
    assert said.exit_code == 0
    assert [line.split() for line in said.output.splitlines()[1:]] == [
        ["*", "here", "https://here.example"],
        ["there", "https://there.example"],
    ]
    assert "token" not in run(config, "list", "-o", "json").output


def test_another_context_is_used_from_then_on(config: Path) -> None:
    assert run(config, "use", "there").exit_code == 0
    assert run(config, "current").output.strip() == "there"
    assert resolve(GlobalFlags(config=config), {}) == THERE
    assert read(config).targets == {"there": THERE, "here": HERE}


def test_an_unknown_context_is_answered_with_those_that_are_known(config: Path) -> None:
    refused = run(config, "use", "elsewhere").exception
    assert isinstance(refused, Invalid)
    assert "here, there" in refused.message
    assert isinstance(run(config.with_name("none"), "current").exception, Invalid)
