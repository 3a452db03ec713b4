"""`towline freeze-key`, `towline freeze` and `towline thaw`, without a connection."""

import http.server
import json
import threading
from collections.abc import Callable
from pathlib import Path
from stat import S_IMODE

import pytest

from core.errors import Invalid, Unavailable
from core.spec.statements.attestation import read_public_keys
from core.spec.statements.freeze import EVERY_CLUSTER, FreezeAction, FreezeKeys
from tests.fakes.api import FakeApi
from tests.fakes.clock import START
from tests.fakes.command_line import Finished, run_in_process
from towline import freeze_key
from towline.cli.clusters import generated as operations
from towline.cli.clusters.freezing import confirm_statement
from towline.cli.program import exit_code

Run = Callable[..., Finished]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """The program, with these words."""
    return lambda *words: run_in_process(words, monkeypatch, capfd)


def test_a_created_key_signs_what_its_public_half_verifies(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "freeze.key"
    created = run("freeze-key", "create", str(file))
    assert (created.code, S_IMODE(file.stat().st_mode)) == (0, 0o600)
    keys = FreezeKeys(read_public_keys(created.out.encode()))
    frozen = run("freeze", "--key", str(file), "--cluster", "eu-1", "--reason", "x", "--print")
    thawed = run("thaw", "--key", str(file), "--all", "--serial", "7", "--print")
    freeze, thaw = keys.verify(frozen.out), keys.verify(thawed.out)
    assert (freeze.action, freeze.clusters, freeze.reason) == (FreezeAction.FREEZE, ("eu-1",), "x")
    assert (thaw.action, thaw.clusters, thaw.serial) == (FreezeAction.THAW, (EVERY_CLUSTER,), 7)
    assert freeze.serial > freeze.issued_at


def test_a_key_is_never_replaced(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "freeze.key"
    file.write_text("precious")
    refused = run("freeze-key", "create", str(file))
    assert refused.code == 2 and "exists already" in refused.err
    assert file.read_text() == "precious"


def test_a_file_that_is_no_key_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "freeze.key"
    file.write_text("no key")
    with pytest.raises(Invalid, match="freeze-key create"):
        freeze_key.sign(file, "freeze", ["*"], START)


def test_a_freeze_names_clusters_or_all(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "freeze.key"
    freeze_key.create(file)
    refused = run("freeze", "--key", str(file), "--print")
    assert refused.code == 2 and "--cluster" in refused.err


class _FailingControlPlane(http.server.BaseHTTPRequestHandler):
    """Lists one cluster, and takes no statement for it."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        end = {"hasNextPage": False, "endCursor": None}
        page = {"edges": [{"node": {"id": "c", "handle": "eu-1"}}], "pageInfo": end}
        failed = {"message": "the database is away", "extensions": {"code": "UNAVAILABLE"}}
        is_query = asked["query"].startswith("query")
        body = json.dumps({"data": {"clusters": page}} if is_query else {"errors": [failed]})
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *values: object) -> None:
        """Writes no log."""


def test_a_freeze_that_fails_says_how_to_go_on(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A failed delivery is no missing permission."""
    file = tmp_path / "freeze.key"
    freeze_key.create(file)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _FailingControlPlane) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setenv("TOWLINE_URL", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("TOWLINE_TOKEN", "x")
        refused = run("freeze", "--key", str(file), "--all")
        server.shutdown()
        thread.join()
    assert "eu-1: the database is away" in refused.out + refused.err
    assert "1 of 1 clusters did not get the statement" in refused.err
    assert "--print" in refused.err and "towline-freeze" in refused.err
    assert refused.code == exit_code(Unavailable(""))


class Fleet:
    """Clusters whose agents report these alarms at each look; the last ones stay."""

    def __init__(self, **alarms: list[str | None]) -> None:
        self._alarms = alarms

    def look(self, id: str | None = None, handle: str | None = None, **_: object) -> object:
        name = id or handle or ""
        if name not in self._alarms:
            return {"cluster": None}
        alarms = self._alarms[name]
        alarm = alarms.pop(0) if len(alarms) > 1 else alarms[0]
        return {"cluster": {"id": name, "handle": name, "agentAlarm": alarm}}

    def api(self) -> FakeApi:
        return FakeApi({operations.CLUSTER: self.look})


FROZEN = "the agent reports: this cluster is frozen since noon by its freeze key"


@pytest.mark.parametrize(
    ("action", "alarms"), [("freeze", [None, "other", FROZEN]), ("thaw", [FROZEN, None])]
)
def test_a_statement_is_confirmed_by_the_agents(
    capfd: pytest.CaptureFixture[str], action: str, alarms: list[str | None]
) -> None:
    api = Fleet(eu=alarms).api()
    confirm_statement(api, action, {"eu": "eu"}, within=60, every=0)
    assert capfd.readouterr().err == f"{action} confirmed by 1 cluster\n"


def test_an_agent_without_the_key_is_no_frozen_cluster() -> None:
    """Silence would look like a freeze."""
    api = Fleet(eu=[FROZEN], us=[None]).api()
    with pytest.raises(Unavailable) as caught:
        confirm_statement(api, "freeze", {"eu": "eu", "us": "us"}, within=0)
    assert "no confirmation of the freeze yet from us:" in caught.value.message
    assert "freeze.keys" in caught.value.message
