"""The provenance of services in the API."""

import strawberry

from controlplane.pipelines.operations.provenance import (
    Provenance,
    ProvenanceLink,
    ProvenanceReports,
)
from controlplane.platform.graphql.context import Info
from controlplane.platform.graphql.derive import Output, output


@output(ProvenanceLink)
class ProvenanceLinkType(Output[ProvenanceLink]):
    """A link of the chain from the sources to the objects of a service."""


@output(Provenance, hide={"service"})
class ServiceProvenance(Output[Provenance]):
    """The chain from the sources to the objects of a service: commit, signer, renderer, bundle,
    images, approvals, agent, objects.

    The control plane makes it. An agent checks signatures by itself.
    """


@strawberry.type
class ProvenanceQuery:
    @strawberry.field
    async def service_provenance(
        self, info: Info, service_id: strawberry.ID
    ) -> ServiceProvenance | None:
        """The chain from the sources to the objects of a service.

        Args:
            service_id: ID of the service.
        """
        report = await info.context[ProvenanceReports].of_service(info.context.actor, service_id)
        return ServiceProvenance.of(report)
