"""Ports of clusters: what its operations need of the store and of the world."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from controlplane.authorization import Actor
from controlplane.clusters.model.agent_settings import AgentSettings
from controlplane.clusters.model.bootstrap_tokens import BootstrapToken
from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.model.commands import Command, CommandKind, CommandState
from controlplane.clusters.model.groups import MAX_CHANGING_CLUSTERS, ClusterGroup
from controlplane.platform.context import OperationContext
from controlplane.platform.labels import LabelRequirement
from controlplane.platform.ports import DeletableRows, Ids, NamedRows, ProjectRows, Rows
from core.spec.sync import Removal


class ClusterStore(DeletableRows[Cluster], ProjectRows[Cluster], Protocol):
    """Clusters."""

    async def by_handle(self, handle: str) -> Cluster | None:
        return await self.find(handle=handle)

    async def by_handles(self, handles: Collection[str]) -> list[Cluster]:
        return await self.select(handle=handles)

    async def of_uid(self, kubernetes_uid: str) -> Cluster | None:
        return await self.find(kubernetes_uid=kubernetes_uid)

    async def joined_with(self, bootstrap_token_id: str) -> list[Cluster]:
        return await self.select(bootstrap_token_id=bootstrap_token_id)

    async def not_ending(self) -> list[Cluster]:
        return await self.select(ending_at=None)

    async def tagged(
        self, requirements: Sequence[LabelRequirement], project_id: str | None
    ) -> list[Cluster]:
        """Returns clusters whose tags meet all requirements, of one project or of all."""
        tags = await self.column("tags")
        ids = [
            id
            for id, tags_of_cluster in tags.items()
            if all(requirement.matches(tags_of_cluster) for requirement in requirements)
        ]
        return [row for row in await self.by_ids(ids) if project_id in (None, row.project_id)]

    async def set_alarm(self, id: str, text: str) -> None:
        await self.change(id, alarm=text)

    async def begin_removal(self, id: str, at: datetime) -> None:
        await self.change(id, ending_at=at)

    async def delete(self, id: str, at: datetime) -> None:
        await self.change(id, deleted_at=at)


class BootstrapTokenStore(Rows[BootstrapToken], Protocol):
    """Bootstrap tokens."""

    async def by_hash(self, hash: str) -> BootstrapToken | None:
        return await self.find(hash=hash)


class AgentSettingsStore(NamedRows[AgentSettings], Protocol):
    """Settings of agents."""


class CommandStore(Rows[Command], Protocol):
    """Commands to agents."""

    async def in_cluster(self, id: str, cluster_id: str) -> Command | None:
        return await self.find(id=id, cluster_id=cluster_id)

    async def waiting(self, clusters: Ids) -> list[Command]:
        return await self.select(cluster_id=clusters, state=CommandState.WAITING)

    async def of_kind(self, clusters: Ids, kind: CommandKind) -> list[Command]:
        return await self.select(cluster_id=clusters, kind=kind)

    async def waiting_of_kind(self, clusters: Ids, kind: CommandKind) -> list[Command]:
        return await self.select(cluster_id=clusters, state=CommandState.WAITING, kind=kind)

    async def set_payload(self, id: str, payload: Mapping[str, object]) -> None:
        await self.change(id, payload=payload)


class ClusterGroupStore(NamedRows[ClusterGroup], ProjectRows[ClusterGroup], Protocol):
    """Groups of clusters."""

    async def with_budget(self) -> list[ClusterGroup]:
        """Returns the groups that limit how many clusters pipelines change at the same time."""
        return await self.select(max_changing=range(1, MAX_CHANGING_CLUSTERS + 1))

    async def frozen(self) -> list[ClusterGroup]:
        return await self.select(frozen=True)


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

    async def delete_cluster_if_empty(
        self, cluster_id: str, now: datetime, *, forced: bool
    ) -> list[str]:
        """Deletes a cluster that is ending and has no services; returns ids of revoked tokens."""
        ...


class GroupUsers(Protocol):
    """Definitions that select clusters by a group."""

    async def first_user(self, group_id: str) -> str:
        """Returns the noun and name of one that does, such as `pipeline 'web'`; or nothing."""
        ...
