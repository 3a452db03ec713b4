"""Fences of services in the API."""

import strawberry

from controlplane.access.api.types import ProjectType
from controlplane.platform.graphql.context import Info
from controlplane.platform.graphql.derive import Output, computed, output
from controlplane.services.operations.fence_reports import FenceReport, FenceReports
from controlplane.services.operations.fence_use import (
    FenceRefusal,
    FenceRuleUse,
    FenceUse,
    FenceUses,
)
from controlplane.services.operations.fences import FenceCheck


@output(FenceCheck)
class FenceCheckType(Output[FenceCheck]):
    """The decision of a fence about one source, destination or image of a service."""


@output(FenceReport)
class FenceReportType(Output[FenceReport]):
    """The fence of a service's project, applied to the service."""

    project: ProjectType = computed(lambda report: ProjectType.of(report.project))
    """Project of the service."""


@output(FenceRuleUse)
class FenceRuleUseType(Output[FenceRuleUse]):
    """A rule of a fence, and the services that it lets through today."""


@output(FenceRefusal)
class FenceRefusalType(Output[FenceRefusal]):
    """A service outside the fence."""


@output(FenceUse)
class FenceUseType(Output[FenceUse]):
    """Use of a project's fence by the services that the caller can read."""

    project: ProjectType = computed(lambda use: ProjectType.of(use.project))
    """Project of the fence."""


@strawberry.type
class FenceQuery:
    @strawberry.field
    async def fence_use(self, info: Info, project_id: strawberry.ID) -> FenceUseType | None:
        """Use of a project's fence: the services that each rule lets through today."""
        use = await info.context[FenceUses].of_project(info.context.actor, project_id)
        return FenceUseType.of(use)

    @strawberry.field
    async def service_fence(self, info: Info, service_id: strawberry.ID) -> FenceReportType | None:
        """Decisions of its project's fence about a service."""
        report = await info.context[FenceReports].of_service(info.context.actor, service_id)
        return FenceReportType.of(report)
