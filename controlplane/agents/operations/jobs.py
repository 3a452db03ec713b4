"""Runs a Job or a Pod once in a cluster, for pipeline gates or for users."""

from collections.abc import Mapping
from dataclasses import replace

import orjson

from controlplane.agents.model.jobs import ClusterJob, JobRequest
from controlplane.agents.model.live_logs import LiveLogs
from controlplane.agents.ports import ClusterJobStore
from controlplane.authorization import Actor, ActorKind, ResourceKind, Verb, require
from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.model.commands import Command, CommandKind
from controlplane.clusters.operations.clusters import find_cluster
from controlplane.clusters.operations.commands import add_command
from controlplane.clusters.ports import ClusterStore, CommandStore
from controlplane.platform.context import CLUSTER_JOB, DESIRED_STATE, Change, OperationContext
from controlplane.platform.ports import Page, PageQuery, Transaction
from controlplane.platform.retry import retry_operations
from controlplane.services.operations.fences import fence_of_job
from core.errors import Conflict, Invalid, NotFound
from core.sealing import placeholder, seal
from core.spec.jobs import JobPhase
from core.spec.sealed_secrets import SealedSecret


@retry_operations
class ClusterJobs:
    """Operations on cluster jobs.

    A job runs at most once; `retry` creates another with the same spec.
    """

    def __init__(self, context: OperationContext, logs: LiveLogs) -> None:
        self._context = context
        self._logs = logs

    async def run(self, actor: Actor, cluster_id: str, request: JobRequest) -> ClusterJob:
        """Starts a job. A key that was used before returns that job, whatever its state."""
        async with self._context.change(actor, "runClusterJob") as tx:
            cluster = await find_cluster(tx, cluster_id)
            tx.authorize(Verb.WRITE, cluster.target)
            _check_request(actor, request)
            existing = await tx[ClusterJobStore].by_key(request.key) if request.key else None
            if existing is not None:
                if existing.cluster_id != cluster.id:
                    raise Conflict("this key belongs to a job of another cluster")
                return existing
            job = self._new_job(actor, cluster, request)
            await fence_of_job(tx, job.project_id, cluster, job.namespace, job.manifest)
            await self._start_job(tx, job)
            tx.audit(cluster.handle, job.id)
        return job

    async def retry(self, actor: Actor, id: str) -> ClusterJob:
        """Runs a job that has ended again, as a new job."""
        async with self._context.change(actor, "retryClusterJob") as tx:
            old = await self._find_writable(tx, id)
            if not old.phase.final:
                raise Conflict("this job has not ended yet: cancel it first")
            new_id = self._context.new_id()
            sealed = self._reseal(old.sealed, id, new_id)
            job = replace(
                old,
                id=new_id,
                key=new_id,
                retry_of=id,
                actor=actor.shown_name,
                inserted_at=self._context.clock.now(),
                sealed=sealed,
                **_UNSTARTED,
            )
            await self._start_job(tx, job)
            tx.audit(id, job.id)
        return job

    async def cancel(self, actor: Actor, id: str) -> ClusterJob:
        """Cancels a job; has no effect on a job that has ended."""
        async with self._context.change(actor, "cancelClusterJob") as tx:
            job = await self._find_writable(tx, id)
            if job.phase.final:
                return job
            await self._request_cancel(tx, job)
            tx.audit(id, id)
            _publish_job(tx, job)
        return job

    async def get(self, actor: Actor, id: str) -> ClusterJob:
        async with self._context.read(actor) as tx:
            job, cluster = await self._find(tx, id)
        require(actor, Verb.READ, cluster.target)
        return job

    async def page(self, actor: Actor, cluster_id: str, query: PageQuery) -> Page[ClusterJob]:
        """Jobs of a cluster, newest first."""
        async with self._context.read(actor) as tx:
            cluster = await find_cluster(tx, cluster_id)
            require(actor, Verb.READ, cluster.target)
            return await tx[ClusterJobStore].page(
                replace(query, equals={"cluster_id": cluster.id}, newest=True)
            )

    async def log(self, actor: Actor, id: str, offset: int) -> tuple[int, str, bool]:
        """The job's log from `offset` (bytes): next offset, text, and True at the end.

        While the job runs, this is the output that the agent sent to this process; later, its tail.
        """
        job = await self.get(actor, id)
        begin, data = self._logs.read(id, offset)
        if not data and job.phase.final and offset == 0:
            return 0, job.log_tail, True
        return begin + len(data), data.decode(errors="replace"), job.phase.final and not data

    def _new_job(self, actor: Actor, cluster: Cluster, request: JobRequest) -> ClusterJob:
        """Only pipelines run jobs for their own project; others do for that of the cluster."""
        job_id = self._context.new_id()
        own_project = request.project_id if actor.kind is ActorKind.SYSTEM else None
        return ClusterJob(
            id=job_id,
            cluster_id=cluster.id,
            key=request.key or job_id,
            namespace=request.namespace,
            manifest=request.manifest,
            timeout_s=request.timeout_s,
            follow=request.follow,
            actor=actor.shown_name,
            inserted_at=self._context.clock.now(),
            sealed=self._seal_secrets(request.secrets, job_id),
            project_id=own_project or cluster.project_id,
        )

    async def _start_job(self, tx: Change, job: ClusterJob) -> None:
        await tx[ClusterJobStore].add(job)
        await tx[CommandStore].add(
            Command(job.id, job.cluster_id, CommandKind.RUN_JOB, job.inserted_at)
        )
        _publish_job(tx, job)

    async def _request_cancel(self, tx: Change, job: ClusterJob) -> None:
        waiting = await tx[CommandStore].waiting_of_kind(job.cluster_id, CommandKind.CANCEL_JOB)
        if any(command.payload["job"] == job.id for command in waiting):
            return
        await add_command(tx, job.cluster_id, CommandKind.CANCEL_JOB, {"job": job.id})

    async def _find_writable(self, tx: Change, id: str) -> ClusterJob:
        job, cluster = await self._find(tx, id)
        tx.authorize(Verb.WRITE, cluster.target)
        return job

    async def _find(self, tx: Transaction, id: str) -> tuple[ClusterJob, Cluster]:
        job = await tx[ClusterJobStore].get(id)
        cluster = await tx[ClusterStore].get(job.cluster_id) if job else None
        if job is None or cluster is None:
            raise NotFound(kind=ResourceKind.CLUSTER)
        return job, cluster

    def _seal_secrets(self, secrets: Mapping[str, str], job_id: str) -> bytes | None:
        if not secrets:
            return None
        return self._context.sealer.seal(orjson.dumps(dict(secrets)), _seal_context(job_id))

    def _reseal(self, sealed: bytes | None, old_id: str, new_id: str) -> bytes | None:
        if sealed is None:
            return None
        return self._context.sealer.seal(
            self._context.sealer.open(sealed, _seal_context(old_id)), _seal_context(new_id)
        )


