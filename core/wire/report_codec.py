"""Codec between the agents' reports and the messages of `core.wire.v1`.

Values are cut to the limits of the messages, and texts lose NUL, the only character of a cluster's
text that the store cannot keep.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from itertools import compress, islice
from typing import Any

from core.spec.facts import ClusterFacts, DeprecatedApi
from core.spec.input_checks import (
    MAX_INPUT_CHECKS,
    CheckResult,
    InputCheck,
    InputKind,
    InputVerdict,
)
from core.spec.jobs import JobPhase, JobStatus
from core.spec.objects import FieldChange
from core.spec.plan import PlannedAction, PlannedChange
from core.spec.reports.commands import CommandAnswer, CommandOutcome
from core.spec.reports.drift import DriftFound
from core.spec.reports.inventory import InventoryChange, ObservedComponent
from core.spec.reports.local_services import LocalServiceReport
from core.spec.reports.report import Report, ReportBody
from core.spec.source import BaseFolder, FetchedChart, RenderedBundle, RenderedFile
from core.spec.status import Phase, Problem, StageTimes, SyncStatus
from core.spec.verification import VerificationResult
from core.wire.codec import (
    HEALTH,
    EnumCodec,
    attestation_from_message,
    attestation_to_message,
    cut_text,
    drop_unknown,
    object_ref_from_message,
    object_ref_to_message,
    plain_text,
)
from core.wire.v1 import agent_pb2 as pb

PHASE = EnumCodec(Phase, pb.Phase, "PHASE_")
JOB_PHASE = EnumCodec(JobPhase, pb.JobPhase, "JOB_PHASE_")
OUTCOME = EnumCodec(CommandOutcome, pb.Outcome, "OUTCOME_")
INPUT_KIND = EnumCodec(InputKind, pb.InputKind, "INPUT_KIND_")
CHECK_RESULT = EnumCodec(CheckResult, pb.CheckResult, "CHECK_RESULT_")
PLANNED_ACTION = EnumCodec(PlannedAction, pb.Change, "CHANGE_")

_EPOCH = datetime.fromtimestamp(0, UTC)
_LATEST_MS = int(datetime(2100, 1, 1, tzinfo=UTC).timestamp() * 1000)
_MAX_FIELDS = 32
_MAX_APIS = 4000
_MAX_DEPRECATED = 1000
_MAX_LABELS = 64
_MAX_NAMES = 64
_MAX_OUTPUTS = 32
_MAX_PROBLEMS = 100
_MAX_AWAITING = 1000
_MAX_LOG_BYTES = 65_536
# Limits of a dry run, well below the maximum size of a message.
_MAX_PLANNED = 10_000
_PLANNED_BYTES = 2 << 20


def time_to_message(time: datetime | None) -> int:
    """Encodes a time in milliseconds since 1970; 0 means None."""
    return (time - _EPOCH) // timedelta(milliseconds=1) if time else 0


def time_from_message(millis: int) -> datetime | None:
    """Decodes a time of the agent's clock; times beyond the calendar become the last one."""
    if millis <= 0:
        return None
    return datetime.fromtimestamp(min(millis, _LATEST_MS) / 1000, UTC)


def field_change_to_message(change: FieldChange) -> pb.FieldChange:
    return pb.FieldChange(
        pointer=cut_text(change.pointer, 1024),
        old=cut_text(change.old, 1024),
        new=cut_text(change.new, 1024),
    )


def field_change_from_message(message: pb.FieldChange) -> FieldChange:
    return FieldChange(
        plain_text(message.pointer), plain_text(message.old), plain_text(message.new)
    )


def planned_change_to_message(change: PlannedChange) -> pb.PlannedChange:
    return pb.PlannedChange(
        object=object_ref_to_message(change.object),
        change=PLANNED_ACTION.to_message(change.change),
        fields=[field_change_to_message(field) for field in change.fields[:_MAX_FIELDS]],
    )


def planned_change_from_message(message: pb.PlannedChange) -> PlannedChange | None:
    """Returns the change; None for an action that this version does not know."""
    action = PLANNED_ACTION.from_message(message.change)
    if action is None:
        return None
    fields = tuple(field_change_from_message(field) for field in message.fields)
    return PlannedChange(object_ref_from_message(message.object), action, fields)


