"""Completion in shells: commands, options, words and names."""

import http.server
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from graphql import parse, validate
from typer.main import get_command

from tests.fakes.empty_control_plane import schema
from tests.fakes.pseudo_terminal import pseudo_terminal
from towline.cli.program import app
from towline.completion import scripts, tree
from towline.completion.candidates import candidates
from towline.completion.names import QUERIES, SECONDS_KEPT, document, names
from towline.contexts import GlobalFlags, resolve

FORMATS = ["custom-columns=", "json", "jsonpath=", "name", "table", "wide", "yaml"]
ROOT = Path(__file__).parents[3]
CONFIG = """current = "here"
[contexts.here]
url = "http://127.0.0.1:1"
token = "x"
[contexts.there]
url = "http://127.0.0.1:2"
"""


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("clusters ro", ["rotate-token"]),
        ("services list --o", ["--output"]),
        ("services list -o js", ["json", "jsonpath="]),
        ("services list --output ", FORMATS),
        ("services wait --timeout ", []),
        ("--url https://x pipelines re", ["reject", "resume", "retry"]),
        ("completion ", ["bash", "fish", "zsh"]),
        ("access can ap", ["approve"]),
        ("secrets create ", []),
        ("apply -f ", None),
        ("apply --dry-run -f a -f ", None),
    ],
)
def test_commands_options_and_words_are_completed(line: str, found: list[str] | None) -> None:
    assert candidates(line.split(" ")) == found


def test_contexts_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config.toml").write_text(CONFIG)
    monkeypatch.setenv("TOWLINE_CONFIG", str(tmp_path / "config.toml"))
    assert candidates(["contexts", "use", ""]) == ["here", "there"]
    assert candidates(["--context", "t"]) == ["there"]


requests: list[str] = []
queries: list[dict[str, object]] = []
"""Variables of the queries for names."""
copies = [1]
"""Number of times that the control plane has each resource."""


