"""The credential plugin: quick where a token is at hand, else renewing it or asking the person."""

import json
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import Invalid, Unauthenticated
from towline import context_file, contexts, device_grant, kubectl_login
from towline.cli.access.login import sign_in_by_device
from towline.context_file import write
from towline.contexts import ControlPlaneTarget, GlobalFlags, SavedContexts, read
from towline.device_grant import DeviceGrant

PERSON = {"KUBERNETES_EXEC_INFO": '{"spec": {"interactive": true}}'}
CODE = {
    "device_code": "d1",
    "user_code": "ABCD-EFGH",
    "verification_uri": "http://hub/device",
    "interval": 3,
    "expires_in": 600,
}
SLOW = {"error": "slow_down"}
PENDING = {"error": "authorization_pending"}
TOKEN = {"access_token": "twu_new", "refresh_token": "r2", "expires_in": 3600}
NOW = 1_900_000_000


@dataclass
class Hub:
    """A control plane's OAuth endpoints: answers in turn, and what was asked."""

    url: str = ""
    answers: list[dict[str, Any]] = field(default_factory=list)
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    tokens: list[str | None] = field(default_factory=list)

    @property
    def target(self) -> ControlPlaneTarget:
        return ControlPlaneTarget(self.url)


@contextmanager
def serving() -> Generator[Hub]:
    hub = Hub()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            hub.tokens.append(self.headers["Authorization"])
            hub.asked.append((self.path, {key: one for key, (one,) in form.items()}))
            body = json.dumps(hub.answers.pop(0)).encode()
            self.send_response(400 if b'"error"' in body else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Quiet."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        hub.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield hub
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def hub() -> Iterator[Hub]:
    with serving() as one:
        yield one


class Watch:
    """Time that only passes by sleeping."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    def now(self) -> float:
        return NOW + sum(self.slept)

    def grant(self, hub: Hub) -> DeviceGrant:
        return DeviceGrant(hub.target, sleep=self.sleep, now=self.now)


def test_a_person_approves_the_code(hub: Hub) -> None:
    """Asked again at the pace that the control plane wants (RFC 8628, 3.5)."""
    hub.answers += [CODE, PENDING, SLOW, PENDING, TOKEN]
    shown: list[tuple[str, str]] = []
    watch = Watch()
    granted = watch.grant(hub).sign_in(lambda page, code: shown.append((page, code)))
    assert granted == ("twu_new", "r2", NOW + 3 + 3 + 8 + 8 + 3600)
    assert watch.slept == [3, 3, 8, 8]
    assert shown == [("http://hub/device", "ABCD-EFGH")]
    assert hub.asked[0] == (
        "/oauth/device/code",
        {"client_id": "towline-kubectl-login", "scope": "offline_access"},
    )
    assert hub.asked[1] == (
        "/oauth/token",
        {
            "client_id": "towline-kubectl-login",
            "grant_type": "urn:ietf:params:oauth:grant-type:device_code",
            "device_code": "d1",
        },
    )
    assert "twu_new" not in repr(granted)


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ([CODE, {"error": "access_denied", "error_description": "ann said no"}], "ann said no"),
        ([CODE, {"error": "expired_token"}], "expired_token"),
        ([{**CODE, "expires_in": 5}, PENDING, PENDING], "in time"),
        ([{"error": "not_found"}], "not_found"),
        ([{}], "does not support device sign-in"),
    ],
)
def test_a_sign_in_that_fails_says_why(hub: Hub, answers: list[dict[str, Any]], said: str) -> None:
    hub.answers += answers
    with pytest.raises(Unauthenticated, match=said):
        Watch().grant(hub).sign_in(lambda page, code: None)


def test_the_invitation_obeys_no_terminal(hub: Hub) -> None:
    """Text of a server is printed without control characters."""
    hub.answers += [{**CODE, "user_code": "\x1b]0;x\x07A"}, TOKEN]
    shown: list[str] = []
    Watch().grant(hub).sign_in(lambda page, code: shown.extend((page, code)))
    assert shown == ["http://hub/device", "]0;xA"]


def test_the_page_with_the_code_in_its_address_is_preferred(hub: Hub) -> None:
    page = "http://hub/device?code=ABCD-EFGH"
    hub.answers += [{**CODE, "verification_uri_complete": page}, TOKEN]
    shown: list[str] = []
    Watch().grant(hub).sign_in(lambda page, code: shown.append(page))
    assert shown == [page]


def test_a_refresh_token_is_exchanged_without_the_old_token(hub: Hub) -> None:
    """Not each server gives a new refresh token: the old one then stays."""
    hub.answers += [TOKEN, {"access_token": "twu_next"}, {"error": "invalid_grant"}]
    grant = DeviceGrant(hub.target._replace(token="twu_old"), now=Watch().now)
    assert grant.refresh("r1") == ("twu_new", "r2", NOW + 3600)
    assert grant.refresh("r1") == ("twu_next", "r1", 0)
    assert grant.refresh("r1") is None
    form = {
        "client_id": "towline-kubectl-login",
        "grant_type": "refresh_token",
        "refresh_token": "r1",
    }
    assert hub.asked == [("/oauth/token", form)] * 3
    assert hub.tokens == [None] * 3


def test_no_token_is_asked_for_over_plain_http() -> None:
    """Neither by a code nor by a refresh token; only this machine may answer without TLS."""
    with pytest.raises(Invalid, match="plain HTTP"):
        DeviceGrant(ControlPlaneTarget("http://towline.example.org"))


def test_a_sign_in_of_the_command_line_names_the_machine(
    hub: Hub, capsys: pytest.CaptureFixture[str]
) -> None:
    """It asks for no refresh token: the command line keeps a token of 90 days."""
    hub.answers += [{**CODE, "interval": 0}, PENDING, TOKEN]
    assert sign_in_by_device(hub.target, open_browser=False) == "twu_new"
    said = capsys.readouterr().err
    assert said == "open http://hub/device and check that it shows the code ABCD-EFGH\n"
    (_, first), *polls = hub.asked
    assert first["client_id"].startswith("towline on ") and "scope" not in first
    assert [form["device_code"] for _, form in polls] == ["d1", "d1"]


def saved(tmp_path: Path, target: ControlPlaneTarget) -> Path:
    path = tmp_path / "config.toml"
    other = ControlPlaneTarget("https://other", "twu_other")
    contexts = SavedContexts().with_target("here", target).with_target("other", other)
    write(path, contexts)
    return path


def ask(path: Path, hub: Hub, environ: dict[str, str] | None = None) -> dict[str, Any]:
    found = kubectl_login.credential(GlobalFlags(url=hub.url, config=path), environ or {})
    return json.loads(json.dumps(found))["status"]


def test_a_good_token_is_printed_with_its_end(hub: Hub, tmp_path: Path) -> None:
    """Without a word to the control plane."""
    path = saved(tmp_path, hub.target._replace(token="twu_old", expires=4_000_000_000))
    assert ask(path, hub) == {"token": "twu_old", "expirationTimestamp": "2096-10-02T07:06:40Z"}
    assert hub.asked == []


def test_a_token_without_an_end_is_printed_without_one(hub: Hub, tmp_path: Path) -> None:
    path = saved(tmp_path, hub.target._replace(token="twu_old", expires=0))
    assert ask(path, hub) == {"token": "twu_old"}
    assert hub.asked == []


def test_a_token_about_to_end_is_renewed_and_kept(hub: Hub, tmp_path: Path) -> None:
    """By its refresh token; which control plane is the current one stays."""
    path = saved(tmp_path, hub.target._replace(token="old", refresh="r1", expires=1))
    hub.answers.append(TOKEN)
    assert ask(path, hub)["token"] == "twu_new"
    assert hub.asked[0][1]["refresh_token"] == "r1"
    kept = read(path)
    assert (kept.current, kept.targets["here"].token, kept.targets["here"].refresh) == (
        "other", "twu_new", "r2"
    )  # fmt: skip
    assert ask(path, hub)["token"] == "twu_new"
    assert len(hub.asked) == 1


def test_without_a_person_nobody_is_asked(hub: Hub, tmp_path: Path) -> None:
    """A refused refresh in a script ends with the way out."""
    path = saved(tmp_path, hub.target._replace(token="old", refresh="r1", expires=1))
    hub.answers.append({"error": "invalid_grant"})
    with pytest.raises(Unauthenticated, match="towline login"):
        ask(path, hub)
    assert len(hub.asked) == 1


def test_a_person_signs_in_where_nobody_is(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """kubectl says that there is one; the token is kept for the next time."""
    monkeypatch.setattr(device_grant, "POLL_SECONDS", 0)
    path = tmp_path / "new" / "config.toml"
    quick = {key: value for key, value in CODE.items() if key != "interval"}
    hub.answers += [quick, PENDING, TOKEN]
    assert ask(path, hub, PERSON)["token"] == "twu_new"
    invitation = "To sign in, open http://hub/device and approve ABCD-EFGH\n"
    assert capsys.readouterr().err == invitation
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert ask(path, hub)["token"] == "twu_new"


def test_many_kubectls_renew_once(hub: Hub, tmp_path: Path) -> None:
    """A refresh token is often good once: whoever comes second takes what the first was given."""
    path = saved(tmp_path, hub.target._replace(token="old", refresh="r1", expires=1))
    hub.answers.append({**TOKEN, "expires_in": int(4_000_000_000 - 1_900_000_000)})
    found: list[str] = []
    threads = [
        threading.Thread(target=lambda: found.append(ask(path, hub)["token"])) for _ in range(8)
    ]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert found == ["twu_new"] * 8
    assert len(hub.asked) == 1


MOST_MODULES = 50
"""Beside those that Python starts with; the parser of arguments and JSON are most of them."""
COSTLY = frozenset(
    {"asyncio", "dataclasses", "http", "ipaddress", "pathlib", "shutil", "ssl", "structlog",
     "tomllib", "urllib.parse", "zlib"}
)  # fmt: skip


def modules_after(code: str) -> tuple[list[str], set[str]]:
    """Output of code in a new Python, and the modules that are loaded then."""
    code = f"import sys; {code}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *printed, modules = done.stdout.splitlines()
    return printed, set(modules.split())


def test_a_token_at_hand_loads_little(tmp_path: Path) -> None:
    """kubectl starts the plugin for each command: what is loaded is what that costs."""
    path = saved(tmp_path, ControlPlaneTarget("https://hub", "twu_x", "PEM"))
    printed, modules = modules_after(
        "from towline.kubectl_login import main;"
        f"main(['--url', 'https://hub', '--config', {str(path)!r}])"
    )
    assert json.loads(printed[0])["status"] == {"token": "twu_x"}
    _, bare = modules_after("pass")
    assert COSTLY.isdisjoint(modules - bare)
    assert len(modules - bare) <= MOST_MODULES


TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=40)
TARGETS = st.builds(
    ControlPlaneTarget,
    TEXT.map("https://".__add__),
    TEXT,
    TEXT,
    TEXT,
    st.integers(0, 4_000_000_000),
)


@settings(deadline=None)
@given(st.dictionaries(TEXT, TARGETS, max_size=3), TEXT)
def test_a_file_is_read_without_a_parser_as_with_one(
    targets: dict[str, ControlPlaneTarget], current: str
) -> None:
    """Only while nobody has edited it."""
    lines = []
    path = Path("unused")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(context_file, "write_private", lambda _, text: lines.append(text))
        write(path, SavedContexts(current, targets))
    assert contexts._parse_written_form(lines[0]) == {"contexts": {}} | tomllib.loads(lines[0])


@pytest.mark.parametrize(
    "text",
    ["# mine\n", "current='x'\n", '[contexts.a]\nurl = "b"\n', 'a.b = "c"\n', "x = 1\nx = 2\n"],
)
def test_an_edited_file_needs_the_parser(text: str) -> None:
    """Whatever looks different is left to it."""
    assert contexts._parse_written_form(text) is None


def test_the_clock_is_the_machines() -> None:
    """Tokens end by the time of day, not by that since the machine has started."""
    ends = int(time.time()) + 30  # noqa: TID251
    assert not kubectl_login._is_valid(ControlPlaneTarget("https://hub", "t", expires=ends))
    assert kubectl_login._is_valid(ControlPlaneTarget("https://hub", "t", expires=ends + 3600))
