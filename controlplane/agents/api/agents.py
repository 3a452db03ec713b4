"""Actions of agents in the API: dry-run plans, confirmed deletions, jobs and upgrades."""

from collections.abc import AsyncGenerator
from datetime import datetime

import strawberry

from controlplane.agents.model.jobs import DEFAULT_TIMEOUT, JobRequest
from controlplane.agents.model.jobs import ClusterJob as ClusterJobRow
from controlplane.agents.operations.commands import AgentCommands
from controlplane.agents.operations.jobs import ClusterJobs
from controlplane.clusters.api.clusters import ClusterType
from controlplane.platform.context import CLUSTER_JOB
from controlplane.platform.graphql import relay
from controlplane.platform.graphql.context import Info
from controlplane.platform.graphql.scalars import Json, Map
from controlplane.platform.ports import Bus
from controlplane.services.api.inputs import ConfigAttributes
from controlplane.services.api.loading import service_type
from controlplane.services.api.types import ObjectReference, ServiceDeployment
from controlplane.services.model.objects import DryRunResult
from core.errors import Invalid
from core.spec.jobs import JobPhase
from core.spec.objects import ObjectRef
from core.spec.plan import PlannedAction

strawberry.enum(JobPhase, name="ClusterJobPhase")
strawberry.enum(PlannedAction, name="PlannedAction")


@strawberry.input
class ObjectAttributes:
    """An object in a cluster."""

    kind: str
    """Kind, such as `Deployment`."""
    name: str
    """Name."""
    group: str | None = None
    """API group. Empty or null for the core group."""
    namespace: str | None = None
    """Namespace. Empty or null for a cluster-scoped object."""

    def named(self) -> ObjectRef:
        return ObjectRef(self.group or "", "", self.kind, self.namespace or "", self.name)


@strawberry.input
class ClusterJobAttributes:
    """A Job or a Pod to run once."""

    namespace: str
    """Namespace of the job."""
    manifest: Json
    """Manifest of a `batch/v1` Job or a `v1` Pod. Limit: 512 KiB."""
    timeout: int | None = None
    """Timeout in seconds. Default: 3,600. Limit: 604,800."""
    key: str | None = None
    """Idempotency key. A second request with the same key returns the first job. Limit: 255
    characters."""
    secrets: list[ConfigAttributes] | None = None
    """Values for Secrets in the manifest, or for `${towline.secret:NAME}` in `env`. Limit: 64."""

    def request(self) -> JobRequest:
        if not isinstance(self.manifest, dict):
            raise Invalid("must be a JSON object", field="manifest")
        return JobRequest(
            namespace=self.namespace,
            manifest=self.manifest,
            timeout_s=DEFAULT_TIMEOUT if self.timeout is None else self.timeout,
            secrets={secret.name: secret.value or "" for secret in self.secrets or ()},
            key=self.key or "",
        )


@strawberry.type
class FieldDifference:
    """A field that would change."""

    pointer: str
    """JSON pointer of the field (RFC 6901)."""
    old: str | None
    """Current value as JSON. Null if the field is absent."""
    new: str | None
    """Desired value as JSON. Null if the field is removed."""


@strawberry.type
class PlannedChangeType:
    """A change that the agent would make to one object."""

    object: ObjectReference
    """The object."""
    action: PlannedAction
    """Kind of change."""
    fields: list[FieldDifference]
    """Fields that would change."""


@strawberry.type
class DryRunPlan:
    """Changes that the agent would make if the service were not in dry-run mode."""

    sequence: int
    """Generation of the desired state that the plan refers to."""
    changes: list[PlannedChangeType]
    """Changes by object."""

    @classmethod
    def of(cls, plan: DryRunResult) -> "DryRunPlan":
        changes = [
            PlannedChangeType(
                object=ObjectReference.of(change.object),
                action=change.change,
                fields=[
                    FieldDifference(pointer=f.pointer, old=f.old or None, new=f.new or None)
                    for f in change.fields
                ],
            )
            for change in plan.changes
        ]
        return cls(sequence=plan.sequence, changes=changes)


@strawberry.type
class ClusterJobType:
    """A Job or a Pod that an agent runs once."""

    id: strawberry.ID
    cluster_id: strawberry.ID
    """ID of the cluster."""
    namespace: str
    """Namespace of the job."""
    phase: JobPhase
    """Progress of the job."""
    message: str
    """Explanation of the phase, such as the reason of a failure."""
    actor: str
    """E-mail address of the user, or name of the pipeline, that started the job."""
    object: ObjectReference | None
    """Object in the cluster. Null until the agent has created it."""
    exit_code: int | None
    """Highest exit code of the containers. Null until the job ends."""
    inserted_at: datetime
    started_at: datetime | None
    """Start time."""
    finished_at: datetime | None
    """Time at which the job ended."""
    log_tail: str
    """Last lines of the log."""
    outputs: Map
    """Termination messages by container name."""
    retry_of: strawberry.ID | None
    """ID of the job that this one repeats."""

    @classmethod
    def of(cls, row: ClusterJobRow) -> "ClusterJobType":
        return cls(
            id=strawberry.ID(row.id),
            cluster_id=strawberry.ID(row.cluster_id),
            namespace=row.namespace,
            phase=row.phase,
            message=row.message,
            actor=row.actor,
            object=ObjectReference.of(row.object) if row.object else None,
            exit_code=row.exit_code,
            inserted_at=row.inserted_at,
            started_at=row.started_at,
            finished_at=row.finished_at,
            log_tail=row.log_tail,
            outputs=Map(dict(row.outputs)),
            retry_of=strawberry.ID(row.retry_of) if row.retry_of else None,
        )


