"""Wire messages to values of the domain and back: the only translator."""

from datetime import UTC, datetime

from controlplane.domain.clusters import Distribution
from controlplane.domain.commands import Command, CommandState
from controlplane.domain.reports import (
    CommandReport,
    DriftReport,
    Facts,
    InventoryReport,
    ObjectKey,
    ObservedComponent,
    Report,
    StatusReport,
)
from controlplane.domain.services import (
    ComponentState,
    DriftPolicy,
    Phase,
    Problem,
    Removal,
    Service,
)
from fleet.wire.v1 import agent_pb2 as wire

_LATEST_MS = int(datetime(2100, 1, 1, tzinfo=UTC).timestamp() * 1000)
_PHASES = {
    wire.PHASE_FETCHING: Phase.FETCHING,
    wire.PHASE_APPLYING: Phase.APPLYING,
    wire.PHASE_APPLIED: Phase.APPLIED,
    wire.PHASE_HEALTHY: Phase.HEALTHY,
    wire.PHASE_DEGRADED: Phase.DEGRADED,
    wire.PHASE_FAILED: Phase.FAILED,
    wire.PHASE_REMOVED: Phase.REMOVED,
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
_DRIFT = {
    DriftPolicy.HEAL: wire.DRIFT_POLICY_HEAL,
    DriftPolicy.REPORT: wire.DRIFT_POLICY_REPORT,
    DriftPolicy.IGNORE: wire.DRIFT_POLICY_IGNORE,
}
_REMOVALS = {
    Removal.CASCADE: wire.REMOVAL_CASCADE,
    Removal.ORPHAN: wire.REMOVAL_ORPHAN,
}


def facts(hello: wire.Hello) -> Facts:
    """What an agent says of itself; an unknown distribution counts as none."""
    distribution = hello.facts.distribution.upper()
    return Facts(
        instance=hello.instance_id,
        agent_version=hello.agent_version,
        kubernetes_version=hello.facts.kubernetes_version,
        distribution=distribution if distribution in set(Distribution) else "",
        nodes=hello.facts.nodes,
    )


def desired(service: Service) -> wire.Desired:
    """The desired state of a service, deleted or not."""
    if service.removal is not None:
        return wire.Desired(
            service_id=service.id, sequence=service.sequence, removal=_REMOVALS[service.removal]
        )
    options = service.options
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
            options=wire.SyncOptions(
                create_namespace=options.create_namespace,
                dry_run=service.dry_run,
                paused=service.paused,
                drift=_DRIFT[options.drift],
                namespace_labels=options.namespace_labels,
                namespace_annotations=options.namespace_annotations,
            ),
        ),
    )


def orphan(service_id: str, sequence: int) -> wire.Desired:
    """Tell an agent to forget a service that the hub no longer knows; its objects stay."""
    return wire.Desired(service_id=service_id, sequence=sequence + 1, removal=wire.REMOVAL_ORPHAN)


def command(one: Command) -> wire.Command:
    """A command for the agent."""
    return wire.Command(id=one.id, sync_now=wire.SyncNow(service_id=one.service_id or ""))


def report(message: wire.Report) -> Report:
    """A numbered report; its body is None for a kind that this version does not know."""
    kind = message.WhichOneof("body")
    body = _BODIES[kind](getattr(message, kind)) if kind in _BODIES else None
    return Report(message.number, _time(message.at_ms) or datetime.fromtimestamp(0, UTC), body)


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
    )


def _problem(message: wire.Problem) -> Problem:
    where = message.object
    if not where.kind:
        return Problem("sync", _plain(message.message))
    namespace = f"{where.namespace}/" if where.namespace else ""
    return Problem("sync", _plain(f"{where.kind} {namespace}{where.name}: {message.message}"))


def _inventory(message: wire.Inventory) -> InventoryReport:
    return InventoryReport(
        service_id=message.service_id,
        complete=message.complete,
        present=tuple(_component(one) for one in message.present),
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
    )


def _result(message: wire.CommandResult) -> CommandReport:
    state = _OUTCOMES.get(message.outcome, CommandState.FAILED)
    return CommandReport(message.command_id, state, _plain(message.message))


def _drift(message: wire.Drift) -> DriftReport:
    return DriftReport(
        service_id=message.service_id,
        key=_key(message.object),
        manager=_plain(message.manager),
        paths=tuple(_plain(path) for path in message.paths),
        deleted=message.deleted,
        healed=message.healed,
    )


def _key(ref: wire.ObjectRef) -> ObjectKey:
    return (ref.group, ref.kind, ref.namespace, ref.name)


def _time(millis: int) -> datetime | None:
    """A time of the agent's clock; one that no calendar holds counts as the last possible."""
    if millis <= 0:
        return None
    return datetime.fromtimestamp(min(millis, _LATEST_MS) / 1000, UTC)


def _plain(text: str) -> str:
    """Text of a cluster's, which the store can keep: NUL is the one character it cannot."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}")


_BODIES = {
    "status": _status,
    "inventory": _inventory,
    "result": _result,
    "drift": _drift,
}
