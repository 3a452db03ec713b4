"""Only names that are this installation's are answered."""

import pytest
from starlette.types import Message

from controlplane.platform.http.hosts import KnownHosts

NAMES = ["towline.example.org", "*.Apps.example.org"]


async def _answer(_scope: object, _receive: object, send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"ok"})


async def _asked(host: str, path: str = "/", kind: str = "http") -> list[Message]:
    """Response for a path of a host."""
    sent: list[Message] = []
    scope = {"type": kind, "path": path, "headers": [(b"host", host.encode())]}

    async def receive() -> Message:
        return {"type": f"{kind}.connect"}

    async def send(message: Message) -> None:
        sent.append(message)

    await KnownHosts(_answer, NAMES)(scope, receive, send)
    return sent


@pytest.mark.parametrize(
    ("host", "is_known"),
    [
        ("towline.example.org", True),
        ("TOWLINE.example.org.:8443", True),
        ("one.apps.example.org", True),
        ("apps.example.org", False),
        ("a.b.apps.example.org", False),
        ("127.0.0.1:8080", True),
        ("[::1]:8443", True),
        ("localhost", True),
        ("evil.example", False),
        ("towline.example.org.evil.example", False),
        ("towline.example.org@evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("[evil.example", False),
        ("", False),
    ],
)
async def test_a_name_of_a_stranger_is_not_answered(host: str, is_known: bool) -> None:
    """A request led here by a page (DNS rebinding) is refused as misdirected."""
    start, body = await _asked(host)
    assert start["status"] == (200 if is_known else 421)
    assert (b"auth.public_url" in body["body"]) is not is_known
    assert (await _asked(host, "/healthz"))[0]["status"] == 200


@pytest.mark.parametrize("names", [NAMES, ["*"], ["*.clusters.example.org"]])
def test_names_of_clusters_are_none_of_the_application(names: list[str]) -> None:
    """Whatever else is accepted: the Kubernetes proxy serves these names, and nothing else may."""
    hosts = KnownHosts(_answer, names, "clusters.example.org")
    for host in ("dev", "A.b", "x@d"):
        host = f"{host}.Clusters.example.org.:8443"
        assert not hosts.accepts(host)
    assert hosts.accepts("localhost")


async def test_a_websocket_to_a_name_of_a_stranger_is_closed() -> None:
    """A browser tells its page nothing but that it was not opened."""
    (closed,) = await _asked("evil.example", "/gql", "websocket")
    assert closed["type"] == "websocket.close"


async def test_a_star_takes_every_name() -> None:
    """For those who check names before it comes here."""
    assert KnownHosts(_answer, ["*"]).accepts("evil.example")