class _ControlPlane(http.server.BaseHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        requests.append(self.path)
        resources = [{"resource": name, "verbs": ["list"]} for name in ("pods", "podtemplates")]
        resources.append({"resource": "bindings", "verbs": ["create"]})
        groups = [{"versions": [{"resources": resources}]}] if self.path.endswith("/api") else []
        self._answer({"items": groups})

    def do_POST(self) -> None:
        requests.append(self.path)
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        shop = {"handle": "dev", "name": "shop", "url": "https://git/shop", "cluster": None}
        rows = [shop, {**shop, "handle": "prod", "cluster": shop}] * copies[0]
        root = asked["query"].split("{")[1].split("(")[0].strip()
        queries.append(asked["variables"])
        found = rows if root == "roles" else {"edges": [{"node": row} for row in rows]}
        self._answer({"data": {root: found}})

    def _answer(self, content: object) -> None:
        body = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def control_plane(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    requests.clear()
    queries.clear()
    copies[0] = 1
    monkeypatch.setenv("TOWLINE_CONFIG", str(tmp_path / "config.toml"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _ControlPlane) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        monkeypatch.setenv("TOWLINE_URL", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("TOWLINE_TOKEN", "x")
        yield
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("clusters get ", ["dev", "prod"]),
        ("services list --cluster p", ["prod"]),
        ("services get dev/s", ["dev/shop"]),
        ("repos sync https://g", ["https://git/shop"]),
        ("secrets versions ", ["shop"]),
    ],
)
def test_names_come_from_the_control_plane(
    control_plane: None, line: str, found: list[str]
) -> None:
    assert candidates(line.split(" ")) == found


def test_kinds_come_from_the_discovery_of_a_cluster(control_plane: None) -> None:
    assert candidates(["get", "-c", "dev", "po"]) == ["pods", "podtemplates"]
    assert candidates(["get", "--cluster", "dev", ""]) == ["pods", "podtemplates"]
    assert requests == ["/k8s/clusters/dev/api", "/k8s/clusters/dev/apis"]
    assert candidates(["get", "po"]) == []


def test_names_are_kept_for_a_short_time(control_plane: None, tmp_path: Path) -> None:
    """A shell asks at each press of the key; the file has the names of one user."""
    config, target = tmp_path / "config.toml", resolve(GlobalFlags())
    now = [1_000.0]
    for typed in ("", "d", "de"):
        assert names("clusters", typed, target, config, lambda: now[0]) == ["dev", "prod"]
    (kept,) = tmp_path.glob("names-*.json")
    assert len(requests) == 1 and kept.stat().st_mode & 0o777 == 0o600
    names("clusters", "", target._replace(token="y"), config, lambda: now[0])
    assert len(requests) == 2
    now[0] += SECONDS_KEPT + 1
    names("clusters", "", target, config, lambda: now[0])
    assert len(requests) == 3
    kept.write_text("{")
    assert names("clusters", "", target, config, lambda: now[0]) == ["dev", "prod"]


@pytest.mark.parametrize(
    ("kind", "typed", "query"),
    [
        ("clusters", "", {"q": None}),
        ("clusters", "pro", {"q": "pro"}),
        ("repos", "https://git", {"q": "https://git"}),
        ("services", "dev/sh", {"q": "sh"}),
        ("services", "dev/", {"q": None}),
        ("roles", "ed", {}),
    ],
)
def test_the_control_plane_searches_for_the_typed_text(
    control_plane: None, tmp_path: Path, kind: str, typed: str, query: dict[str, object]
) -> None:
    """The text of a service is its name, without the cluster; roles are few."""
    assert names(kind, typed, resolve(GlobalFlags()), tmp_path / "new" / "config.toml")
    assert queries == [query]
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(("number", "longer"), [(49, []), (50, [{"q": "d"}, {"q": "dev"}])])
def test_a_full_page_does_not_have_all_names(
    control_plane: None, tmp_path: Path, number: int, longer: list[dict[str, object]]
) -> None:
    """A page has 100 names. A text that was asked for before is not asked for again."""
    copies[0] = number
    for typed in ("", "d", "d", "dev", ""):
        names("clusters", typed, resolve(GlobalFlags()), tmp_path / "config.toml", lambda: 1.0)
    assert queries == [{"q": None}, *longer]


def test_a_folder_that_nobody_may_write_keeps_no_names(control_plane: None, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    config = tmp_path / "file" / "config.toml"
    assert names("clusters", "", resolve(GlobalFlags()), config) == ["dev", "prod"]


def test_queries_for_names_fit_the_schema() -> None:
    for root, fields in QUERIES.values():
        assert validate(schema(), parse(document(root, fields))) == []


def test_the_commands_are_those_of_the_program() -> None:
    """`.venv/bin/python docs/generate.py` would change nothing."""
    assert tree.COMMANDS.read_text() == tree.text(get_command(app))


def test_nothing_slow_is_loaded() -> None:
    """A shell waits for each completion: the modules of commands would take 200 ms."""
    code = (
        "import sys; sys.argv = ['towline', '__complete', 'clu']; import towline.cli as cli;"
        "cli.main(); print(*{'typer', 'pydantic', 'yaml', 'ssl', 'asyncio'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.split() == ["cluster-groups", "cluster-sources", "clusters"]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("towline clusters ro", ["rotate-token"]),
        ("towline  services list -o ", FORMATS),
        ("towline apply -f fi", ["file.yaml"]),
        ("towline repos sync https:", ["//git"]),
    ],
)
def test_bash_completes_a_line(tmp_path: Path, line: str, found: list[str]) -> None:
    (tmp_path / "file.yaml").touch()
    program = tmp_path / "towline"
    call = f"{sys.executable} -c 'import towline.cli; towline.cli.main()' \"$@\""
    program.write_text(f'#!/bin/sh\nif [ "$2" = repos ]; then echo https://git; else {call}; fi\n')
    program.chmod(0o755)
    shell = f"{scripts.BASH}\nCOMP_LINE='{line}' COMP_POINT={len(line)}\n"
    shell += "compopt() { :; }\n_towline\nprintf '%s\\n' \"${COMPREPLY[@]}\""
    done = subprocess.run(
        ["bash", "--norc", "-c", shell],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "PYTHONPATH": str(ROOT)},
    )
    assert done.stdout.split() == found, done.stderr


def installed(folder: Path) -> dict[str, str]:
    """Environment of a shell that finds the program."""
    program = folder / "towline"
    program.write_text(
        f"#!/bin/sh\nexec {sys.executable} -c 'import towline.cli; towline.cli.main()' \"$@\"\n"
    )
    program.chmod(0o755)
    path = f"{folder}:{os.environ['PATH']}"
    return {"PATH": path, "PYTHONPATH": str(ROOT), "TERM": "xterm", "HOME": str(folder)}


SHELLS = {
    "bash": (["bash", "--norc", "-i"], "source <(towline completion bash)"),
    "zsh": (
        ["zsh", "-f", "-i"],
        "autoload -U compinit; compinit -u; source <(towline completion zsh)",
    ),
}


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("typed", "shown"),
    [("clusters rotate-t", "rotate-token"), ("services list --clu", "--cluster")],
)
def test_the_tab_key_completes_in_a_real_shell(
    shell: str, typed: str, shown: str, tmp_path: Path
) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed: .ci/run installs it")
    environment = installed(tmp_path)
    argv, load = SHELLS[shell]
    with pseudo_terminal(argv, environment) as terminal:
        terminal.type(f"{load}; echo loaded-$((1+1))\n")
        terminal.read_until("loaded-2")
        terminal.type(f"towline {typed}\t")
        terminal.read_until(f"{shown} ")


def test_fish_completes_a_line(tmp_path: Path) -> None:
    """Its own `complete -C` tells what the tab key would show."""
    if shutil.which("fish") is None:
        pytest.skip("fish is not installed: .ci/run installs it")
    line = "towline completion fish | source; complete -C 'towline clusters ro'"
    done = subprocess.run(
        ["fish", "--no-config", "-c", line],
        capture_output=True,
        text=True,
        check=True,
        env=installed(tmp_path),
    )
    assert done.stdout.split() == ["rotate-token"]
