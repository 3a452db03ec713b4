"""Translates between wire messages and domain values; the only place that does."""

import base64
from collections.abc import Iterable
from datetime import UTC, datetime

import orjson

from controlplane.agents.model.jobs import ClusterJob
from controlplane.agents.model.reports import (
    AgentHello,
    CommandReport,
    DriftReport,
    InventoryReport,
    JobReport,
    MirrorReport,
    ObservedComponent,
    RemoteRenderResult,
    Report,
    StatusReport,
)
from controlplane.clusters.model.cluster import AgentMode
from controlplane.clusters.model.commands import Command, CommandKind, CommandState
from controlplane.services.model.service import ComponentState, Problem, Service
from core.sealing import SealedSecret
from core.spec.attestation import Attestation
from core.spec.facts import ClusterFacts, DeprecatedApi
from core.spec.health import HealthRule, HealthState
from core.spec.jobs import JobPhase
from core.spec.objects import FieldChange, ObjectKey, ObjectRef
from core.spec.plan import PlannedAction, PlannedChange
from core.spec.status import Phase
from core.spec.sync import DriftPolicy, Removal
from core.spec.thresholds import Comparison
from core.spec.verification import MetricCheck, VerificationResult
from core.wire.v1 import agent_pb2 as wire

_LATEST_MS = int(datetime(2100, 1, 1, tzinfo=UTC).timestamp() * 1000)
_PHASES = {
    wire.PHASE_FETCHING: Phase.FETCHING,
    wire.PHASE_APPLYING: Phase.APPLYING,
    wire.PHASE_APPLIED: Phase.APPLIED,
    wire.PHASE_HEALTHY: Phase.HEALTHY,
    wire.PHASE_DEGRADED: Phase.DEGRADED,
    wire.PHASE_FAILED: Phase.FAILED,
    wire.PHASE_REMOVED: Phase.REMOVED,
    wire.PHASE_AWAITING: Phase.AWAITING,
}
_STATES = {
    wire.HEALTH_HEALTHY: ComponentState.RUNNING,
    wire.HEALTH_PROGRESSING: ComponentState.PENDING,
    wire.HEALTH_FAILED: ComponentState.FAILED,
    wire.HEALTH_MISSING: ComponentState.PENDING,
    wire.HEALTH_PAUSED: ComponentState.PAUSED,
}
_OUTCOMES = {
    wire.OUTCOME_SUCCEEDED: CommandState.SUCCEEDED,
    wire.OUTCOME_FAILED: CommandState.FAILED,
    wire.OUTCOME_REFUSED: CommandState.REFUSED,
}
_MAX_SOAK_S = 604_800
_COMPARISONS = {
    Comparison.BELOW: wire.COMPARISON_LESS,
    Comparison.AT_MOST: wire.COMPARISON_AT_MOST,
    Comparison.ABOVE: wire.COMPARISON_GREATER,
    Comparison.AT_LEAST: wire.COMPARISON_AT_LEAST,
}
_DRIFT = {
    DriftPolicy.HEAL: wire.DRIFT_POLICY_HEAL,
    DriftPolicy.REPORT: wire.DRIFT_POLICY_REPORT,
    DriftPolicy.IGNORE: wire.DRIFT_POLICY_IGNORE,
}
_HEALTH = {
    HealthState.HEALTHY: wire.HEALTH_HEALTHY,
    HealthState.PROGRESSING: wire.HEALTH_PROGRESSING,
    HealthState.FAILED: wire.HEALTH_FAILED,
    HealthState.PAUSED: wire.HEALTH_PAUSED,
    HealthState.MISSING: wire.HEALTH_MISSING,
}
_CHANGES = {
    wire.CHANGE_CREATE: PlannedAction.CREATE,
    wire.CHANGE_UPDATE: PlannedAction.UPDATE,
    wire.CHANGE_REPLACE: PlannedAction.REPLACE,
    wire.CHANGE_DELETE: PlannedAction.DELETE,
}
_JOBS = {
    wire.JOB_PHASE_PENDING: JobPhase.PENDING,
    wire.JOB_PHASE_RUNNING: JobPhase.RUNNING,
    wire.JOB_PHASE_SUCCEEDED: JobPhase.SUCCEEDED,
    wire.JOB_PHASE_FAILED: JobPhase.FAILED,
    wire.JOB_PHASE_CANCELLED: JobPhase.CANCELLED,
}
_SEALING_KEY_BYTES = 32
_REMOVALS = {
    Removal.CASCADE: wire.REMOVAL_CASCADE,
    Removal.ORPHAN: wire.REMOVAL_ORPHAN,
}


