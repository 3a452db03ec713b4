"""Actions of agents in the API: dry-run plans, confirmed deletions, jobs and upgrades."""

from collections.abc import AsyncGenerator

import strawberry

from controlplane.agents.model.jobs import ClusterJob as JobRow
from controlplane.agents.model.jobs import JobRequest
from controlplane.agents.operations.commands import AgentCommands
from controlplane.agents.operations.jobs import ClusterJobs
from controlplane.clusters.api.clusters import ClusterType
from controlplane.delivery.api import FieldChangeType
from controlplane.platform.context import CLUSTER_JOB
from controlplane.platform.graphql import relay
from controlplane.platform.graphql.context import Info
from controlplane.platform.graphql.derive import Draft, FieldValues, Output, draft, output
from controlplane.platform.graphql.resource_fields import ResourceFields, each
from controlplane.platform.graphql.scalars import Json
from controlplane.platform.ports import Bus
from controlplane.services.api.inputs import ConfigAttributes
from controlplane.services.api.loading import service_type, service_types
from controlplane.services.api.types import ServiceDeployment
from controlplane.services.model.service import DryRunResult
from core.spec.jobs import JobPhase
from core.spec.objects import ObjectRef
from core.spec.plan import PlannedAction, PlannedChange
from core.spec.sync import ObjectSelection

strawberry.enum(JobPhase, name="ClusterJobPhase")
strawberry.enum(PlannedAction, name="PlannedAction")


@draft(ObjectRef, hide={"version"})
class ObjectAttributes(Draft[ObjectRef]):
    """An object in a cluster."""

    group: str | None = None
    namespace: str | None = None

    def field_values(self) -> FieldValues:
        return {"group": "", "version": "", "namespace": "", **super().field_values()}


@draft(JobRequest, rename={"timeout": "timeout_s"}, hide={"follow", "project_id"})
class ClusterJobAttributes(Draft[JobRequest]):
    """A Job or a Pod to run once."""

    manifest: Json
    secrets: list[ConfigAttributes] | None = None


@output(PlannedChange, rename={"action": "change"})
class PlannedChangeType(Output[PlannedChange]):
    """A change that the agent would make to one object."""

    fields: list[FieldChangeType]


@output(DryRunResult, hide={"id"})
class DryRunPlan(Output[DryRunResult]):
    """Changes that the agent would make if the service were not in dry-run mode."""


@output(JobRow, hide={"key", "manifest", "timeout_s", "follow", "sealed"})
class ClusterJobType(Output[JobRow]):
    """A Job or a Pod that an agent runs once."""

    retry_of: strawberry.ID | None


@strawberry.type
class ClusterJobLog:
    """A chunk of the log of a job."""

    text: str
    """Log text since the previous chunk."""
    job: ClusterJobType
    """The job with its current phase."""


_SERVICES = ResourceFields("service", AgentCommands, ServiceDeployment, service_types)
_CLUSTERS = ResourceFields("cluster", AgentCommands, ClusterType, each(ClusterType.of))
_JOBS = ResourceFields("job", ClusterJobs, ClusterJobType, each(ClusterJobType.of))


@strawberry.type
class AgentQuery:
    @strawberry.field
    async def dry_run_plan(self, info: Info, service_id: strawberry.ID) -> DryRunPlan | None:
        """Changes that a dry run of a service would make. Null until the agent has reported
        them."""
        plan = await info.context[AgentCommands].plan(info.context.actor, service_id)
        return DryRunPlan.of_optional(plan)

    cluster_job = _JOBS.by_id(ClusterJobs.get)
    """A job in a cluster, by ID."""

    @strawberry.field
    async def cluster_jobs(
        self,
        info: Info,
        cluster_id: strawberry.ID,
        first: int | None = None,
        after: str | None = None,
    ) -> relay.Connection[ClusterJobType]:
        """Jobs in a cluster, newest first."""
        query = relay.page_query(first, after)
        page = await info.context[ClusterJobs].page(info.context.actor, cluster_id, query)
        return relay.connection_of(page, query, ClusterJobType.of)


