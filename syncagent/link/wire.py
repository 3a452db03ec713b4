"""Between `fleet.wire.v1` and the agent's own values; the only place that knows both."""

from collections.abc import Iterable

from fleet.errors import Invalid
from fleet.wire.v1 import agent_pb2 as pb
from syncagent.domain.events import ClusterFacts, CommandDone, DriftFound
from syncagent.domain.inventory import Component, InventoryChange
from syncagent.domain.objects import ObjectRef
from syncagent.domain.services import (
    Desired,
    DriftPolicy,
    Problem,
    Removal,
    ServiceSpec,
    Status,
    SyncOptions,
)

_DRIFT = {
    pb.DRIFT_POLICY_UNSPECIFIED: DriftPolicy.HEAL,
    pb.DRIFT_POLICY_HEAL: DriftPolicy.HEAL,
    pb.DRIFT_POLICY_REPORT: DriftPolicy.REPORT,
    pb.DRIFT_POLICY_IGNORE: DriftPolicy.IGNORE,
}
_REMOVAL = {pb.REMOVAL_CASCADE: Removal.CASCADE, pb.REMOVAL_ORPHAN: Removal.ORPHAN}


def desired_of(message: pb.Desired) -> Desired:
    """What the control plane wants of a service. Invalid: it says neither what nor how."""
    if message.WhichOneof("state") == "spec":
        return Desired(message.service_id, message.sequence, spec=_spec(message.spec))
    removal = _REMOVAL.get(message.removal)
    if removal is None:
        raise Invalid("neither a spec nor a known way of removal", field="Desired.state")
    return Desired(message.service_id, message.sequence, removal=removal)


def facts_to_wire(facts: ClusterFacts) -> pb.ClusterFacts:
    return pb.ClusterFacts(
        kubernetes_version=facts.version[:64],
        distribution=facts.distribution,
        nodes=facts.nodes,
    )


def status_to_wire(status: Status) -> pb.Report:
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
    )
    return pb.Report(status=body)


def inventory_to_wire(change: InventoryChange) -> pb.Report:
    body = pb.Inventory(
        service_id=change.service_id,
        complete=change.complete,
        present=[_component(one) for one in change.present],
        gone=[_ref(ref) for ref in change.gone],
    )
    return pb.Report(inventory=body)


def merge_inventories(older: pb.Report, newer: pb.Report) -> pb.Report:
    """One report that says what two successive ones say."""
    if newer.inventory.complete:
        return newer
    present = {_key(c.object): c for c in older.inventory.present}
    gone = {_key(ref): ref for ref in older.inventory.gone}
    for ref in newer.inventory.gone:
        present.pop(_key(ref), None)
        gone[_key(ref)] = ref
    for component in newer.inventory.present:
        present[_key(component.object)] = component
        gone.pop(_key(component.object), None)
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
        paths=[_cut(path, 1024) for path in found.paths],
        deleted=found.deleted,
        healed=found.healed,
    )
    return pb.Report(drift=body)


def done_to_wire(done: CommandDone) -> pb.Report:
    body = pb.CommandResult(
        command_id=done.command_id,
        outcome=f"OUTCOME_{done.outcome.name}",
        message=_cut(done.message, 4096),
    )
    return pb.Report(result=body)


def held_to_wire(held: Iterable[tuple[str, int]]) -> list[pb.Held]:
    return [pb.Held(service_id=service_id, sequence=sequence) for service_id, sequence in held]


def _spec(message: pb.ServiceSpec) -> ServiceSpec:
    return ServiceSpec(
        message.name,
        message.namespace,
        message.digest,
        message.bundle_bytes,
        _options(message.options),
    )


def _options(message: pb.SyncOptions) -> SyncOptions:
    return SyncOptions(
        create_namespace=message.create_namespace,
        dry_run=message.dry_run,
        paused=message.paused,
        drift=_DRIFT.get(message.drift, DriftPolicy.HEAL),
        keep_on_prune=message.keep_on_prune,
        namespace_labels=dict(message.namespace_labels),
        namespace_annotations=dict(message.namespace_annotations),
    )


def _problem(problem: Problem) -> pb.Problem:
    return pb.Problem(
        object=_ref(problem.ref) if problem.ref else None,
        message=_cut(problem.message, 4096),
        reason=_cut(problem.reason, 128),
    )


def _component(one: Component) -> pb.Component:
    return pb.Component(
        object=_ref(one.ref),
        uid=_cut(one.uid, 64),
        owner_uid=_cut(one.owner_uid, 64),
        health=f"HEALTH_{one.health.name}",
        message=_cut(one.message, 1024),
        synced=one.synced,
        images=[_cut(image, 1024) for image in one.images[:64]],
    )


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
    """The text within the wire's limit, in bytes, never through the middle of a character."""
    data = text.encode(errors="replace")
    return data.decode() if len(data) <= limit else data[:limit].decode(errors="ignore")
