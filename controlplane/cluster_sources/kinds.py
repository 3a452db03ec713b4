"""The kind of manifests of cluster sources."""

from controlplane.cluster_sources.model.source import ClusterSource
from controlplane.cluster_sources.operations.sources import ClusterSourceChange
from controlplane.cluster_sources.ports import ClusterSourceStore
from controlplane.platform.kinds import OperatedKind
from controlplane.platform.names import LABEL_NAME


class ClusterSourceKind(OperatedKind[ClusterSource]):
    """Objects in a management cluster whose clusters are registered."""

    name = "ClusterSource"
    name_form = LABEL_NAME
    change = ClusterSourceChange
    port = ClusterSourceStore
    model = ClusterSource
    hidden = ("name", "project_id")
    references = {"ClusterSourceSettings.service_account_id": "User"}
