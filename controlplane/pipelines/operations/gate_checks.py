"""Runs the checks of gates: jobs in clusters, metrics, HTTP requests, versions of other services.

Each check is a job that runs at least once. The pipeline reads the result of a cluster job at its
next evaluation; all other checks return their result at once.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import orjson

from controlplane.access.ports import UserStore
from controlplane.agents.model.jobs import JobRequest
from controlplane.agents.operations.jobs import ClusterJobs
from controlplane.authorization import SYSTEM, Actor, ActorKind
from controlplane.clusters.operations.clusters import find_cluster
from controlplane.pipelines.engine import codec
from controlplane.pipelines.engine import effects as fx
from controlplane.pipelines.engine import events as ev
from controlplane.pipelines.gates.metrics import evaluate_metric, parse_samples
from controlplane.pipelines.gates.steps import CheckAnswer, CheckFinding
from controlplane.pipelines.gates.templating import fill_manifest
from controlplane.pipelines.model import pipeline
from controlplane.pipelines.model.gate_rules import (
    HttpRule,
    JobRule,
    MetricRule,
    VersionRule,
    service_address,
)
from controlplane.pipelines.operations.gate_secrets import open_gate_secret
from controlplane.pipelines.operations.observations import job_key
from controlplane.pipelines.operations.pipelines import Pipelines
from controlplane.pipelines.ports import PipelineStore
from controlplane.platform.context import OperationContext
from controlplane.platform.jobs import Job
from controlplane.platform.outbound_ports import GuardedClient
from controlplane.platform.ports import Transaction
from controlplane.platform.webhook_signatures import signature
from controlplane.services.model.status_codes import ServiceStatus
from controlplane.services.ports import LiveObjects, ServiceStore
from core.errors import Conflict, Invalid, TowlineError, Unavailable

_NOT_YET = frozenset((202, 409, 425, 429, 503))


class CheckRunner:
    """Carries out `RunCheck` effects. `live` reaches a Prometheus server inside a cluster."""

    def __init__(
        self,
        deps: OperationContext,
        pipelines: Pipelines,
        jobs: ClusterJobs,
        outward: GuardedClient,
    ) -> None:
        self._context = deps
        self._pipelines = pipelines
        self._jobs = jobs
        self._outward = outward
        self.live: LiveObjects | None = None

    async def run(self, job: Job) -> None:
        """Runs a check and reports its result to the engine."""
        pipeline = job.payload["pipeline"]
        effect = codec.effect_from_json(job.payload["effect"])
        if not isinstance(effect, fx.RunCheck):
            raise TowlineError(f"job {job.key} contains no check")
        async with self._context.store.read() as tx:
            row = await tx[PipelineStore].get(pipeline)
        if row is None:
            return
        spec = codec.pipeline_from_json(row.spec)
        event: ev.Event
        try:
            event = await self._event(spec, effect)
        except Unavailable as error:
            event = _answered(effect, CheckFinding(CheckAnswer.UNDECIDED, error.message))
        except TowlineError as error:
            event = _answered(effect, CheckFinding(CheckAnswer.FAILED, error.message))
        await self._pipelines.advance(pipeline, event)

    async def _event(self, spec: pipeline.Pipeline, effect: fx.RunCheck) -> ev.Event:
        match effect.rule:
            case JobRule():
                return await self._start(spec, effect, effect.rule)
            case MetricRule():
                return _answered(effect, await self._measure(spec, effect.rule))
            case HttpRule():
                return _answered(effect, await self._ask(spec, effect, effect.rule))
            case VersionRule():
                return _answered(effect, await self._look(spec, effect, effect.rule))

    async def _start(self, spec: pipeline.Pipeline, effect: fx.RunCheck, rule: JobRule) -> ev.Event:
        """Starts the cluster job of a check; a repeated call finds the same job."""
        values = {
            **effect.inputs,
            "release": effect.release,
            "stage": spec.stage[effect.stage].name,
            "pipeline": spec.name,
            "commit": min(effect.commits.values(), default=""),
        }
        request = JobRequest(
            namespace=rule.namespace,
            manifest=fill_manifest(rule.manifest, values),
            timeout_s=rule.timeout_seconds,
            key=job_key(spec.id, effect.attempt_key),
        )
        cluster = rule.cluster_id or await self._cluster_of(spec, effect.stage)
        job = await self._jobs.run(SYSTEM, cluster, request)
        return ev.CheckStarted(effect.gate, effect.step, effect.attempt_key, job.id)

    async def _cluster_of(self, spec: pipeline.Pipeline, stage: pipeline.StageId) -> str:
        async with self._context.store.read() as tx:
            services = await tx[ServiceStore].select(id=spec.stage[stage].services[:1])
        if not services:
            raise Conflict("the stage has no service, so the job has no cluster: specify one")
        return services[0].cluster_id

    async def _measure(self, spec: pipeline.Pipeline, rule: MetricRule) -> CheckFinding:
        values = parse_samples(await self._query(spec, rule, rule.query))
        if not rule.baseline:
            return evaluate_metric(rule, values)
        return evaluate_metric(
            rule, values, parse_samples(await self._query(spec, rule, rule.baseline))
        )

    async def _query(
        self, spec: pipeline.Pipeline, rule: MetricRule, query: str
    ) -> Mapping[str, Any]:
        path = f"/api/v1/query?{urlencode({'query': query})}"
        if rule.url:
            reply = await self._outward.ask("GET", rule.url.rstrip("/") + path, {})
            return _json(reply.body, reply.status)
        if self.live is None:
            raise Unavailable("this process has no connection to clusters")
        async with self._context.store.read() as tx:
            cluster = await find_cluster(tx, rule.cluster_id)
            owner = await self._owner(tx, spec)
        namespace, name, port = service_address(rule.service)
        proxied = f"/api/v1/namespaces/{namespace}/services/{name}:{port}/proxy{path}"
        return await self.live.read(owner, cluster.handle, proxied)

    async def _owner(self, tx: Transaction, spec: pipeline.Pipeline) -> Actor:
        """The user who saved the pipeline; the cluster is read with the user's present
        permissions."""
        user = await tx[UserStore].get(spec.owner.id)
        if user is None or user.disabled_at is not None:
            raise Conflict(
                f"{spec.owner.email or 'the user who saved the pipeline'} was disabled or deleted: "
                "another user must save the pipeline"
            )
        return Actor(ActorKind.USER, id=user.id, name=user.name, email=user.email)

    async def _ask(
        self, spec: pipeline.Pipeline, effect: fx.RunCheck, rule: HttpRule
    ) -> CheckFinding:
        body = orjson.dumps(
            {
                "type": "pipeline.gate",
                "pipeline": spec.name,
                "stage": spec.stage[effect.stage].name,
                "gateId": effect.gate,
                "release": effect.release,
                "commits": dict(effect.commits),
                "digests": dict(effect.digests),
            }
        )
        headers = {"content-type": "application/json"}
        if secret := open_gate_secret(self._context.sealer, rule):
            headers |= signature(secret, effect.attempt_key, self._context.clock.now(), body)
        reply = await self._outward.ask("POST", rule.url, headers, body)
        return _judge_reply(rule, reply.status, reply.body)

    async def _look(
        self, spec: pipeline.Pipeline, effect: fx.RunCheck, rule: VersionRule
    ) -> CheckFinding:
        async with self._context.store.read() as tx:
            members = await tx[ServiceStore].select(id=spec.stage[effect.stage].services)
            clusters = {member.cluster_id for member in members}
            found = await tx[ServiceStore].select(cluster_id=clusters, name=rule.service)
        missing = clusters - {service.cluster_id for service in found}
        if missing:
            return CheckFinding(
                CheckAnswer.UNDECIDED, f"{len(missing)} clusters have no service {rule.service}"
            )
        for service in found:
            if not rule.holds(service.spec.version):
                mismatch = (
                    f"{rule.service} has version {service.spec.version}, expected {rule.range}"
                )
                return CheckFinding(CheckAnswer.UNDECIDED, mismatch)
            if service.status is not ServiceStatus.HEALTHY:
                return CheckFinding(
                    CheckAnswer.UNDECIDED, f"{rule.service} is {service.status.value}"
                )
        return CheckFinding(
            CheckAnswer.PASSED, f"{rule.service} is healthy at {found[0].spec.version}"
        )


def _answered(effect: fx.RunCheck, found: CheckFinding) -> ev.CheckAnswered:
    return ev.CheckAnswered(
        effect.gate,
        effect.step,
        effect.attempt_key,
        found.answer,
        found.reason,
        measured=found.measured,
    )


def _judge_reply(rule: HttpRule, status: int, body: bytes) -> CheckFinding:
    good = status == rule.status if rule.status else 200 <= status <= 299
    if status in _NOT_YET and status != rule.status:
        return CheckFinding(CheckAnswer.UNDECIDED, f"got {status}: not ready yet")
    if not good:
        return CheckFinding(CheckAnswer.FAILED, f"got {status}")
    if rule.contains and rule.contains not in body.decode(errors="replace"):
        return CheckFinding(
            CheckAnswer.FAILED,
            f"got {status}, but the body does not contain {rule.contains[:80]!r}",
        )
    return CheckFinding(CheckAnswer.PASSED, f"got {status}")


def _json(body: bytes, status: int) -> Mapping[str, Any]:
    try:
        reply = orjson.loads(body)
    except orjson.JSONDecodeError:
        reply = None
    if isinstance(reply, dict):
        return reply
    if status >= 500:
        raise Unavailable(f"the Prometheus server returned {status}")
    raise Invalid(f"not a Prometheus response: status {status}")
