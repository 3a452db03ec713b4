"""Conversion between `core.wire.v1` and the agent's values; the only module that knows both."""

from collections.abc import Iterable

import orjson

from core.errors import Invalid
from core.sealing import SealedSecret
from core.spec.attestation import Attestation
from core.spec.facts import ClusterFacts
from core.spec.health import FieldCondition, HealthRule, HealthState
from core.spec.objects import FieldChange, ObjectRef
from core.spec.plan import PlannedChange
from core.spec.source import RenderedBundle
from core.spec.sync import DriftPolicy, IgnoredDifference, Removal, SyncOptions
from core.spec.thresholds import Comparison
from core.spec.verification import MetricCheck, Verification, VerificationResult
from core.wire.v1 import agent_pb2 as pb
from syncagent.domain.events import CommandAnswer, DriftFound
from syncagent.domain.inventory import Component, InventoryChange
from syncagent.domain.jobs import JobSpec, JobStatus
from syncagent.domain.local_services import LocalServiceReport
from syncagent.domain.services import Desired, Problem, ServiceSpec, SyncStatus

_DRIFT = {
    pb.DRIFT_POLICY_UNSPECIFIED: DriftPolicy.HEAL,
    pb.DRIFT_POLICY_HEAL: DriftPolicy.HEAL,
    pb.DRIFT_POLICY_REPORT: DriftPolicy.REPORT,
    pb.DRIFT_POLICY_IGNORE: DriftPolicy.IGNORE,
}
_HEALTH = {
    pb.HEALTH_HEALTHY: HealthState.HEALTHY,
    pb.HEALTH_PROGRESSING: HealthState.PROGRESSING,
    pb.HEALTH_FAILED: HealthState.FAILED,
    pb.HEALTH_PAUSED: HealthState.PAUSED,
    pb.HEALTH_MISSING: HealthState.MISSING,
}
_COMPARISONS = {
    pb.COMPARISON_LESS: Comparison.BELOW,
    pb.COMPARISON_AT_MOST: Comparison.AT_MOST,
    pb.COMPARISON_GREATER: Comparison.ABOVE,
    pb.COMPARISON_AT_LEAST: Comparison.AT_LEAST,
}
_MAX_LABELS = 64
_MAX_APIS = 1000
_MAX_AWAITING = 1000
_MAX_COMPLAINT = 1000
_MAX_FIELDS = 32
# Limits of a dry run, well below the maximum size of a message.
_MAX_PLANNED = 10_000
_PLANNED_BYTES = 2 << 20
_REMOVAL = {pb.REMOVAL_CASCADE: Removal.CASCADE, pb.REMOVAL_ORPHAN: Removal.ORPHAN}


def desired_of(message: pb.Desired) -> Desired:
    """Decodes the desired state of a service. Invalid: neither a spec nor a known removal."""
    if message.WhichOneof("state") == "spec":
        policy = _verification(message.verification) if message.HasField("verification") else None
        spec = _spec(message.spec)
        lifted = message.verification.lifted
        return Desired(
            message.service_id, message.sequence, spec, verification=policy, lifted=lifted
        )
    removal = _REMOVAL.get(message.removal)
    if removal is None:
        raise Invalid("neither a spec nor a known removal", field="Desired.state")
    confirmed = tuple(_ref_of(ref) for ref in message.confirmed)
    return Desired(message.service_id, message.sequence, removal=removal, confirmed=confirmed)


def facts_to_wire(facts: ClusterFacts) -> pb.ClusterFacts:
    return pb.ClusterFacts(
        kubernetes_version=_cut(facts.kubernetes_version, 64),
        distribution=facts.distribution,
        nodes=facts.nodes,
        cpu_millis=facts.cpu_millis,
        memory_bytes=facts.memory_bytes,
        pod_capacity=facts.pod_capacity,
        api_versions=[_cut(api, 320) for api in facts.api_versions[:_MAX_APIS]],
        deprecated=[
            pb.DeprecatedApi(
                group=_cut(api.group, 253),
                version=_cut(api.version, 63),
                resource=_cut(api.resource, 253),
                removed_in=_cut(api.removed_in, 16),
            )
            for api in facts.deprecated[:_MAX_APIS]
        ],
    )


