"""Translates between wire messages and values of the control plane.

`core.wire.codec` translates the values that agents share.
"""

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
from core.spec.jobs import JobPhase
from core.spec.objects import ObjectKey
from core.spec.plan import PlannedChange
from core.spec.status import Phase
from core.wire import codec
from core.wire.codec import plain_text
from core.wire.v1 import agent_pb2 as wire

_LATEST_MS = int(datetime(2100, 1, 1, tzinfo=UTC).timestamp() * 1000)
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
_SEALING_KEY_BYTES = 32


def greeting(hello: wire.Hello) -> AgentHello:
    """Translates the agent's first message."""
    autonomous = hello.mode == wire.MODE_AUTONOMOUS
    sealing_key = hello.sealing_key if len(hello.sealing_key) == _SEALING_KEY_BYTES else None
    return AgentHello(
        instance=plain_text(hello.instance_id),
        agent_version=plain_text(hello.agent_version),
        about=codec.cluster_facts_from_message(hello.facts),
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
            sequence=service.desired.generation,
            removal=codec.REMOVAL.to_message(service.removal),
            confirmed=_confirmed(service),
        )
    attested = service.desired.attestation
    return wire.Desired(
        service_id=service.id,
        sequence=service.desired.generation,
        spec=wire.ServiceSpec(
            name=service.name,
            namespace=service.namespace,
            digest=service.desired.digest or "",
            bundle_bytes=service.desired.bundle_bytes,
            object_count=service.desired.object_count,
            commit=service.desired.commit_sha or "",
            options=_options(service),
            attestation=codec.attestation_to_message(attested) if attested else None,
            secrets=map(codec.sealed_secret_to_message, secrets),
            bundle=bundle,
        ),
        verification=_verification(service),
    )


def _verification(service: Service) -> wire.Verification | None:
    """Translates the verification policy."""
    policy, hold = service.policy, service.desired.quarantine
    if policy is None:
        return None
    message = codec.verification_to_message(policy)
    message.lifted = (
        hold is not None and bool(hold.lifted_by) and hold.digest == service.desired.digest
    )
    return message


def _options(service: Service) -> wire.SyncOptions:
    message = codec.sync_options_to_message(service.spec.options)
    message.dry_run, message.paused = service.spec.dry_run, service.spec.paused
    message.confirmed.extend(_confirmed(service))
    return message


def _confirmed(service: Service) -> list[wire.ObjectRef]:
    """Translates the deletions that a user has confirmed for the newest generation."""
    confirmed = service.desired.confirmed
    if confirmed is None or confirmed.generation != service.desired.generation:
        return []
    return [codec.object_ref_to_message(ref) for ref in confirmed.objects]


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
        secrets=map(codec.sealed_secret_to_message, secrets),
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
    return plain_text(message.complaint)


def _status(message: wire.ServiceStatus) -> StatusReport:
    return StatusReport(
        service_id=message.service_id,
        sequence=message.sequence,
        digest=message.digest,
        phase=codec.PHASE.from_message(message.phase) or Phase.APPLYING,
        problems=tuple(_problem(problem) for problem in message.problems),
        received_at=_time(message.received_ms),
        fetched_at=_time(message.fetched_ms),
        applied_at=_time(message.applied_ms),
        healthy_at=_time(message.healthy_ms),
        written=message.written,
        pruned=message.pruned,
        awaiting=tuple(map(codec.object_ref_from_message, message.awaiting)),
        message=plain_text(message.message),
        planned=_planned(message),
    )


def _planned(message: wire.ServiceStatus) -> tuple[PlannedChange, ...] | None:
    """An older agent reports only differences, and cannot report that there are none."""
    if not message.rehearsed and not message.planned:
        return None
    planned = map(codec.planned_change_from_message, message.planned)
    return tuple(change for change in planned if change is not None)


def _problem(message: wire.Problem) -> Problem:
    """Omits the object if the message of a bundle error names it already."""
    where = message.object
    if not where.kind:
        return Problem("sync", plain_text(message.message))
    namespace = f"{where.namespace}/" if where.namespace else ""
    named = f"{where.kind} {namespace}{where.name}"
    tells = message.message.startswith((f"{named}:", f"{named} "))
    return Problem("sync", plain_text(message.message if tells else f"{named}: {message.message}"))


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
        message=plain_text(message.message),
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
    return CommandReport(message.command_id, state, plain_text(message.message), made)


def _made(message: wire.RenderResult) -> RemoteRenderResult:
    reads, word = tuple(plain_text(path) for path in message.reads), message.attestation
    attestation = codec.attestation_from_message(word) if word.key_id else None
    return RemoteRenderResult(message.digest, message.source, reads, attestation)


def _drift(message: wire.Drift) -> DriftReport:
    return DriftReport(
        service_id=message.service_id,
        key=_key(message.object),
        manager=plain_text(message.manager),
        paths=tuple(plain_text(path) for path in message.paths),
        deleted=message.deleted,
        healed=message.healed,
        changes=tuple(map(codec.field_change_from_message, message.changes)),
    )


def _job(message: wire.JobStatus) -> JobReport:
    return JobReport(
        command_id=message.command_id,
        phase=codec.JOB_PHASE.from_message(message.phase) or JobPhase.PENDING,
        object=codec.object_ref_from_message(message.object) if message.object.kind else None,
        message=plain_text(message.message),
        exit_code=message.exit_code,
        started_at=_time(message.started_ms),
        finished_at=_time(message.finished_ms),
        log_tail=plain_text(message.log_tail.decode(errors="replace")),
        outputs={plain_text(name): plain_text(text) for name, text in message.outputs.items()},
    )


def _mirror(message: wire.MirroredService) -> MirrorReport:
    return MirrorReport(
        service_id=message.service_id,
        name=plain_text(message.name),
        namespace=plain_text(message.namespace),
        repository=plain_text(message.repository),
        ref=plain_text(message.ref),
        folder=plain_text(message.folder),
        commit=message.commit,
        digest=message.digest,
        sequence=message.sequence,
        removed=message.removed,
        error=plain_text(message.error),
    )


def _key(ref: wire.ObjectRef) -> ObjectKey:
    return (ref.group, ref.kind, ref.namespace, ref.name)


def _time(millis: int) -> datetime | None:
    """A time of the agent's clock; times beyond the calendar become the last possible time."""
    if millis <= 0:
        return None
    return datetime.fromtimestamp(min(millis, _LATEST_MS) / 1000, UTC)


_BODIES = {
    "status": _status,
    "inventory": _inventory,
    "result": _result,
    "drift": _drift,
    "job": _job,
    "facts": codec.cluster_facts_from_message,
    "mirrored": _mirror,
    "verified": codec.verification_result_from_message,
}
