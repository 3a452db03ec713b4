"""What every test may count on: a clean environment, and real servers when it asks for one.

Servers start when the first test asks and stop with the run. A test that uses `cluster` or
`second_cluster` carries the marker `cluster` by itself: `-m "not cluster"` leaves them out.

With CI=true a skip is a failure, unless its reason starts with `platform: ` (the test means
another operating system) or `external: ` (nobody can install what the test needs: a service of the
world, or a program that its owner does not publish). A machine that runs CI has everything else.

A test runs once: one that fails only at times is a defect, and fails the run.
"""

import gc
import os
import re
import tempfile
from collections.abc import Generator, Iterator
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests import measured
from tests.canary import CanaryWatch
from tests.group_ends import BROWSER, GroupEnds
from tests.open_sockets import SocketWatch
from tests.order import mixed
from tests.servers.postgres import Postgres, find_postgres
from tests.servers.redis import Redis, find_redis
from towline.demo.clusters import binaries
from towline.demo.clusters.agent_access import bind_groups
from towline.demo.clusters.cluster import LocalCluster
from towline.demo.git_server import GitServer

_numbers = count(1)
_ALLOWED_SKIPS = ("platform: ", "external: ")
_CLUSTERS = ("kubernetes", "cluster", "second_cluster")
_GROUPS = {"proxy": "proxies", "cli": "proxies", "console": "console"}
_SCRUBBED = ("GIT_", "TOWLINE_", "REDIS_", "PG")
# A busy machine makes any example slow: that is no fault of what is tested.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")
# Before another conftest imports what is measured.
_MEASUREMENT = measured.MeasuredTests.of_environment()
_MISSING = "no {0} server on this machine: `make test` installs one, so does your system"


def _only_distributes(config: pytest.Config) -> bool:
    """Whether other processes collect and run the tests for this one."""
    return config.getoption("dist", "no") != "no" and not hasattr(config, "workerinput")


def pytest_configure(config: pytest.Config) -> None:
    """Take the developer's own settings away from what is tested; look for secrets that leak."""
    if not _only_distributes(config):
        # Nearly all that is made until the first test stays: see pytest_collection_finish.
        gc.disable()
        os.environ.pop(measured.VARIABLE, None)
        if _MEASUREMENT is not None:
            config.pluginmanager.register(_MEASUREMENT, "measured tests")
    elif _MEASUREMENT is not None:
        _MEASUREMENT.stop()
    config.pluginmanager.register(CanaryWatch(), "canaries")
    config.pluginmanager.register(SocketWatch(), "sockets")
    config.pluginmanager.register(GroupEnds(), "group ends")
    # What is built once for this user stays where it is, wherever HOME points.
    os.environ.setdefault("XDG_CACHE_HOME", str(Path.home() / ".cache"))
    os.environ.setdefault("CARGO_HOME", str(Path.home() / ".cargo"))
    os.environ.setdefault("RUSTUP_HOME", str(Path.home() / ".rustup"))
    os.environ.setdefault("GOPATH", str(Path.home() / "go"))
    for name in [one for one in os.environ if one.startswith(_SCRUBBED) or one == "KUBECONFIG"]:
        del os.environ[name]
    home = tempfile.TemporaryDirectory(prefix="towline-home-")
    config.add_cleanup(home.cleanup)
    os.environ["HOME"] = home.name
    os.environ["GIT_CONFIG_NOSYSTEM"] = "1"
    # gRPC writes past Python's standard error, into the middle of the report.
    os.environ["GRPC_VERBOSITY"] = "ERROR"
    # Its handlers may crash what is forked to become another program.
    os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "false"


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Generator[None]:
    """Mark the tests that need clusters, and keep a group of them on one worker of pytest-xdist.

    A cluster costs a tenth of a core at rest: each worker that has one starts its own, and ends it
    behind the group. What a module starts for all its tests keeps them on one worker, too.
    """
    for item in items:
        if any(name in _CLUSTERS for name in getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.cluster)
            group = _GROUPS.get(item.path.parent.name, "agents")
            item.add_marker(pytest.mark.xdist_group(group))
        elif BROWSER in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("console"))
        elif not item.get_closest_marker("xdist_group") and _shares_with_its_module(item):
            item.add_marker(pytest.mark.xdist_group(item.path.stem))
    if config.getoption("loadgroup", False):
        items[:] = mixed(items)
    yield
    for item in items:
        # pytest-xdist 3.8 writes the group behind an id where pytest 9.2 does not look for it.
        if (with_group := getattr(item, "_nodeid", None)) is not None:
            item._id = type(item._id).parse(with_group)