def greeting(hello: wire.Hello) -> AgentHello:
    """Translates the agent's first message."""
    autonomous = hello.mode == wire.MODE_AUTONOMOUS
    sealing_key = hello.sealing_key if len(hello.sealing_key) == _SEALING_KEY_BYTES else None
    return AgentHello(
        instance=_plain(hello.instance_id),
        agent_version=_plain(hello.agent_version),
        about=_facts(hello.facts),
        mode=AgentMode.AUTONOMOUS if autonomous else AgentMode.MANAGED,
        sealing_key=sealing_key,
    )


def desired(
    service: Service, secrets: Iterable[SealedSecret] = (), bundle: bytes = b""
) -> wire.Desired:
    """Translates the desired state of a service, deleted or not.

    `secrets` are the values that its bundle references. `bundle` is included if it is small.
    """
    if service.removal is not None:
        return wire.Desired(
            service_id=service.id,
            sequence=service.sequence,
            removal=_REMOVALS[service.removal],
            confirmed=_confirmed(service),
        )
    attested = service.attestation
    return wire.Desired(
        service_id=service.id,
        sequence=service.sequence,
        spec=wire.ServiceSpec(
            name=service.name,
            namespace=service.namespace,
            digest=service.digest or "",
            bundle_bytes=service.bundle_bytes,
            object_count=service.object_count,
            commit=service.sha or "",
            options=_options(service),
            attestation=wire.Attestation(
                key_id=attested.key_id,
                statement=attested.statement,
                signature=attested.signature,
            )
            if attested
            else None,
            secrets=_secrets(secrets),
            bundle=bundle,
        ),
        verification=_verification(service),
    )


def _verification(service: Service) -> wire.Verification | None:
    """Translates the verification policy; agents support at most one week."""
    policy, hold = service.policy, service.hold
    if policy is None:
        return None
    return wire.Verification(
        soak_seconds=min(policy.soak_s, _MAX_SOAK_S),
        max_restarts=policy.max_restarts,
        metric=_metric(policy.metric) if policy.metric else None,
        lifted=hold is not None and bool(hold.lifted_by) and hold.digest == service.digest,
    )


def _metric(check: MetricCheck) -> wire.MetricCheck:
    return wire.MetricCheck(
        address=check.address,
        query=check.query,
        comparison=_COMPARISONS[check.comparison],
        threshold=check.threshold,
    )


def _options(service: Service) -> wire.SyncOptions:
    options = service.options
    return wire.SyncOptions(
        create_namespace=options.create_namespace,
        dry_run=service.dry_run,
        paused=service.paused,
        drift=_DRIFT[options.drift],
        keep_on_prune=options.keep_on_prune,
        namespace_labels=options.namespace_labels,
        namespace_annotations=options.namespace_annotations,
        fail_on_conflict=options.fail_on_conflict,
        replace_immutable=options.replace_immutable,
        ignored=[
            wire.IgnoredDifference(
                group=difference.group,
                kind=difference.kind,
                namespace=difference.namespace,
                name=difference.name,
                pointers=difference.pointers,
                managers=difference.managers,
            )
            for difference in options.ignored
        ],
        health_rules=[_rule(rule) for rule in options.health_rules],
        wave_timeout_s=options.wave_timeout_s,
        deletion_budget=options.deletion_budget,
        confirmed=_confirmed(service),
    )


def _confirmed(service: Service) -> list[wire.ObjectRef]:
    """Translates the deletions that a user has confirmed for the newest sequence."""
    confirmed = service.confirmed
    if confirmed is None or confirmed.sequence != service.sequence:
        return []
    return [_ref(object_) for object_ in confirmed.objects]


def _rule(rule: HealthRule) -> wire.HealthRule:
    return wire.HealthRule(
        group=rule.group,
        kind=rule.kind,
        health=_HEALTH[rule.health],
        conditions=[
            wire.FieldCondition(pointer=condition.pointer, any_of=condition.any_of)
            for condition in rule.conditions
        ],
        message=rule.message,
    )


