"""Fields of services that a generator manages, and that cannot be changed on the service."""

from collections.abc import Collection

from controlplane.authorization import Actor, Verb
from controlplane.clusters.operations.freezes import check_not_frozen
from controlplane.generators.operations.reconciler import generator_table
from controlplane.generators.ports import GlobalServiceStore
from controlplane.platform.ports import Transaction
from controlplane.services.model.service import OwnerKind, Service
from controlplane.services.model.templates import FIELDS
from core.errors import Conflict, Forbidden


async def check_changeable(
    tx: Transaction, actor: Actor, service: Service, changed: Collection[str] = ()
) -> None:
    """Conflict: the service's cluster is frozen, or a generator manages a changed field.

    Forbidden: a global service copies this service to clusters that the actor may not change.
    """
    await check_not_frozen(tx, service.cluster_id)
    if inherited := sorted(set(changed) & set(FIELDS)):
        await _check_not_inherited(tx, service, inherited)
        for definition in await tx[GlobalServiceStore].of_source(service.id):
            if not actor.may(Verb.WRITE, definition.target):
                raise Forbidden(
                    f"a global service copies service {service.name!r} to other clusters, where "
                    f"{actor.shown_name} may not change services"
                )


async def prefetch_sources(tx: Transaction, services: Collection[str]) -> None:
    """Reads the global services that copy these services, for `check_changeable`."""
    await tx[GlobalServiceStore].prefetch_sources(services)


async def check_deletable(tx: Transaction, service: Service) -> None:
    """Conflict: the cluster is frozen, a generator would recreate the service, or copies it."""
    await check_not_frozen(tx, service.cluster_id)
    if service.owner_id is not None and service.owner_kind is not None:
        owner = await generator_table(tx, service.owner_kind).peek(service.owner_id)
        if owner is not None:
            raise Conflict(
                f"service {service.name!r} comes from {service.owner_kind.noun} {owner.name!r} and "
                "would be recreated: exclude this cluster there, or delete it"
            )
    for definition in await tx[GlobalServiceStore].active_of_source(service.id):
        raise Conflict(
            f"service {service.name!r} is the source of global service {definition.name!r}: delete "
            "the global service first"
        )


async def _check_not_inherited(tx: Transaction, service: Service, inherited: list[str]) -> None:
    if service.owner_id is None or service.owner_kind is None:
        return
    owner = await generator_table(tx, service.owner_kind).peek(service.owner_id)
    if owner is None:
        return
    fields = ", ".join(inherited)
    alternative = (
        ", or give this cluster an override" if service.owner_kind is OwnerKind.GLOBAL else ""
    )
    raise Conflict(
        f"{fields} of service {service.name!r} comes from {service.owner_kind.noun} "
        f"{owner.name!r}: change it there{alternative}"
    )
