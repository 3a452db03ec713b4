"""Fences of services in the API."""

import strawberry

from controlplane.access.api.types import ProjectType
from controlplane.platform.graphql.context import Info
from controlplane.platform.graphql.derive import Output, computed, output
from controlplane.services.operations.fence_use import FenceRefusal as FenceRefusalRow
from controlplane.services.operations.fence_use import FenceRuleUse as FenceRuleUseRow
from controlplane.services.operations.fence_use import FenceUse as FenceUseRow
from controlplane.services.operations.fence_use import FenceUses
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


@output(FenceRuleUseRow)
class FenceRuleUse(Output[FenceRuleUseRow]):
    """A rule of a fence, and the services that it lets through today."""


@output(FenceRefusalRow)
class FenceRefusal(Output[FenceRefusalRow]):
    """A service outside the fence."""


@output(FenceUseRow)
class FenceUse(Output[FenceUseRow]):
    """Use of a project's fence by the services that the caller can read."""

    project: ProjectType = computed(lambda use: ProjectType.of(use.project))
    """Project of the fence."""
    sources: list[FenceRuleUse]
    """Rules of sources. Empty: no source is allowed, or all are."""
    destinations: list[FenceRuleUse]
    """Rules of destinations. Empty: no destination is allowed, or all are."""
    refusals: list[FenceRefusal]
    """Services outside the fence. Limit: 100."""


@strawberry.type
class FenceQuery:
    @strawberry.field
    async def fence_use(self, info: Info, project_id: strawberry.ID) -> FenceUse | None:
        """Use of a project's fence: the services that each rule lets through today.

        Args:
            project_id: ID of the project.
        """
        use = await info.context[FenceUses].of_project(info.context.actor, project_id)
        return FenceUse.of(use)

    @strawberry.field
    async def service_fence(self, info: Info, service_id: strawberry.ID) -> FenceReport | None:
        """Decisions of its project's fence about a service.

        Args:
            service_id: ID of the service.
        """
        report = await info.context[FenceReports].of_service(info.context.actor, service_id)
        return FenceReport.of(report)
