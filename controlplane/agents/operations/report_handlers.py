"""Applies each kind of agent report to the store."""

import hashlib
from dataclasses import replace
from datetime import datetime
from functools import singledispatchmethod

from controlplane.agents.model.selections import selection_entry, selection_of
from controlplane.agents.operations import audit
from controlplane.agents.operations.agent_renders import render_result_to_json
from controlplane.agents.operations.report_batch import ReportBatch, mirrored_id
from controlplane.agents.operations.sessions import facts_columns
from controlplane.agents.ports import ClusterJobStore
from controlplane.audit.ports import AuditLog
from controlplane.clusters.model.commands import UPLOADED_DIGEST, Command, CommandKind, CommandState
from controlplane.clusters.ports import ClusterStore, CommandStore
from controlplane.delivery.operations.render_reconciler import mark_for_render
from controlplane.platform.context import (
    CLUSTER,
    CLUSTER_JOB,
    DESIRED_STATE,
    REVOKED,
    SERVICE,
    ContextOperations,
)
from controlplane.platform.names import is_label
from controlplane.platform.parts import Columns
from controlplane.platform.ports import Transaction
from controlplane.services.model.ledger import LedgerEntry, LedgerStage
from controlplane.services.model.service import STATE_OF_HEALTH, Component, DryRunResult, Service
from controlplane.services.operations import quarantine
from controlplane.services.operations.removal import delete_cluster_if_empty, delete_service_rows
from controlplane.services.ports import LedgerStore, PlanStore, ServiceStore
from core.identity import ClusterId, ServiceId, is_local_id
from core.spec.facts import ClusterFacts
from core.spec.jobs import JobPhase, JobStatus
from core.spec.objects import ObjectKey
from core.spec.reports.commands import CommandAnswer
from core.spec.reports.drift import DriftFound
from core.spec.reports.inventory import InventoryChange, ObservedComponent
from core.spec.reports.local_services import LocalServiceReport
from core.spec.status import Phase, SyncStatus
from core.spec.verification import VerificationResult

AUTONOMOUS_ACTOR = "agent, autonomous"
"""Actor of deployments that an agent decides on by itself."""

_STAGES = {
    Phase.APPLIED: LedgerStage.APPLIED,
    Phase.HEALTHY: LedgerStage.HEALTHY,
    Phase.DEGRADED: LedgerStage.DEGRADED,
    Phase.FAILED: LedgerStage.FAILED,
    Phase.REMOVED: LedgerStage.REMOVED,
    Phase.AWAITING: LedgerStage.AWAITING,
}


