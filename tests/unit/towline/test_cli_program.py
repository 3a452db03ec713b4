"""The command line as people meet it: help, exit codes, formats, waiting."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from typer.main import get_command
from typer.testing import CliRunner

from core.errors import (
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    TowlineError,
    Unauthenticated,
    Unavailable,
)
from tests.fakes.api import FakeApi
from tests.fakes.command_line import Leaf, leaves, run_in_process
from towline.cli.about import about
from towline.cli.clusters import clusters
from towline.cli.clusters import generated as cluster_api
from towline.cli.clusters.find import find_cluster
from towline.cli.pipelines import generated as pipeline_api
from towline.cli.pipelines.find import find_gate
from towline.cli.program import app, exit_code
from towline.cli.reports import generated as report_api
from towline.cli.reports.audit import newer, newest
from towline.cli.services import generated as service_api
from towline.cli.services.explain import explain
from towline.cli.services.find import find_service
from towline.cli.shell.confirmation import confirm_deletion
from towline.cli.shell.formats import Format
from towline.cli.shell.output import age, field, show, table
from towline.cli.shell.polling import WaitTimeout, poll_until, seconds, with_progress
from towline.cli.shell.session import parse_pairs
from towline.cli.shell.watching import watchable


def commands() -> list[list[str]]:
    """The words of every command; of a group that does something itself, also its own."""
    return [list(words) for words in _below(get_command(app), ())]


def _below(command: Any, words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    children = getattr(command, "commands", {})
    if words and (not children or command.invoke_without_command):
        yield words
    for name, child in children.items():
        if not child.hidden:
            yield from _below(child, (*words, name))


def test_help_of_the_program_imports_no_command() -> None:
    """All modules of commands take 200 ms to import; help may take 120 ms."""
    code = (
        "import sys; sys.argv = ['towline', '--help']; from towline.cli import program\n"
        "try: program.main()\n"
        "except SystemExit: print(*(name for name in sys.modules if 'generated' in name))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "  clusters " in done.stdout and done.stdout.splitlines()[-1] == ""


_RUN = """
import sys
from towline.cli import main
try:
    main()
finally:
    print("pydantic" in sys.modules)
