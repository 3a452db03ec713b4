"""The inbox of a user in the API."""

import strawberry

from controlplane.access.api.types import AccessRequestType
from controlplane.inbox.operations import DEFAULT_OF_KIND, Inbox, InboxItems
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


@strawberry.type(name="InboxCounts")
class InboxCountsType:
    """Number of items of each kind that wait for the caller."""

    approvals: int
    """Gates at which the caller may approve."""
    failed_stages: int
    """Stages whose release failed."""
    access_requests: int
    """Requests of other users for temporary access."""
    deletions: int
    """Services with deletions that await a confirmation. Limit: 10,001."""
    failed_services: int
    """Failed services. Limit: 10,001."""


@strawberry.type(name="Inbox")
class InboxType:
    """Decisions that the caller may take, and failures that the caller may repair."""

    total: int
    """Number of items of all kinds, also of those that are left out. Counts at most 10,001 services
    of a kind."""
    has_more: bool
    """True if a kind has more items than `first`. More of them: repeat the query with a larger
    `first`, or list the services with the status."""
    counts: InboxCountsType
    """Number of items of each kind, also of those that are left out."""
    approvals: list[WaitingApprovalType]
    """Gates at which the caller may approve, newest release first."""
    failed_stages: list[FailedStageType]
    """Stages whose release failed, newest release first."""
    access_requests: list[AccessRequestType]
    """Requests of other users for temporary access, newest first."""
    items: strawberry.Private[InboxItems]

    @strawberry.field
    async def deletions(self, info: Info) -> list[ServiceDeployment]:
        """Services with deletions that await a confirmation, last changed first."""
        return await service_types(info, self.items.deletions.items)

    @strawberry.field
    async def failed_services(self, info: Info) -> list[ServiceDeployment]:
        """Failed services, last changed first."""
        return await service_types(info, self.items.failed_services.items)


@strawberry.type
class InboxQuery:
    @strawberry.field
    async def inbox(self, info: Info, first: int | None = None) -> InboxType:
        """Decisions and failures that wait for the caller, newest first.

        Args:
            first: Maximum number of items of each kind. Default: 50. Limit: 1,000.
        """
        limit = DEFAULT_OF_KIND if first is None else first
        items = await info.context[Inbox].of_actor(info.context.actor, limit)
        return InboxType(
            total=items.total,
            has_more=items.has_more,
            counts=InboxCountsType(
                approvals=items.approvals.total,
                failed_stages=items.failed_stages.total,
                access_requests=items.requests.total,
                deletions=items.deletions.total,
                failed_services=items.failed_services.total,
            ),
            approvals=[
                WaitingApprovalType(
                    gate_id=strawberry.ID(gate.gate), pipeline=PipelineType.of(gate.view)
                )
                for gate in items.approvals.items
            ],
            failed_stages=[
                FailedStageType(
                    stage_id=strawberry.ID(failed.stage), pipeline=PipelineType.of(failed.view)
                )
                for failed in items.failed_stages.items
            ],
            access_requests=[AccessRequestType.of_view(view) for view in items.requests.items],
            items=items,
        )
