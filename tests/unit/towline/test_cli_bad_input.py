"""Wrong input to every command: an error with a documented exit code, never a traceback."""

import http.server
import re
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.command_line import DOCUMENTED_CODES, Finished, Leaf, leaves, run_in_process

Run = Callable[[Sequence[str]], Finished]
LEAVES = leaves()
# Nobody listens on port 1.
NOBODY = "http://127.0.0.1:1"
KUBECONFIG = """
current-context: here
contexts: [{name: here, context: {cluster: here, user: me}}]
clusters: [{name: here, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: me, user: {token: x}}]
"""
# Files and folders that commands create; a missing one is no error.
_OUTPUTS = {"admin backup file", "admin support-bundle file", "record-churn file"}
_OUTPUTS |= {"audit replay save", "clusters create token_file", "clusters rotate-token token_file"}
_OUTPUTS |= {"freeze-key create file"}


def inputs() -> list[Any]:
    """Every parameter that names a file to read."""
    found = [(leaf, name) for leaf in LEAVES for name in leaf.parameters(Path) if name != "data"]
    named = [(leaf, name, " ".join((*leaf.words, name))) for leaf, name in found]
    return [
        pytest.param(leaf, name, id=label) for leaf, name, label in named if label not in _OUTPUTS
    ]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Runs commands in an empty folder, signed in to a control plane that does not answer."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("TOWLINE_URL", NOBODY)
    monkeypatch.setenv("TOWLINE_TOKEN", "a-token")
    monkeypatch.setenv("TOWLINE_AGENT_HUB_ADDRESS", NOBODY)
    monkeypatch.setenv("TOWLINE_AGENT_HUB_TOKEN_FILE", str(tmp_path / "token"))
    monkeypatch.setenv("TOWLINE_AGENT_KUBERNETES_KUBECONFIG", str(tmp_path / "kubeconfig"))
    (tmp_path / "token").write_text("a-token")
    (tmp_path / "kubeconfig").write_text(KUBECONFIG)
    (tmp_path / "folder").mkdir()
    (tmp_path / "empty").touch()
    (tmp_path / "binary").write_bytes(bytes(range(256)))
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(64 << 20)
    return lambda words: run_in_process(words, monkeypatch, capfd)


def check(words: Sequence[str], found: Finished) -> None:
    """It said what is wrong, and ended as documented."""
    said = f"towline {' '.join(words)}: {found.code}\n{found.err}"
    assert found.escaped is None, said
    assert found.code in DOCUMENTED_CODES, said
    assert "Traceback" not in found.err, said
    if found.code:
        assert re.search("^(towline: |Usage: |FAIL  )", found.err + found.out, re.M), said


@pytest.mark.parametrize("content", ["absent", "folder"])
@pytest.mark.parametrize(("leaf", "name"), inputs())
def test_a_file_that_is_not_there_is_wrong_use(
    run: Run, leaf: Leaf, name: str, content: str
) -> None:
    words = leaf.called(**{name: content})
    found = run(words)
    check(words, found)
    # The doctor is to report what is wrong with the files of an agent.
    codes = (1, 2) if leaf.words == ("agent", "doctor") else (2,)
    assert found.code in codes, found.err
    assert content in found.err


@pytest.mark.parametrize("content", ["empty", "binary", "huge"])
@pytest.mark.parametrize(("leaf", "name"), inputs())
def test_any_content_of_a_file_is_an_answer(run: Run, leaf: Leaf, name: str, content: str) -> None:
    words = leaf.called(**{name: content})
    check(words, run(words))


@pytest.mark.parametrize("leaf", LEAVES, ids=lambda leaf: " ".join(leaf.words))
def test_wrong_numbers_are_wrong_use(run: Run, leaf: Leaf) -> None:
    for name in leaf.parameters(int):
        for text in ("x", "1.5", ""):
            words = leaf.called(**{name: text})
            found = run(words)
            check(words, found)
            assert found.code == 2, words