"""


@pytest.mark.parametrize("words", [["services", "list"], ["ui", "prod-eu/"]])
def test_commands_start_without_pydantic(words: list[str]) -> None:
    """It takes 0.1 s, and 8 MB that the cockpit would keep."""
    command = [sys.executable, "-c", _RUN, "--url", "https://127.0.0.1:1", *words]
    signed_in = {**os.environ, "TOWLINE_TOKEN": "twu_1"}
    ran = subprocess.run(command, env=signed_in, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (5, "False\n"), ran.stderr


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("servces",), "No such command 'servces'. Did you mean 'services'"),
        (("services", "lst"), "No such command 'lst'. Did you mean 'list'?"),
        (("services", "list", "all"), "towline services list has no command 'all'"),
    ],
)
def test_help_of_an_unknown_command_names_the_right_one(
    words: tuple[str, ...],
    hint: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    found = run_in_process(["help", *words], monkeypatch, capfd)
    assert found.code == 2
    assert hint in found.err


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_every_command_has_help_with_an_example(words: list[str]) -> None:
    said = CliRunner().invoke(app, [*words, "--help"])
    assert said.exit_code == 0
    assert f"Example:\n    towline {' '.join(words)}" in said.output


@pytest.mark.parametrize("words", [["none"], ["clusters", "get"], ["clusters", "list", "-o", "x"]])
def test_wrong_use_ends_with_two(words: list[str]) -> None:
    assert CliRunner().invoke(app, words).exit_code == 2


def test_a_forecast_is_not_made_of_costs_that_nobody_measured() -> None:
    """Without metrics every cluster would seem to be free."""
    words = "--url https://x simulate --add 1 --agents x:1 --agents-ca ca.crt".split()
    refused = CliRunner().invoke(app, words).exception
    assert isinstance(refused, Invalid)
    assert "--metrics" in refused.message


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Conflict("x"), 1),
        (TowlineError("x"), 1),
        (Invalid("x"), 2),
        (NotFound(), 3),
        (Unauthenticated("x"), 4),
        (Forbidden("x"), 4),
        (Unavailable("x"), 5),
        (WaitTimeout("x"), 6),
    ],
    ids=lambda one: type(one).__name__ if isinstance(one, Exception) else "",
)
def test_each_failure_has_its_exit_code(error: TowlineError, code: int) -> None:
    assert exit_code(error) == code


ROWS = [{"name": "a", "deep": {"size": 7}, "on": True}, {"name": "bc", "deep": None, "on": False}]
COLUMNS = (field("NAME"), field("SIZE", "deep", "size"), field("ON"))


def test_a_table_is_aligned_and_plain_off_a_terminal() -> None:
    assert table(ROWS, COLUMNS) == ["NAME  SIZE  ON", "a     7     yes", "bc          no"]


def test_programs_get_json_yaml_or_names(capsys: pytest.CaptureFixture[str]) -> None:
    show(ROWS, COLUMNS, Format.JSON, "name")
    assert json.loads(capsys.readouterr().out) == ROWS
    show(ROWS[0], COLUMNS, Format.YAML, "name")
    assert yaml.safe_load(capsys.readouterr().out) == ROWS[0]
    show(ROWS, COLUMNS, Format.NAME, "name")
    assert capsys.readouterr().out == "a\nbc\n"
    show([], COLUMNS, Format.NAME, "name")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(("ago", "text"), [(5, "5s"), (130, "2m"), (7_300, "2h"), (2e5, "2d")])
def test_ages_are_printed_in_their_largest_unit(ago: float, text: str) -> None:
    then = datetime.now(UTC) - timedelta(seconds=ago)  # noqa: TID251
    assert age(then.isoformat()) == f"{text} ago"


@pytest.mark.parametrize(("later", "text"), [(130, "2m"), (7_300, "2h"), (2e5, "2d"), (2, "0s")])
def test_future_times_are_printed_in_their_largest_unit(later: float, text: str) -> None:
    then = datetime.now(UTC) + timedelta(seconds=later)  # noqa: TID251
    assert age(then.isoformat()) == (f"in {text}" if later > 5 else "0s ago")


def test_every_time_in_a_table_is_an_age() -> None:
    """Columns had two formats; JSON and YAML keep the exact time."""
    at = (datetime.now(UTC) - timedelta(seconds=130)).isoformat()  # noqa: TID251
    assert table([{"at": at}], (field("AT"),))[1] == "2m ago"
    assert table([{"at": at.replace("+00:00", "Z")}], (field("AT"),))[1] == "2m ago"


def test_an_empty_table_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    show([], COLUMNS, Format.TABLE, "name")
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "nothing found\n")
    show([], COLUMNS, Format.JSON, "name")
    assert capsys.readouterr() == ("[]\n", "")


@pytest.mark.parametrize("file", ["absent/token", "."])
def test_no_token_is_created_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["--url", "http://127.0.0.1:1", "clusters", "create", "x", "--token-file", file]
    refused = CliRunner().invoke(app, words).exception
    assert isinstance(refused, Invalid) and f"cannot write {Path(file)}" in refused.message


DELETIONS = [
    leaf
    for leaf in leaves()
    if leaf.words[-1].startswith("delete")
    or leaf.words in {("clusters", "detach"), ("secrets", "revoke")}
]


@pytest.mark.parametrize("leaf", DELETIONS, ids=lambda leaf: " ".join(leaf.words))
def test_a_deletion_asks_unless_yes_is_given(
    leaf: Leaf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Without a terminal nobody can answer; with `--yes` it goes on to the control plane."""
    monkeypatch.setenv("TOWLINE_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("TOWLINE_TOKEN", "x")
    manifests = tmp_path / "old.yaml"
    manifests.write_text("kind: Cluster")
    words = leaf.called(**dict.fromkeys(leaf.parameters(Path), str(manifests)))
    refused = run_in_process(words, monkeypatch, capfd)
    assert refused.code == 2 and "--yes" in refused.err
    assert run_in_process([*words, "--yes"], monkeypatch, capfd).code == 5


@pytest.mark.parametrize(("answer", "deletes"), [("n\n", False), ("", False), ("y\n", True)])
def test_a_deletion_tells_what_goes_along(
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    answer: str,
    deletes: bool,
) -> None:
    terminal = io.StringIO(answer)
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdin", terminal)
    refused = False
    try:
        confirm_deletion("cluster dev", yes=False, along=lambda: [f"s{n}" for n in range(22)])
    except typer.Abort:
        refused = True
    said = capfd.readouterr()
    assert refused is not deletes
    assert said.out.strip() == ""
    assert "also deletes s0" in said.err and "and 2 more" in said.err
    assert "Delete cluster dev?" in said.err


def test_a_global_service_without_a_selector_is_refused() -> None:
    """It reached every cluster at once."""
    words = "--url http://127.0.0.1:1 globals create x --repo r".split()
    for more in ([], ["--tag", "a=b", "--all-clusters"]):
        refused = CliRunner().invoke(app, [*words, *more]).exception
        assert isinstance(refused, Invalid)
        assert "--all-clusters" in refused.message


def test_a_missing_time_is_printed_as_never() -> None:
    assert age(None) == "never"


def test_waiting_ends_with_what_was_waited_for() -> None:
    seen = iter((1, 2, 3))
    slept: list[float] = []
    assert poll_until(lambda: next(seen), lambda one: one == 3, 10, sleep=slept.append) == 3
    assert slept == [1.0, 1.0]


def test_waiting_in_vain_ends_in_time() -> None:
    now = [0.0]

    def sleep(given: float) -> None:
        now[0] += given

    with pytest.raises(WaitTimeout, match="timed out after 5 s: seen 0"):
        poll_until(
            lambda: 0,
            bool,
            5,
            describe=lambda one: f"seen {one}",
            monotonic=lambda: now[0],
            sleep=sleep,
        )
    assert now == [5.0]


def test_a_wait_says_each_change_once() -> None:
    """Minutes passed in silence, with a mistyped repository URL as well."""
    seen = iter(("stale", "stale", "failed", "healthy"))
    said: list[str] = []
    look = with_progress(lambda: next(seen), str.upper, said.append)
    assert [look() for _ in range(4)] == ["stale", "stale", "failed", "healthy"]
    assert said == ["STALE", "FAILED", "HEALTHY"]


@pytest.mark.parametrize(("text", "number"), [("90s", 90), ("15m", 900), ("2h", 7_200)])
def test_durations_are_read(text: str, number: int) -> None:
    assert seconds(text, "--timeout") == number


@pytest.mark.parametrize("text", ["", "5", "m", "-1s", "1.5h", "3w"])
def test_other_durations_are_refused(text: str) -> None:
    with pytest.raises(Invalid, match="--timeout"):
        seconds(text, "--timeout")


def test_key_value_options_may_hold_an_equals_sign() -> None:
    assert parse_pairs(["a=b=c", "d="], "--set") == {"a": "b=c", "d": ""}
    with pytest.raises(Invalid, match="'x' is not key=value"):
        parse_pairs(["x"], "--set")


def page(ids: range, more: bool) -> dict:
    edges = [{"node": {"id": str(one)}} for one in ids]
    return {"edges": edges, "pageInfo": {"hasNextPage": more, "endCursor": edges[-1]["node"]["id"]}}


def trail(**variables: str | None) -> dict:
    """Rows 5 to 1, newest first, in two pages."""
    pages = {None: page(range(5, 2, -1), True), "3": page(range(2, 0, -1), False)}
    return {"auditLogs": pages[variables.get("after")]}


def test_lists_are_read_to_their_end() -> None:
    api = FakeApi({report_api.AUDIT: trail})
    assert [one["id"] for one in report_api.audit(api)] == ["5", "4", "3", "2", "1"]


def test_the_audit_trail_is_shown_oldest_first_and_followed_without_gaps() -> None:
    api = FakeApi({report_api.AUDIT: trail})
    assert [one["id"] for one in newest(api, None, 4)] == ["2", "3", "4", "5"]
    assert [one["id"] for one in newer(api, None, 1)] == ["2", "3", "4", "5"]
    assert newer(api, None, 5) == []


def test_a_cluster_is_found_by_handle_and_else_by_id() -> None:
    def cluster(**asked: str) -> dict:
        if "handle" in asked:
            raise NotFound
        return {"cluster": {"id": asked["id"]}}

    assert find_cluster(FakeApi({cluster_api.CLUSTER: cluster}), "c1") == {"id": "c1"}


def services(*places: str) -> FakeApi:
    """An API whose list holds services at these `cluster/name` places."""
    nodes = [
        {"id": place, "name": name, "cluster": {"handle": cluster}}
        for place in places
        for cluster, _, name in [place.partition("/")]
    ]
    page = {"edges": [{"node": node} for node in nodes], "pageInfo": {"hasNextPage": False}}
    return FakeApi(
        {
            service_api.SERVICES: {"serviceDeployments": page},
            service_api.SERVICE: lambda **asked: {"serviceDeployment": asked},
        }
    )


def test_a_service_is_found_by_cluster_and_name_or_by_id() -> None:
    assert find_service(services(), "dev/web") == {"cluster": "dev", "name": "web"}
    assert find_service(services("dev/webshop"), "s1") == {"id": "s1"}


def test_a_name_that_one_cluster_has_is_enough() -> None:
    assert find_service(services("dev/web", "dev/webshop"), "web") == {"id": "dev/web"}
    with pytest.raises(Invalid, match="2 clusters have a service web; use dev/web or prod/web"):
        find_service(services("dev/web", "prod/web"), "web")


def gate(name: str, release: str | None, kind: str = "APPROVAL") -> dict:
    waiting = {"id": release} if release else None
    return {"release": waiting, "gates": [{"id": f"id-{name}", "name": name, "type": kind}]}


def test_the_only_gate_that_waits_for_approval_needs_no_name() -> None:
    edges = [gate("soak", "r1", "SOAK"), gate("eu", None), gate("us", "r1")]
    pipeline: Any = {"name": "shop", "edges": edges, "stages": [{"workflow": None}]}
    assert find_gate(pipeline, None)[1]["name"] == "us"
    assert find_gate(pipeline, "id-eu")[1]["name"] == "eu"
    with pytest.raises(NotFound, match="has no gate asia"):
        find_gate(pipeline, "asia")


def test_a_workflow_of_a_stage_is_found_as_a_gate_is() -> None:
    own = {"id": "id-w", "name": "migrate", "type": "WORKFLOW", "state": "RUNNING"}
    pipeline: Any = {"edges": [gate("eu", None)], "stages": [{"workflow": None}, {"workflow": own}]}
    assert find_gate(pipeline, None)[1] is find_gate(pipeline, "migrate")[1] is own


def test_with_several_gates_the_name_is_asked_for() -> None:
    pipeline: Any = {"edges": [gate("eu", "r1"), gate("us", "r1")], "stages": []}
    with pytest.raises(Invalid, match="several gates match; name one of eu"):
        find_gate(pipeline, None)
    empty: Any = {"name": "shop", "edges": [], "stages": []}
    with pytest.raises(NotFound, match="no gate that waits for an approval"):
        find_gate(empty, None)


def test_why_names_what_a_promoted_commit_waits_for() -> None:
    now = datetime.now(UTC).isoformat()  # noqa: TID251
    service = {
        "id": "s2",
        "status": "HEALTHY",
        "promoted": True,
        "paused": False,
        "pinnedSha": "a" * 40,
        "commitsBehind": None,
        "drifted": 0,
        "sha": "a" * 40,
        "deletedAt": None,
        "errors": [{"source": "render", "message": "web.yaml: no kind", "lasting": True}],
        "message": None,
        "freeze": None,
        "components": [],
        "cluster": {"id": "c1", "handle": "prod", "pingedAt": now},
        "helm": None,
        "repository": {"url": "https://git.example/x", "error": None, "polledAt": now},
        "revision": {
            "sha": "a" * 40,
            "subject": "Say hello",
            "author": "Ann",
            "committedAt": now,
        },
    }
    pipeline: Any = {
        "name": "shop",
        "paused": None,
        "stages": [
            {
                "name": "dev",
                "services": [{"service": {"id": "s1"}}],
                "health": "PROGRESSING",
                "reason": "waits for silent clusters until noon: lab (never seen)",
            },
            {
                "name": "prod",
                "services": [{"service": {"id": "s2"}}],
                "health": "HEALTHY",
                "reason": "",
            },
        ],
        "edges": [
            {
                "release": {"id": "r2"},
                "reason": "waits for release",
                "from": {"name": "dev"},
                "to": {"name": "prod"},
            }
        ],
    }
    rows = [{"id": "1", "stage": "applied", "at": now, "sha": "a" * 40, "message": "4 objects"}]
    info = {"hasNextPage": False, "endCursor": None}
    api = FakeApi(
        {
            service_api.SERVICE: {"serviceDeployment": service},
            service_api.LEDGER: {"ledger": {"edges": [{"node": one} for one in rows]}},
            pipeline_api.PIPELINES: {
                "pipelines": {"edges": [{"node": pipeline}], "pageInfo": info}
            },
        }
    )
    text = "\n".join(explain(api, "prod/web"))
    assert "Say hello — Ann" in text
    assert "✗ render         web.yaml: no kind; a retry cannot help" in text
    assert "… pipeline shop  r2 waits before prod: waits for release" in text
    assert "… pipeline shop  dev is progressing: waits for silent clusters until noon: lab" in text
    assert "✓ applied" in text
    assert "✓ agent          of prod last seen 0s ago" in text


def test_a_cluster_that_waits_for_its_agent_says_so() -> None:
    cluster: Any = {"deletedAt": "2026-01-01T00:00:00Z", "tags": [], "agentTokenExpiresAt": None}
    living: Any = {"deletedAt": None, "agentAlarm": None, "freeze": None}
    alarmed = living | {"agentAlarm": "the agent reports: no tunnel for kubectl: x"}
    freeze = {"by": "ann", "since": "2026-01-01T00:00:00.5Z", "reason": "sale", "group": "eu"}
    frozen = alarmed | {"freeze": freeze}
    cells = [column.cell(cluster) for column in clusters.COLUMNS]
    assert "detach does not wait" in str(cells[-1])
    assert clusters.COLUMNS[-1].cell(living) == ""
    assert clusters.COLUMNS[-1].cell(alarmed) == "the agent reports: no tunnel for kubectl: x"
    assert str(clusters.COLUMNS[-1].cell(frozen)).endswith(
        "kubectl: x; ann froze the cluster group eu at 2026-01-01T00:00:00Z: sale"
    )


def test_the_end_of_an_agents_token_is_listed() -> None:
    """An agent's token ended after 30 days, and nobody said so."""
    end = (datetime.now(UTC) + timedelta(days=5, minutes=1)).isoformat()  # noqa: TID251
    (column,) = [column for column in clusters.COLUMNS if column.title == "TOKEN ENDS"]
    ends: Any = {"agentTokenExpiresAt": end}
    endless: Any = {"agentTokenExpiresAt": None}
    assert column.cell(ends) == "in 5d"
    assert column.cell(endless) == ""


def test_get_takes_the_namespaces_of_kubectl() -> None:
    """One, or all; not both."""
    words = ["get", "pods", "-c", "eu", "-A", "-n", "shop"]
    found = CliRunner().invoke(app, words)
    assert isinstance(found.exception, Invalid)
    assert found.exception.message == "use either --namespace or --all-namespaces"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["svc", "list"], "No such command 'svc'. Did you mean 'services'?"),
        (["services", "ls"], "No such command 'ls'. Did you mean 'list'?"),
        (["services", "describe", "eu/web"], "Did you mean 'get'?"),
        (["why", "eu/web"], "No such command 'why'. Did you mean 'services why'?"),
        (["pause", "eu/web"], "Did you mean 'services pause' or 'pipelines pause'?"),
        (["diff", "eu/web"], "by `towline services diff eu/web`."),
        (["rollout", "restart"], "kubectl has it: `towline kubeconfig --all --merge`"),
        (["clustrs", "list"], "Did you mean 'clusters'"),
        (["services", "frob"], "No such command 'frob'."),
    ],
)
def test_a_word_of_another_tool_leads_to_the_command(words: list[str], message: str) -> None:
    ran = CliRunner().invoke(app, words)
    assert ran.exit_code == 2
    assert message in ran.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["services"], "; `towline services list` lists the services of Towline"),
        (["secret"], "; `towline secrets list` lists the secrets of Towline"),
        (["pods"], "use --all-clusters"),
        (["deploy/web", "web", "-c", "eu"], "use either deploy/web or deploy web"),
    ],
)
def test_get_tells_kinds_of_clusters_from_lists_of_towline(words: list[str], message: str) -> None:
    found = CliRunner().invoke(app, ["get", *words]).exception
    assert isinstance(found, Invalid)
    assert found.message.endswith(message)