def deprecated_api_to_message(api: DeprecatedApi) -> pb.DeprecatedApi:
    return pb.DeprecatedApi(
        group=cut_text(api.group, 253),
        version=cut_text(api.version, 63),
        resource=cut_text(api.resource, 253),
        removed_in=cut_text(api.removed_in, 16),
    )


def deprecated_api_from_message(message: pb.DeprecatedApi) -> DeprecatedApi:
    return DeprecatedApi(
        plain_text(message.group),
        plain_text(message.version),
        plain_text(message.resource),
        plain_text(message.removed_in),
    )


def cluster_facts_to_message(facts: ClusterFacts) -> pb.ClusterFacts:
    return pb.ClusterFacts(
        kubernetes_version=cut_text(facts.kubernetes_version, 64),
        distribution=cut_text(facts.distribution, 32),
        nodes=facts.nodes,
        cpu_millis=facts.cpu_millis,
        memory_bytes=facts.memory_bytes,
        pod_capacity=facts.pod_capacity,
        api_versions=[cut_text(api, 384) for api in facts.api_versions[:_MAX_APIS]],
        deprecated=[deprecated_api_to_message(api) for api in facts.deprecated[:_MAX_DEPRECATED]],
        token_expires_ms=time_to_message(facts.token_expires_at),
    )


def cluster_facts_from_message(message: pb.ClusterFacts) -> ClusterFacts:
    return ClusterFacts(
        kubernetes_version=plain_text(message.kubernetes_version),
        distribution=plain_text(message.distribution),
        nodes=message.nodes,
        cpu_millis=message.cpu_millis,
        memory_bytes=message.memory_bytes,
        pod_capacity=message.pod_capacity,
        api_versions=tuple(map(plain_text, message.api_versions)),
        deprecated=tuple(map(deprecated_api_from_message, message.deprecated)),
        token_expires_at=time_from_message(message.token_expires_ms),
    )


def verification_result_to_message(result: VerificationResult) -> pb.Verified:
    return pb.Verified(
        service_id=cut_text(result.service_id, 64),
        sequence=result.sequence,
        digest=cut_text(result.digest, 71),
        ok=result.ok,
        reason=cut_text(result.reason, 4096),
        instead=cut_text(result.instead, 71),
    )


def verification_result_from_message(message: pb.Verified) -> VerificationResult:
    return VerificationResult(
        service_id=plain_text(message.service_id),
        sequence=message.sequence,
        digest=plain_text(message.digest),
        ok=message.ok,
        reason=plain_text(message.reason),
        instead=plain_text(message.instead),
    )


def problem_to_message(problem: Problem) -> pb.Problem:
    return pb.Problem(
        object=object_ref_to_message(problem.ref) if problem.ref else None,
        message=cut_text(problem.message, 4096),
        reason=cut_text(problem.reason, 128),
        source=cut_text(problem.source, 32),
    )


def problem_from_message(message: pb.Problem) -> Problem:
    return Problem(
        plain_text(message.message),
        source=plain_text(message.source) or "sync",
        reason=plain_text(message.reason),
        ref=object_ref_from_message(message.object) if message.HasField("object") else None,
    )


def sync_status_to_message(status: SyncStatus) -> pb.ServiceStatus:
    return pb.ServiceStatus(
        service_id=cut_text(status.service_id, 64),
        sequence=status.sequence,
        digest=cut_text(status.digest, 71),
        phase=PHASE.to_message(status.phase),
        problems=map(problem_to_message, status.problems[:_MAX_PROBLEMS]),
        received_ms=time_to_message(status.stamps.received),
        fetched_ms=time_to_message(status.stamps.fetched),
        applied_ms=time_to_message(status.stamps.applied),
        healthy_ms=time_to_message(status.stamps.healthy),
        written=status.written,
        pruned=status.pruned,
        awaiting=map(object_ref_to_message, status.awaiting[:_MAX_AWAITING]),
        message=cut_text(status.message, 1024),
        planned=_planned_to_message(status.planned or ()),
        rehearsed=status.planned is not None,
        drifted=status.drifted,
        inputs=input_verdict_to_message(status.inputs) if status.inputs is not None else None,
    )


