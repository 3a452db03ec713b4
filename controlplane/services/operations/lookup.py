"""Services by id, for all operations."""

from controlplane.authorization import Actor, ResourceKind, Verb, require
from controlplane.platform.ports import Transaction
from controlplane.platform.references import found
from controlplane.services.model.service import Service
from controlplane.services.ports import ServiceStore
from core.errors import Conflict


async def find_service(tx: Transaction, id: str, *, deleted: bool = False) -> Service:
    """The service with this id; with `deleted`, also one that is being deleted. NotFound: it does
    not exist.
    """
    return found(await tx[ServiceStore].get(id, deleted=deleted), ResourceKind.SERVICE)


async def find_readable_service(tx: Transaction, actor: Actor, id: str) -> Service:
    """A service, also one that is being deleted, that the actor may read. NotFound: it does not
    exist. Otherwise as `require`.
    """
    service = await find_service(tx, id, deleted=True)
    require(actor, Verb.READ, service.target)
    return service


async def find_managed_service(tx: Transaction, id: str, *, deleted: bool = False) -> Service:
    """A service that is defined here; with `deleted`, also one that is being deleted.

    Conflict: its cluster defines the service itself.
    """
    service = await find_service(tx, id, deleted=deleted)
    if service.mirrored:
        raise Conflict(
            f"service {service.name!r} is defined in its cluster by {service.origin}: change it "
            "there"
        )
    return service