class ReportHandler(ContextOperations):
    """Applies reports one at a time; a batch collects their writes."""

    @singledispatchmethod
    async def apply(self, body: object, batch: ReportBatch, at: datetime) -> None:
        """Adds the effects of a report to its cluster's batch; `at` is the agent's time.

        Ignores kinds of reports that this version does not know.
        """

    @apply.register
    async def _(self, body: SyncStatus, batch: ReportBatch, at: datetime) -> None:
        tx, cluster_id, changed = batch.tx, batch.cluster_id, batch.changed
        service = batch.services.get(body.service_id)
        if service is None or body.sequence < service.observed.observed_generation:
            return
        if body.phase is Phase.REMOVED and service.deleted_at is not None:
            batch.ledger.append(status_entry(service, body, at))
            batch.forget(service)
            await delete_service_rows(tx, service)
            for token in await delete_cluster_if_empty(tx, cluster_id, self._context.clock.now()):
                changed.add((REVOKED, token))
            changed.update({(SERVICE, service.id), (CLUSTER, cluster_id)})
            return
        batch.change(
            service,
            observed_generation=body.sequence,
            phase=body.phase,
            problems=body.problems,
            observed_at=at,
            message=body.message,
            awaiting=body.awaiting,
            drifted=body.drifted,
            **({"inputs": body.inputs} if body.inputs is not None else {}),
        )
        if service.spec.dry_run and body.planned is not None:
            await _save_plan(tx, DryRunResult(service.id, body.sequence, body.planned))
        previous = (service.observed.observed_generation, service.observed.phase)
        is_new = previous != (body.sequence, body.phase)
        if is_new and body.phase in _STAGES:
            batch.ledger.append(status_entry(service, body, at))
        changed.add((SERVICE, service.id))

    @apply.register
    async def _(self, body: InventoryChange, batch: ReportBatch, at: datetime) -> None:
        service = batch.services.get(body.service_id)
        if service is None or service.deleted_at is not None:
            return
        id = service.id
        present = [_to_component(id, batch.cluster_id, observed, at) for observed in body.present]
        gone = {_component_id(id, ref.key) for ref in body.gone}
        await batch.collect_inventory(id, present, gone, complete=body.complete)
        batch.changed.add((SERVICE, id))

    @apply.register
    async def _(self, body: CommandAnswer, batch: ReportBatch, at: datetime) -> None:
        tx, cluster_id, changed = batch.tx, batch.cluster_id, batch.changed
        command = await tx[CommandStore].in_cluster(body.command_id, cluster_id)
        if command is not None and command.state is CommandState.WAITING:
            state = CommandState(body.outcome)
            await tx[CommandStore].change(
                command.id, finished_at=at, **_answer_columns(command, body)
            )
            if command.kind is CommandKind.RUN_JOB and state is not CommandState.SUCCEEDED:
                await _end_job(tx, command.id, body.message, at)
            cluster = await tx[ClusterStore].get(cluster_id)
            if cluster is not None and command.kind is not CommandKind.RENDER:
                entry = audit.command_entry(cluster, command, state, body.message, at)
                await tx[AuditLog].append([entry])
            await _record_partial_sync(batch, command, state, body.message, at)
            changed.add((CLUSTER_JOB, command.id))
            if command.service_id is not None:
                changed.add((SERVICE, command.service_id))

    @apply.register
    async def _(self, body: DriftFound, batch: ReportBatch, at: datetime) -> None:
        service = batch.services.get(body.service_id)
        if service is None or service.deleted_at is not None:
            return
        ref = body.ref
        what = "deleted" if body.deleted else "changed"
        message = f"{ref.kind} {ref.namespace}/{ref.name} was {what}"
        message += " and put back" if body.healed else ""
        entry = replace(
            LedgerEntry.of(
                service, LedgerStage.DRIFTED, at, actor=body.manager, message=message
            ).without_revision(),
            sequence=service.observed.observed_generation,
            digest=service.desired.digest,
            detail={
                "paths": list(body.paths),
                "healed": body.healed,
                "changes": [
                    {"pointer": change.pointer, "old": change.old, "new": change.new}
                    for change in body.changes
                ],
            },
        )
        batch.ledger.append(entry)
        batch.changed.add((SERVICE, service.id))

    @apply.register
    async def _(self, body: VerificationResult, batch: ReportBatch, at: datetime) -> None:
        service = await batch.lock_service(body.service_id)
        if service is None:
            return
        stage = LedgerStage.VERIFIED if body.ok else LedgerStage.HELD
        entry = LedgerEntry.of(service, stage, at, message=body.reason[:2000])
        if body.digest != service.desired.digest:
            entry = entry.without_revision()
        entry = replace(
            entry, sequence=body.sequence, digest=body.digest, detail={"instead": body.instead}
        )
        batch.ledger.append(entry)
        batch.changed.add((SERVICE, service.id))
        if not body.ok:
            columns, rows = await quarantine.roll_back_denied(
                self._context, batch.tx, service, body
            )
            if columns:
                batch.change(service, **columns)
            batch.ledger.extend(rows)
            batch.changed.add((DESIRED_STATE, f"{service.cluster_id}/{service.id}"))
        elif (
            service.desired.quarantine is not None
            and service.desired.quarantine.digest == body.digest
        ):
            batch.change(service, quarantined=None, quarantine=None)

    @apply.register
    async def _(self, body: JobStatus, batch: ReportBatch, at: datetime) -> None:
        tx, cluster_id, changed = batch.tx, batch.cluster_id, batch.changed
        job = await tx[ClusterJobStore].in_cluster(body.command_id, cluster_id)
        if job is None or job.phase.final:
            return
        await tx[ClusterJobStore].change(
            job.id,
            phase=body.phase,
            object=body.ref,
            message=body.message,
            exit_code=_exit_code(body),
            started_at=body.started_at,
            finished_at=(body.finished_at or at) if body.phase.final else None,
            log_tail=body.log_tail,
            outputs=body.outputs,
        )
        changed.add((CLUSTER_JOB, job.id))

    @apply.register
    async def _(self, body: ClusterFacts, batch: ReportBatch, at: datetime) -> None:
        tx, cluster_id, changed = batch.tx, batch.cluster_id, batch.changed
        before = await tx[ClusterStore].get(cluster_id)
        await tx[ClusterStore].change(cluster_id, **facts_columns(body))
        changed.add((CLUSTER, cluster_id))
        if before is not None:
            changed.update(
                await mark_for_render(tx, [(before, replace(before, **facts_columns(body)))])
            )

    @apply.register
    async def _(self, body: LocalServiceReport, batch: ReportBatch, at: datetime) -> None:
        tx, cluster_id, changed = batch.tx, batch.cluster_id, batch.changed
        if not is_local_id(body.service_id):
            return
        id = mirrored_id(cluster_id, body.service_id)
        stored = await tx[ServiceStore].get(id, deleted=True)
        if body.removed and stored is not None:
            batch.forget(stored)
            await delete_service_rows(tx, stored)
        elif not body.removed and (stored is not None or await batch.reserve_mirrored()):
            if not _is_late(stored, body, at):
                await _store_mirrored_service(tx, stored, body, ClusterId(cluster_id), at)
            await batch.reload_service(id)
            entry = await _deployment_entry(batch, batch.services.get(id), stored, body, at)
            batch.ledger.extend([entry] if entry else [])
        changed.update({(SERVICE, id), (CLUSTER, cluster_id)})