def sync_status_from_message(message: pb.ServiceStatus) -> SyncStatus:
    stamps = StageTimes(
        received=time_from_message(message.received_ms),
        fetched=time_from_message(message.fetched_ms),
        applied=time_from_message(message.applied_ms),
        healthy=time_from_message(message.healthy_ms),
    )
    return SyncStatus(
        service_id=plain_text(message.service_id),
        sequence=message.sequence,
        digest=plain_text(message.digest),
        phase=PHASE.from_message(message.phase) or Phase.APPLYING,
        problems=tuple(map(problem_from_message, message.problems)),
        stamps=stamps,
        written=message.written,
        pruned=message.pruned,
        awaiting=tuple(map(object_ref_from_message, message.awaiting)),
        message=plain_text(message.message),
        planned=_planned_from_message(message),
        drifted=message.drifted,
        inputs=input_verdict_from_message(message.inputs) if message.HasField("inputs") else None,
    )


def input_verdict_to_message(verdict: InputVerdict) -> pb.InputVerdict:
    return pb.InputVerdict(
        digest=cut_text(verdict.digest, 71),
        at_ms=time_to_message(verdict.at),
        checks=map(input_check_to_message, verdict.checks[:MAX_INPUT_CHECKS]),
    )


def input_verdict_from_message(message: pb.InputVerdict) -> InputVerdict:
    """Decodes a verdict; drops checks of kinds and results that this version does not know."""
    checks = (input_check_from_message(check) for check in message.checks)
    return InputVerdict(
        plain_text(message.digest),
        time_from_message(message.at_ms) or _EPOCH,
        tuple(check for check in checks if check is not None),
    )


def input_check_to_message(check: InputCheck) -> pb.InputCheck:
    return pb.InputCheck(
        kind=INPUT_KIND.to_message(check.kind),
        subject=cut_text(check.subject, 1024),
        result=CHECK_RESULT.to_message(check.result),
        reason=cut_text(check.reason, 1024),
    )


def input_check_from_message(message: pb.InputCheck) -> InputCheck | None:
    kind, result = INPUT_KIND.from_message(message.kind), CHECK_RESULT.from_message(message.result)
    if kind is None or result is None:
        return None
    return InputCheck(kind, plain_text(message.subject), result, plain_text(message.reason))


def _planned_to_message(planned: Iterable[PlannedChange]) -> list[pb.PlannedChange]:
    """Encodes planned changes up to the size limit; drops field changes of later objects first,
    then objects.
    """
    messages: list[pb.PlannedChange] = []
    free_bytes = _PLANNED_BYTES
    for change in planned:
        message = planned_change_to_message(change)
        if sum(field.ByteSize() for field in message.fields) >= free_bytes // 2:
            del message.fields[:]
        free_bytes -= message.ByteSize()
        if free_bytes < 0 or len(messages) == _MAX_PLANNED:
            break
        messages.append(message)
    return messages


def _planned_from_message(message: pb.ServiceStatus) -> tuple[PlannedChange, ...] | None:
    """An older agent reports only differences, and cannot report that there are none."""
    if not message.rehearsed and not message.planned:
        return None
    return drop_unknown(map(planned_change_from_message, message.planned))


def component_to_message(component: ObservedComponent) -> pb.Component:
    health = component.health
    return pb.Component(
        object=object_ref_to_message(component.ref),
        uid=cut_text(component.uid, 64),
        owner_uid=cut_text(component.owner_uid, 64),
        health=HEALTH.to_message(health) if health else pb.HEALTH_UNSPECIFIED,
        message=cut_text(component.message, 1024),
        reason=cut_text(component.reason, 128),
        synced=component.synced,
        images=[cut_text(image, 1024) for image in component.images[:_MAX_NAMES]],
        labels=_cut_map(component.labels, _MAX_LABELS, 253),
        generation=component.generation,
        hash=cut_text(component.hash, 71),
        finalizers=[cut_text(name, 253) for name in component.finalizers[:_MAX_NAMES]],
    )


def component_from_message(message: pb.Component) -> ObservedComponent:
    return ObservedComponent(
        ref=object_ref_from_message(message.object),
        uid=plain_text(message.uid),
        owner_uid=plain_text(message.owner_uid),
        health=HEALTH.from_message(message.health),
        message=plain_text(message.message),
        reason=plain_text(message.reason),
        synced=message.synced,
        images=tuple(map(plain_text, message.images)),
        labels=_plain_map(message.labels),
        generation=message.generation,
        hash=plain_text(message.hash),
        finalizers=tuple(map(plain_text, message.finalizers)),
    )