@pytest.mark.parametrize("leaf", LEAVES, ids=lambda leaf: " ".join(leaf.words))
def test_a_control_plane_that_does_not_answer_is_named(run: Run, leaf: Leaf) -> None:
    words = leaf.called()
    found = run(words)
    check(words, found)
    assert found.code != 5 or NOBODY in found.err


@pytest.mark.parametrize("leaf", LEAVES, ids=lambda leaf: " ".join(leaf.words))
def test_an_unknown_context_is_wrong_use(run: Run, leaf: Leaf) -> None:
    words = ["--context", "absent", *leaf.called()]
    check(words, run(words))


@pytest.mark.parametrize(
    ("content", "reason"),
    [("", "is empty"), ("a b", "more than"), ("x" * 5000, "more than"), (None, "No such file")],
)
def test_a_wrong_token_file_of_an_agent_is_named(
    run: Run, tmp_path: Path, content: str | None, reason: str
) -> None:
    if content is not None:
        (tmp_path / "given").write_text(content)
    found = run(["agent", "doctor", "--token-file", "given"])
    assert found.code == 2
    assert "token file given" in found.err and reason in found.err


def test_an_unknown_context_of_an_agent_names_the_known_ones(run: Run) -> None:
    found = run(["agent", "doctor", "--context", "there"])
    assert found.code == 2
    assert "context 'there'; known: here" in found.err


class _OtherServer(http.server.BaseHTTPRequestHandler):
    """Answers anything with what a server that is no control plane might say."""

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        answers = {
            "/html": b"<!doctype html>",
            "/list": b"[]",
            "/text": b'"x"',
            "/errors": b'{"errors": "x"}',
            "/nulls": b'{"errors": [null]}',
            "/data": b'{"data": {}}',
            "/binary": bytes(range(256)),
            "/empty": b"",
        }
        body = answers.get(self.path.removesuffix("/gql"), b"{}")
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST


@pytest.fixture(scope="module")
def other_server() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _OtherServer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_port_without_http_is_named_without_its_bytes(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agents' port is one: it answers with frames of HTTP/2."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"\0\0\x18\x04\0\0\0\0\0\xff no HTTP here\n")

        thread = threading.Thread(target=answer)
        thread.start()
        monkeypatch.setenv("TOWLINE_URL", f"http://127.0.0.1:{port}")
        found = run(["whoami"])
        thread.join()
    assert found.code == 5
    assert "does not answer over HTTP: check the scheme and the port" in found.err
    assert "no HTTP here" not in found.err


def test_a_closed_port_is_described_in_words(run: Run) -> None:
    found = run(["whoami"])
    assert f"cannot reach {NOBODY}/gql: Connection refused; check the address" in found.err


def test_a_sign_in_without_a_token_is_wrong_use(run: Run) -> None:
    found = run(["login", NOBODY, "--token-stdin"])
    assert found.code == 2
    assert "standard input has no token" in found.err


@pytest.mark.parametrize(
    ("content", "reason"),
    [(None, "cannot read kubeconfig"), ("a word", "is not a YAML mapping")],
)
def test_an_unusable_kubeconfig_of_a_join_is_named(
    run: Run, tmp_path: Path, content: str | None, reason: str
) -> None:
    if content is not None:
        (tmp_path / "given").write_text(content)
    found = run(["clusters", "join", "dev", "--kubeconfig", "given"])
    assert found.code == 2
    assert reason in found.err and "Errno" not in found.err and "attribute" not in found.err


@pytest.mark.parametrize(
    "path", ["html", "list", "text", "errors", "nulls", "data", "binary", "empty"]
)
def test_a_server_that_is_no_control_plane_is_named(
    run: Run, other_server: str, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    url = f"{other_server}/{path}"
    monkeypatch.setenv("TOWLINE_URL", url)
    for words in (["clusters", "list"], ["services", "get", "a/b"], ["whoami"], ["audit"]):
        found = run(words)
        check(words, found)
        assert found.code == 5, found
