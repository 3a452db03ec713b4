"""Observations of a pipeline's stages and checks in the store, as events for its engine."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from controlplane.access.ports import UserStore
from controlplane.agents.model.jobs import ClusterJob
from controlplane.agents.ports import ClusterJobStore
from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.operations.freezes import frozen_clusters
from controlplane.clusters.ports import ClusterStore
from controlplane.pipelines.engine import events as ev
from controlplane.pipelines.gates.templating import parse_outputs
from controlplane.pipelines.model import pipeline
from controlplane.pipelines.model.gate_checks import CheckAnswer
from controlplane.pipelines.model.state import (
    KNOWN_BAD_LENGTH,
    GateStatus,
    Health,
    PipelineState,
    ReleaseId,
    RevisionRef,
    StageState,
)
from controlplane.pipelines.operations.views import PipelineView, gates_in_progress
from controlplane.platform.ports import Transaction
from controlplane.services.model.quarantine import DeniedRevision
from controlplane.services.model.service import Service
from controlplane.services.model.status_codes import ServiceStatus
from controlplane.services.operations.quarantine import load_denials
from controlplane.services.ports import DeniedRevisionStore, LedgerStore
from core.identity import ServiceId
from core.spec.jobs import JobPhase


def stage_events(
    spec: pipeline.Pipeline, state: PipelineState, services: Mapping[str, Service]
) -> list[ev.Event]:
    """Events with the present state of each stage's services."""
    events: list[ev.Event] = []
    for stage in spec.stages:
        if stage is spec.first:
            present = [services[s] for s in stage.services if s in services]
            if present and all(
                service.desired.commit_sha and service.desired.digest for service in present
            ):
                events.append(_first_stage_observed(stage.id, present))
            continue
        stage_state = state.stages.get(stage.id)
        if stage_state is not None and stage_state.release is not None:
            events.append(_services_health(stage, stage_state, stage_state.release, services))
    return events


async def environment_events(
    tx: Transaction, view: PipelineView, state: PipelineState, now: datetime
) -> list[ev.Event]:
    """Events for silent clusters, freezes, denied revisions and finished jobs."""
    spec, services, project_id = view.spec, view.services, view.row.project_id
    events: list[ev.Event] = []
    events.append(ev.ClustersSilent(await _silent_services(tx, spec, state, services, now)))
    groups = await frozen_clusters(tx)
    if groups or state.frozen:
        events.append(ev.Frozen(_frozen_reasons(spec, services, groups)))
    for row in await _newest_denied_revisions(tx, project_id):
        if row.revision not in state.known_bad:
            events.append(ev.RevisionDenied(row.revision, row.actor, row.reason))
    events += await _failed_verifications(tx, view, state)
    return [*events, *await _job_answers(tx, spec, state)]


async def disabled_approver_events(
    tx: Transaction, spec: pipeline.Pipeline, state: PipelineState
) -> list[ev.ApproversLeft]:
    """Event for approvers who were disabled. It precedes decisions, for which they do not count."""
    approvers = {
        approval.actor
        for _, gate_state, _ in gates_in_progress(spec, state)
        for approval in gate_state.approvals
    }
    users = await tx[UserStore].by_emails(approvers) if approvers else []
    disabled = sorted(user.email for user in users if user.disabled_at is not None)
    return [ev.ApproversLeft(tuple(disabled))] if disabled else []


async def _newest_denied_revisions(tx: Transaction, project_id: str) -> list[DeniedRevision]:
    """The newest denied revisions of a project, at most as many as a pipeline's state stores.

    Older ones would be reported again each time and keep the engine busy.
    """
    rows = [row for row in await tx[DeniedRevisionStore].all() if row.concerns(project_id)]
    return sorted(rows, key=lambda row: (row.inserted_at, row.id))[-KNOWN_BAD_LENGTH:]


def job_key(pipeline_id: str, attempt_key: str) -> str:
    """The key of the cluster job of a check's attempt."""
    return f"{pipeline_id}:{attempt_key}"


def _frozen_reasons(
    spec: pipeline.Pipeline, services: Mapping[str, Service], groups: Mapping
) -> dict[ServiceId, str]:
    return {
        id: f"cluster group {groups[services[id].cluster_id].name!r} is frozen by "
        f"{groups[services[id].cluster_id].frozen_by}"
        for stage in spec.stages
        for id in stage.services
        if id in services and services[id].cluster_id in groups
    }


async def _silent_services(
    tx: Transaction,
    spec: pipeline.Pipeline,
    state: PipelineState,
    services: Mapping[str, Service],
    now: datetime,
) -> dict[ServiceId, str]:
    """Services on silent clusters that their stages wait for, or went on without."""
    stages = [(stage, state.stages.get(stage.id, StageState())) for stage in spec.stages]
    pending = {
        id: services[id].cluster_id
        for stage, stage_state in stages
        for id in (stage.services if stage is spec.first else stage_state.progress)
        if id in services and services[id].status is not ServiceStatus.HEALTHY
    }
    clusters = await tx[ClusterStore].by_ids(set(pending.values())) if pending else []
    silent = {cluster.id: _last_seen(cluster) for cluster in clusters if cluster.is_silent(now)}
    return {id: silent[cluster] for id, cluster in pending.items() if cluster in silent}