LISTS = [leaf for leaf in leaves() if leaf.words[-1] in ("list", "get", "pods", "nodes")]


@pytest.mark.parametrize("leaf", LISTS, ids=lambda leaf: " ".join(leaf.words))
def test_every_list_can_be_watched(leaf: Leaf) -> None:
    assert "--watch" in CliRunner().invoke(app, [*leaf.words, "--help"]).output


def test_watching_shows_a_list_when_it_changes(capsys: pytest.CaptureFixture[str]) -> None:
    answers = iter(("a", "a", "b"))

    def command(*, name: str) -> None:
        found = next(answers, None)
        if found is None:
            raise KeyboardInterrupt
        print(name, found)

    slept: list[float] = []
    watchable(command, sleep=slept.append)(name="x", watch=True)
    assert capsys.readouterr().out == "x a\nx b\n"
    assert slept == [2.0, 2.0, 2.0]


def test_a_list_that_is_not_watched_runs_once(capsys: pytest.CaptureFixture[str]) -> None:
    watchable(lambda: print("once"))(watch=False)
    assert capsys.readouterr().out == "once\n"


def _named(path: str, *known: str) -> Callable[[object, str], str]:
    """Path of the page of a resource with one of these names."""

    def look(_: object, name: str) -> str:
        if name not in known:
            raise NotFound(f"could not find {name}")
        return f"{path}/{name}"

    return look