async def _record_partial_sync(
    batch: ReportBatch, command: Command, state: CommandState, message: str, at: datetime
) -> None:
    """Adds the result of a sync of selected objects to the ledger of its service."""
    if command.service_id is None or selection_of(command) is None:
        return
    service = await batch.tx[ServiceStore].get(command.service_id)
    if service is not None:
        batch.ledger.append(selection_entry(service, command, state, message, at))


def _answer_columns(command: Command, body: CommandAnswer) -> Columns:
    """The columns of a command's row after its answer; the result of a render replaces the
    order. A render with another digest than that of the command's upload has no result."""
    columns: Columns = {"state": CommandState(body.outcome), "message": body.message}
    if command.kind is CommandKind.RENDER:
        result = body.rendered
        is_uploaded = result and result.digest == command.payload.get(UPLOADED_DIGEST)
        columns["payload"] = render_result_to_json(result) if result and is_uploaded else {}
    return columns


def _exit_code(body: JobStatus) -> int | None:
    """The exit code; None while containers run or if they were killed, since the wire sends 0
    then."""
    if body.phase is JobPhase.SUCCEEDED:
        return body.exit_code
    return (body.exit_code or None) if body.phase is JobPhase.FAILED else None


async def _save_plan(tx: Transaction, plan: DryRunResult) -> None:
    if await tx[PlanStore].get(plan.id) is None:
        await tx[PlanStore].add(plan)
    else:
        await tx[PlanStore].put(plan)


async def _end_job(tx: Transaction, id: str, message: str, at: datetime) -> None:
    """Ends a job that never started because the agent refused its command."""
    job = await tx[ClusterJobStore].get(id)
    if job is not None and not job.phase.final:
        await tx[ClusterJobStore].fail(id, message, at)