def _shares_with_its_module(item: pytest.Item) -> bool:
    """Whether a test uses a fixture that is made once a module."""
    fixtures = getattr(item, "_fixtureinfo", None)
    made = fixtures.name2fixturedefs.values() if fixtures else ()
    return any(one.scope == "module" for (*_, one) in made)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build Kubernetes before the first test, outside every test's time limit.

    What was imported and collected stays to the end: no look for garbage goes through it.
    """
    gc.freeze()
    gc.enable()
    if session.config.option.collectonly:
        return
    if any(item.get_closest_marker("cluster") for item in session.items):
        binaries.ensure()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail a test that was skipped in CI; show which transactions waited for each other."""
    report = yield
    _refuse_skip(report)
    server = getattr(item, "funcargs", {}).get("postgres")
    if report.failed and isinstance(server, Postgres) and (log_lines := server.deadlocks()):
        report.sections.append(("deadlocks in PostgreSQL", log_lines))
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Fail a module that was skipped in CI."""
    report = yield
    _refuse_skip(report)
    return report


def _refuse_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    if os.environ.get("CI") != "true" or report.outcome != "skipped":
        return
    if hasattr(report, "wasxfail") or not isinstance(report.longrepr, tuple):
        return
    reason = report.longrepr[2].removeprefix("Skipped: ")
    if not reason.startswith(_ALLOWED_SKIPS):
        report.outcome = "failed"
        report.longrepr = f"skipped in CI, where everything must run: {reason}"


@pytest.fixture(scope="session")
def kubernetes() -> Path:
    """The folder of the programs that clusters consist of, kubectl among them."""
    return binaries.ensure()


@pytest.fixture(scope="session")
def cluster(kubernetes: Path) -> Iterator[LocalCluster]:
    """A real cluster, shared by the run: work in a namespace of your own, leave it as it was.

    A pod's port is the same port of this machine where something listens on it.
    """
    with LocalCluster("first", kubernetes, local_ports=True) as running:
        yield running


@pytest.fixture
def namespace(cluster: LocalCluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace of `cluster` for one test, named after it."""
    words = re.findall(r"[a-z0-9]+", request.node.name.removeprefix("test_").lower())
    name = "-".join(words)[:50].strip("-") + f"-{next(_numbers)}"
    cluster.admin.create("/api/v1/namespaces", {"metadata": {"name": name}})
    yield name
    cluster.admin.delete(f"/api/v1/namespaces/{name}")


@pytest.fixture
def bound_groups(cluster: LocalCluster) -> Iterator[None]:
    """Gives the groups of Towline's roles their permissions in `cluster`, for one test."""
    bind_groups(cluster.access)
    yield
    names = (f"towline-demo-{group}" for group in ("admins", "editors", "viewers"))
    cluster.kubectl("delete", "clusterrolebindings", *names)


@pytest.fixture(scope="session")
def second_cluster(kubernetes: Path) -> Iterator[LocalCluster]:
    """Another real cluster, on the same terms as `cluster`."""
    with LocalCluster("second", kubernetes, local_ports=True) as running:
        yield running


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL server; `new_database(template)` makes databases."""
    programs = find_postgres()
    if programs is None:
        pytest.skip(_MISSING.format("PostgreSQL"))
    with Postgres(programs) as server:
        yield server


@pytest.fixture
def postgres_url(postgres: Postgres) -> Iterator[str]:
    """SQLAlchemy URL (asyncpg) of an empty database of the test's own."""
    url = postgres.new_database()
    yield url
    postgres.drop_database(url)


@pytest.fixture(scope="session")
def redis() -> Iterator[Redis]:
    """A Redis-compatible server."""
    program = find_redis()
    if program is None:
        pytest.skip(_MISSING.format("Redis"))
    with Redis(program) as server:
        yield server


@pytest.fixture
def redis_url(redis: Redis) -> str:
    """URL of a Redis that holds nothing yet."""
    redis.flush()
    return redis.url


@pytest.fixture
def git_server() -> Iterator[GitServer]:
    """A git server of the test's own: repositories, credentials, delays and failures at will."""
    with GitServer() as server:
        yield server
