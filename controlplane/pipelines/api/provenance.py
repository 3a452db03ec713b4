"""The provenance of services in the API."""

import strawberry

from controlplane.pipelines.operations.provenance import (
    AgentCheck,
    Provenance,
    ProvenanceLink,
    ProvenanceReports,
)
from controlplane.platform.graphql.context import Info
from controlplane.platform.graphql.derive import Output, output


@output(AgentCheck)
class ProvenanceAgentCheck(Output[AgentCheck]):
    """Result of the agent's own check of a link, by its own keys and rules."""


@output(ProvenanceLink)
class ProvenanceLinkType(Output[ProvenanceLink]):
    """A link of the chain from the sources to the objects of a service."""

    agent: ProvenanceAgentCheck | None
    """Check of the bundle, signer or image by the agent itself. Null: it has reported none."""


@output(Provenance, hide={"service"})
class ServiceProvenance(Output[Provenance]):
    """The chain from the sources to the objects of a service: commit, signer, renderer, bundle,
    images, approvals, agent, objects.

    The control plane tells the state of a link. `agent` is what its agent tells.
    """


@strawberry.type
class ProvenanceQuery:
    @strawberry.field
    async def service_provenance(
        self, info: Info, service_id: strawberry.ID
    ) -> ServiceProvenance | None:
        """The chain from the sources to the objects of a service."""
        report = await info.context[ProvenanceReports].of_service(info.context.actor, service_id)
        return ServiceProvenance.of(report)
