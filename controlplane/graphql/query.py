"""Queries of the API."""

import strawberry

from controlplane.domain.access import require_member
from controlplane.domain.clusters import ClusterHealth
from controlplane.domain.marks import status_codes_of
from controlplane.domain.services import ServiceStatus
from controlplane.graphql import relay
from controlplane.graphql.access_query import AccessQuery
from controlplane.graphql.agents import AgentQuery
from controlplane.graphql.audit import AuditQuery
from controlplane.graphql.clusters import ClusterType
from controlplane.graphql.context import Info
from controlplane.graphql.contexts import ContextQuery
from controlplane.graphql.deployment import DeploymentQuery
from controlplane.graphql.diffs import DiffQuery
from controlplane.graphql.fleet import FleetQuery
from controlplane.graphql.flow import FlowQuery
from controlplane.graphql.gates import GateMeasurement
from controlplane.graphql.helmrepositories import HelmRepositoryQuery
from controlplane.graphql.inputs import TagAttributes
from controlplane.graphql.ledger import ReportQuery
from controlplane.graphql.notifications import NotificationQuery
from controlplane.graphql.pipeline_overrides import PipelineOverrideQuery
from controlplane.graphql.pipelines import PipelineType
from controlplane.graphql.repositories import GitRepository
from controlplane.graphql.search import SearchQuery
from controlplane.graphql.secrets import SecretQuery
from controlplane.graphql.selections import selected_fields
from controlplane.graphql.services import cluster_type, cluster_types, service_type, service_types
from controlplane.graphql.streams import StreamQuery
from controlplane.graphql.types import Installation, LedgerEvent, RevisionType, ServiceDeployment
from controlplane.graphql.whatif import WhatIfQuery
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
    DeploymentQuery,
    AuditQuery,
    NotificationQuery,
    FleetQuery,
    PipelineOverrideQuery,
    WhatIfQuery,
    HelmRepositoryQuery,
):
    """Reads of the installation. Lists contain only resources that the caller may read."""

    @strawberry.field
    async def installation(self, info: Info) -> Installation:
        """Version and addresses of the installation."""
        require_member(info.context.actor)
        verbs = info.context.verbs
        return Installation(
            version=__version__,
            agents_port=verbs.agents_port,
            signing_key=verbs.signing_key or None,
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
        clusters, actor = info.context.verbs.clusters, info.context.actor
        row = await clusters.get(actor, id, handle)
        asked = "deployToken" in selected_fields(info)
        return await cluster_type(
            info, row, await clusters.deploy_token(actor, row.id) if asked else None
        )

    @strawberry.field
    async def clusters(
        self,
        info: Info,
        first: int | None = None,
        after: str | None = None,
        q: str | None = None,
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
        asked = relay.page_query(
            first,
            after,
            q,
            last=last,
            before=before,
            tags=tags,
            info=info,
            order="handle" if order is relay.ListOrder.NAME else "id",
            project_id=project_id,
        )
        page = await info.context.verbs.clusters.page(info.context.actor, asked, health)
        nodes = list(
            (await cluster_types(info.context, page.items, selected_fields(info))).values()
        )
        return relay.connection(nodes, page.more, asked, lambda node: node.id, page.count)

    @strawberry.field
    async def git_repository(
        self, info: Info, id: strawberry.ID | None = None, url: str | None = None
    ) -> GitRepository | None:
        """A Git repository, by ID or URL.

        Args:
            id: ID of the repository.
            url: Exact URL. Used without `id`.
        """
        verbs = info.context.verbs
        return GitRepository.of(await verbs.repositories.get(info.context.actor, id, url))

    @strawberry.field
    async def git_repositories(
        self,
        info: Info,
        first: int | None = None,
        after: str | None = None,
        q: str | None = None,
    ) -> relay.Connection[GitRepository]:
        """Git repositories.

        Args:
            q: Text to search for in URLs. Limit: 200 characters.
        """
        asked = relay.page_query(first, after, q)
        page = await info.context.verbs.repositories.page(info.context.actor, asked)
        return relay.connection_of(page, asked, GitRepository.of)

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
        services = info.context.verbs.services
        if id:
            row = await services.get(info.context.actor, id)
        elif cluster and name:
            row = await services.named(info.context.actor, cluster, name)
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
        asked = relay.page_query(
            first,
            after,
            q,
            last=last,
            before=before,
            tags=tags,
            info=info,
            order="name" if order is relay.ListOrder.NAME else "id",
            cluster_id=cluster_id,
            repository_id=repository_id,
            project_id=project_id,
            mark=status_codes_of(status) if status else None,
        )
        page = await info.context.verbs.services.page(info.context.actor, asked)
        nodes = await service_types(info, page.items)
        return relay.connection(nodes, page.more, asked, lambda node: node.id, page.count)

    @strawberry.field
    async def revisions(
        self,
        info: Info,
        service_id: strawberry.ID,
        first: int | None = None,
        after: str | None = None,
    ) -> relay.Connection[RevisionType]:
        """Revisions of a service, newest first.

        Args:
            service_id: ID of the service.
        """
        asked = relay.page_query(first, after)
        page = await info.context.verbs.services.revisions(info.context.actor, service_id, asked)
        return relay.connection_of(page, asked, RevisionType.of)

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
        asked = relay.page_query(first, after, service_id=service_id, cluster_id=cluster_id)
        page = await info.context.verbs.services.history(info.context.actor, asked)
        return relay.connection_of(page, asked, LedgerEvent.of)

    @strawberry.field
    async def pipeline(
        self, info: Info, id: strawberry.ID | None = None, name: str | None = None
    ) -> PipelineType | None:
        """A pipeline, by ID or name.

        Args:
            id: ID of the pipeline.
        """
        verbs = info.context.verbs
        return PipelineType.of(await verbs.pipelines.get(info.context.actor, id, name))

    @strawberry.field
    async def gate_measurements(self, info: Info, id: strawberry.ID) -> list[GateMeasurement]:
        """Results of metric queries of a gate, newest last. Limit: 240.

        Args:
            id: ID of the gate.
        """
        verbs = info.context.verbs
        rows = await verbs.pipelines.measured_at(info.context.actor, id)
        return [GateMeasurement.of(row) for row in rows]

    @strawberry.field
    async def pipelines(
        self,
        info: Info,
        first: int | None = None,
        after: str | None = None,
        q: str | None = None,
    ) -> relay.Connection[PipelineType]:
        """Pipelines."""
        asked = relay.page_query(first, after, q)
        page = await info.context.verbs.pipelines.page(info.context.actor, asked)
        return relay.connection_of(page, asked, PipelineType.of)
