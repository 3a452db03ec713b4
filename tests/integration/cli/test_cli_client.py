"""The client against servers that answer well, wrongly, or as somebody else."""

import json
import ssl
from collections.abc import Iterator, Sequence
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from core import __version__
from core.errors import Forbidden, Invalid, TowlineError, Unavailable
from core.runtime.now import utc_now
from towline.certificate_authority import CertificateAuthority
from towline.client import GraphQLClient, Unsupported
from towline.contexts import ControlPlaneTarget


class Answers(HTTPServer):
    """Gives one prepared answer; remembers what it was asked."""

    status = 200
    body: bytes = b"{}"
    bodies: Sequence[bytes] = ()
    """One body for each request, instead of `body` for all."""
    location = ""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[tuple[str, dict[str, str], bytes]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Answers)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        number = len(self.server.asked)
        self.server.asked.append((self.path, dict(self.headers), body))
        self.send_response(self.server.status)
        if self.server.location:
            self.send_header("Location", self.server.location)
        self.end_headers()
        self.wfile.write(self.server.bodies[number] if self.server.bodies else self.server.body)

    do_GET = do_POST

    def log_message(self, format: str, *args: object) -> None:
        """Nobody reads it."""


@pytest.fixture
def server() -> Iterator[Answers]:
    """A server on this machine."""
    with Answers() as running:
        thread = Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def test_a_question_carries_the_token_and_its_variables(server: Answers) -> None:
    server.body = b'{"data": {"me": {"email": "ann"}}}'
    assert GraphQLClient(ControlPlaneTarget(server.url, "secret")).ask("{ me }", id="x") == {
        "me": {"email": "ann"}
    }
    ((path, headers, body),) = server.asked
    assert (path, headers["Authorization"]) == ("/gql", "Bearer secret")
    assert json.loads(body) == {"query": "{ me }", "variables": {"id": "x"}}


@pytest.mark.parametrize(
    ("code", "kind"), [("FORBIDDEN", Forbidden), ("INVALID", Invalid), ("NEW", TowlineError)]
)
def test_an_error_of_the_api_becomes_ours(
    server: Answers, code: str, kind: type[TowlineError]
) -> None:
    error = {"message": "because", "extensions": {"code": code}}
    server.body = json.dumps({"data": None, "errors": [error]}).encode()
    with pytest.raises(kind, match="because"):
        GraphQLClient(ControlPlaneTarget(server.url)).ask("{ me }")


UNKNOWN = [
    "Cannot query field 'reason' on type 'ServiceError'.",
    "Unknown argument 'prune' on field 'Mutation.syncServiceObjects'.",
    "Unknown type 'TagAttributes'.",
    "attributes: ServiceDeploymentAttributes has no field 'docsPath'",
]


@pytest.mark.parametrize("message", UNKNOWN)
def test_an_older_server_is_named_with_both_versions(server: Answers, message: str) -> None:
    error = {"message": message, "extensions": {"code": "INVALID"}}
    refusal = json.dumps({"data": None, "errors": [error]}).encode()
    version = b'{"data": {"installation": {"version": "0.0.7"}}}'
    server.bodies = [refusal, version]
    with pytest.raises(Unsupported) as caught:
        GraphQLClient(ControlPlaneTarget(server.url)).ask("{ me }")
    said = caught.value.message
    assert f"towline is version {__version__}," in said and "is version 0.0.7," in said
    assert message in said and said.endswith("upgrade the control plane, or use towline 0.0.7")


def test_a_server_of_the_same_version_has_its_own_reason(server: Answers) -> None:
    error = {"message": UNKNOWN[0], "extensions": {"code": "INVALID"}}
    version = {"data": {"installation": {"version": __version__}}}
    server.bodies = [json.dumps(body).encode() for body in ({"errors": [error]}, version)]
    with pytest.raises(Invalid) as caught:
        GraphQLClient(ControlPlaneTarget(server.url)).ask("{ me }")
    assert caught.value.message == UNKNOWN[0]


def test_a_server_that_hides_its_version_is_still_explained(server: Answers) -> None:
    error = {"message": UNKNOWN[0], "extensions": {"code": "INVALID"}}
    server.body = json.dumps({"errors": [error]}).encode()
    with pytest.raises(Unsupported, match="is of another version"):
        GraphQLClient(ControlPlaneTarget(server.url)).ask("{ me }")
    assert len(server.asked) == 2


@pytest.mark.parametrize(
    ("status", "body"),
    [(200, b"<html>"), (200, b"[]"), (200, b'{"data": null}'), (502, b""), (404, b"{}")],
)
def test_a_response_of_no_control_plane_is_unavailable(
    server: Answers, status: int, body: bytes
) -> None:
    server.status, server.body = status, body
    with pytest.raises(Unavailable, match=f"got {status}"):
        GraphQLClient(ControlPlaneTarget(server.url)).ask("{ me }")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed_with_the_token(server: Answers, status: int) -> None:
    server.status, server.location = status, f"{server.url}/elsewhere"
    with pytest.raises(Unavailable, match=f"got {status}"):
        GraphQLClient(ControlPlaneTarget(server.url, "secret")).ask("{ me }")
    assert [path for path, _, _ in server.asked] == ["/gql"]


def test_a_port_where_nothing_listens_is_unreachable(server: Answers) -> None:
    server.server_close()
    with pytest.raises(Unavailable, match="cannot reach"):
        GraphQLClient(ControlPlaneTarget(server.url)).ask("{ me }")


def test_an_expired_certificate_is_not_mistaken_for_an_unknown_one(tmp_path: Path) -> None:
    """Another CA would not help at 3 am."""
    now = utc_now()
    authority = CertificateAuthority.create(tmp_path, "Test", now - timedelta(days=4000))
    made = authority.sign("server", "towline", now - timedelta(days=3000), names=("127.0.0.1",))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.certificate, made.key)
    with Answers() as running:
        running.socket = context.wrap_socket(running.socket, server_side=True)
        thread = Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        target = ControlPlaneTarget(
            running.url.replace("http", "https"), ca=(tmp_path / "ca.crt").read_text()
        )
        with pytest.raises(Unavailable) as caught:
            GraphQLClient(target).ask("{ me }")
        running.shutdown()
        thread.join()
    assert "is not valid now (certificate has expired): renew it" in caught.value.message
    assert "--ca-file" not in caught.value.message


def test_a_port_without_tls_is_named_as_one(server: Answers) -> None:
    """As the port of agents, which takes no HTTPS."""
    target = ControlPlaneTarget(server.url.replace("http", "https"))
    with pytest.raises(Unavailable, match="does not answer over TLS: check .*; agents use another"):
        GraphQLClient(target).ask("{ me }")


def test_a_token_does_not_travel_in_clear_text() -> None:
    with pytest.raises(Invalid, match="refusing to send a token"):
        GraphQLClient(ControlPlaneTarget("http://towline.example", "secret"))


def test_an_authority_that_is_no_certificate_is_refused() -> None:
    with pytest.raises(Invalid, match="not a certificate in PEM format"):
        GraphQLClient(ControlPlaneTarget("https://towline.example", "secret", "rubbish"))
