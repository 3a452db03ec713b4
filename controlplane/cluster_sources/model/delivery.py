"""Manifests in the management cluster that let Cluster API install an agent.

A Secret has the agent's manifests with a bootstrap token, and a ClusterResourceSet of Cluster API
selects one cluster by a label. Cluster API applies it with the kubeconfig that it already has.
"""

import base64
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from controlplane.cluster_sources.model.inventory import InventoryApi, InventoryObject
from core.json_object import JsonMapping, JsonObject

RESOURCE_SETS: Final = InventoryApi(
    "addons.cluster.x-k8s.io", ("v1beta2", "v1beta1"), "clusterresourcesets", "ClusterResourceSet"
)
JOIN_LABEL: Final = "towline.io/join"
"""Label of an object that selects it for its ClusterResourceSet: its UID."""
SOURCE_LABEL: Final = "towline.io/cluster-source"
"""Label of all objects that a source creates: its name."""
_PREFIX = "towline-join-"
_SECRET_TYPE = "addons.cluster.x-k8s.io/resource-set"


@dataclass(frozen=True, slots=True)
class AgentDelivery:
    """The objects that bring an agent to the cluster of one object."""

    source_name: str
    item: InventoryObject
    version: str
    """Version of addons.cluster.x-k8s.io."""

    @property
    def name(self) -> str:
        """Returns the name of the Secret and the ClusterResourceSet."""
        return f"{_PREFIX}{self.item.name}"

    @property
    def secret_path(self) -> str:
        """Returns the path of the Secret."""
        return f"/api/v1/namespaces/{self._namespace}/secrets/{quote(self.name, safe='')}"

    @property
    def set_path(self) -> str:
        """Returns the path of the ClusterResourceSet."""
        group = f"/apis/{RESOURCE_SETS.group}/{self.version}"
        namespace = f"{group}/namespaces/{self._namespace}"
        return f"{namespace}/{RESOURCE_SETS.plural}/{quote(self.name, safe='')}"

    @property
    def object_path(self) -> str:
        """Returns the path of the object itself."""
        group = f"/apis/{self.item.api_version}/namespaces/{self._namespace}"
        return f"{group}/clusters/{quote(self.item.name, safe='')}"

    def secret(self, manifests: str) -> JsonObject:
        """Returns the Secret with the agent's manifests."""
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": self._metadata,
            "type": _SECRET_TYPE,
            "data": {"agent.yaml": base64.b64encode(manifests.encode()).decode()},
        }

    @property
    def resource_set(self) -> JsonObject:
        """Returns the ClusterResourceSet. `Reconcile` replaces an expired token."""
        return {
            "apiVersion": f"{RESOURCE_SETS.group}/{self.version}",
            "kind": RESOURCE_SETS.kind,
            "metadata": self._metadata,
            "spec": {
                "strategy": "Reconcile",
                "clusterSelector": {"matchLabels": {JOIN_LABEL: self.item.uid}},
                "resources": [{"kind": "Secret", "name": self.name}],
            },
        }

    def label(self, *, selected: bool) -> JsonMapping:
        """Returns the merge patch that adds or removes the label of the object."""
        value = self.item.uid if selected else None
        return {"metadata": {"labels": {JOIN_LABEL: value}}}

    @property
    def _namespace(self) -> str:
        return quote(self.item.namespace, safe="")

    @property
    def _metadata(self) -> JsonObject:
        item = self.item
        owner = {
            "apiVersion": item.api_version,
            "kind": "Cluster",
            "name": item.name,
            "uid": item.uid,
        }
        return {
            "name": self.name,
            "namespace": item.namespace,
            "labels": {SOURCE_LABEL: self.source_name},
            "ownerReferences": [owner],
        }