def _last_seen(cluster: Cluster) -> str:
    last_seen = f"last seen {cluster.pinged_at:%F %T} UTC" if cluster.pinged_at else "never seen"
    return f"{cluster.handle} ({last_seen})"


async def _failed_verifications(
    tx: Transaction, view: PipelineView, state: PipelineState
) -> list[ev.VerificationFailed]:
    """Releases that agents found to be bad and rolled back.

    Counts only while the revision is denied, and only if the agent had to verify it.
    """
    under_verification = {
        id: (stage.id, stage_state.release, revision.digest)
        for stage in view.spec.stages
        if stage.verification
        and (stage_state := state.stages.get(stage.id))
        and stage_state.release
        for id, revision in stage_state.revisions.items()
    }
    rows = await tx[LedgerStore].held(under_verification.keys()) if under_verification else []
    digests = {digest for _, _, digest in under_verification.values()} if rows else set()
    denied, project_id = await load_denials(tx, digests), view.row.project_id
    failures = []
    for row in rows:
        stage, release, digest = under_verification[ServiceId(row.service_id or "")]
        is_denied = denied.find(project_id, digest) and digest not in state.known_bad
        if row.digest == digest and is_denied:
            id = ServiceId(row.service_id or "")
            failures.append(ev.VerificationFailed(stage, release, id, row.message))
    return failures


async def _job_answers(
    tx: Transaction, spec: pipeline.Pipeline, state: PipelineState
) -> list[ev.CheckAnswered]:
    running = {
        job_key(spec.id, check.key): (gate.id, name, check.key)
        for gate, gate_state, _ in gates_in_progress(spec, state)
        for name, check in gate_state.checks.items()
        if check.status is GateStatus.RUNNING
    }
    jobs = await tx[ClusterJobStore].by_keys(running.keys()) if running else []
    return [_job_answer(job, *running[job.key]) for job in jobs if job.phase.final]


def _job_answer(job: ClusterJob, gate: pipeline.GateId, step: str, key: str) -> ev.CheckAnswered:
    passed = job.phase is JobPhase.SUCCEEDED
    code = f", exit code {job.exit_code}" if job.exit_code else ""
    reason = f"job {job.phase.lower()}{code}{f': {job.message}' if job.message else ''}"
    answer = CheckAnswer.PASSED if passed else CheckAnswer.FAILED
    return ev.CheckAnswered(gate, step, key, answer, reason, parse_outputs(job.outputs))


def _services_health(
    stage: pipeline.Stage, state: StageState, release: ReleaseId, services: Mapping[str, Service]
) -> ev.ServicesHealth:
    """Health of the services that were given the release."""
    healths: dict[ServiceId, Health] = {}
    reasons: dict[ServiceId, str] = {}
    for id in state.progress:
        if id in services:
            health, reason = _service_health(services[id], state)
        elif id in stage.services:
            health, reason = Health.FAILED, "a service of the stage was deleted"
        else:  # A selector no longer matches it.
            continue
        if health is not None:
            healths[id] = health
        if reason:
            reasons[id] = reason
    return ev.ServicesHealth(stage.id, release, healths, reasons)


def _service_health(service: Service, state: StageState) -> tuple[Health | None, str]:
    """Health of a service with the release of its stage; None while it does not run that."""
    revision = state.revisions.get(service.id)
    if revision is not None and revision.digest == service.desired.digest:
        return _combined_health([service])
    if not state.verified:
        return None, ""  # The service did not get the release yet, or applying it failed.
    return Health.PROGRESSING, f"{service.name} does not run this release"


def _first_stage_observed(id: pipeline.StageId, services: Sequence[Service]) -> ev.StageObserved:
    health, reason = _combined_health(services)
    revisions = {
        s.id: RevisionRef(s.desired.commit_sha or "", s.desired.digest or "") for s in services
    }
    author = max(services, key=lambda s: s.updated_at).desired.author
    settled = (ServiceStatus.HEALTHY, ServiceStatus.FAILED)
    unsettled = tuple(s.id for s in services if s.status not in settled)
    return ev.StageObserved(id, revisions, health, author, reason, unsettled)


def _combined_health(services: Sequence[Service]) -> tuple[Health, str]:
    for service in services:
        if service.applied_status is ServiceStatus.FAILED:
            problem = str(service.errors[0]) if service.errors else "is failing"
            return Health.FAILED, f"{service.name}: {problem}"
    unhealthy = next((s for s in services if s.applied_status is not ServiceStatus.HEALTHY), None)
    if unhealthy is None:
        return Health.HEALTHY, ""
    message = f": {unhealthy.observed.message}" if unhealthy.observed.message else ""
    return Health.PROGRESSING, f"{unhealthy.name} is {unhealthy.applied_status.value}{message}"
