"""Objects of a management cluster become clusters whose agents join, on real API servers.

The test takes the part of Cluster API: it applies the Secret of a ClusterResourceSet to the new
cluster.
"""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.cli.conftest import TOWLINE, Installation
from tests.integration.cli.installed_agent import pod_program
from towline.cli.shell.polling import poll_until
from towline.demo.clusters.cluster import LocalCluster
from towline.demo.ports import free_ports

DOCS = Path(__file__).parents[3] / "docs" / "examples"
DEFINITIONS = Path(__file__).with_name("inventory_definitions.yaml")
pytestmark = pytest.mark.timeout(900)
READY = '{"status": {"initialization": {"controlPlaneInitialized": true}}}'


@pytest.fixture
def hub(kubernetes: Path) -> Iterator[LocalCluster]:
    with LocalCluster("hub", kubernetes) as cluster:
        yield cluster


@pytest.fixture
def workload(kubernetes: Path) -> Iterator[LocalCluster]:
    with LocalCluster("workload", kubernetes) as cluster:
        yield cluster


def capi_cluster(name: str, **labels: str) -> str:
    metadata = {"name": name, "namespace": "fleet", "labels": labels}
    found = {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": metadata}
    return json.dumps(found | {"spec": {"topology": {"version": "v1.36.3"}}})


def members(installation: Installation, name: str = "capi") -> dict[str, Any]:
    """The objects of a source, by name."""
    rows = json.loads(installation.run("cluster-sources", "objects", name, "-o", "json").stdout)
    return {row["name"]: row for row in rows}


def state_until(installation: Installation, name: str, state: str, source: str = "capi") -> Any:
    """Waits until an object of a source has a state."""

    def look() -> Any:
        installation.run("cluster-sources", "sync", source)
        return members(installation, source).get(name, {"state": "absent", "message": ""})

    return poll_until(look, lambda row: row["state"] == state, 150, every=1)


def test_clusters_of_cluster_api_join_by_themselves(
    installation: Installation, hub: LocalCluster, workload: LocalCluster, tmp_path: Path
) -> None:
    hub.kubectl("apply", "-f", str(DEFINITIONS))
    hub.kubectl("create", "namespace", "fleet")
    hub.kubectl("apply", "-f", str(DOCS / "cluster-source-access.yaml"))
    hub.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
    words = ["clusters", "join", "hub-1", "--kubeconfig", str(hub.kubeconfig)]
    words += ["--data", str(tmp_path / "hub")]
    agent = installation.group.spawn(
        [TOWLINE, *words], log=tmp_path / "hub.log", env=installation.environment
    )
    # The address for agents: this installation has no public URL.
    values = f"hub: {{address: '127.0.0.1:{installation.ports[1]}'}}\n"
    settings = {"apiVersion": "towline.io/v1", "kind": "AgentSettings", "metadata": {"name": "all"}}
    settings["spec"] = {"agentValues": values}
    (tmp_path / "settings.yaml").write_text(yaml.safe_dump(settings))
    try:
        poll_until(
            lambda: installation.run("clusters", "list", "-o", "json").stdout,
            lambda text: any(row["pingedAt"] for row in json.loads(text)),
            60,
            every=1,
        )
        installation.run("apply", "-f", str(tmp_path / "settings.yaml"))
        installation.run("apply", "-f", str(DOCS / "cluster-source.yaml"))
        assert installation.run("diff", "-f", str(DOCS / "cluster-source.yaml")).stdout == ""
        check_registration(installation, hub)
        check_joining(installation, hub, workload, tmp_path)
        check_deletion(installation, hub)
        check_profiles(installation, hub)
    finally:
        agent.terminate()
        agent.wait(20)


def check_registration(installation: Installation, hub: LocalCluster) -> None:
    """Selected objects become clusters; a name of somebody else's cluster is a conflict."""
    installation.run("clusters", "create", "taken", "--show-token")
    for name, env in (("eu-1", "prod"), ("eu-2", "other"), ("taken", "test")):
        hub.kubectl("apply", "-f", "-", stdin=capi_cluster(name, env=env))
    row = state_until(installation, "eu-1", "PROVISIONING")
    assert (row["cluster"], row["version"]) == ("eu-1", "v1.36.3")
    found = members(installation)
    assert set(found) == {"eu-1", "taken"}
    assert found["taken"]["state"] == "REFUSED"
    assert "'taken' already exists" in found["taken"]["message"]
    described = json.loads(installation.run("clusters", "get", "eu-1", "-o", "json").stdout)
    tags = {tag["name"]: tag["value"] for tag in described["tags"]}
    assert tags == {"from": "capi", "env": "prod"}
    assert described["pingedAt"] is None
    source = installation.run("cluster-sources", "get", "capi", "-o", "json").stdout
    assert json.loads(source)["result"] == "INCOMPLETE"
    hub.kubectl("delete", "clusters.cluster.x-k8s.io", "taken", "-n", "fleet")


def check_joining(
    installation: Installation, hub: LocalCluster, workload: LocalCluster, folder: Path
) -> None:
    """The delivered token joins this cluster alone; afterwards nothing is left of it."""
    patch = ("patch", "clusters.cluster.x-k8s.io", "eu-1", "-n", "fleet")
    hub.kubectl(*patch, "--subresource=status", "--type=merge", "-p", READY)
    state_until(installation, "eu-1", "JOINING")

    def read(kind: str, name: str = "towline-join-eu-1") -> Any:
        return json.loads(hub.kubectl("get", kind, name, "-n", "fleet", "-o", "json"))

    # The state comes before the delivery, whose last step is the label.
    labels = poll_until(
        lambda: read("clusters.cluster.x-k8s.io", "eu-1")["metadata"]["labels"],
        lambda labels: "towline.io/join" in labels,
        30,
    )
    given = read("clusterresourcesets.addons.cluster.x-k8s.io")["spec"]
    assert given["clusterSelector"]["matchLabels"].items() <= labels.items()
    assert given["resources"] == [{"kind": "Secret", "name": "towline-join-eu-1"}]
    secret = read("secret")
    assert secret["type"] == "addons.cluster.x-k8s.io/resource-set"
    manifests = base64.b64decode(secret["data"]["agent.yaml"]).decode()
    workload.kubectl("apply", "-f", "-", stdin=manifests)

    (port,) = free_ports(1)
    (folder / "agent").mkdir()
    argv, variables = pod_program(workload, folder / "agent", port)
    log = folder / "agent.log"
    environment = {"PATH": installation.environment["PATH"], **variables}
    program = installation.group.spawn([TOWLINE, *argv], log=log, env=environment)
    try:
        state_until(installation, "eu-1", "CONNECTED")
        poll_until(
            lambda: hub.kubectl("get", "secrets", "-n", "fleet", "-o", "name"),
            lambda names: "towline-join" not in names,
            30,
        )
        left = hub.kubectl("get", "clusterresourcesets.addons.cluster.x-k8s.io", "-A", "-o", "name")
        assert left == ""
        assert (
            "towline.io/join" not in read("clusters.cluster.x-k8s.io", "eu-1")["metadata"]["labels"]
        )
        tokens = installation.run("clusters", "bootstrap-tokens", "list", "-o", "json").stdout
        assert json.loads(tokens) == []
        described = json.loads(installation.run("clusters", "get", "eu-1", "-o", "json").stdout)
        assert described["currentVersion"].startswith("v1.")
    finally:
        program.terminate()
        assert program.wait(20) == 0, log.read_text()


def check_deletion(installation: Installation, hub: LocalCluster) -> None:
    """A deleted object leaves its cluster, which the source calls gone."""
    hub.kubectl("delete", "clusters.cluster.x-k8s.io", "eu-1", "-n", "fleet")
    row = state_until(installation, "eu-1", "GONE")
    assert row["cluster"] == "eu-1" and row["goneAt"] is not None
    assert "eu-1" in installation.run("clusters", "list", "-o", "name").stdout.split()


def check_profiles(installation: Installation, hub: LocalCluster) -> None:
    """A ClusterProfile gives a record, and shows version and properties."""
    metadata = {"name": "edge-1", "namespace": "fleet"}
    kind = {"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ClusterProfile"}
    spec = {"clusterManager": {"name": "m"}}
    hub.kubectl("apply", "-f", "-", stdin=json.dumps({**kind, "metadata": metadata, "spec": spec}))
    status = {
        "version": {"kubernetes": "v1.35.1"},
        "properties": [{"name": "location", "value": "eu-west"}],
    }
    words = ("patch", "clusterprofiles.multicluster.x-k8s.io", "edge-1", "-n", "fleet")
    merge = ("--subresource=status", "--type=merge", "-p", json.dumps({"status": status}))
    hub.kubectl(*words, *merge)
    installation.run(
        *("cluster-sources", "create", "profiles", "--cluster", "hub-1"),
        *("--service-account", "cluster-source@service-accounts"),
        *("--inventory", "cluster-profile", "--name-template", "inventory-{name}"),
    )
    row = state_until(installation, "edge-1", "AWAITING_AGENT", "profiles")
    assert (row["cluster"], row["version"]) == ("inventory-edge-1", "v1.35.1")
    assert row["properties"] == [{"name": "location", "value": "eu-west"}]
    table = installation.run("cluster-sources", "objects", "profiles").stdout
    assert "towline clusters join inventory-edge-1 --print --adopt" in table