@strawberry.type
class ClusterJobLog:
    """A chunk of the log of a job."""

    text: str
    """Log text since the previous chunk."""
    job: ClusterJobType
    """The job with its current phase."""


@strawberry.type
class AgentQuery:
    @strawberry.field
    async def dry_run_plan(self, info: Info, service_id: strawberry.ID) -> DryRunPlan | None:
        """Changes that a dry run of a service would make. Null until the agent has reported them.

        Args:
            service_id: ID of the service.
        """
        context = info.context
        plan = await context[AgentCommands].plan(info.context.actor, service_id)
        return DryRunPlan.of(plan) if plan else None

    @strawberry.field
    async def cluster_job(self, info: Info, id: strawberry.ID) -> ClusterJobType | None:
        """A job in a cluster, by ID.

        Args:
            id: ID of the job.
        """
        return ClusterJobType.of(await info.context[ClusterJobs].get(info.context.actor, id))

    @strawberry.field
    async def cluster_jobs(
        self,
        info: Info,
        cluster_id: strawberry.ID,
        first: int | None = None,
        after: str | None = None,
    ) -> relay.Connection[ClusterJobType]:
        """Jobs in a cluster, newest first.

        Args:
            cluster_id: ID of the cluster.
        """
        asked = relay.page_query(first, after)
        context = info.context
        page = await context[ClusterJobs].page(info.context.actor, cluster_id, asked)
        return relay.connection_of(page, asked, ClusterJobType.of)


@strawberry.type
class AgentMutation:
    @strawberry.mutation
    async def confirm_deletions(
        self, info: Info, service_id: strawberry.ID, objects: list[ObjectAttributes]
    ) -> ServiceDeployment | None:
        """Confirms the deletion of exactly these objects.

        Args:
            service_id: ID of the service.
            objects: Objects listed in `awaiting` of the service. Limit: 1,000.
        """
        named = [given.named() for given in objects]
        context = info.context
        row = await context[AgentCommands].confirm_deletions(info.context.actor, service_id, named)
        return await service_type(info, row)

    @strawberry.mutation
    async def terminate_service(
        self, info: Info, service_id: strawberry.ID
    ) -> ServiceDeployment | None:
        """Stops the running sync of a service, hooks included.

        Args:
            service_id: ID of the service.
        """
        context = info.context
        row = await context[AgentCommands].terminate(info.context.actor, service_id)
        return await service_type(info, row)

    @strawberry.mutation
    async def upgrade_agent(
        self, info: Info, cluster_id: strawberry.ID, version: str, image: str
    ) -> ClusterType | None:
        """Upgrades the agent of a cluster. The agent rolls itself back if the upgrade fails.

        Args:
            cluster_id: ID of the cluster.
            version: Version of the agent.
            image: Container image of the agent.
        """
        context, actor = info.context, info.context.actor
        row = await context[AgentCommands].upgrade_agent(actor, cluster_id, version, image)
        return ClusterType.of(row)

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
        asked = await context[AgentCommands].upgrade_agents(
            actor, group_id, version, image, frozenset(without or ())
        )
        return [ClusterType.of(cluster) for cluster in asked]

    @strawberry.mutation
    async def run_cluster_job(
        self, info: Info, cluster_id: strawberry.ID, attributes: ClusterJobAttributes
    ) -> ClusterJobType | None:
        """Runs a Job or a Pod once in a cluster.

        Args:
            cluster_id: ID of the cluster.
            attributes: Manifest and limits of the job.
        """
        context, actor = info.context, info.context.actor
        return ClusterJobType.of(
            await context[ClusterJobs].run(actor, cluster_id, attributes.request())
        )

    @strawberry.mutation
    async def retry_cluster_job(self, info: Info, id: strawberry.ID) -> ClusterJobType | None:
        """Runs a finished job again as a new job.

        Args:
            id: ID of the finished job.
        """
        return ClusterJobType.of(await info.context[ClusterJobs].retry(info.context.actor, id))

    @strawberry.mutation
    async def cancel_cluster_job(self, info: Info, id: strawberry.ID) -> ClusterJobType | None:
        """Cancels a job. A finished job stays as it is.

        Args:
            id: ID of the job.
        """
        return ClusterJobType.of(await info.context[ClusterJobs].cancel(info.context.actor, id))


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
            offset, text, whole = await context[ClusterJobs].log(context.actor, id, offset)
            job = await context[ClusterJobs].get(context.actor, id)
            if text or whole:
                yield ClusterJobLog(text=text, job=ClusterJobType.of(job))
            if whole:
                return
            if not text:
                await anext(wakes)
                await context.recheck()
