"""The inbox of a user in the API."""

import strawberry

from controlplane.access.api.types import AccessRequestType
from controlplane.inbox.operations import Inbox, InboxItems
from controlplane.pipelines.api.pipelines import PipelineType
from controlplane.platform.graphql.context import Info
from controlplane.services.api.loading import service_types
from controlplane.services.api.types import ServiceDeployment


@strawberry.type(name="WaitingApproval")
class WaitingApprovalType:
    """A gate at which the caller may approve the waiting release."""

    gate_id: strawberry.ID
    """ID of the gate, or of the workflow of a stage."""
    pipeline: PipelineType
    """Pipeline of the gate."""


@strawberry.type(name="FailedStage")
class FailedStageType:
    """A stage whose release failed, and which the caller may retry."""

    stage_id: strawberry.ID
    """ID of the stage."""
    pipeline: PipelineType
    """Pipeline of the stage."""


@strawberry.type(name="Inbox")
class InboxType:
    """Decisions that the caller may take, and failures that the caller may repair."""

    total: int
    """Number of items. Limit: 50 of each kind."""
    is_limited: bool
    """True if a kind has as many items as its limit, so that more may wait."""
    approvals: list[WaitingApprovalType]
    """Gates at which the caller may approve."""
    failed_stages: list[FailedStageType]
    """Stages whose release failed."""
    access_requests: list[AccessRequestType]
    """Requests of other users for temporary access, newest first."""
    items: strawberry.Private[InboxItems]

    @strawberry.field
    async def deletions(self, info: Info) -> list[ServiceDeployment]:
        """Services with deletions that await a confirmation."""
        return await service_types(info, self.items.deletions)

    @strawberry.field
    async def failed_services(self, info: Info) -> list[ServiceDeployment]:
        """Failed services."""
        return await service_types(info, self.items.failed_services)


@strawberry.type
class InboxQuery:
    @strawberry.field
    async def inbox(self, info: Info) -> InboxType:
        """Decisions and failures that wait for the caller."""
        items = await info.context[Inbox].of_actor(info.context.actor)
        return InboxType(
            total=items.total,
            is_limited=items.is_limited,
            approvals=[
                WaitingApprovalType(
                    gate_id=strawberry.ID(gate.gate), pipeline=PipelineType.of(gate.view)
                )
                for gate in items.approvals
            ],
            failed_stages=[
                FailedStageType(
                    stage_id=strawberry.ID(failed.stage), pipeline=PipelineType.of(failed.view)
                )
                for failed in items.failed_stages
            ],
            access_requests=[AccessRequestType.of_view(view) for view in items.requests],
            items=items,
        )