def status_to_wire(status: SyncStatus) -> pb.Report:
    body = pb.ServiceStatus(
        service_id=status.service_id,
        sequence=status.sequence,
        digest=status.digest,
        phase=f"PHASE_{status.phase.name}",
        problems=[_problem(problem) for problem in status.problems],
        received_ms=status.stamps.received,
        fetched_ms=status.stamps.fetched,
        applied_ms=status.stamps.applied,
        healthy_ms=status.stamps.healthy,
        written=status.written,
        pruned=status.pruned,
        awaiting=[_ref(ref) for ref in status.awaiting[:_MAX_AWAITING]],
        message=_cut(status.message, 1024),
        planned=_planned(status.planned or ()),
        rehearsed=status.planned is not None,
    )
    return pb.Report(status=body)


def inventory_to_wire(change: InventoryChange) -> pb.Report:
    body = pb.Inventory(
        service_id=change.service_id,
        complete=change.complete,
        present=[
            _component(component, component.ref.key in change.fresh) for component in change.present
        ],
        gone=[_ref(ref) for ref in change.gone],
    )
    return pb.Report(inventory=body)


def merge_inventories(older: pb.Report, newer: pb.Report) -> pb.Report:
    """Merges two successive reports.
    Components that came and went in between are dropped: otherwise the pods of a cron job would
    fill the disk of an agent without a link for days.
    """
    if newer.inventory.complete:
        return newer
    present = {_key(c.object): c for c in older.inventory.present}
    gone = {_key(ref): ref for ref in older.inventory.gone}
    for ref in newer.inventory.gone:
        before = present.pop(_key(ref), None)
        if before is None or not before.fresh:
            gone[_key(ref)] = ref
    for component in newer.inventory.present:
        key = _key(component.object)
        before = present.get(key)
        # The other side may know a component that was gone and is back.
        component.fresh = component.fresh and key not in gone if before is None else before.fresh
        present[key] = component
        gone.pop(key, None)
    complete = older.inventory.complete
    body = pb.Inventory(
        service_id=newer.inventory.service_id,
        complete=complete,
        present=present.values(),
        gone=() if complete else gone.values(),
    )
    return pb.Report(inventory=body)


def drift_to_wire(found: DriftFound) -> pb.Report:
    body = pb.Drift(
        service_id=found.service_id,
        object=_ref(found.ref),
        manager=_cut(found.manager, 128),
        paths=[_cut(path, 1024) for path in found.paths[:_MAX_FIELDS]],
        deleted=found.deleted,
        healed=found.healed,
        changes=_changes(found.changes),
    )
    return pb.Report(drift=body)


def verified_to_wire(verified: VerificationResult) -> pb.Report:
    body = pb.Verified(
        service_id=verified.service_id,
        sequence=verified.sequence,
        digest=verified.digest,
        ok=verified.ok,
        reason=_cut(verified.reason, 4096),
        instead=verified.instead,
    )
    return pb.Report(verified=body)


def done_to_wire(done: CommandAnswer) -> pb.Report:
    body = pb.CommandResult(
        command_id=done.command_id,
        outcome=f"OUTCOME_{done.outcome.name}",
        message=_cut(done.message, 4096),
        render=_render(done.rendered) if done.rendered else None,
    )
    return pb.Report(result=body)


def _render(rendered: RenderedBundle) -> pb.RenderResult:
    word = rendered.attestation
    return pb.RenderResult(
        digest=rendered.digest,
        source=rendered.source,
        size=rendered.size,
        count=rendered.count,
        reads=rendered.reads,
        attestation=pb.Attestation(
            key_id=word.key_id, statement=word.statement, signature=word.signature
        )
        if word
        else None,
    )


