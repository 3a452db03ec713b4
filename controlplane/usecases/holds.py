"""Revisions that are known to be bad: nobody is given one, by whatever way, until it is lifted.

Agents tell of them, and pipelines and people. A service that would have had one is held: it keeps
what it has, and says why.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any

from controlplane.domain.ledger import LedgerEntry, Stage
from controlplane.domain.promotion import RefusedRevision
from controlplane.domain.reports import VerifiedReport
from controlplane.domain.services import Service
from controlplane.domain.verification import Hold
from controlplane.ports import Transaction
from controlplane.usecases.deps import Deps
from fleet.errors import Conflict
from fleet.source import Rendered

_LONGEST = 1_000


async def refusals(
    tx: Transaction, revisions: Iterable[str | None]
) -> dict[str | None, RefusedRevision]:
    """Those commits and digests among these that are refused."""
    return {row.id: row for row in await tx.refused.select(id=set(revisions) - {None})}


async def check_allowed(tx: Transaction, *revisions: str | None) -> None:
    """Conflict: one of these commits and digests is known to be bad."""
    for row in (await refusals(tx, revisions)).values():
        raise Conflict(
            f"{row.id} is known to be bad: {row.reason} (said by {row.actor}); somebody with the "
            "right to approve lifts that"
        )


def held_back(service: Service, refused: RefusedRevision, digest: str, at: datetime) -> Service:
    """The service as it is, held back from a refused digest (or commit)."""
    before = service.hold
    if service.held == refused.id and before and before.digest == digest and not before.lifted_by:
        return service
    hold = Hold(digest, refused.reason, at, service.digest or "")
    return replace(service, held=refused.id, hold=hold)


def entry_of(service: Service, hold: Hold, actor: str) -> LedgerEntry:
    """What the ledger is told when a service is held back."""
    return LedgerEntry(
        service_id=service.id,
        cluster_id=service.cluster_id,
        stage=Stage.HELD,
        at=hold.at,
        sequence=service.sequence,
        digest=hold.digest,
        actor=actor,
        message=hold.reason,
        detail={"instead": hold.instead, "refused": True},
    )


async def content_of(
    deps: Deps, tx: Transaction, service: Service, content: Rendered
) -> dict[str, Any]:
    """The columns of a service whose bundle comes from no repository; held, if it is bad."""
    refused = (await refusals(tx, [content.digest])).get(content.digest)
    if refused is not None:
        after = held_back(service, refused, content.digest, deps.clock.now())
        return {"held": after.held, "hold": after.hold}
    return {
        "digest": content.digest,
        "source": content.source,
        "bundle_bytes": content.size,
        "object_count": content.count,
        "attestation": content.attestation,
        "sequence": service.sequence + 1,
        **service.unheld(content.digest),
    }


async def taken_back(
    deps: Deps, tx: Transaction, service: Service, found: VerifiedReport
) -> tuple[dict[str, Any], list[LedgerEntry]]:
    """What becomes of a service whose agent has found a bundle to be bad, and gone back.

    The digest is refused from now on, and what the agent has gone back to is what is desired. An
    agent has a say only on bundles that its services were to prove.
    """
    if service.mirrored or service.policy is None or not await _was_its(tx, service, found.digest):
        return {}, []
    now = deps.clock.now()
    reason = found.reason[:_LONGEST]
    cluster = await tx.clusters.get(service.cluster_id)
    actor = f"agent of {cluster.handle if cluster else service.cluster_id}"
    if await tx.refused.get(found.digest) is None:
        await tx.refused.add(RefusedRevision(found.digest, actor, reason, now))
    if service.digest != found.digest:
        return {}, []
    hold = Hold(found.digest, reason, now, found.instead)
    columns: dict[str, Any] = {"held": found.digest, "hold": hold}
    before = await tx.revisions.select(service_id=service.id, digest=found.instead)
    if not found.instead or not before:
        return columns, []
    good = max(before, key=lambda revision: revision.inserted_at)
    columns |= {
        "digest": good.digest,
        "attestation": good.attestation,
        "sha": good.sha,
        "revision_id": good.id,
        "pinned": good.sha if service.pinned else None,
        "sequence": service.sequence + 1,
        "updated_at": now,
    }
    entry = LedgerEntry(
        service_id=service.id,
        cluster_id=service.cluster_id,
        stage=Stage.ROLLED_BACK,
        at=now,
        sequence=service.sequence + 1,
        sha=good.sha,
        digest=good.digest,
        revision_id=good.id,
        actor=actor,
        message=f"to {good.sha[:12]}: {reason}",
    )
    return columns, [entry]


async def _was_its(tx: Transaction, service: Service, digest: str) -> bool:
    """Whether a service has, or had, a digest."""
    if service.digest == digest:
        return True
    return bool(await tx.revisions.select(service_id=service.id, digest=digest))


async def lift(tx: Transaction, revision: str, actor: str) -> list[Service]:
    """Let services have again what they were held back from; those that are to be looked at."""
    lifted = []
    for service in await tx.services.select(held=revision):
        if service.hold is None:
            continue
        hold = replace(service.hold, lifted_by=actor)
        runs = service.digest == hold.digest
        columns = {"hold": hold, "source": None, "sequence": service.sequence + runs}
        await tx.services.change(service.id, **columns)
        lifted.append(replace(service, **columns))
    return lifted