async def _store_mirrored_service(
    tx: Transaction,
    stored: Service | None,
    body: LocalServiceReport,
    cluster_id: ClusterId,
    at: datetime,
) -> None:
    """Stores a service that the cluster itself defines."""
    cluster = await tx[ClusterStore].get(cluster_id)
    if cluster is None or not is_label(body.name) or not is_label(body.namespace):
        return
    id = mirrored_id(cluster_id, body.service_id)
    namesake = await tx[ServiceStore].by_name(cluster_id, body.name)
    is_name_free = namesake is None or namesake.id == id
    name = body.name if is_name_free else f"{body.name[:54]}-{id[:8]}"
    columns = {
        "namespace": body.namespace,
        "updated_at": at,
        "origin": body.repository,
        "ref": body.ref,
        "folder": body.folder,
        "commit_sha": body.commit or None,
        "digest": body.digest or None,
        "generation": body.sequence,
        "render_error": body.error or None,
        "render_reason": body.reason[:64],
    }
    if stored is None:
        service = Service(id, cluster_id, None, name, body.namespace, at, at)
        columns |= {"mirrored": True, "reported_id": body.service_id}
        await tx[ServiceStore].add(service.changed(project_id=cluster.project_id, **columns))
    else:
        await tx[ServiceStore].change(stored.id, **columns)


def _is_late(stored: Service | None, body: LocalServiceReport, at: datetime) -> bool:
    """True if the store already has a newer state of the service."""
    return (
        stored is not None and body.sequence < stored.desired.generation and at < stored.updated_at
    )


async def _deployment_entry(
    batch: ReportBatch,
    service: Service | None,
    stored: Service | None,
    body: LocalServiceReport,
    at: datetime,
) -> LedgerEntry | None:
    """The ledger entry for a deployment that an autonomous agent decided on, unless it exists.

    `stored` is the service before the report.
    """
    if service is None or not body.sequence or not body.digest:
        return None
    if stored is not None and body.sequence <= stored.desired.generation:
        rows = await batch.tx[LedgerStore].deployments_of(service.id, body.sequence)
        rows += [entry for entry in batch.ledger if entry.stage is LedgerStage.RENDERED]
        deployments = {(row.service_id, row.sequence) for row in rows}
        if (service.id, body.sequence) in deployments:
            return None
    detail: dict[str, object] = {"late": True} if _is_late(stored, body, at) else {}
    if body.committed_at is not None:
        detail["committed_at"] = body.committed_at.isoformat()
    message = f"{body.repository} {body.ref}".strip()[:2000]
    entry = LedgerEntry.of(
        service, LedgerStage.RENDERED, at, actor=AUTONOMOUS_ACTOR, message=message
    ).without_revision()
    sha, digest = body.commit or None, body.digest
    return replace(entry, sequence=body.sequence, sha=sha, digest=digest, detail=detail)


def status_entry(service: Service, body: SyncStatus, at: datetime) -> LedgerEntry:
    """The ledger entry for a status report."""
    times = {
        "received_at": body.stamps.received,
        "fetched_at": body.stamps.fetched,
        "applied_at": body.stamps.applied,
        "healthy_at": body.stamps.healthy,
    }
    detail: dict[str, object] = {k: v.isoformat() for k, v in times.items() if v is not None}
    detail |= {"written": body.written, "pruned": body.pruned}
    message = "; ".join(map(str, body.problems[:3]))
    entry = LedgerEntry.of(service, _STAGES[body.phase], at, message=message[:2000])
    return replace(entry, sequence=body.sequence, digest=body.digest, detail=detail)


def _component_id(service_id: str, key: ObjectKey) -> str:
    return hashlib.sha256("\0".join((service_id, *key)).encode()).hexdigest()


def _to_component(
    service_id: str, cluster_id: str, observed: ObservedComponent, at: datetime
) -> Component:
    ref = observed.ref
    return Component(
        id=_component_id(service_id, ref.key),
        service_id=ServiceId(service_id),
        cluster_id=ClusterId(cluster_id),
        group=ref.group,
        version=ref.version,
        kind=ref.kind,
        namespace=ref.namespace,
        name=ref.name,
        uid=observed.uid,
        owner_uid=observed.owner_uid,
        state=STATE_OF_HEALTH.get(observed.health) if observed.health else None,
        message=observed.message,
        synced=observed.synced,
        images=observed.images,
        updated_at=at,
        labels=observed.labels,
        generation=observed.generation,
        hash=observed.hash,
        finalizers=observed.finalizers,
    )
