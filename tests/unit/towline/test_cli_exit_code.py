"""`--exit-code`: commands that list rows end with 7 if there are some."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from core.errors import Forbidden, Unavailable
from tests.fakes.api import FakeApi
from tests.fakes.command_line import Leaf, leaves, run_in_process
from towline.cli.program import app
from towline.cli.services import generated as service_api
from towline.cli.services import services
from towline.cli.services.reasons import FINE, PROBLEMS
from towline.cli.shell.formats import Format
from towline.cli.shell.found_code import with_exit_code
from towline.cli.shell.output import field, show
from towline.context_file import write
from towline.contexts import ControlPlaneTarget, SavedContexts

LISTS = [
    leaf
    for leaf in leaves()
    if leaf.words[-1] == "list"
    or leaf.words in (("get",), ("search",), ("find",), ("top", "pods"), ("top", "nodes"))
]
OTHERS = [leaf for leaf in leaves() if leaf not in LISTS]
SCHEMA = Path(__file__).parents[3] / "schema.graphql"


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    """The control plane of `towline services`."""
    fake = FakeApi()
    monkeypatch.setattr(services, "connect", lambda _: fake)
    return fake


def page(*rows: dict[str, Any]) -> dict[str, Any]:
    info = {"hasNextPage": False, "endCursor": None}
    return {
        "serviceDeployments": {"edges": [{"node": one} for one in rows], "pageInfo": info},
    }


def failed() -> dict[str, Any]:
    return {
        **{"id": "s1", "name": "web", "status": "FAILED", "sha": None, "commitsBehind": None},
        **{"drifted": 0, "message": "no image", "git": None, "cluster": None, "errors": []},
    }


@pytest.mark.parametrize("leaf", LISTS, ids=lambda leaf: " ".join(leaf.words))
def test_every_list_has_an_exit_code(leaf: Leaf) -> None:
    assert "exit_code" in [param.name for param in leaf.command.params]


def test_only_lists_have_an_exit_code() -> None:
    assert len(LISTS) > 25
    for leaf in OTHERS:
        assert "exit_code" not in [param.name for param in leaf.command.params], leaf.words


@pytest.mark.parametrize("form", ["table", "json", "name", "jsonpath={.items[*].status}"])
def test_found_rows_end_with_seven_if_that_was_asked(api: FakeApi, form: str) -> None:
    api.answers[service_api.SERVICE_ROWS] = api.answers[service_api.SERVICES] = page(failed())
    words = ["services", "list", "--problems", "-o", form]
    plain = CliRunner().invoke(app, words)
    asked = CliRunner().invoke(app, [*words, "--exit-code"])
    assert (plain.exit_code, asked.exit_code) == (0, 7)
    assert plain.output == asked.output != ""


def test_no_row_ends_with_zero(api: FakeApi) -> None:
    api.answers[service_api.SERVICE_ROWS] = page()
    done = CliRunner().invoke(app, ["services", "list", "--problems", "--exit-code"])
    assert (done.exit_code, done.output) == (0, "nothing found\n")


def test_problems_are_all_states_except_the_fine_ones(api: FakeApi) -> None:
    (enum,) = re.findall(r"^enum ServiceState \{(.*?)^\}", SCHEMA.read_text(), re.M | re.S)
    assert {*PROBLEMS, *FINE} == set(re.findall(r"^  ([A-Z_]+)$", enum, re.M))
    assert not {*PROBLEMS} & {*FINE}
    api.answers[service_api.SERVICE_ROWS] = page()
    CliRunner().invoke(app, ["services", "list", "--problems"], catch_exceptions=False)
    (sent,) = api.sent(service_api.SERVICE_ROWS)
    assert sent["status"] == PROBLEMS
    both = ["services", "list", "--problems", "--field-selector", "status=FAILED"]
    assert "use either --problems" in str(CliRunner().invoke(app, both).exception)


def test_rows_of_an_earlier_command_do_not_count(capsys: pytest.CaptureFixture[str]) -> None:
    rows: Iterator[list[dict[str, str]]] = iter(([{"name": "web"}], []))
    command = with_exit_code(lambda: show(next(rows), (field("NAME"),), Format.NAME, "name"))
    with pytest.raises(typer.Exit) as ended:
        command(exit_code=True)
    assert ended.value.exit_code == 7
    command(exit_code=True)
    assert capsys.readouterr().out == "web\n"


def test_an_error_keeps_its_own_code() -> None:
    def command() -> None:
        show([{"name": "web"}], (), Format.NAME, "name")
        raise Unavailable("gone")

    with pytest.raises(Unavailable):
        with_exit_code(command)(exit_code=True)


def test_an_exit_code_of_a_command_that_watches_is_wrong_use(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    target = ControlPlaneTarget("https://here.example", "token-here")
    write(config, SavedContexts().with_target("here", target))
    words = ["--config", str(config), "contexts", "list", "--exit-code"]
    assert CliRunner().invoke(app, words).exit_code == 7
    assert "leave out --exit-code" in str(CliRunner().invoke(app, [*words, "--watch"]).exception)


@pytest.mark.parametrize(
    ("message", "hint"),
    [
        ('ann may not write service "web": needs role editor', "access request editor PLACE"),
        ("this token has no permission", ""),
    ],
)
def test_a_lacking_role_leads_to_a_request(
    api: FakeApi,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    message: str,
    hint: str,
) -> None:
    api.answers[service_api.SERVICE_ROWS] = Forbidden(message)
    ended = run_in_process(["services", "list"], monkeypatch, capfd)
    assert ended.code == 4
    first, *rest = ended.err.splitlines()
    assert first == f"towline: {message}" and len(rest) == bool(hint)
    assert all(hint in line for line in rest)
