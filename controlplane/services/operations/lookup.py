"""Services by id, for all operations."""

from controlplane.authorization import ResourceKind
from controlplane.platform.ports import Transaction
from controlplane.services.model.service import Service
from controlplane.services.ports import ServiceStore
from core.errors import Conflict, NotFound


async def find_service(tx: Transaction, id: str) -> Service:
    """The service with this id. NotFound: it does not exist, or is deleted."""
    service = await tx[ServiceStore].get(id)
    if service is None:
        raise NotFound(kind=ResourceKind.SERVICE)
    return service


async def find_managed_service(tx: Transaction, id: str, *, going: bool = False) -> Service:
    """A service that is defined here; with `going`, also one that is being deleted.

    Conflict: its cluster defines the service itself.
    """
    service = await tx[ServiceStore].get(id, deleted=True) if going else await find_service(tx, id)
    if service is None:
        raise NotFound(kind=ResourceKind.SERVICE)
    if service.mirrored:
        raise Conflict(
            f"service {service.name!r} is defined in its cluster by {service.origin}: change it "
            "there"
        )
    return service