@strawberry.type
class AgentMutation:
    @strawberry.mutation
    async def confirm_deletions(
        self, info: Info, service_id: strawberry.ID, objects: list[ObjectAttributes]
    ) -> ServiceDeployment | None:
        """Confirms the deletion of exactly these objects.

        Args:
            objects: Objects listed in `awaiting` of the service. Limit: 1,000.
        """
        context, refs = info.context, [attributes.change() for attributes in objects]
        row = await context[AgentCommands].confirm_deletions(context.actor, service_id, refs)
        return await service_type(info, row)

    @strawberry.mutation
    async def sync_service_objects(
        self,
        info: Info,
        service_id: strawberry.ID,
        objects: list[ObjectAttributes],
        prune: bool = False,
    ) -> ServiceDeployment | None:
        """Applies only some objects of a service, without its hooks.

        It is no deployment. The ledger has the result with the stage `objects-synced`.

        Args:
            objects: Objects of its manifests or of its components. Limit: 1,000.
            prune: True to delete objects that are no longer in the manifests. Default: false.
        """
        context = info.context
        selection = ObjectSelection(tuple(attributes.change() for attributes in objects), prune)
        row = await context[AgentCommands].sync_objects(context.actor, service_id, selection)
        return await service_type(info, row)

    terminate_service = _SERVICES.call(AgentCommands.terminate)
    """Stops the running sync of a service, hooks included."""
    upgrade_agent = _CLUSTERS.call(AgentCommands.upgrade_agent)
    """Upgrades the agent of a cluster. The agent rolls itself back if the upgrade fails.

    Args:
        version: Version of the agent.
        image: Container image of the agent.
    """
    deliver_freeze_statement = _CLUSTERS.call(AgentCommands.deliver_freeze_statement)
    """Passes a signed freeze or thaw statement on to the agent of a cluster. The agent obeys it
    if a freeze key of its cluster has signed it. `agentAlarm` then shows a freeze.

    Args:
        statement: Output of `towline freeze --print` or `towline thaw --print`.
    """

    @strawberry.mutation
    async def upgrade_agents(
        self,
        info: Info,
        group_id: strawberry.ID,
        version: str,
        image: str,
        without: list[strawberry.ID] | None = None,
    ) -> list[ClusterType]:
        """Upgrades the agents of a cluster group, except clusters with the tag `towline-agent:
        keep`. Returns the clusters being upgraded.

        Args:
            group_id: ID of the cluster group.
            version: Version of the agent.
            image: Container image of the agent.
            without: IDs of clusters to skip.
        """
        context, actor = info.context, info.context.actor
        clusters = await context[AgentCommands].upgrade_agents(
            actor, group_id, version, image, frozenset(without or ())
        )
        return [ClusterType.of(cluster) for cluster in clusters]

    run_cluster_job = _JOBS.call(ClusterJobs.run, ClusterJobAttributes)
    """Runs a Job or a Pod once in a cluster.

    Args:
        attributes: Manifest and limits of the job.
    """
    retry_cluster_job = _JOBS.action(ClusterJobs.retry)
    """Runs a finished job again as a new job.

    Args:
        id: ID of the finished job.
    """
    cancel_cluster_job = _JOBS.action(ClusterJobs.cancel)
    """Cancels a job. A finished job stays as it is."""


@strawberry.type
class AgentSubscription:
    @strawberry.subscription
    async def cluster_job_logs(
        self, info: Info, id: strawberry.ID
    ) -> AsyncGenerator[ClusterJobLog, None]:
        """Log of a job, until the job ends.

        Args:
            id: ID of the job.
        """
        context = info.context
        await context.recheck()
        wakes, offset = context[Bus].subscribe((CLUSTER_JOB, id)), 0
        job = await context[ClusterJobs].get(context.actor, id)
        while True:
            offset, text, is_end = await context[ClusterJobs].log(context.actor, id, offset)
            job = await context[ClusterJobs].get(context.actor, id)
            if text or is_end:
                yield ClusterJobLog(text=text, job=ClusterJobType.of(job))
            if is_end:
                return
            if not text:
                await anext(wakes)
                await context.recheck()
