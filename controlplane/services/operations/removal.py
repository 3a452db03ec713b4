"""Deletes services and clusters: the agent deletes the objects, then the rows go; the ledger
stays."""

from dataclasses import replace
from datetime import datetime

from controlplane.access.operations.tokens import revoke_cluster_tokens
from controlplane.authorization import Actor
from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.ports import ClusterStore
from controlplane.platform.batch import append_last
from controlplane.platform.context import OperationContext
from controlplane.platform.ports import Transaction
from controlplane.services.model.ledger import LedgerEntry, LedgerStage
from controlplane.services.model.service import Service
from controlplane.services.ports import (
    ComponentStore,
    ContextBindingStore,
    FlowStore,
    LedgerStore,
    PlanStore,
    SecretUseStore,
    ServiceSourceStore,
    ServiceStore,
)
from core.errors import Conflict
from core.spec.status import Phase
from core.spec.sync import Removal

_SETTLED = (Phase.APPLIED, Phase.HEALTHY)


async def begin_removal(
    context: OperationContext,
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
    if service.spec.protect and removal is Removal.CASCADE:
        raise Conflict(
            f"service {service.name!r} is protected against deletion: set protect to false first"
        )
    now = context.clock.now()
    entry = LedgerEntry.of(
        service, LedgerStage.DELETED, now, actor=actor.shown_name, message=removal.value
    )
    entry = replace(entry.without_revision(), sequence=service.desired.generation + 1)
    await append_last(tx, LedgerStore, [entry])
    if cluster.pinged_at is None or service.mirrored or await _has_no_objects(tx, service):
        await delete_service_rows(tx, service)
        return True
    await tx[ServiceStore].mark_deleted(service.id, removal, service.desired.generation + 1, now)
    return False


async def _has_no_objects(tx: Transaction, service: Service) -> bool:
    """True if the cluster contains no objects of the service and will not get any."""
    if service.desired.generation == 0:
        return True
    is_settled = (
        service.observed.observed_generation >= service.desired.generation
        and service.observed.phase in _SETTLED
    )
    return is_settled and not await tx[ComponentStore].of_services(service.id)


async def delete_service_rows(tx: Transaction, service: Service) -> None:
    """Deletes the rows of a removed service; revisions and ledger entries stay."""
    await tx[ComponentStore].forget_service(service.id)
    for binding in await tx[ContextBindingStore].of_services(service.id):
        await tx[ContextBindingStore].remove(binding.id)
    await tx[FlowStore].delete_flow(service.id)
    for use in await tx[SecretUseStore].of_services(service.id):
        await tx[SecretUseStore].remove(use.id)
    for source in await tx[ServiceSourceStore].of_services(service.id):
        await tx[ServiceSourceStore].remove(source.id)
    await tx[PlanStore].remove(service.id)
    await tx[ServiceStore].remove(service.id)


async def delete_cluster_if_empty(
    tx: Transaction, cluster_id: str, now: datetime, *, forced: bool = False
) -> list[str]:
    """Deletes an ending cluster after its last service; returns the ids of revoked tokens."""
    cluster = await tx[ClusterStore].get(cluster_id)
    if cluster is None or cluster.ending_at is None:
        return []
    if not forced and await tx[ServiceStore].of_clusters_with_deleted(cluster_id):
        return []
    for service in await tx[ServiceStore].of_clusters_with_deleted(cluster_id):
        await delete_service_rows(tx, service)
    await tx[ClusterStore].delete(cluster_id, now)
    return await revoke_cluster_tokens(tx, cluster_id, now)
