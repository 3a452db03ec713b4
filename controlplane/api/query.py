"""Queries of the API."""

import strawberry

from controlplane.access.api.query import AccessQuery
from controlplane.agents.api.agents import AgentQuery
from controlplane.agents.api.streams import StreamQuery
from controlplane.audit.api.audit_log import AuditQuery
from controlplane.audit.api.blame import BlameQuery
from controlplane.authorization import require_member
from controlplane.cluster_sources.api import ClusterSourceQuery
from controlplane.clusters.api.agent_settings import AgentSettingsQuery
from controlplane.clusters.api.bootstrap_tokens import BootstrapTokenQuery
from controlplane.clusters.api.clusters import ClusterType
from controlplane.clusters.api.groups import ClusterGroupQuery
from controlplane.clusters.api.inputs import TagAttributes
from controlplane.clusters.api.loading import cluster_type, clusters_in_list
from controlplane.clusters.model.cluster import ClusterHealth
from controlplane.clusters.operations.clusters import Clusters
from controlplane.configuration.api.contexts import ContextQuery
from controlplane.configuration.api.flow import FlowQuery
from controlplane.configuration_sources.api import ConfigurationSourceQuery
from controlplane.delivery.api import DiffQuery
from controlplane.generators.api.global_services import GlobalQuery
from controlplane.generators.api.namespaces import NamespaceQuery
from controlplane.generators.api.service_sets import SetQuery
from controlplane.inbox.api import InboxQuery
from controlplane.manifests.api.manifests import ManifestQuery
from controlplane.notifications.api import NotificationQuery
from controlplane.pipelines.api.decisions import DeniedRevisionQuery
from controlplane.pipelines.api.gates import GateMeasurement
from controlplane.pipelines.api.pipelines import PIPELINES
from controlplane.pipelines.api.provenance import ProvenanceQuery
from controlplane.pipelines.api.what_if import WhatIfQuery
from controlplane.pipelines.operations.pipelines import Pipelines
from controlplane.platform.git_ports import ManifestSource
from controlplane.platform.graphql import relay
from controlplane.platform.graphql.context import Info
from controlplane.platform.graphql.resource_fields import each
from controlplane.platform.graphql.selections import selected_fields
from controlplane.reports.api import ReportQuery
from controlplane.repositories.api.registries import HelmRepositoryQuery, OciRepositoryQuery
from controlplane.repositories.api.repositories import GIT
from controlplane.search.api import SearchQuery
from controlplane.secrets.api import SecretQuery
from controlplane.services.api.components import ComponentQuery
from controlplane.services.api.fences import FenceQuery
from controlplane.services.api.loading import service_type, service_types
from controlplane.services.api.types import (
    Installation,
    LedgerEvent,
    RevisionType,
    ServiceDeployment,
)
from controlplane.services.model.status_codes import ServiceStatus, status_codes_of
from controlplane.services.operations.services import Services
from controlplane.views.api import SavedViewQuery
from core import __version__
from core.errors import Invalid

strawberry.enum(ClusterHealth, name="ClusterHealth")


