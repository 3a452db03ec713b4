"""Ports of cluster sources: their rows, the management cluster, and the agent's manifests."""

from collections.abc import Collection
from typing import Protocol

from controlplane.authorization import Actor
from controlplane.cluster_sources.model.members import ClusterSourceMember
from controlplane.cluster_sources.model.source import ClusterSource
from controlplane.clusters.model.agent_settings import EffectiveAgentSettings
from controlplane.clusters.model.cluster import Cluster
from controlplane.platform.ports import NamedRows, ProjectRows, Rows
from core.json_object import JsonMapping


class ClusterSourceStore(NamedRows[ClusterSource], ProjectRows[ClusterSource], Protocol):
    """Cluster sources."""


class ClusterSourceMemberStore(Rows[ClusterSourceMember], Protocol):
    """Objects of cluster sources."""

    async def of_source(self, source_id: str) -> list[ClusterSourceMember]:
        return await self.select(source_id=source_id)

    async def delivered(self, uids: Collection[str]) -> list[ClusterSourceMember]:
        """Returns those of some objects to which a source has delivered an agent."""
        return [row for row in await self.select(uid=uids) if row.token_id]


class ManagementCluster(Protocol):
    """The API of a management cluster, used with the permissions of a service account.

    `handle` names the cluster, `path` an object or a list. All methods raise NotFound or Forbidden
    as the cluster or the Kubernetes proxy answers, Unavailable if it does not answer.
    """

    async def read(self, actor: Actor, handle: str, path: str) -> JsonMapping:
        """Returns the JSON at a path. LimitExceeded: it is too long."""
        ...

    async def apply(self, actor: Actor, handle: str, path: str, manifest: JsonMapping) -> None:
        """Creates or changes an object by server-side apply."""
        ...

    async def patch(self, actor: Actor, handle: str, path: str, change: JsonMapping) -> None:
        """Changes an existing object by a JSON merge patch."""
        ...

    async def delete(self, actor: Actor, handle: str, path: str) -> None:
        """Deletes an object. An object that does not exist is no error."""
        ...


class AgentManifests(Protocol):
    """The agent's chart, rendered for one cluster."""

    async def render(
        self, cluster: Cluster, token: str, settings: EffectiveAgentSettings | None
    ) -> str:
        """Returns YAML documents that install an agent with a bootstrap token, the namespace
        first. Invalid: the chart or the settings of agents cannot be rendered, or the address for
        agents is unknown.
        """
        ...
