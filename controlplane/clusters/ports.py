"""Ports of clusters: what its operations need of the store and of the world."""

from datetime import datetime
from typing import Protocol

from controlplane.authorization import Actor
from controlplane.clusters.model.agent_settings import DeploymentSettings
from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.model.commands import Command
from controlplane.clusters.model.groups import ClusterGroup
from controlplane.platform.context import OperationContext
from controlplane.platform.ports import Rows
from core.spec.sync import Removal


class ClusterStore(Rows[Cluster], Protocol):
    """Clusters."""


class DeploymentSettingsStore(Rows[DeploymentSettings], Protocol):
    """Settings of agents, one row."""


class CommandStore(Rows[Command], Protocol):
    """Commands to agents."""


class ClusterGroupStore(Rows[ClusterGroup], Protocol):
    """Groups of clusters."""


class ClusterContents(Protocol):
    """The services of a cluster."""

    async def begin_removal(
        self, context: OperationContext, actor: Actor, cluster: Cluster, removal: Removal
    ) -> None:
        """Marks all services of a cluster as deleted. Conflict: a service is protected."""
        ...

    async def mark_for_render(self, cluster_id: str) -> set[str]:
        """Marks the services of a cluster; returns the ids of their repositories."""
        ...

    async def end_if_empty(self, cluster_id: str, now: datetime, *, forced: bool) -> list[str]:
        """Deletes a cluster that is ending and has no services; returns ids of revoked tokens."""
        ...


class GroupUsers(Protocol):
    """Definitions that select clusters by a group."""

    async def first_user(self, group_id: str) -> str:
        """Returns the noun and name of one that does, such as `pipeline 'web'`; or nothing."""
        ...
