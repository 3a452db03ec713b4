"""What services may not change by themselves, because a definition hands it on."""

from collections.abc import Collection

from controlplane.domain.access import Actor, Verb
from controlplane.domain.ownership import OwnerKind
from controlplane.domain.services import Service
from controlplane.domain.templates import FIELDS
from controlplane.ports import Transaction
from controlplane.usecases.freezes import check_thawed
from controlplane.usecases.targets import rows
from fleet.errors import Conflict, Forbidden


async def check_changeable(
    tx: Transaction, actor: Actor, service: Service, changed: Collection[str] = ()
) -> None:
    """Conflict: the service's cluster is frozen, or a definition says what would be changed.

    Forbidden: other clusters have the service as it is here, and are not the actor's to change.
    """
    await check_thawed(tx, service.cluster_id)
    if inherited := sorted(set(changed) & set(FIELDS)):
        await _check_own(tx, service, inherited)
        for definition in await tx.globals.select(source_id=service.id):
            if not actor.may(Verb.WRITE, definition.target):
                raise Forbidden(
                    f"a global service hands on service {service.name!r} to other clusters: "
                    f"{actor.email or actor.name} may not change services there"
                )


async def check_deletable(tx: Transaction, service: Service) -> None:
    """Conflict: the cluster is frozen, or the service would be made anew, or is handed on."""
    await check_thawed(tx, service.cluster_id)
    if service.owner_id is not None and service.owner_kind is not None:
        owner = await rows(tx, service.owner_kind).peek(id=service.owner_id)
        if owner is not None:
            raise Conflict(
                f"service {service.name!r} comes from {service.owner_kind.noun} {owner.name!r} and "
                "would be made anew: let that leave out this cluster, or delete it"
            )
    for definition in await tx.globals.select(source_id=service.id, ending_at=None):
        raise Conflict(
            f"service {service.name!r} is the source of global service {definition.name!r}: delete "
            "the global service first"
        )


async def _check_own(tx: Transaction, service: Service, inherited: list[str]) -> None:
    if service.owner_id is None or service.owner_kind is None:
        return
    owner = await rows(tx, service.owner_kind).peek(id=service.owner_id)
    if owner is None:
        return
    fields = ", ".join(inherited)
    instead = ", or give this cluster an override" if service.owner_kind is OwnerKind.GLOBAL else ""
    raise Conflict(
        f"{fields} of service {service.name!r} comes from {service.owner_kind.noun} "
        f"{owner.name!r}: change it there{instead}"
    )