@strawberry.type
class Query(
    ReportQuery,
    SearchQuery,
    AccessQuery,
    AgentQuery,
    StreamQuery,
    DiffQuery,
    ContextQuery,
    SecretQuery,
    FlowQuery,
    AgentSettingsQuery,
    AuditQuery,
    BlameQuery,
    NotificationQuery,
    GlobalQuery,
    SetQuery,
    NamespaceQuery,
    ClusterGroupQuery,
    ComponentQuery,
    DeniedRevisionQuery,
    WhatIfQuery,
    ProvenanceQuery,
    HelmRepositoryQuery,
    OciRepositoryQuery,
    FenceQuery,
    InboxQuery,
    ManifestQuery,
    ClusterSourceQuery,
    ConfigurationSourceQuery,
    BootstrapTokenQuery,
    SavedViewQuery,
):
    """Reads of the installation. Lists contain only resources that the caller may read."""

    @strawberry.field
    async def installation(self, info: Info) -> Installation:
        """Version and addresses of the installation."""
        require_member(info.context.actor)
        context = info.context
        identity = await context[ManifestSource].signing_identity()
        return Installation(
            version=__version__,
            agents_port=context.backend.agents_port,
            cluster_domain=context.backend.cluster_domain or None,
            signing_key=identity.pem,
            signing_key_id=identity.key_id,
            sealing_key=context.backend.sealing_key,
        )

    @strawberry.field
    async def cluster(
        self, info: Info, id: strawberry.ID | None = None, handle: str | None = None
    ) -> ClusterType | None:
        """A cluster, by ID or handle. Selecting `deployToken` creates a new token.

        Args:
            id: ID of the cluster.
            handle: Handle of the cluster. Used without `id`.
        """
        clusters, actor = info.context[Clusters], info.context.actor
        row = await clusters.get(actor, id, handle)
        is_token_selected = "deployToken" in selected_fields(info)
        return await cluster_type(
            info, row, await clusters.deploy_token(actor, row.id) if is_token_selected else None
        )

    @strawberry.field
    async def clusters(
        self,
        info: Info,
        first: int | None = None,
        after: str | None = None,
        q: str | None = None,
        labels: str | None = None,
        last: int | None = None,
        before: str | None = None,
        project_id: strawberry.ID | None = None,
        tags: list[TagAttributes] | None = None,
        health: ClusterHealth | None = None,
        order: relay.ListOrder | None = None,
    ) -> relay.Connection[ClusterType]:
        """Clusters.

        Args:
            q: Text to search for in names and handles. Limit: 200 characters.
            tags: Only clusters with all these tags. Limit: 10.
            health: Only clusters with this connection state.
            order: Sort order. Default: `CREATED`.
        """
        query = relay.page_query(
            first,
            after,
            q,
            labels=labels,
            last=last,
            before=before,
            tags=tags,
            info=info,
            order="handle" if order is relay.ListOrder.NAME else "id",
            project_id=project_id,
        )
        page = await info.context[Clusters].page(info.context.actor, query, health)
        return await relay.connection_of_many(info, page, query, clusters_in_list)

    git_repository = GIT.get
    """A Git repository, by ID or URL."""
    git_repositories = GIT.page
    """Git repositories.

    Args:
        q: Text to search for in URLs. Limit: 200 characters.
    """

    @strawberry.field
    async def service_deployment(
        self,
        info: Info,
        id: strawberry.ID | None = None,
        cluster: str | None = None,
        name: str | None = None,
    ) -> ServiceDeployment | None:
        """A service, by ID, or by cluster and name.

        Args:
            id: ID of the service.
            cluster: Handle of the cluster. Used with `name`.
            name: Name of the service. Used with `cluster`.
        """
        services = info.context[Services]
        if id:
            row = await services.get(info.context.actor, id)
        elif cluster and name:
            row = await services.get_by_name(info.context.actor, cluster, name)
        else:
            raise Invalid("give id, or cluster and name")
        return await service_type(info, row)

    @strawberry.field
    async def service_deployments(
        self,
        info: Info,
        first: int | None = None,
        after: str | None = None,
        q: str | None = None,
        labels: str | None = None,
        cluster_id: strawberry.ID | None = None,
        repository_id: strawberry.ID | None = None,
        last: int | None = None,
        before: str | None = None,
        project_id: strawberry.ID | None = None,
        tags: list[TagAttributes] | None = None,
        status: list[ServiceStatus] | None = None,
        order: relay.ListOrder | None = None,
    ) -> relay.Connection[ServiceDeployment]:
        """Services.

        Args:
            q: Text to search for in names and namespaces. Limit: 200 characters.
            tags: Only services in clusters with all these tags. Limit: 10.
            status: Only services with one of these states.
            order: Sort order. Default: `CREATED`.
        """
        query = relay.page_query(
            first,
            after,
            q,
            labels=labels,
            last=last,
            before=before,
            tags=tags,
            info=info,
            order="name" if order is relay.ListOrder.NAME else "id",
            cluster_id=cluster_id,
            repository_id=repository_id,
            project_id=project_id,
            status_code=status_codes_of(status) if status else None,
        )
        page = await info.context[Services].page(info.context.actor, query)
        return await relay.connection_of_many(info, page, query, service_types)

    @strawberry.field
    async def revisions(
        self,
        info: Info,
        service_id: strawberry.ID,
        first: int | None = None,
        after: str | None = None,
    ) -> relay.Connection[RevisionType]:
        """Revisions of a service, newest first."""
        query = relay.page_query(first, after)
        page = await info.context[Services].revisions(info.context.actor, service_id, query)
        return relay.connection_of(page, query, RevisionType.of)

    @strawberry.field
    async def ledger(
        self,
        info: Info,
        first: int | None = None,
        after: str | None = None,
        service_id: strawberry.ID | None = None,
        cluster_id: strawberry.ID | None = None,
    ) -> relay.Connection[LedgerEvent]:
        """Deployment ledger, newest first."""
        query = relay.page_query(first, after, service_id=service_id, cluster_id=cluster_id)
        page = await info.context[Services].history(info.context.actor, query)
        return relay.connection_of(page, query, LedgerEvent.of)

    pipeline = PIPELINES.get(Pipelines.get)
    """A pipeline, by ID or name."""
    gate_measurements = PIPELINES.related(
        Pipelines.readable_measurements, GateMeasurement, each(GateMeasurement.of)
    )
    """Results of metric queries of a gate, newest last. Limit: 240.

    Args:
        id: ID of the gate.
    """
    pipelines = PIPELINES.page(Pipelines.page)
    """Pipelines."""