def inventory_to_message(change: InventoryChange) -> pb.Inventory:
    message = pb.Inventory(
        service_id=cut_text(change.service_id, 64),
        complete=change.complete,
        present=map(component_to_message, change.present),
        gone=map(object_ref_to_message, change.gone),
    )
    for component, sent in zip(change.present, message.present, strict=True):
        sent.fresh = component.ref.key in change.fresh
    return message


def inventory_from_message(message: pb.Inventory) -> InventoryChange:
    present = tuple(map(component_from_message, message.present))
    fresh = (sent.fresh for sent in message.present)
    return InventoryChange(
        service_id=plain_text(message.service_id),
        complete=message.complete,
        present=present,
        gone=tuple(map(object_ref_from_message, message.gone)),
        fresh=frozenset(component.ref.key for component in compress(present, fresh)),
    )


def drift_to_message(drift: DriftFound) -> pb.Drift:
    return pb.Drift(
        service_id=cut_text(drift.service_id, 64),
        object=object_ref_to_message(drift.ref),
        manager=cut_text(drift.manager, 128),
        paths=[cut_text(path, 1024) for path in drift.paths[:_MAX_FIELDS]],
        deleted=drift.deleted,
        healed=drift.healed,
        changes=map(field_change_to_message, drift.changes[:_MAX_FIELDS]),
    )


def drift_from_message(message: pb.Drift) -> DriftFound:
    return DriftFound(
        service_id=plain_text(message.service_id),
        ref=object_ref_from_message(message.object),
        manager=plain_text(message.manager),
        paths=tuple(map(plain_text, message.paths)),
        deleted=message.deleted,
        healed=message.healed,
        changes=tuple(map(field_change_from_message, message.changes)),
    )


def job_status_to_message(status: JobStatus) -> pb.JobStatus:
    return pb.JobStatus(
        command_id=cut_text(status.command_id, 64),
        phase=JOB_PHASE.to_message(status.phase),
        object=object_ref_to_message(status.ref) if status.ref else None,
        message=cut_text(status.message, 4096),
        exit_code=status.exit_code,
        started_ms=time_to_message(status.started_at),
        finished_ms=time_to_message(status.finished_at),
        log_tail=status.log_tail.encode(errors="replace")[-_MAX_LOG_BYTES:],
        outputs=_cut_map(status.outputs, _MAX_OUTPUTS, 4096),
    )


def job_status_from_message(message: pb.JobStatus) -> JobStatus:
    return JobStatus(
        command_id=plain_text(message.command_id),
        phase=JOB_PHASE.from_message(message.phase) or JobPhase.PENDING,
        ref=object_ref_from_message(message.object) if message.HasField("object") else None,
        message=plain_text(message.message),
        exit_code=message.exit_code,
        started_at=time_from_message(message.started_ms),
        finished_at=time_from_message(message.finished_ms),
        log_tail=plain_text(message.log_tail.decode(errors="replace")),
        outputs=_plain_map(message.outputs),
    )


def local_service_to_message(report: LocalServiceReport) -> pb.MirroredService:
    return pb.MirroredService(
        service_id=cut_text(report.service_id, 64),
        name=cut_text(report.name, 253),
        namespace=cut_text(report.namespace, 63),
        repository=cut_text(report.repository, 2048),
        ref=cut_text(report.ref, 255),
        folder=cut_text(report.folder, 1024),
        commit=cut_text(report.commit, 64),
        digest=cut_text(report.digest, 71),
        sequence=report.sequence,
        removed=report.removed,
        error=cut_text(report.error, 4096),
        reason=cut_text(report.reason, 64),
        committed_ms=time_to_message(report.committed_at),
    )


def local_service_from_message(message: pb.MirroredService) -> LocalServiceReport:
    return LocalServiceReport(
        service_id=plain_text(message.service_id),
        name=plain_text(message.name),
        namespace=plain_text(message.namespace),
        repository=plain_text(message.repository),
        ref=plain_text(message.ref),
        folder=plain_text(message.folder),
        commit=plain_text(message.commit),
        digest=plain_text(message.digest),
        sequence=message.sequence,
        removed=message.removed,
        error=plain_text(message.error),
        reason=plain_text(message.reason),
        committed_at=time_from_message(message.committed_ms),
    )


