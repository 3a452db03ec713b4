"""Fences of services in the API."""

import strawberry

from controlplane.access.api.types import ProjectType
from controlplane.platform.graphql.context import Info
from controlplane.platform.graphql.derive import Output, computed, output
from controlplane.services.operations.fences import FenceCheck as FenceCheckRow
from controlplane.services.operations.fences import FenceReport as FenceReportRow
from controlplane.services.operations.fences import FenceReports


@output(FenceCheckRow)
class FenceCheck(Output[FenceCheckRow]):
    """The decision of a fence about one source or destination of a service."""


@output(FenceReportRow)
class FenceReport(Output[FenceReportRow]):
    """The fence of a service's project, applied to the service."""

    project: ProjectType = computed(lambda report: ProjectType.of(report.project))
    """Project of the service."""
    checks: list[FenceCheck]
    """Decisions about each source and the destination."""


@strawberry.type
class FenceQuery:
    @strawberry.field
    async def service_fence(self, info: Info, service_id: strawberry.ID) -> FenceReport | None:
        """Decisions of its project's fence about a service.

        Args:
            service_id: ID of the service.
        """
        report = await info.context[FenceReports].of_service(info.context.actor, service_id)
        return FenceReport.of(report)
