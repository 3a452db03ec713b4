"""Chart repositories and registries that are followed: new versions within a range, by digest."""

import hashlib
import shutil
from collections.abc import AsyncIterator
from importlib.util import find_spec
from pathlib import Path

import orjson
import pytest

from core.errors import Unavailable
from core.identity import RepositoryId
from core.spec.renderers import HELM, HelmRelease, chart_ref
from core.spec.source import GitCredentials, RenderRequest, RepositoryKind, RepositorySpec
from gitcache.sync.cache import GitCache
from tests.integration.gitcache.chartserver import ChartServer, archive, chart, serving
from tests.integration.gitcache.stand import REPOSITORY, Stand, until

pytestmark = pytest.mark.skipif(
    find_spec("helm_python") is None and shutil.which("helm") is None,
    reason="no Helm on this machine: make charts",
)

REF = chart_ref("web", "^1.0")


@pytest.fixture
async def charts() -> AsyncIterator[ChartServer]:
    async with serving() as server:
        yield server


@pytest.fixture(params=["http", "oci"])
def place(request: pytest.FixtureRequest, charts: ChartServer) -> str:
    """Source of the charts: a chart repository, or a registry."""
    return getattr(charts, request.param)


def publish(charts: ChartServer, version: str) -> str:
    """Offer a version whose ConfigMap shows it; the sum of its archive."""
    files = chart(version=version, **{"values.yaml": f"v: of {version}\n"})
    data = archive("web", files)
    charts.publish("web", version, data)
    return hashlib.sha256(data).hexdigest()


def followed(url: str, password: str | None = None) -> RepositorySpec:
    given = GitCredentials(username="bot", password=password) if password else None
    return RepositorySpec(
        REPOSITORY, url, frozenset({REF}), given, project="p", kind=RepositoryKind.HELM
    )


async def shown(cache: GitCache, sha: str) -> str:
    """Data of the ConfigMap in an archive."""
    helm = HelmRelease("rel", "ns", chart="web", version="^1.0")
    rendered = await cache.render(RenderRequest(REPOSITORY, sha, "", HELM, helm=helm))
    return orjson.loads((await cache.bundle(rendered.digest)).splitlines()[0])["data"]["v"]


async def at(cache: GitCache, sha: str) -> None:
    await until(cache, lambda one: REF in one.commits and one.commits[REF].sha == sha, seconds=60)


async def test_new_versions_within_the_range_are_followed_and_older_ones_stay(
    stand: Stand, charts: ChartServer, place: str
) -> None:
    first = publish(charts, "1.0.0")
    cache = await stand.start()
    cache.follow(followed(place))
    await at(cache, first)
    state = cache.state(REPOSITORY)
    assert state is not None and state.commits[REF].subject == "web 1.0.0"
    assert await shown(cache, first) == "of 1.0.0"
    publish(charts, "2.0.0")
    second = publish(charts, "1.2.0")
    await cache.request_poll(REPOSITORY)
    await at(cache, second)
    assert await shown(cache, second) == "of 1.2.0"
    assert await shown(cache, first) == "of 1.0.0"
    assert await cache.trees(REPOSITORY, second, ["", "x"]) == {"": second, "x": None}


async def test_while_the_place_is_away_the_last_version_stays_also_after_a_restart(
    stand: Stand, charts: ChartServer
) -> None:
    first = publish(charts, "1.0.0")
    cache = await stand.start()
    cache.follow(followed(charts.http))
    await at(cache, first)
    await stand.stop(cache)
    charts.index = b"<html>maintenance</html>"
    cache = await stand.start()
    cache.follow(followed(charts.http))
    state = await until(cache, lambda one: one.error, seconds=60)
    assert state.commits[REF].sha == first
    assert await shown(cache, first) == "of 1.0.0"


async def test_a_fresh_replica_finds_a_chart_version_by_digest(
    charts: ChartServer, place: str, tmp_path: Path
) -> None:
    """Also a replica with a new disk; a digest that is not offered is refused."""
    first = publish(charts, "1.0.0")
    newest = publish(charts, "1.1.0")
    fresh = Stand(tmp_path / "fresh")
    try:
        cache = await fresh.start()
        cache.follow(followed(place))
        await at(cache, newest)
        assert await shown(cache, first) == "of 1.0.0"
        with pytest.raises(Unavailable, match="has no chart with the digest"):
            await shown(cache, "0" * 64)
    finally:
        await fresh.close()


async def test_a_place_is_asked_with_its_own_credentials(stand: Stand, charts: ChartServer) -> None:
    sha = publish(charts, "1.0.0")
    charts.password = "canary-7a3c-charts"
    cache = await stand.start()
    cache.follow(followed(charts.http))
    state = await until(cache, lambda one: one.error, seconds=60)
    assert not state.commits and "401" in (state.error or "")
    cache.follow(followed(charts.http, charts.password))
    await at(cache, sha)
    assert await shown(cache, sha) == "of 1.0.0"


async def test_a_chart_that_is_not_there_holds_up_no_other(
    stand: Stand, charts: ChartServer
) -> None:
    sha = publish(charts, "1.0.0")
    absent = chart_ref("absent", "")
    cache = await stand.start()
    cache.follow(
        RepositorySpec(
            RepositoryId(REPOSITORY),
            charts.http,
            frozenset({REF, absent}),
            kind=RepositoryKind.HELM,
        )
    )
    await at(cache, sha)
    state = cache.state(REPOSITORY)
    assert state is not None and state.missing == {absent} and state.error is None
