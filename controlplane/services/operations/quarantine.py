"""Denied revisions, and the quarantine that keeps services from getting them.

Agents, pipelines and users deny revisions. A service that would get a denied revision is
quarantined: it keeps its present revision and shows the reason.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from controlplane.clusters.ports import ClusterStore
from controlplane.platform.context import OperationContext
from controlplane.platform.parts import Columns
from controlplane.platform.ports import Transaction
from controlplane.services.model.ledger import LedgerEntry, LedgerStage
from controlplane.services.model.quarantine import DeniedRevision, DeniedRevisions
from controlplane.services.model.service import Service
from controlplane.services.model.verification import Quarantine
from controlplane.services.ports import DeniedRevisionStore, RevisionStore, ServiceStore
from core.errors import Conflict
from core.spec.source import RenderedBundle
from core.spec.verification import VerificationResult

_MAX_REASON_LENGTH = 1_000


async def load_denials(tx: Transaction, revisions: Iterable[str | None]) -> DeniedRevisions:
    """The denials of these commits and digests."""
    known_revisions = {revision for revision in revisions if revision is not None}
    return DeniedRevisions(
        await tx[DeniedRevisionStore].of_revisions(known_revisions) if known_revisions else ()
    )


async def check_not_denied(tx: Transaction, project_id: str, *revisions: str | None) -> None:
    """Conflict: one of these commits and digests is denied in the project."""
    denial = (await load_denials(tx, revisions)).find(project_id, *revisions)
    if denial is not None:
        raise Conflict(
            f"{denial.revision} is denied by {denial.actor}: {denial.reason}; a user with the "
            "permission to approve can allow it again"
        )


async def deny_in_project(
    tx: Transaction, project_id: str, revision: str, actor: str, reason: str, at: datetime
) -> None:
    """Denies a revision to services and pipelines of one project, unless that is so already."""
    if (await load_denials(tx, [revision])).find(project_id, revision) is None:
        denial = DeniedRevision.of(revision, project_id, actor, reason, at)
        await tx[DeniedRevisionStore].add(denial)


def with_quarantine(service: Service, denial: DeniedRevision, digest: str, at: datetime) -> Service:
    """The service, quarantined from a denied digest or commit."""
    before = service.desired.quarantine
    if (
        service.desired.quarantined == denial.revision
        and before
        and before.digest == digest
        and not before.lifted_by
    ):
        return service
    hold = Quarantine(digest, denial.reason, at, service.desired.digest or "")
    return service.changed(quarantined=denial.revision, quarantine=hold)


def quarantine_entry(service: Service, hold: Quarantine, actor: str) -> LedgerEntry:
    """The ledger entry for a quarantined service."""
    entry = LedgerEntry.of(
        service, LedgerStage.HELD, hold.at, actor=actor, message=hold.reason
    ).without_revision()
    detail = {"instead": hold.instead, "refused": True}
    return replace(entry, digest=hold.digest, detail=detail)


async def bundle_columns(
    context: OperationContext, tx: Transaction, service: Service, content: RenderedBundle
) -> Columns:
    """New columns of a service with a generated bundle; quarantined if the bundle is denied."""
    denial = (await load_denials(tx, [content.digest])).find(service.project_id, content.digest)
    if denial is not None:
        after = with_quarantine(service, denial, content.digest, context.clock.now())
        return {"quarantined": after.desired.quarantined, "quarantine": after.desired.quarantine}
    return {
        "digest": content.digest,
        "input_digest": content.source,
        "bundle_bytes": content.size,
        "object_count": content.count,
        "attestation": content.attestation,
        "generation": service.desired.generation + 1,
        **service.columns_for_digest(content.digest),
    }


async def roll_back_denied(
    context: OperationContext, tx: Transaction, service: Service, result: VerificationResult
) -> tuple[Columns, list[LedgerEntry]]:
    """New columns and ledger entries after an agent found a bundle bad and rolled back.

    The digest is denied in the service's project from now on, and the bundle that the agent
    returned to is the desired state. Agents can only deny bundles that their services had to
    verify.
    """
    if (
        service.mirrored
        or service.effective_verification is None
        or not await _ever_had_digest(tx, service, result.digest)
    ):
        return {}, []
    now = context.clock.now()
    reason = result.reason[:_MAX_REASON_LENGTH]
    cluster = await tx[ClusterStore].get(service.cluster_id)
    actor = f"agent of {cluster.handle if cluster else service.cluster_id}"
    await deny_in_project(tx, service.project_id, result.digest, actor, reason, now)
    if service.desired.digest != result.digest:
        return {}, []
    hold = Quarantine(result.digest, reason, now, result.instead)
    columns: Columns = {"quarantined": result.digest, "quarantine": hold}
    candidates = await tx[RevisionStore].with_digest(service.id, result.instead)
    if not result.instead or not candidates:
        return columns, []
    previous = max(candidates, key=lambda revision: revision.inserted_at)
    columns |= {
        "digest": previous.digest,
        "attestation": previous.attestation,
        "commit_sha": previous.sha,
        "revision_id": previous.id,
        "pinned_sha": previous.sha if service.desired.pinned_sha else None,
        "generation": service.desired.generation + 1,
        "updated_at": now,
    }
    message = f"to {previous.sha[:12]}: {reason}"
    after = service.changed(**columns)
    return columns, [
        LedgerEntry.of(after, LedgerStage.ROLLED_BACK, now, actor=actor, message=message)
    ]


async def _ever_had_digest(tx: Transaction, service: Service, digest: str) -> bool:
    """True if the service has or had the digest."""
    if service.desired.digest == digest:
        return True
    return bool(await tx[RevisionStore].with_digest(service.id, digest))


async def lift_quarantine(tx: Transaction, revision: str, actor: str) -> list[Service]:
    """Ends the quarantine of services to which a revision is no longer denied; returns them."""
    lifted = []
    denials = await load_denials(tx, [revision])
    for service in await tx[ServiceStore].quarantined(revision):
        if service.desired.quarantine is None or denials.find(service.project_id, revision):
            continue
        hold = replace(service.desired.quarantine, lifted_by=actor)
        is_running = service.desired.digest == hold.digest
        columns = {
            "quarantine": hold,
            "input_digest": None,
            "generation": service.desired.generation + is_running,
        }
        await tx[ServiceStore].change(service.id, **columns)
        lifted.append(service.changed(**columns))
    return lifted
