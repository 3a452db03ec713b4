"""What agents do beside applying, in the API: plans, deletions that wait, jobs, upgrades."""

from collections.abc import AsyncGenerator
from datetime import datetime

import strawberry

from controlplane.domain.clusterjobs import DEFAULT_TIMEOUT, JobPhase, JobRequest
from controlplane.domain.clusterjobs import ClusterJob as ClusterJobRow
from controlplane.domain.objects import Change, ObjectName, Plan
from controlplane.graphql import relay
from controlplane.graphql.clusters import Cluster
from controlplane.graphql.context import Info
from controlplane.graphql.inputs import ConfigAttributes
from controlplane.graphql.scalars import Json, Map
from controlplane.graphql.services import service_type
from controlplane.graphql.types import ObjectReference, ServiceDeployment
from controlplane.usecases.deps import CLUSTER_JOB
from fleet.errors import Invalid

strawberry.enum(JobPhase, name="ClusterJobPhase")
strawberry.enum(Change, name="PlannedAction")


@strawberry.input
class ObjectAttributes:
    kind: str
    name: str
    group: str | None = None
    namespace: str | None = None

    def named(self) -> ObjectName:
        return ObjectName(self.group or "", "", self.kind, self.namespace or "", self.name)


@strawberry.input
class ClusterJobAttributes:
    """A Job of batch/v1 or a Pod of v1 as JSON. `key` makes a second request the same job.

    `secrets` are named in Secrets of the manifest, or as `${towline.secret:NAME}` in `env`.
    """

    namespace: str
    manifest: Json
    timeout: int | None = strawberry.field(default=None, description="Seconds; 3600 without.")
    key: str | None = None
    secrets: list[ConfigAttributes] | None = None

    def request(self) -> JobRequest:
        if not isinstance(self.manifest, dict):
            raise Invalid("must be a JSON object", field="manifest")
        return JobRequest(
            namespace=self.namespace,
            manifest=self.manifest,
            timeout_s=DEFAULT_TIMEOUT if self.timeout is None else self.timeout,
            secrets={one.name: one.value or "" for one in self.secrets or ()},
            key=self.key or "",
        )


@strawberry.type
class FieldDifference:
    """`pointer` is RFC 6901, the values are JSON; null: the field is not there."""

    pointer: str
    old: str | None
    new: str | None


@strawberry.type
class PlannedChange:
    object: ObjectReference
    action: Change
    fields: list[FieldDifference]


@strawberry.type
class DryRunPlan:
    """What would be done in the cluster if the service's dry run were none."""

    sequence: int
    changes: list[PlannedChange]

    @classmethod
    def of(cls, plan: Plan) -> "DryRunPlan":
        changes = [
            PlannedChange(
                object=ObjectReference.of(one.object),
                action=one.change,
                fields=[
                    FieldDifference(pointer=f.pointer, old=f.old or None, new=f.new or None)
                    for f in one.fields
                ],
            )
            for one in plan.changes
        ]
        return cls(sequence=plan.sequence, changes=changes)


@strawberry.type
class ClusterJob:
    """A Job or a Pod that is run once. `outputs`: what its containers left as their last words."""

    id: strawberry.ID
    cluster_id: strawberry.ID
    namespace: str
    phase: JobPhase
    message: str
    actor: str
    object: ObjectReference | None
    exit_code: int | None
    inserted_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    log_tail: str
    outputs: Map
    retry_of: strawberry.ID | None

    @classmethod
    def of(cls, row: ClusterJobRow) -> "ClusterJob":
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
    """A piece of a job's log as it comes; `job` tells how far it is."""

    text: str
    job: ClusterJob


