"""Access of the demo's agents and of Towline's users to a cluster."""

from pathlib import Path

from towline.cluster_join import JoinedCluster, open_cluster
from towline.demo.clusters.access import ClusterAccess

_ROLE = "cluster-admin"


def agent_kubeconfig(access: ClusterAccess, path: Path) -> Path:
    """Creates the agent's service account, and writes a kubeconfig with its token to `path`."""
    cluster = _open(access)
    cluster.create_account(_ROLE)
    cluster.create_kubeconfig(path)
    return path


def bind_groups(access: ClusterAccess) -> None:
    """Gives the groups of Towline's roles their permissions, administrators all of them."""
    _open(access).bind_groups(_ROLE)


def _open(access: ClusterAccess) -> JoinedCluster:
    return open_cluster(access.kubeconfig, access.context, "demo")