def job_of(command_id: str, message: pb.RunJob) -> JobSpec:
    """Decodes the job of a command. Invalid: its manifest is not an object."""
    try:
        manifest = orjson.loads(message.manifest)
    except orjson.JSONDecodeError as error:
        raise Invalid("the job's manifest is not JSON") from error
    if not isinstance(manifest, dict):
        raise Invalid("the job's manifest is not an object")
    secrets = tuple(secret_of(secret) for secret in message.secrets)
    return JobSpec(
        command_id, message.namespace, manifest, message.timeout_s, message.follow, secrets
    )


def pulse_to_wire(complaint: str) -> pb.AgentMessage:
    """Encodes a pulse with a truncated complaint."""
    return pb.AgentMessage(pulse=pb.Pulse(complaint=_cut(complaint, _MAX_COMPLAINT)))


def job_to_wire(status: JobStatus) -> pb.Report:
    body = pb.JobStatus(
        command_id=status.command_id,
        phase=f"JOB_PHASE_{status.phase.name}",
        object=_ref(status.ref) if status.ref else None,
        message=_cut(status.message, 4096),
        exit_code=status.exit_code,
        started_ms=status.started_ms,
        finished_ms=status.finished_ms,
        log_tail=status.log_tail[-65536:],
        outputs={
            _cut(name, 253): _cut(text, 4096) for name, text in [*status.outputs.items()][:32]
        },
    )
    return pb.Report(job=body)


def mirror_to_wire(mirror: LocalServiceReport) -> pb.Report:
    body = pb.MirroredService(
        service_id=mirror.service_id,
        name=_cut(mirror.name, 253),
        namespace=_cut(mirror.namespace, 63),
        repository=_cut(mirror.repository, 2048),
        ref=_cut(mirror.ref, 255),
        folder=_cut(mirror.folder, 1024),
        commit=_cut(mirror.commit, 64),
        digest=mirror.digest,
        sequence=mirror.sequence,
        removed=mirror.removed,
        error=_cut(mirror.error, 4096),
    )
    return pb.Report(mirrored=body)


def stored_services_to_wire(held: Iterable[tuple[str, int]]) -> list[pb.Held]:
    return [pb.Held(service_id=service_id, sequence=sequence) for service_id, sequence in held]


def _spec(message: pb.ServiceSpec) -> ServiceSpec:
    return ServiceSpec(
        message.name,
        message.namespace,
        message.digest,
        message.bundle_bytes,
        _options(message.options),
        message.commit,
        _attestation(message.attestation) if message.HasField("attestation") else None,
        tuple(secret_of(secret) for secret in message.secrets),
        message.options.dry_run,
        message.options.paused,
        tuple(_ref_of(ref) for ref in message.options.confirmed),
    )


def _verification(message: pb.Verification) -> Verification:
    """Decodes a verification. Invalid: unknown comparison."""
    metric = None
    if message.HasField("metric"):
        comparison = _COMPARISONS.get(message.metric.comparison)
        if comparison is None:
            raise Invalid("not a known comparison", field="MetricCheck.comparison")
        told = message.metric
        metric = MetricCheck(told.address, told.query, told.threshold, comparison)
    return Verification(message.soak_seconds, message.max_restarts, metric)


def _attestation(message: pb.Attestation) -> Attestation:
    return Attestation(message.key_id, message.statement, message.signature)


def secret_of(message: pb.SealedSecret) -> SealedSecret:
    return SealedSecret(message.name, message.version, message.box)