def _secrets(secrets: Iterable[SealedSecret]) -> list[wire.SealedSecret]:
    return [
        wire.SealedSecret(name=secret.name, version=secret.version, box=secret.box)
        for secret in secrets
    ]


def orphan_service(service_id: str, sequence: int) -> wire.Desired:
    """Tells an agent to drop a service that the control plane no longer knows; its objects stay."""
    return wire.Desired(service_id=service_id, sequence=sequence + 1, removal=wire.REMOVAL_ORPHAN)


def command(command_: Command) -> wire.Command:
    """Translates a command; `run_job` translates commands that run a job."""
    match command_.kind:
        case CommandKind.TERMINATE:
            terminate = wire.Terminate(service_id=command_.service_id or "")
            return wire.Command(id=command_.id, terminate=terminate)
        case CommandKind.CANCEL_JOB:
            cancel = wire.CancelJob(command_id=command_.payload["job"])
            return wire.Command(id=command_.id, cancel_job=cancel)
        case CommandKind.UPGRADE:
            upgrade = wire.UpgradeAgent(
                version=command_.payload["version"], image=command_.payload["image"]
            )
            return wire.Command(id=command_.id, upgrade=upgrade)
        case CommandKind.RENDER:
            box = base64.b64decode(command_.payload["box"])
            return wire.Command(id=command_.id, render=wire.RenderOrder(box=box))
        case _:
            return wire.Command(
                id=command_.id, sync_now=wire.SyncNow(service_id=command_.service_id or "")
            )


def run_job(job: ClusterJob, secrets: Iterable[SealedSecret]) -> wire.Command:
    """Translates the command that runs a job."""
    body = wire.RunJob(
        namespace=job.namespace,
        manifest=orjson.dumps(dict(job.manifest)),
        timeout_s=job.timeout_s,
        secrets=_secrets(secrets),
        follow=job.follow,
    )
    return wire.Command(id=job.id, run_job=body)


def report(message: wire.Report) -> Report:
    """Translates a numbered report; its body is None for a kind that this version does not know."""
    kind = message.WhichOneof("body")
    body = _BODIES[kind](getattr(message, kind)) if kind in _BODIES else None
    return Report(message.number, _time(message.at_ms) or datetime.fromtimestamp(0, UTC), body)


def agent_problem(message: wire.Pulse) -> str:
    """Translates the agent's own problem; empty: none."""
    return _plain(message.complaint)


def _status(message: wire.ServiceStatus) -> StatusReport:
    return StatusReport(
        service_id=message.service_id,
        sequence=message.sequence,
        digest=message.digest,
        phase=_PHASES.get(message.phase, Phase.APPLYING),
        problems=tuple(_problem(problem) for problem in message.problems),
        received_at=_time(message.received_ms),
        fetched_at=_time(message.fetched_ms),
        applied_at=_time(message.applied_ms),
        healthy_at=_time(message.healthy_ms),
        written=message.written,
        pruned=message.pruned,
        awaiting=tuple(_name(ref) for ref in message.awaiting),
        message=_plain(message.message),
        planned=_planned(message),
    )


def _planned(message: wire.ServiceStatus) -> tuple[PlannedChange, ...] | None:
    """An older agent reports only differences, and cannot report that there are none."""
    if not message.rehearsed and not message.planned:
        return None
    return tuple(
        PlannedChange(_name(change.object), _CHANGES[change.change], _field_changes(change.fields))
        for change in message.planned
        if change.change in _CHANGES
    )


def _field_changes(changes: Iterable[wire.FieldChange]) -> tuple[FieldChange, ...]:
    return tuple(
        FieldChange(_plain(change.pointer), _plain(change.old), _plain(change.new))
        for change in changes
    )


def _problem(message: wire.Problem) -> Problem:
    """Omits the object if the message of a bundle error names it already."""
    where = message.object
    if not where.kind:
        return Problem("sync", _plain(message.message))
    namespace = f"{where.namespace}/" if where.namespace else ""
    named = f"{where.kind} {namespace}{where.name}"
    tells = message.message.startswith((f"{named}:", f"{named} "))
    return Problem("sync", _plain(message.message if tells else f"{named}: {message.message}"))


def _inventory(message: wire.Inventory) -> InventoryReport:
    return InventoryReport(
        service_id=message.service_id,
        complete=message.complete,
        present=tuple(_component(component) for component in message.present),
        gone=tuple(_key(ref) for ref in message.gone),
    )


