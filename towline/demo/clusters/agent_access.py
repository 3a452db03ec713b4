"""Service accounts of the demo's agents, and kubeconfigs with their tokens."""

from pathlib import Path

from towline.cluster_join import open_cluster
from towline.demo.clusters.access import ClusterAccess


def agent_kubeconfig(access: ClusterAccess, path: Path) -> Path:
    """Creates the agent's service account, and writes a kubeconfig with its token to `path`."""
    cluster = open_cluster(access.kubeconfig, access.context, "demo")
    cluster.create_objects("cluster-admin", "cluster-admin")
    cluster.create_kubeconfig(path)
    return path
