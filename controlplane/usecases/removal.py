"""Deletes services and clusters: the agent deletes the objects, then the rows go; the ledger
stays."""

from datetime import datetime

from controlplane.domain.access import Actor
from controlplane.domain.clusters import Cluster
from controlplane.domain.ledger import LedgerEntry, LedgerStage
from controlplane.domain.services import Phase, Removal, Service
from controlplane.ports import ANY, Transaction
from controlplane.usecases.deps import OperationContext
from controlplane.usecases.importing import delete_flow
from core.errors import Conflict

_SETTLED = (Phase.APPLIED, Phase.HEALTHY)


async def begin_removal(
    deps: OperationContext,
    tx: Transaction,
    actor: Actor,
    service: Service,
    removal: Removal,
    cluster: Cluster,
) -> bool:
    """Marks a service as deleted; True if it is deleted at once.

    That is the case if nothing can be left in the cluster: no agent ever got the service, or its
    agent reported that the newest desired state is empty. Mirrored services are also deleted at
    once, since only their cluster can end them.
    """
    if service.protect and removal is Removal.CASCADE:
        raise Conflict(
            f"service {service.name!r} is protected against deletion: set protect to false first"
        )
    now = deps.clock.now()
    await tx.ledger.append(
        [
            LedgerEntry(
                service_id=service.id,
                cluster_id=service.cluster_id,
                stage=LedgerStage.DELETED,
                at=now,
                sequence=service.sequence + 1,
                actor=actor.email or actor.name,
                message=removal.value,
            )
        ]
    )
    if cluster.pinged_at is None or service.mirrored or await _is_empty(tx, service):
        await delete_service_rows(tx, service)
        return True
    await tx.services.change(
        service.id,
        deleted_at=now,
        removal=removal,
        sequence=service.sequence + 1,
        updated_at=now,
    )
    return False


async def _is_empty(tx: Transaction, service: Service) -> bool:
    """True if the cluster contains no objects of the service and will not get any."""
    if service.sequence == 0:
        return True
    settled = service.observed >= service.sequence and service.phase in _SETTLED
    return settled and not await tx.components.select(service_id=service.id)


async def delete_service_rows(tx: Transaction, service: Service) -> None:
    """Deletes the rows of a removed service; revisions and ledger entries stay."""
    await tx.components.forget_service(service.id)
    for binding in await tx.context_bindings.select(service_id=service.id):
        await tx.context_bindings.remove(binding.id)
    await delete_flow(tx, service.id)
    for use in await tx.secret_uses.select(service_id=service.id):
        await tx.secret_uses.remove(use.id)
    for source in await tx.service_sources.select(service_id=service.id):
        await tx.service_sources.remove(source.id)
    await tx.plans.remove(service.id)
    await tx.services.remove(service.id)


async def end_if_empty(
    tx: Transaction, cluster_id: str, now: datetime, *, forced: bool = False
) -> list[str]:
    """Deletes an ending cluster after its last service; returns the ids of revoked tokens."""
    cluster = await tx.clusters.get(cluster_id)
    if cluster is None or cluster.ending_at is None:
        return []
    if not forced and await tx.services.select(cluster_id=cluster_id, deleted_at=ANY):
        return []
    for service in await tx.services.select(cluster_id=cluster_id, deleted_at=ANY):
        await delete_service_rows(tx, service)
    await tx.clusters.change(cluster_id, deleted_at=now)
    return await revoke_tokens(tx, cluster_id, now)


async def revoke_tokens(tx: Transaction, cluster_id: str, now: datetime) -> list[str]:
    """Revokes all deploy tokens of a cluster; returns their ids."""
    live = await tx.tokens.select(cluster_id=cluster_id, revoked_at=None)
    for token in live:
        await tx.tokens.change(token.id, revoked_at=now)
    return [token.id for token in live]