_UNSTARTED = {
    "phase": JobPhase.PENDING,
    "message": "",
    "object": None,
    "exit_code": None,
    "started_at": None,
    "finished_at": None,
    "log_tail": "",
    "outputs": {},
}


def _check_request(actor: Actor, request: JobRequest) -> None:
    """Invalid: no agent can run the job, or its key is reserved."""
    request.check()
    if ":" in request.key and actor.kind is not ActorKind.SYSTEM:
        # Gates find their jobs by such keys: a user who takes one first would decide the gate.
        raise Invalid(
            "must not contain a colon: those keys are reserved for pipelines", field="key"
        )
    for name in request.secrets:
        placeholder(name)


def _publish_job(tx: Change, job: ClusterJob) -> None:
    tx.publish(CLUSTER_JOB, job.id)
    tx.publish(DESIRED_STATE, f"{job.cluster_id}/{job.id}")


def sealed_for_agent(
    context: OperationContext, job: ClusterJob, public_key: bytes | None
) -> list[SealedSecret]:
    """The secrets of a job, encrypted for the cluster's agent.

    Conflict: the agent reported no key; its version does not support secrets.
    """
    if job.sealed is None:
        return []
    if public_key is None:
        raise Conflict(
            "the job has secrets, but the cluster's agent has no key to seal them with: upgrade it"
        )
    values: dict[str, str] = orjson.loads(context.sealer.open(job.sealed, _seal_context(job.id)))
    return [
        # Secrets of a job never change, so its id is their version.
        seal(public_key, job.id, name, job.id, value.encode())
        for name, value in values.items()
    ]


def _seal_context(job_id: str) -> str:
    return f"cluster-job:{job_id}"