@pytest.mark.parametrize(
    ("words", "path"),
    [
        ([], "/"),
        (["report"], "/reports"),
        (["service", "eu-1/web"], "/services/eu-1/web"),
        (["eu-1/web"], "/services/eu-1/web"),
        (["eu-1"], "/clusters/eu-1"),
        (["pipeline", "eu-1"], "/pipelines/eu-1"),
    ],
)
def test_open_finds_pages_and_resources(
    words: list[str], path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = {
        "service": _named("/services", "eu-1/web"),
        "cluster": _named("/clusters", "eu-1"),
        "pipeline": _named("/pipelines", "eu-1", "shop"),
    }
    monkeypatch.setattr(about, "PATHS", paths)
    monkeypatch.setenv("TOWLINE_URL", "https://towline.example.org")
    monkeypatch.setenv("TOWLINE_TOKEN", "x")
    ran = CliRunner().invoke(app, ["open", *words])
    assert ran.output == f"https://towline.example.org{path}\n"
    missing = CliRunner().invoke(app, ["open", "eu-2"]).exception
    assert isinstance(missing, NotFound) and "pages: fleet, inbox, service" in missing.message
    named = CliRunner().invoke(app, ["open", "report", "eu-1"]).exception
    assert isinstance(named, Invalid) and named.message == "the page report has no names"


def test_a_wrong_choice_is_told_in_plain_words() -> None:
    ran = CliRunner().invoke(app, ["completion", "powershell"])
    assert ran.exit_code == 2
    assert "'powershell' is not one of" in ran.output and "Value error" not in ran.output
