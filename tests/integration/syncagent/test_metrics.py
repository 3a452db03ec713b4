"""Metrics of the cluster, asked for through the API server."""

from collections.abc import AsyncIterator

import orjson
import pytest
from aiohttp import web

from core.errors import Invalid
from core.runtime.clock import SystemClock
from core.spec.thresholds import Comparison
from core.spec.verification import MetricCheck
from syncagent.compose import allowed_metrics
from syncagent.kube.access import ApiServerAccess
from syncagent.kube.client import KubeClient
from syncagent.kube.metrics import KubeMetrics
from syncagent.ports import RequestRefused
from syncagent.settings import AutonomySettings

QUERY = 'sum(rate(errors{job="a&b"}[5m])) / 2'
ANSWER = {"data": {"resultType": "vector", "result": [{"metric": {}, "value": [1, "0.25"]}]}}
PLACE = "/api/v1/namespaces/monitoring/services/{}/proxy/api/v1/query"


def check(address: str) -> MetricCheck:
    return MetricCheck(address, QUERY, 1.0, Comparison.BELOW)


@pytest.fixture
async def asked() -> AsyncIterator[tuple[KubeMetrics, list[tuple[str, str]]]]:
    """A reader, and the paths and queries that the API server was asked."""
    queries: list[tuple[str, str]] = []

    async def answer(request: web.Request) -> web.Response:
        queries.append((request.path, request.query["query"]))
        if "missing" in request.path:
            refusal = {"reason": "NotFound", "message": 'services "missing" not found'}
            return web.Response(status=404, body=orjson.dumps(refusal))
        return web.Response(body=orjson.dumps(ANSWER))

    app = web.Application()
    app.router.add_get("/{rest:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    client = KubeClient(ApiServerAccess(f"http://{host}:{port}", None), SystemClock())
    yield KubeMetrics(client), queries
    await client.close()
    await runner.cleanup()


@pytest.mark.parametrize(
    ("address", "service"),
    [
        ("monitoring/prometheus:9090", "prometheus:9090"),
        ("https:monitoring/prometheus:web", "https:prometheus:web"),
    ],
)
async def test_a_query_goes_through_the_proxy_of_services(
    asked, address: str, service: str
) -> None:
    """As it is, to exactly this service, and its one value comes back."""
    metrics, queries = asked
    assert await metrics.value(check(address)) == 0.25
    assert queries == [(PLACE.format(service), QUERY)]


@pytest.mark.parametrize(
    "address", ["prometheus:9090", "a/b", "a/b:80/../../../secrets", "ftp:a/b:80", "A/b:80", ""]
)
async def test_other_addresses_are_refused(asked, address: str) -> None:
    """Nothing else of the API server can be asked for in this way."""
    metrics, queries = asked
    with pytest.raises(Invalid, match="namespace/service:port"):
        await metrics.value(check(address))
    assert queries == []


async def test_a_service_that_is_not_there_is_named(asked) -> None:
    """In the API server's words."""
    metrics, _ = asked
    with pytest.raises(RequestRefused, match="missing"):
        await metrics.value(check("monitoring/missing:9090"))


@pytest.mark.parametrize(
    ("allowed", "expected"), [("", frozenset()), ("*", None), ("a/b:1, c/d:2", {"a/b:1", "c/d:2"})]
)
def test_the_cluster_decides_which_servers_are_queried(
    allowed: str, expected: frozenset[str] | None
) -> None:
    """None without the operator's word: the control plane names the address and the query."""
    assert allowed_metrics(AutonomySettings(metrics=allowed)) == expected


async def test_a_server_that_is_not_listed_is_not_queried() -> None:
    client = KubeClient(ApiServerAccess("http://127.0.0.1:1", None), SystemClock())
    with pytest.raises(Invalid, match=r"autonomy\.metrics"):
        await KubeMetrics(client, {"a/b:1"}).value(check("kube-system/secrets:80"))
    await client.close()
