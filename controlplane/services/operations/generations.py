"""Raises the generation of services, so that their agents apply them again."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from controlplane.platform.batch import append_last
from controlplane.platform.context import (
    DESIRED_STATE,
    RENDER_SERVICES,
    SERVICE,
    Change,
    OperationContext,
)
from controlplane.platform.ports import Bus, Transaction
from controlplane.services.model.ledger import LedgerEntry, LedgerStage
from controlplane.services.model.service import Service
from controlplane.services.ports import LedgerStore, ServiceStore


def publish_service(publisher: Change | Bus, service: Service) -> None:
    """Notifies the agent and subscribers of a changed desired state."""
    publisher.publish(SERVICE, service.id)
    publisher.publish(DESIRED_STATE, f"{service.cluster_id}/{service.id}")


def publish_render(publisher: Change | Bus, service: Service) -> None:
    """Requests a render of a service, if it has a repository."""
    if service.repository_id:
        publisher.publish(RENDER_SERVICES, f"{service.repository_id}/{service.id}")


def wake_agents(context: OperationContext, services: Iterable[Service]) -> None:
    """Notifies agents and subscribers of changed desired states; call it after the commit."""
    for service in services:
        publish_service(context.bus, service)


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
