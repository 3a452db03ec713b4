"""The README's first steps, as they stand there, lead to a healthy service of one's own."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.cli.conftest import PROGRAMS
from tests.world.first_hour import EXAMPLE_URL, ROOT, NewUser, repository, steps
from towline.demo.clusters.cluster import LocalCluster
from towline.demo.git_server import GitServer
from towline.demo.ports import free_ports


@pytest.fixture
def cluster(kubernetes: Path) -> Iterator[LocalCluster]:
    with LocalCluster("readme", kubernetes) as cluster:
        yield cluster


@pytest.fixture
def user(
    cluster: LocalCluster, kubernetes: Path, git_server: GitServer, tmp_path: Path
) -> Iterator[NewUser]:
    """Has ports of its own: the README's may be taken on this machine."""
    https, agents = free_ports(2)
    config = tmp_path / "config"
    config.write_text(cluster.kubeconfig.read_text())
    environment = {
        "PATH": f"{PROGRAMS}:{kubernetes}:{os.environ['PATH']}",
        "KUBECONFIG": str(config),
        "TOWLINE_LISTEN": f"127.0.0.1:{https}",
        "TOWLINE_LISTEN_AGENTS": f"127.0.0.1:{agents}",
        "TOWLINE_LISTEN_HTTP": "off",
        "TOWLINE_LISTEN_METRICS": "off",
    }
    replaced = {
        EXAMPLE_URL: repository(git_server).url,
        "127.0.0.1:8443": f"127.0.0.1:{https}",
    }
    user = NewUser(ROOT, tmp_path, environment, replaced)
    yield user
    user.close()


@pytest.mark.timeout(300)
def test_the_readme_leads_to_a_healthy_service(user: NewUser, cluster: LocalCluster) -> None:
    """Five commands, and those that look at the result."""
    assert len(steps(0)) <= 5
    *_, created = user.follow(0)
    assert "HEALTHY" in created.output
    ready = cluster.kubectl(
        "get", "deployment", "web", "-n", "shop", "-o=jsonpath={.status.readyReplicas}"
    )
    assert ready == "1"
    why, manifests, _, _ = user.follow(1)
    assert "✓ healthy" in why.output
    assert "kind: Deployment" in manifests.output
