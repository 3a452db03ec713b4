"""Runs the checks of gates, and gives them access to clusters, services and other systems.

Each check is a job that runs at least once. The pipeline reads the result of a cluster job at its
next evaluation; all other checks return their result at once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from controlplane.access.operations.scopes import actor_of_user
from controlplane.access.ports import UserStore
from controlplane.agents.model.jobs import JobRequest
from controlplane.agents.operations.jobs import ClusterJobs
from controlplane.authorization import SYSTEM, Actor, Verb
from controlplane.clusters.operations.clusters import find_cluster
from controlplane.pipelines.engine import codec
from controlplane.pipelines.engine import effects as fx
from controlplane.pipelines.engine import events as ev
from controlplane.pipelines.model import pipeline
from controlplane.pipelines.model.gate_checks import CheckAnswer, CheckFinding, StartedJob
from controlplane.pipelines.operations.engine_runner import EngineRunner, pipeline_and_effect
from controlplane.pipelines.operations.gate_secrets import open_sealed
from controlplane.pipelines.operations.observations import job_key
from controlplane.pipelines.ports import PipelineStore
from controlplane.platform.context import OperationContext
from controlplane.platform.jobs import Job
from controlplane.platform.outbound_ports import GuardedClient
from controlplane.platform.ports import Transaction
from controlplane.platform.webhook_signatures import signature
from controlplane.services.model.service import Service
from controlplane.services.ports import LiveObjects, ServiceStore
from core.errors import Conflict, TowlineError, Unavailable
from core.identity import ClusterId
from core.json_object import JsonMapping
from core.outbound.reply import HttpReply


class CheckRunner:
    """Carries out `RunCheck` effects; `live_objects` reaches a Prometheus inside a cluster."""

    def __init__(
        self,
        context: OperationContext,
        engine: EngineRunner,
        jobs: ClusterJobs,
        http_client: GuardedClient,
        live_objects: LiveObjects | None = None,
    ) -> None:
        self._context = context
        self._engine = engine
        self._jobs = jobs
        self._http_client = http_client
        self._live_objects = live_objects

    async def run(self, job: Job) -> None:
        """Runs a check and reports its result to the engine."""
        pipeline, effect = pipeline_and_effect(job, fx.RunCheck)
        async with self._context.store.read() as tx:
            row = await tx[PipelineStore].get(pipeline)
        spec = codec.pipeline_from_json(row.spec) if row else None
        if row is None or spec is None or effect.stage not in spec.stage:
            return  # The stage was removed meanwhile.
        result: CheckFinding | StartedJob
        check = ReleaseCheck(
            self._context,
            self._jobs,
            self._http_client,
            self._live_objects,
            row.project_id,
            spec,
            effect,
        )
        try:
            result = await effect.rule.run(check)
        except Unavailable as error:
            result = CheckFinding(CheckAnswer.UNDECIDED, error.message)
        except TowlineError as error:
            result = CheckFinding(CheckAnswer.FAILED, error.message)
        await self._engine.advance(pipeline, _event_of(effect, result))


@dataclass(frozen=True, slots=True)
class ReleaseCheck:
    """`CheckContext` of one check of a release."""

    _context: OperationContext
    _jobs: ClusterJobs
    _http_client: GuardedClient
    _live_objects: LiveObjects | None
    _project_id: str
    _spec: pipeline.Pipeline
    _effect: fx.RunCheck

    @property
    def _stage(self) -> pipeline.Stage:
        return self._spec.stage[self._effect.stage]

    @property
    def promotion(self) -> JsonMapping:
        return {
            "type": "pipeline.gate",
            "pipeline": self._spec.name,
            "stage": self._stage.name,
            "gateId": self._effect.gate,
            "release": self._effect.release,
            "commits": dict(self._effect.commits),
            "digests": dict(self._effect.digests),
        }

    @property
    def placeholders(self) -> Mapping[str, str]:
        return {
            **self._effect.inputs,
            "release": self._effect.release,
            "stage": self._stage.name,
            "pipeline": self._spec.name,
            "commit": min(self._effect.commits.values(), default=""),
        }

    async def request(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes = b""
    ) -> HttpReply:
        return await self._http_client.request(method, url, headers, body)

    def sign(self, sealed: str, body: bytes) -> Mapping[str, str]:
        if not sealed:
            return {}
        secret = open_sealed(self._context.sealer, sealed)
        return signature(secret, self._effect.attempt_key, self._context.clock.now(), body)

    async def read_in_cluster(self, cluster_id: ClusterId | None, path: str) -> JsonMapping:
        if self._live_objects is None:
            raise Unavailable("this process has no connection to clusters")
        async with self._context.store.read() as tx:
            cluster = await find_cluster(tx, cluster_id)
            owner = await self._owner(tx)
        return await self._live_objects.read(owner, cluster.handle, path)

    async def run_job(
        self, namespace: str, manifest: JsonMapping, timeout_s: int, cluster: ClusterId | None
    ) -> StartedJob:
        """Starts the job of a check; a repeated call finds the same job."""
        key = job_key(self._spec.id, self._effect.attempt_key)
        request = JobRequest(namespace, manifest, timeout_s, key=key, project_id=self._project_id)
        job = await self._jobs.run(SYSTEM, cluster or await self._first_cluster(), request)
        return StartedJob(job.id)

    async def services_named(self, name: str) -> Mapping[ClusterId, Sequence[Service]]:
        async with self._context.store.read() as tx:
            stage_services = await tx[ServiceStore].by_ids(self._stage.services)
            clusters = {member.cluster_id for member in stage_services}
            owner = await self._owner(tx)
            named = await tx[ServiceStore].with_names(clusters, name)
        readable = [service for service in named if owner.may(Verb.READ, service.target)]
        return {
            cluster: [service for service in readable if service.cluster_id == cluster]
            for cluster in clusters
        }

    async def _first_cluster(self) -> ClusterId:
        async with self._context.store.read() as tx:
            services = await tx[ServiceStore].by_ids(self._stage.services[:1])
        if not services:
            raise Conflict("the stage has no service, so the job has no cluster: specify one")
        return services[0].cluster_id

    async def _owner(self, tx: Transaction) -> Actor:
        """The user who saved the pipeline, with the user's present permissions."""
        owner = self._spec.owner
        user = await tx[UserStore].get(owner.id)
        if user is None or user.disabled_at is not None:
            raise Conflict(
                f"{owner.email or 'the user who saved the pipeline'} was disabled or deleted: "
                "another user must save the pipeline"
            )
        return await actor_of_user(tx, user, self._context.clock.now())


def _event_of(effect: fx.RunCheck, result: CheckFinding | StartedJob) -> ev.Event:
    if isinstance(result, StartedJob):
        return ev.CheckStarted(effect.gate, effect.step, effect.attempt_key, result.job_id)
    return ev.CheckAnswered(
        effect.gate,
        effect.step,
        effect.attempt_key,
        result.answer,
        result.reason,
        measured=result.measured,
    )
