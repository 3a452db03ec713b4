"""Helm itself installs, upgrades and removes the charts."""

import base64
from typing import Any

from tests.integration.charts.conftest import listed
from tests.unit.charts.rendering import CHARTS, Json, values_of
from towline.demo.clusters.cluster import LocalCluster


def test_an_agent_is_installed_upgraded_and_removed(
    cluster: LocalCluster, namespace: str, releases: Any
) -> None:
    """A new token brings a new pod, alone; nothing stays behind, cluster-wide objects included."""
    name = f"agent-{namespace.rpartition('-')[2]}"
    label = f"app.kubernetes.io/instance={name}"
    patiently = {"namespace": namespace, "wait": "watcher", "timeout": 50}
    values = values_of("towline-agent", "default")
    try:
        releases.install(CHARTS / "towline-agent", name, values, **patiently)
        (first,) = listed(cluster, "pods", "-n", namespace)
        values["secrets"]["deployToken"] = "twa_other"
        releases.upgrade(CHARTS / "towline-agent", name, values, **patiently)
        (secret,) = listed(cluster, "secrets", "-n", namespace, "-l", label)
        assert base64.b64decode(secret["data"]["deployToken"]) == b"twa_other"
        pods = listed(cluster, "pods", "-n", namespace)
        (second,) = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
        assert second["metadata"]["uid"] != first["metadata"]["uid"]
    finally:
        releases.uninstall(name, ignore_not_found=True)
    kinds = "clusterroles,clusterrolebindings,deployments,secrets,serviceaccounts,networkpolicies"
    left = listed(cluster, kinds, "-A", "-l", label)
    assert [one for one in left if "deletionTimestamp" not in one["metadata"]] == []


def test_passwords_of_a_trial_stay_as_they_are(
    cluster: LocalCluster, namespace: str, releases: Any
) -> None:
    """By an upgrade, and, as the database's volume, over a removal: the next release gets in."""
    name = f"try-{namespace.rpartition('-')[2]}"
    label = f"app.kubernetes.io/instance={name}"
    values = values_of("towline", "trial")

    def passwords() -> dict[str, Json]:
        found = listed(cluster, "secrets", "-n", namespace, "-l", label)
        return {one["metadata"]["name"]: one["data"] for one in found}

    releases.install(CHARTS / "towline", name, values, namespace=namespace)
    made = passwords()
    assert set(made) == {f"{name}-towline-postgresql", f"{name}-towline-redis"}
    releases.upgrade(CHARTS / "towline", name, {**values, "logLevel": "debug"}, namespace=namespace)
    assert passwords() == made
    releases.uninstall(name)
    assert set(passwords()) == {f"{name}-towline-postgresql"}
    releases.install(CHARTS / "towline", name, values, namespace=namespace)
    again = passwords()
    releases.uninstall(name)
    assert again[f"{name}-towline-postgresql"] == made[f"{name}-towline-postgresql"]
    assert again[f"{name}-towline-redis"] != made[f"{name}-towline-redis"]


def test_the_data_outlives_the_control_plane(
    cluster: LocalCluster, namespace: str, releases: Any
) -> None:
    """Removing the release keeps the claim with store and keys, and nothing else."""
    name = f"hub-{namespace.rpartition('-')[2]}"
    label = f"app.kubernetes.io/instance={name}"
    releases.install(CHARTS / "towline", name, {}, namespace=namespace)
    claim = f"persistentvolumeclaim/data-{name}-towline-0"
    cluster.kubectl("-n", namespace, "wait", "--for=create", claim, "--timeout=50s")
    releases.uninstall(name)
    kinds = "persistentvolumeclaims,services,statefulsets,configmaps,serviceaccounts"
    left = listed(cluster, kinds, "-n", namespace, "-l", label)
    staying = [one["kind"] for one in left if "deletionTimestamp" not in one["metadata"]]
    assert staying == ["PersistentVolumeClaim"]
