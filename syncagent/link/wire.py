"""Conversion between `core.wire.v1` and the agent's own values.

`core.wire.codec` converts the values that the control plane shares.
"""

from collections.abc import Iterable

import orjson

from core.errors import Invalid
from core.spec.plan import PlannedChange
from core.spec.source import RenderedBundle
from core.wire import codec
from core.wire.codec import cut_text
from core.wire.v1 import agent_pb2 as pb
from syncagent.domain.events import CommandAnswer, DriftFound
from syncagent.domain.jobs import JobSpec, JobStatus
from syncagent.domain.local_services import LocalServiceReport
from syncagent.domain.observed.inventory import Component, InventoryChange
from syncagent.domain.services import Desired, Problem, ServiceSpec, SyncStatus

_MAX_LABELS = 64
_MAX_AWAITING = 1000
_MAX_COMPLAINT = 1000
# Limits of a dry run, well below the maximum size of a message.
_MAX_PLANNED = 10_000
_PLANNED_BYTES = 2 << 20


def desired_of(message: pb.Desired) -> Desired:
    """Decodes the desired state of a service. Invalid: neither a spec nor a known removal."""
    if message.WhichOneof("state") == "spec":
        policy = (
            codec.verification_from_message(message.verification)
            if message.HasField("verification")
            else None
        )
        spec = _spec(message.spec)
        lifted = message.verification.lifted
        return Desired(
            message.service_id, message.sequence, spec, verification=policy, lifted=lifted
        )
    removal = codec.REMOVAL.from_message(message.removal)
    if removal is None:
        raise Invalid("neither a spec nor a known removal", field="Desired.state")
    confirmed = tuple(map(codec.object_ref_from_message, message.confirmed))
    return Desired(message.service_id, message.sequence, removal=removal, confirmed=confirmed)


def status_to_wire(status: SyncStatus) -> pb.Report:
    body = pb.ServiceStatus(
        service_id=status.service_id,
        sequence=status.sequence,
        digest=status.digest,
        phase=codec.PHASE.to_message(status.phase),
        problems=[_problem(problem) for problem in status.problems],
        received_ms=status.stamps.received,
        fetched_ms=status.stamps.fetched,
        applied_ms=status.stamps.applied,
        healthy_ms=status.stamps.healthy,
        written=status.written,
        pruned=status.pruned,
        awaiting=[codec.object_ref_to_message(ref) for ref in status.awaiting[:_MAX_AWAITING]],
        message=cut_text(status.message, 1024),
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
        gone=[codec.object_ref_to_message(ref) for ref in change.gone],
    )
    return pb.Report(inventory=body)


def merge_inventories(older: pb.Report, newer: pb.Report) -> pb.Report:
    """Merges two successive reports.
    Drops components that were created and deleted in between. Otherwise the pods of a cron job
    would fill the disk of an agent without a link for days.
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
        object=codec.object_ref_to_message(found.ref),
        manager=cut_text(found.manager, 128),
        paths=[cut_text(path, 1024) for path in found.paths[: codec.MAX_FIELDS]],
        deleted=found.deleted,
        healed=found.healed,
        changes=map(codec.field_change_to_message, found.changes[: codec.MAX_FIELDS]),
    )
    return pb.Report(drift=body)


def done_to_wire(done: CommandAnswer) -> pb.Report:
    body = pb.CommandResult(
        command_id=done.command_id,
        outcome=f"OUTCOME_{done.outcome.name}",
        message=cut_text(done.message, 4096),
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
        attestation=codec.attestation_to_message(word) if word else None,
    )


def job_of(command_id: str, message: pb.RunJob) -> JobSpec:
    """Decodes the job of a command. Invalid: its manifest is not an object."""
    try:
        manifest = orjson.loads(message.manifest)
    except orjson.JSONDecodeError as error:
        raise Invalid("the job's manifest is not JSON") from error
    if not isinstance(manifest, dict):
        raise Invalid("the job's manifest is not an object")
    secrets = tuple(map(codec.sealed_secret_from_message, message.secrets))
    return JobSpec(
        command_id, message.namespace, manifest, message.timeout_s, message.follow, secrets
    )


def pulse_to_wire(complaint: str) -> pb.AgentMessage:
    """Encodes a pulse with a truncated complaint."""
    return pb.AgentMessage(pulse=pb.Pulse(complaint=cut_text(complaint, _MAX_COMPLAINT)))


def job_to_wire(status: JobStatus) -> pb.Report:
    body = pb.JobStatus(
        command_id=status.command_id,
        phase=codec.JOB_PHASE.to_message(status.phase),
        object=codec.object_ref_to_message(status.ref) if status.ref else None,
        message=cut_text(status.message, 4096),
        exit_code=status.exit_code,
        started_ms=status.started_ms,
        finished_ms=status.finished_ms,
        log_tail=status.log_tail[-65536:],
        outputs={
            cut_text(name, 253): cut_text(text, 4096)
            for name, text in [*status.outputs.items()][:32]
        },
    )
    return pb.Report(job=body)


def mirror_to_wire(mirror: LocalServiceReport) -> pb.Report:
    body = pb.MirroredService(
        service_id=mirror.service_id,
        name=cut_text(mirror.name, 253),
        namespace=cut_text(mirror.namespace, 63),
        repository=cut_text(mirror.repository, 2048),
        ref=cut_text(mirror.ref, 255),
        folder=cut_text(mirror.folder, 1024),
        commit=cut_text(mirror.commit, 64),
        digest=mirror.digest,
        sequence=mirror.sequence,
        removed=mirror.removed,
        error=cut_text(mirror.error, 4096),
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
        codec.sync_options_from_message(message.options),
        message.commit,
        codec.attestation_from_message(message.attestation)
        if message.HasField("attestation")
        else None,
        tuple(map(codec.sealed_secret_from_message, message.secrets)),
        message.options.dry_run,
        message.options.paused,
        tuple(map(codec.object_ref_from_message, message.options.confirmed)),
    )


def _planned(planned: Iterable[PlannedChange]) -> list[pb.PlannedChange]:
    """Encodes planned changes up to the size limit; drops field changes of later objects first,
    then objects.
    """
    found: list[pb.PlannedChange] = []
    room = _PLANNED_BYTES
    for change in planned:
        message = codec.planned_change_to_message(change)
        if sum(field.ByteSize() for field in message.fields) >= room // 2:
            del message.fields[:]
        room -= message.ByteSize()
        if room < 0 or len(found) == _MAX_PLANNED:
            break
        found.append(message)
    return found


def _problem(problem: Problem) -> pb.Problem:
    return pb.Problem(
        object=codec.object_ref_to_message(problem.ref) if problem.ref else None,
        message=cut_text(problem.message, 4096),
        reason=cut_text(problem.reason, 128),
    )


def _component(component: Component, fresh: bool) -> pb.Component:
    return pb.Component(
        object=codec.object_ref_to_message(component.ref),
        uid=cut_text(component.uid, 64),
        owner_uid=cut_text(component.owner_uid, 64),
        health=codec.HEALTH.to_message(component.health),
        message=cut_text(component.message, 1024),
        synced=component.synced,
        images=[cut_text(image, 1024) for image in component.images[:64]],
        labels={
            cut_text(k, 253): cut_text(v, 253) for k, v in [*component.labels.items()][:_MAX_LABELS]
        },
        generation=component.generation,
        hash=component.hash,
        finalizers=[cut_text(name, 253) for name in component.finalizers[:64]],
        fresh=fresh,
    )


def _key(ref: pb.ObjectRef) -> tuple[str, str, str, str]:
    return (ref.group, ref.kind, ref.namespace, ref.name)