def rendered_bundle_to_message(rendered: RenderedBundle) -> pb.RenderResult:
    """Encodes the result of a render; a part of its reads would be a wrong result."""
    attested = rendered.attestation
    return pb.RenderResult(
        source=rendered.source,
        digest=rendered.digest,
        size=rendered.size,
        count=rendered.count,
        cached=rendered.cached,
        reads=rendered.reads,
        charts=(pb.FetchedChart(url=chart.url, name=chart.name) for chart in rendered.charts),
        files=(pb.RenderedFile(path=file.path, objects=file.objects) for file in rendered.files),
        attestation=attestation_to_message(attested) if attested else None,
        bases=[pb.BaseFolder(url=b.url, folder=b.folder, ref=b.ref) for b in rendered.bases],
    )


def rendered_bundle_from_message(message: pb.RenderResult) -> RenderedBundle:
    attested = message.HasField("attestation")
    return RenderedBundle(
        source=plain_text(message.source),
        digest=plain_text(message.digest),
        size=message.size,
        count=message.count,
        cached=message.cached,
        reads=tuple(map(plain_text, message.reads)),
        charts=tuple(
            FetchedChart(plain_text(chart.url), plain_text(chart.name)) for chart in message.charts
        ),
        files=tuple(RenderedFile(plain_text(file.path), file.objects) for file in message.files),
        attestation=attestation_from_message(message.attestation) if attested else None,
        bases=tuple(
            BaseFolder(plain_text(base.url), plain_text(base.folder), plain_text(base.ref))
            for base in message.bases
        ),
    )


def command_answer_to_message(answer: CommandAnswer) -> pb.CommandResult:
    rendered = answer.rendered
    return pb.CommandResult(
        command_id=cut_text(answer.command_id, 64),
        outcome=OUTCOME.to_message(answer.outcome),
        message=cut_text(answer.message, 4096),
        render=rendered_bundle_to_message(rendered) if rendered else None,
    )


def command_answer_from_message(message: pb.CommandResult) -> CommandAnswer:
    rendered = message.HasField("render")
    return CommandAnswer(
        command_id=plain_text(message.command_id),
        outcome=OUTCOME.from_message(message.outcome) or CommandOutcome.FAILED,
        message=plain_text(message.message),
        rendered=rendered_bundle_from_message(message.render) if rendered else None,
    )


_ENCODERS: Mapping[type[ReportBody], tuple[str, Callable[[Any], Any]]] = {
    SyncStatus: ("status", sync_status_to_message),
    InventoryChange: ("inventory", inventory_to_message),
    CommandAnswer: ("result", command_answer_to_message),
    DriftFound: ("drift", drift_to_message),
    JobStatus: ("job", job_status_to_message),
    ClusterFacts: ("facts", cluster_facts_to_message),
    LocalServiceReport: ("mirrored", local_service_to_message),
    VerificationResult: ("verified", verification_result_to_message),
}
_DECODERS: Mapping[str | None, Callable[[Any], ReportBody]] = {
    "status": sync_status_from_message,
    "inventory": inventory_from_message,
    "result": command_answer_from_message,
    "drift": drift_from_message,
    "job": job_status_from_message,
    "facts": cluster_facts_from_message,
    "mirrored": local_service_from_message,
    "verified": verification_result_from_message,
}


def report_to_message(body: ReportBody) -> pb.Report:
    """Encodes a report that has no number yet."""
    field, encode = _ENCODERS[type(body)]
    return pb.Report(**{field: encode(body)})


def report_from_message(message: pb.Report) -> Report:
    """Decodes a report; its body is None for a kind that this version does not know."""
    field = message.WhichOneof("body")
    body = _DECODERS[field](getattr(message, field)) if field in _DECODERS else None
    return Report(message.number, time_from_message(message.at_ms) or _EPOCH, body)


def _cut_map(texts: Mapping[str, str], items: int, limit: int) -> dict[str, str]:
    """Cuts a map to a number of items, and their values to a limit in bytes."""
    return {
        cut_text(name, 253): cut_text(text, limit) for name, text in islice(texts.items(), items)
    }


def _plain_map(texts: Mapping[str, str]) -> dict[str, str]:
    return {plain_text(name): plain_text(text) for name, text in texts.items()}
