"""Raises the generation of services, so that their agents apply them again."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from controlplane.platform.batch import append_last
from controlplane.platform.context import DESIRED_STATE, SERVICE, Change, OperationContext
from controlplane.platform.ports import Transaction
from controlplane.services.model.ledger import LedgerEntry, LedgerStage
from controlplane.services.model.service import Service
from controlplane.services.ports import LedgerStore, ServiceStore


def publish_service(tx: Change, service: Service) -> None:
    """Notifies the agent and subscribers of a changed desired state."""
    tx.publish(SERVICE, service.id)
    tx.publish(DESIRED_STATE, f"{service.cluster_id}/{service.id}")


def wake_agents(context: OperationContext, services: Iterable[Service]) -> None:
    """Notifies agents and subscribers of changed desired states; call it after the commit."""
    for service in services:
        context.bus.publish(SERVICE, service.id)
        context.bus.publish(DESIRED_STATE, f"{service.cluster_id}/{service.id}")


async def raise_generation(
    context: OperationContext, tx: Transaction, service: Service, reasons: Sequence[str], by: str
) -> None:
    """Raises the generation of a service, so that its agent reads the secrets again."""
    generation = service.desired.generation + bool(service.desired.digest)
    await tx[ServiceStore].set_generation(service.id, generation)
    message = f"secrets: {', '.join(reasons)}"[:1000]
    entry = LedgerEntry.of(
        service, LedgerStage.CONFIGURED, context.clock.now(), actor=by[:320], message=message
    )
    await append_last(tx, LedgerStore, [replace(entry, sequence=generation, sha=None)])