@strawberry.type
class AgentQuery:
    @strawberry.field(description="What a service's dry run would do; null until it has told.")
    async def dry_run_plan(self, info: Info, service_id: strawberry.ID) -> DryRunPlan | None:
        verbs = info.context.verbs
        plan = await verbs.interventions.plan(info.context.actor, service_id)
        return DryRunPlan.of(plan) if plan else None

    @strawberry.field(description="A job that was run in a cluster.")
    async def cluster_job(self, info: Info, id: strawberry.ID) -> ClusterJob | None:
        return ClusterJob.of(await info.context.verbs.cluster_jobs.get(info.context.actor, id))

    @strawberry.field(description="Jobs that were run in a cluster, newest first.")
    async def cluster_jobs(
        self,
        info: Info,
        cluster_id: strawberry.ID,
        first: int | None = None,
        after: str | None = None,
    ) -> relay.Connection[ClusterJob]:
        asked = relay.query(first, after)
        verbs = info.context.verbs
        page = await verbs.cluster_jobs.page(info.context.actor, cluster_id, asked)
        return relay.listed(page, asked, ClusterJob.of)


@strawberry.type
class AgentMutation:
    @strawberry.mutation(description="Let exactly these objects, which wait for it, be deleted.")
    async def confirm_deletions(
        self, info: Info, service_id: strawberry.ID, objects: list[ObjectAttributes]
    ) -> ServiceDeployment | None:
        named = [one.named() for one in objects]
        verbs = info.context.verbs
        row = await verbs.interventions.confirm_deletions(info.context.actor, service_id, named)
        return await service_type(info, row)

    @strawberry.mutation(description="Stop what is being applied, hooks included.")
    async def terminate_service(
        self, info: Info, service_id: strawberry.ID
    ) -> ServiceDeployment | None:
        verbs = info.context.verbs
        row = await verbs.interventions.terminate(info.context.actor, service_id)
        return await service_type(info, row)

    @strawberry.mutation(description="Let an agent replace itself; it steps back if that fails.")
    async def upgrade_agent(
        self, info: Info, cluster_id: strawberry.ID, version: str, image: str
    ) -> Cluster | None:
        verbs, actor = info.context.verbs, info.context.actor
        row = await verbs.interventions.upgrade_agent(actor, cluster_id, version, image)
        return Cluster.of(row)

    @strawberry.mutation(
        description="The same for all clusters of a group, but for some, and for those with the "
        "tag `towline-agent: keep`. Tells which ones were asked."
    )
    async def upgrade_agents(
        self,
        info: Info,
        group_id: strawberry.ID,
        version: str,
        image: str,
        without: list[strawberry.ID] | None = None,
    ) -> list[Cluster]:
        verbs, actor = info.context.verbs, info.context.actor
        asked = await verbs.interventions.upgrade_agents(
            actor, group_id, version, image, frozenset(without or ())
        )
        return [Cluster.of(one) for one in asked]

    @strawberry.mutation(description="Run a Job or a Pod once in a cluster.")
    async def run_cluster_job(
        self, info: Info, cluster_id: strawberry.ID, attributes: ClusterJobAttributes
    ) -> ClusterJob | None:
        verbs, actor = info.context.verbs, info.context.actor
        return ClusterJob.of(await verbs.cluster_jobs.run(actor, cluster_id, attributes.request()))

    @strawberry.mutation(description="Run a job that has ended once more, as another one.")
    async def retry_cluster_job(self, info: Info, id: strawberry.ID) -> ClusterJob | None:
        return ClusterJob.of(await info.context.verbs.cluster_jobs.retry(info.context.actor, id))

    @strawberry.mutation(description="End a job; one that has ended stays as it is.")
    async def cancel_cluster_job(self, info: Info, id: strawberry.ID) -> ClusterJob | None:
        return ClusterJob.of(await info.context.verbs.cluster_jobs.cancel(info.context.actor, id))


@strawberry.type
class AgentSubscription:
    @strawberry.subscription(description="A job's log, while it runs and to its end.")
    async def cluster_job_logs(
        self, info: Info, id: strawberry.ID
    ) -> AsyncGenerator[ClusterJobLog, None]:
        context = info.context
        await context.recheck()
        wakes, offset = context.verbs.bus.subscribe((CLUSTER_JOB, id)), 0
        job = await context.verbs.cluster_jobs.get(context.actor, id)
        while True:
            offset, text, whole = await context.verbs.cluster_jobs.log(context.actor, id, offset)
            job = await context.verbs.cluster_jobs.get(context.actor, id)
            if text or whole:
                yield ClusterJobLog(text=text, job=ClusterJob.of(job))
            if whole:
                return
            if not text:
                await anext(wakes)
                await context.recheck()