def _component(message: wire.Component) -> ObservedComponent:
    return ObservedComponent(
        key=_key(message.object),
        version=message.object.version,
        uid=message.uid,
        owner_uid=message.owner_uid,
        state=_STATES.get(message.health),
        message=_plain(message.message),
        synced=message.synced,
        images=tuple(message.images),
        labels=dict(message.labels),
        generation=message.generation,
        hash=message.hash,
        finalizers=tuple(message.finalizers),
    )


def _result(message: wire.CommandResult) -> CommandReport:
    state = _OUTCOMES.get(message.outcome, CommandState.FAILED)
    made = _made(message.render) if message.HasField("render") else None
    return CommandReport(message.command_id, state, _plain(message.message), made)


def _made(message: wire.RenderResult) -> RemoteRenderResult:
    reads, word = tuple(_plain(path) for path in message.reads), message.attestation
    attestation = Attestation(word.key_id, word.statement, word.signature) if word.key_id else None
    return RemoteRenderResult(message.digest, message.source, reads, attestation)


def _verified(message: wire.Verified) -> VerificationResult:
    return VerificationResult(
        service_id=message.service_id,
        sequence=message.sequence,
        digest=message.digest,
        ok=message.ok,
        reason=_plain(message.reason),
        instead=message.instead,
    )


def _drift(message: wire.Drift) -> DriftReport:
    return DriftReport(
        service_id=message.service_id,
        key=_key(message.object),
        manager=_plain(message.manager),
        paths=tuple(_plain(path) for path in message.paths),
        deleted=message.deleted,
        healed=message.healed,
        changes=_field_changes(message.changes),
    )


def _job(message: wire.JobStatus) -> JobReport:
    return JobReport(
        command_id=message.command_id,
        phase=_JOBS.get(message.phase, JobPhase.PENDING),
        object=_name(message.object) if message.object.kind else None,
        message=_plain(message.message),
        exit_code=message.exit_code,
        started_at=_time(message.started_ms),
        finished_at=_time(message.finished_ms),
        log_tail=_plain(message.log_tail.decode(errors="replace")),
        outputs={_plain(name): _plain(text) for name, text in message.outputs.items()},
    )


def _facts(message: wire.ClusterFacts) -> ClusterFacts:
    return ClusterFacts(
        kubernetes_version=_plain(message.kubernetes_version),
        distribution=_plain(message.distribution),
        nodes=message.nodes,
        cpu_millis=message.cpu_millis,
        memory_bytes=message.memory_bytes,
        pod_capacity=message.pod_capacity,
        api_versions=tuple(map(_plain, message.api_versions)),
        deprecated=tuple(
            DeprecatedApi(*map(_plain, (api.group, api.version, api.resource, api.removed_in)))
            for api in message.deprecated
        ),
    )


def _mirror(message: wire.MirroredService) -> MirrorReport:
    return MirrorReport(
        service_id=message.service_id,
        name=_plain(message.name),
        namespace=_plain(message.namespace),
        repository=_plain(message.repository),
        ref=_plain(message.ref),
        folder=_plain(message.folder),
        commit=message.commit,
        digest=message.digest,
        sequence=message.sequence,
        removed=message.removed,
        error=_plain(message.error),
    )


def _name(ref: wire.ObjectRef) -> ObjectRef:
    return ObjectRef(
        _plain(ref.group), _plain(ref.version), _plain(ref.kind), ref.namespace, _plain(ref.name)
    )


def _ref(name: ObjectRef) -> wire.ObjectRef:
    return wire.ObjectRef(
        group=name.group,
        version=name.version,
        kind=name.kind,
        namespace=name.namespace,
        name=name.name,
    )


def _key(ref: wire.ObjectRef) -> ObjectKey:
    return (ref.group, ref.kind, ref.namespace, ref.name)


def _time(millis: int) -> datetime | None:
    """A time of the agent's clock; times beyond the calendar become the last possible time."""
    if millis <= 0:
        return None
    return datetime.fromtimestamp(min(millis, _LATEST_MS) / 1000, UTC)


def _plain(text: str) -> str:
    """Removes NUL, the only character of a cluster's text that the store cannot keep."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}")


_BODIES = {
    "status": _status,
    "inventory": _inventory,
    "result": _result,
    "drift": _drift,
    "job": _job,
    "facts": _facts,
    "mirrored": _mirror,
    "verified": _verified,
}
