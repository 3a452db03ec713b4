"""The application: probes, its version, accepted hosts and security headers."""

from dataclasses import replace

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from controlplane.http.app import make_app
from core import __version__
from core.trusted_proxies import TrustedProxies
from tests.fakes.asgi import AsgiClient

PROXY = "192.0.2.9"


class Replica:
    """A replica that is not ready while there is a reason."""

    def __init__(self, *routes: Route, proxies: TrustedProxies | None = None) -> None:
        self.reason: str | None = None
        hosts = ["towline.example.org"]
        app = make_app(self._graphql, self._readiness, routes, hosts=hosts, proxies=proxies)
        self.client = AsgiClient(app)

    async def _readiness(self) -> str | None:
        return self.reason

    async def _graphql(self, *_: object) -> None:
        raise AssertionError("nothing here asks for GraphQL")


@pytest.fixture
def replica() -> Replica:
    return Replica()


async def test_a_replica_that_is_not_ready_says_why_and_lives(replica: Replica) -> None:
    ready = await replica.client.get("/readyz")
    assert (ready.status, ready.text) == (200, "ok")
    replica.reason = "the store does not answer"
    waiting = await replica.client.get("/readyz")
    assert (waiting.status, waiting.text) == (503, "the store does not answer")
    assert (await replica.client.get("/healthz")).status == 200


async def test_the_version_is_public(replica: Replica) -> None:
    assert (await replica.client.get("/version")).json() == {"version": __version__}


@pytest.mark.parametrize(("trusted", "seen"), [((), PROXY), ((PROXY,), "198.51.100.7")])
async def test_only_a_trusted_proxy_names_the_client(trusted: tuple[str, ...], seen: str) -> None:
    async def client_address(request: Request) -> Response:
        return PlainTextResponse(request.client.host if request.client else "")

    replica = Replica(Route("/address", client_address), proxies=TrustedProxies(trusted))
    response = await replace(replica.client, source=PROXY).get(
        "/address", x_forwarded_for="198.51.100.7"
    )
    assert response.text == seen


@pytest.mark.parametrize(
    ("path", "host", "status"),
    [
        ("/version", "towline.example.org", 200),
        ("/version", "evil.example.org", 421),
        ("/readyz", "evil.example.org", 200),
        ("/none", "towline.example.org", 404),
    ],
)
async def test_every_response_has_security_headers(
    replica: Replica, path: str, host: str, status: int
) -> None:
    """Also refusals: browsers show them as pages of this origin."""
    response = await replica.client.get(path, host=host)
    assert response.status == status
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["referrer-policy"] == "same-origin"
    assert "frame-ancestors 'none'" in response.headers["content-security-policy"]
