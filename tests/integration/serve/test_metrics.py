"""The metrics of each process are exactly those of the metrics page."""

import re
from datetime import UTC, datetime
from pathlib import Path

import aiohttp

from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.ports import ClusterStore
from controlplane.platform.store.engine import make_engine
from controlplane.platform.store.transaction import SqlStore
from controlplane.store.repositories import REPOSITORIES
from core.identity import ClusterId
from syncagent.upkeep.status_server import StatusServer, Vitals
from tests import migrated
from tests.integration.serve.conftest import ANY_PORT, running
from tests.integration.serve.waiting import until
from towline.serve.git_cache_process import GitCacheProcess
from towline.settings import ServeSettings

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "metrics.md"
NOW = datetime(2026, 1, 2, tzinfo=UTC)
KEY = "the key of control plane and replicas"


def documented(*parts: str) -> dict[str, str]:
    """Metric → type, of the parts of the page with these headings."""
    sections = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.M | re.S))
    found: dict[str, str] = {}
    for part in parts:
        found |= dict(re.findall(r"^\| `(towline_\w+)` \| (\w+) \|", sections[part], re.M))
    return found


def metric_types(page: str) -> dict[str, str]:
    """Metric → type, as a scrape shows them."""
    found = re.findall(r"^# TYPE (towline_\w+) (\w+)$", page, re.M)
    return {name: kind for name, kind in found if not name.endswith("_created")}


async def scrape(where: str) -> str:
    async with (
        aiohttp.ClientSession() as http,
        http.get(f"http://{where}/metrics") as answer,
    ):
        assert answer.status == 200
        return await answer.text()


def is_counted(page: str) -> bool:
    """Whether a census has been taken, with the cluster that was there at the start."""
    return 'towline_clusters{agent="never"} 1.0' in page


async def test_the_control_plane_tells_what_is_documented(tmp_path: Path) -> None:
    """And a census is taken, and requests are counted by kind and code."""
    store = SqlStore(make_engine(migrated.put_sqlite(tmp_path / "data")), REPOSITORIES)
    async with store.write() as tx:
        await tx[ClusterStore].add(Cluster(ClusterId("c1"), "dev", "dev", NOW, NOW))
    await store.close()
    async with running(tmp_path / "data", listen_metrics=ANY_PORT) as hub:
        await hub.cluster("prod")
        await hub.post("mutation { nothing }")
        await hub.ask("# mutation\nquery { me { email } }")
        page = await until(lambda: scrape(hub.addresses.metrics or ""), is_counted)
    parts = ("Control plane", "Kubernetes proxy", "Git cache")
    assert metric_types(page) == documented(*parts)
    assert 'towline_api_requests_total{code="INVALID",kind="mutation"} 1.0' in page
    assert 'towline_api_requests_total{code="OK",kind="query"} 1.0' in page
    assert 'towline_api_requests_total{code="OK",kind="mutation"} 1.0' in page


async def test_a_tier_of_the_git_cache_tells_its_part(tmp_path: Path) -> None:
    tier = GitCacheProcess(
        ServeSettings(
            target="gitcache",
            data=tmp_path,
            listen_peers=ANY_PORT,
            listen_metrics=ANY_PORT,
            git={"peers": {"key": KEY, "name": "a"}},
        )
    )
    addresses = await tier.start()
    try:
        page = await scrape(addresses.metrics or "")
    finally:
        await tier.stop()
    assert metric_types(page) == documented("Git cache") | {"towline_build_info": "gauge"}


async def test_an_agent_tells_what_is_documented() -> None:
    vitals = Vitals(
        linked=True, has_been_linked=True, services=1, waiting_reports=0, running_jobs=0
    )
    pages = StatusServer(ANY_PORT, lambda: vitals)
    await pages.start()
    try:
        page = await scrape(f"127.0.0.1:{pages.port}")
    finally:
        await pages.stop()
    assert metric_types(page) == documented("Agent")