def _options(message: pb.SyncOptions) -> SyncOptions:
    return SyncOptions(
        create_namespace=message.create_namespace,
        drift=_DRIFT.get(message.drift, DriftPolicy.HEAL),
        keep_on_prune=message.keep_on_prune,
        namespace_labels=dict(message.namespace_labels),
        namespace_annotations=dict(message.namespace_annotations),
        fail_on_conflict=message.fail_on_conflict,
        replace_immutable=message.replace_immutable,
        ignored=tuple(_ignored(difference) for difference in message.ignored),
        health_rules=tuple(_rule(rule) for rule in message.health_rules if rule.health in _HEALTH),
        wave_timeout_s=message.wave_timeout_s,
        deletion_budget=message.deletion_budget,
    )


def _ignored(message: pb.IgnoredDifference) -> IgnoredDifference:
    return IgnoredDifference(
        message.group,
        message.kind,
        message.namespace,
        message.name,
        tuple(message.pointers),
        tuple(message.managers),
    )


def _rule(message: pb.HealthRule) -> HealthRule:
    conditions = tuple(
        FieldCondition(condition.pointer, tuple(condition.any_of))
        for condition in message.conditions
    )
    return HealthRule(
        message.group, message.kind, _HEALTH[message.health], conditions, message.message
    )


def _planned(planned: Iterable[PlannedChange]) -> list[pb.PlannedChange]:
    """Encodes planned changes up to the size limit; drops field changes of later objects first,
    then objects.
    """
    found: list[pb.PlannedChange] = []
    room = _PLANNED_BYTES
    for change in planned:
        message = pb.PlannedChange(
            object=_ref(change.object), change=f"CHANGE_{change.change.name}"
        )
        fields = _changes(change.fields)
        if sum(field.ByteSize() for field in fields) < room // 2:
            message.fields.extend(fields)
        room -= message.ByteSize()
        if room < 0 or len(found) == _MAX_PLANNED:
            break
        found.append(message)
    return found


def _changes(changes: Iterable[FieldChange]) -> list[pb.FieldChange]:
    return [
        pb.FieldChange(
            pointer=_cut(change.pointer, 1024),
            old=_cut(change.old, 1024),
            new=_cut(change.new, 1024),
        )
        for change in list(changes)[:_MAX_FIELDS]
    ]


def _problem(problem: Problem) -> pb.Problem:
    return pb.Problem(
        object=_ref(problem.ref) if problem.ref else None,
        message=_cut(problem.message, 4096),
        reason=_cut(problem.reason, 128),
    )


def _component(component: Component, fresh: bool) -> pb.Component:
    return pb.Component(
        object=_ref(component.ref),
        uid=_cut(component.uid, 64),
        owner_uid=_cut(component.owner_uid, 64),
        health=f"HEALTH_{component.health.name}",
        message=_cut(component.message, 1024),
        synced=component.synced,
        images=[_cut(image, 1024) for image in component.images[:64]],
        labels={_cut(k, 253): _cut(v, 253) for k, v in [*component.labels.items()][:_MAX_LABELS]},
        generation=component.generation,
        hash=component.hash,
        finalizers=[_cut(name, 253) for name in component.finalizers[:64]],
        fresh=fresh,
    )


def _ref_of(message: pb.ObjectRef) -> ObjectRef:
    return ObjectRef(message.group, message.version, message.kind, message.namespace, message.name)


def _ref(ref: ObjectRef) -> pb.ObjectRef:
    return pb.ObjectRef(
        group=_cut(ref.group, 253),
        version=_cut(ref.version, 63),
        kind=_cut(ref.kind, 63),
        namespace=_cut(ref.namespace, 63),
        name=_cut(ref.name, 253),
    )


def _key(ref: pb.ObjectRef) -> tuple[str, str, str, str]:
    return (ref.group, ref.kind, ref.namespace, ref.name)


def _cut(text: str, limit: int) -> str:
    """Truncates text to the wire's limit in bytes, never within a character."""
    if text.isascii():
        return text[:limit]
    data = text.encode(errors="replace")
    return data[:limit].decode(errors="ignore")
