"""Fills ports of lower nouns with what higher nouns know.

A noun imports only the nouns below it. Where it needs one above, it declares a port, and this
module fills the port: `tx[ClusterContents]` is a `ServicesOfCluster`, and `Services` gets
`SERVICE_PARTS`.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from controlplane.access.ports import GroupStore, ProjectStore, ResourceDirectory, UserStore
from controlplane.agents.ports import ClusterJobStore
from controlplane.authorization import Actor, Resource, ResourceKind, Verb, require
from controlplane.cluster_sources.ports import ClusterSourceStore
from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.ports import (
    AgentSettingsStore,
    ClusterContents,
    ClusterGroupStore,
    ClusterStore,
    GroupUsers,
)
from controlplane.configuration.operations.contexts import bind_contexts
from controlplane.configuration.operations.imports import check_not_imported, delete_flow
from controlplane.configuration.ports import ContextStore
from controlplane.configuration_sources.operations.sources import require_permissions_of_account
from controlplane.configuration_sources.ports import ConfigurationSourceStore
from controlplane.generators.operations.reconciler import generator_table
from controlplane.generators.operations.template_ownership import (
    check_changeable,
    check_deletable,
    prefetch_sources,
)
from controlplane.generators.ports import GlobalServiceStore, ManagedNamespaceStore, ServiceSetStore
from controlplane.manifests.ports import DeclaredResourceStore
from controlplane.notifications.ports import ResourceLabels, SinkStore
from controlplane.pipelines.engine import codec
from controlplane.pipelines.operations.gate_secrets import SealedGates
from controlplane.pipelines.operations.stages import promoting_pipeline_name
from controlplane.pipelines.operations.trigger_rows import SEAL_CONTEXT
from controlplane.pipelines.ports import PipelineStore, PipelineTriggerStore
from controlplane.platform.context import OperationContext
from controlplane.platform.labels import LabelRequirement
from controlplane.platform.ports import ProjectRows, ReadableRows, Transaction
from controlplane.platform.references import found
from controlplane.repositories.ports import FollowedFiles, RepositoryStore, RepositoryUsers
from controlplane.secrets.operations.sealed_columns import SealedColumn
from controlplane.secrets.operations.uses import set_uses
from controlplane.secrets.ports import SealedTable, SealedTables, SecretStore, SecretVersionStore
from controlplane.services.model.service import OwnerKind
from controlplane.services.operations.removal import begin_removal, delete_cluster_if_empty
from controlplane.services.ports import (
    FlowStore,
    RenderStateStore,
    ServiceParts,
    ServiceSourceStore,
    ServiceStore,
)
from controlplane.views.ports import SavedViewStore
from core.spec.sync import Removal

_STORES: Mapping[ResourceKind, type[ReadableRows[Any]]] = {
    ResourceKind.PROJECT: ProjectStore,
    ResourceKind.CLUSTER: ClusterStore,
    ResourceKind.SERVICE: ServiceStore,
    ResourceKind.PIPELINE: PipelineStore,
    ResourceKind.REPOSITORY: RepositoryStore,
    ResourceKind.SECRET: SecretStore,
    ResourceKind.CONFIGURATION_SOURCE: ConfigurationSourceStore,
    ResourceKind.USER: UserStore,
    ResourceKind.GROUP: GroupStore,
}
_IN_PROJECTS: Mapping[str, type[ProjectRows[Any]]] = {
    "clusters": ClusterStore,
    "repositories": RepositoryStore,
    "pipelines": PipelineStore,
    "cluster groups": ClusterGroupStore,
    "global services": GlobalServiceStore,
    "service sets": ServiceSetStore,
    "managed namespaces": ManagedNamespaceStore,
    "service contexts": ContextStore,
    "secrets": SecretStore,
    "configuration sources": ConfigurationSourceStore,
    "cluster sources": ClusterSourceStore,
    "shared views": SavedViewStore,
}


@dataclass(frozen=True, slots=True)
class _Bridge:
    """A port in one transaction."""

    tx: Transaction


class StoredResources(_Bridge):
    """Implements `ResourceDirectory`."""

    async def find(self, kind: ResourceKind, id: str, *, locked: bool) -> Resource | None:
        store = _STORES.get(kind)
        if store is None:
            return Resource.whole(kind, id)
        rows = self.tx[store]
        deleted = {"deleted": True} if kind is ResourceKind.SERVICE else {}
        row = await (rows.get if locked else rows.peek)(id, **deleted)
        return None if row is None else row.target

    async def find_each(self, kind: ResourceKind, ids: Collection[str]) -> Mapping[str, Resource]:
        store = _STORES.get(kind)
        if store is None:
            return {id: Resource.whole(kind, id) for id in ids}
        deleted = {"deleted": True} if kind is ResourceKind.SERVICE else {}
        return {row.id: row.target for row in await self.tx[store].by_ids(ids, **deleted)}

    async def tagged_clusters(
        self, wanted: Sequence[LabelRequirement], project_id: str | None
    ) -> Sequence[str]:
        return [row.id for row in await self.tx[ClusterStore].tagged(wanted, project_id)]

    async def project_contents(self, project_id: str) -> str:
        for nouns, store in _IN_PROJECTS.items():
            if rows := await self.tx[store].of_project(project_id):
                return f"{len(rows)} {nouns}"
        return ""


class ServicesOfCluster(_Bridge):
    """Implements `ClusterContents`."""

    async def begin_removal(
        self, context: OperationContext, actor: Actor, cluster: Cluster, removal: Removal
    ) -> None:
        for service in await self.tx[ServiceStore].of_clusters(cluster.id):
            await begin_removal(context, self.tx, actor, service, removal, cluster)

    async def mark_for_render(self, cluster_id: str) -> set[str]:
        services = self.tx[ServiceStore]
        repositories = set()
        for service in await services.of_clusters(cluster_id):
            await services.mark_for_render(service.id)
            if service.repository_id:
                repositories.add(service.repository_id)
        return repositories

    async def delete_cluster_if_empty(
        self, cluster_id: str, now: datetime, *, forced: bool
    ) -> list[str]:
        return await delete_cluster_if_empty(self.tx, cluster_id, now, forced=forced)


class DefinitionsOfGroup(_Bridge):
    """Implements `GroupUsers` with settings of agents, generators and pipelines."""

    async def first_user(self, group_id: str) -> str:
        for settings in await self.tx[AgentSettingsStore].all():
            if group_id in settings.spec.selector.groups:
                return f"settings of agents {settings.name!r}"
        for kind in OwnerKind:
            for definition in await generator_table(self.tx, kind).all():
                if group_id in definition.selector.groups:
                    return f"{kind.noun} {definition.name!r}"
        for row in await self.tx[PipelineStore].all():
            if group_id in codec.pipeline_from_json(row.spec).groups:
                return f"pipeline {row.name!r}"
        return ""


class UsersOfRepository(_Bridge):
    """Implements `RepositoryUsers` with services, their further sources and configuration
    sources."""

    async def followed(self, repository_id: str | None = None) -> Mapping[str, FollowedFiles]:
        states, sources = self.tx[RenderStateStore], self.tx[ServiceSourceStore]
        configuration = self.tx[ConfigurationSourceStore]
        if repository_id is None:
            found, further = await states.all(), await sources.all()
            configured = await configuration.all()
        else:
            found = await states.of_repository(repository_id)
            further = await sources.of_repository(repository_id)
            configured = await configuration.of_repository(repository_id)
        refs: dict[str, set[str]] = {}
        folders: dict[str, set[str]] = {}
        for service in found:
            id = service.repository_id or ""
            refs.setdefault(id, set()).update(service.refs)
            # Services that agents render need the refs, to detect changes, but not the files.
            if service.rendered_by is None:
                folders.setdefault(id, set()).update(service.paths)
        for source in further:
            refs.setdefault(source.repository_id, set()).add(source.ref)
            folders.setdefault(source.repository_id, set()).add(source.folder)
        for settings in (row.settings for row in configured):
            refs.setdefault(settings.repository_id, set()).add(settings.ref)
            folders.setdefault(settings.repository_id, set()).add(settings.folder)
        return {
            id: FollowedFiles(frozenset(found), frozenset(folders.get(id, ())))
            for id, found in refs.items()
        }

    async def followed_ref(self, service_id: str) -> str | None:
        service = await self.tx[RenderStateStore].get(service_id)
        return None if service is None else service.target_ref

    async def service_names(self, repository_id: str) -> list[str]:
        services = self.tx[ServiceStore]
        users = await services.of_repository_with_deleted(repository_id)
        sources = await self.tx[ServiceSourceStore].of_repository(repository_id)
        users += await services.by_ids({source.service_id for source in sources})
        return list({service.id: service.name for service in users}.values())

    async def followers(self, repository_id: str) -> list[str]:
        found = await self.tx[ConfigurationSourceStore].of_repository(repository_id)
        return [source.name for source in found]

    async def check_change(self, actor: Actor, repository_id: str, now: datetime) -> None:
        for source in await self.tx[ConfigurationSourceStore].of_repository(repository_id):
            await require_permissions_of_account(self.tx, actor, source, now)

    async def check_network(self, actor: Actor, cluster_id: str) -> None:
        cluster = found(await self.tx[ClusterStore].peek(cluster_id), ResourceKind.CLUSTER)
        require(actor, Verb.WRITE, cluster.target)


class FlowsOfService(_Bridge):
    """Implements `FlowStore`."""

    async def delete_flow(self, service_id: str) -> None:
        await delete_flow(self.tx, service_id)


class AllSealedTables(_Bridge):
    """Implements `SealedTables`."""

    def all(self) -> Sequence[SealedTable]:
        tx = self.tx
        return (
            SealedColumn(tx[RepositoryStore], "sealed", "repository"),
            SealedColumn(tx[RepositoryStore], "sealed_webhook", "webhook"),
            SealedColumn(tx[ContextStore], "sealed", "context"),
            SealedColumn(tx[ClusterJobStore], "sealed", "cluster-job"),
            SealedColumn(tx[SinkStore], "sealed", "sink"),
            SealedColumn(tx[SecretVersionStore], "sealed", "secret"),
            SealedColumn(tx[PipelineTriggerStore], "sealed_webhook", SEAL_CONTEXT),
            SealedGates(tx[PipelineStore]),
        )


class LabelsOfManifests(_Bridge):
    """Implements `ResourceLabels`."""

    async def of(self, ids: Collection[str]) -> Mapping[str, Mapping[str, str]]:
        return await self.tx[DeclaredResourceStore].column("labels", ids)


BRIDGES: Mapping[type[Any], Callable[[Any], object]] = {
    ResourceDirectory: StoredResources,
    ClusterContents: ServicesOfCluster,
    GroupUsers: DefinitionsOfGroup,
    RepositoryUsers: UsersOfRepository,
    ResourceLabels: LabelsOfManifests,
    FlowStore: FlowsOfService,
    SealedTables: AllSealedTables,
}
"""Makes each bridge in a transaction."""

SERVICE_PARTS = ServiceParts(
    bind_contexts,
    set_uses,
    check_changeable,
    (check_deletable, check_not_imported),
    promoting_pipeline_name,
    prefetch_sources,
)
