"""Pruning of objects that a service no longer contains; it deletes only the service's own
objects.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

from core.errors import TowlineError
from core.spec.objects import ObjectKey, ObjectRef
from syncagent.domain.deletion import (
    DeletionCandidate,
    budget,
    unconfirmed_deletions,
    unconfirmed_removals,
)
from syncagent.domain.directives import DeletionPolicy, Directives, directives_of
from syncagent.domain.objects import KubeObject, metadata_of
from syncagent.domain.observed.inventory import OwnedObject
from syncagent.domain.ownership import owner_of, release_patch
from syncagent.domain.waves import Wave, in_waves, wave_of
from syncagent.reconcile.applier import problem_of
from syncagent.reconcile.context import ReconcileContext
from syncagent.reconcile.gates import is_ready
from syncagent.reconcile.registry import ServiceState

_BATCH_SIZE = 64


@dataclass(frozen=True, slots=True)
class DeletionTerms:
    """Terms of a deletion.
    `keep`: only remove our labels and annotations. `prunes`: the service itself stays, so at most
    `most` objects are deleted without confirmation; removing a whole service has no such limit. In
    both cases, protected objects must be `confirmed`.
    """

    keep: bool
    prunes: bool
    confirmed: frozenset[ObjectKey] = frozenset()
    most: int = 0


@dataclass(frozen=True, slots=True)
class _PendingDeletion:
    """An owned object to delete, in its present state."""

    owned: OwnedObject
    live: KubeObject
    directives: Directives

    @property
    def wave(self) -> Wave:
        return (self.directives.wave, wave_of(self.owned.ref))


def prunable(service: ServiceState, wanted: Iterable[ObjectKey]) -> list[OwnedObject]:
    """Lists the objects that the service owns but certainly no longer contains.
    If an object of a kind could not be applied, no object of that kind is pruned: it may be the old
    name of the failed one. A failure of the whole service prunes nothing.
    """
    if None in service.failures:
        return []
    uncertain = {key[:2] for key in service.failures if key is not None}
    keep = set(wanted)
    return [
        owned
        for key, owned in service.owned.items()
        if key not in keep and key[:2] not in uncertain
    ]


async def delete_objects(
    context: ReconcileContext, service: ServiceState, going: list[OwnedObject], terms: DeletionTerms
) -> tuple[ObjectRef, ...]:
    """Deletes objects, last wave first; each annotated wave waits until the later ones are gone.
    Returns the objects that need a person's confirmation first.
    """
    if not going:
        return ()
    owned = len(service.owned)
    found = await _prepare_deletions(context, service, going, terms)
    unconfirmed = _unconfirmed(found, terms, owned)
    kept = {ref.key for ref in unconfirmed}
    await _delete_in_waves(
        context, service, [candidate for candidate in found if candidate.owned.key not in kept]
    )
    return tuple(unconfirmed)


def forget(context: ReconcileContext, service: ServiceState, owned: OwnedObject) -> None:
    """Removes an object from its service."""
    context.registry.drop(service, owned)
    service.failures.pop(owned.key, None)
    context.memory.save_objects((), gone=(owned,))


async def _prepare_deletions(
    context: ReconcileContext, service: ServiceState, going: list[OwnedObject], terms: DeletionTerms
) -> list[_PendingDeletion]:
    found: list[_PendingDeletion | None] = []
    for start in range(0, len(going), _BATCH_SIZE):
        part = going[start : start + _BATCH_SIZE]
        found += await asyncio.gather(
            *(_prepare_deletion(context, service, owned, terms) for owned in part)
        )
    return [result for result in found if result is not None]


async def _prepare_deletion(
    context: ReconcileContext, service: ServiceState, owned: OwnedObject, terms: DeletionTerms
) -> _PendingDeletion | None:
    """Prepares the deletion of an object; None if there is nothing to delete."""
    adopting = _adopting_service(context, service, owned)
    if adopting is not None and adopting.due and adopting.current != adopting.desired:
        # Its newest desired state decides whether it still wants the object.
        owned.needs_apply = True
        context.retry_now(adopting)
        return None
    try:
        if adopting is not None:
            await _hand_over(context, service, owned, adopting)
            return None
        live = await context.cluster.get(owned.ref)
        if live is None or owner_of(live) != service.id:
            _record_deletion(context, service, owned)
            return None
        directives = directives_of(live)
        if (
            terms.keep
            or (directives.prune if terms.prunes else directives.delete) == DeletionPolicy.NEVER
        ):
            await context.cluster.merge(owned.ref, release_patch())
            _record_deletion(context, service, owned)
            return None
        return _PendingDeletion(owned, live, directives)
    except TowlineError as error:
        service.failures[owned.key] = problem_of(error, owned.ref)
        return None


def _adopting_service(
    context: ReconcileContext, service: ServiceState, owned: OwnedObject
) -> ServiceState | None:
    """Finds the service that takes an object over. Nothing is handed over through a fence: the
    other service creates its own object.
    """
    adopting = None if owned.leaving else context.registry.adopting_service(service, owned.key)
    return adopting if adopting is not None and adopting.project == service.project else None


async def _hand_over(
    context: ReconcileContext,
    service: ServiceState,
    owned: OwnedObject,
    adopting: ServiceState,
) -> None:
    """Hands an unchanged object over to the adopting service.
    Our labels are removed: an adopting service that is paused, or not loaded after a restart, would
    take the object for a foreign one.
    """
    live = await context.cluster.get(owned.ref)
    if live is not None and owner_of(live) == service.id:
        await context.cluster.merge(owned.ref, release_patch())
    forget(context, service, owned)
    context.retry_now(adopting)


def _unconfirmed(
    found: list[_PendingDeletion], terms: DeletionTerms, owned: int
) -> list[ObjectRef]:
    undeleted = [
        candidate for candidate in found if not metadata_of(candidate.live).get("deletionTimestamp")
    ]
    candidates = [
        DeletionCandidate(candidate.owned.ref, candidate.directives) for candidate in undeleted
    ]
    if not terms.prunes:
        return unconfirmed_removals(candidates, terms.confirmed)
    return unconfirmed_deletions(candidates, terms.confirmed, budget(owned, terms.most))


async def _delete_in_waves(
    context: ReconcileContext, service: ServiceState, going: list[_PendingDeletion]
) -> None:
    if not all(is_ready(owned) for owned in service.owned.values() if not owned.leaving):
        going = [candidate for candidate in going if not _is_postponed(service, candidate)]
    waves = list(reversed(in_waves(going)))
    for _, annotated in groupby(waves, key=lambda wave: wave[0].wave[0]):
        stays = False
        for wave in annotated:
            gone = await asyncio.gather(
                *(_delete_object(context, service, candidate) for candidate in wave)
            )
            stays = stays or not all(gone)
        if stays:
            return


def _is_postponed(service: ServiceState, going: _PendingDeletion) -> bool:
    """Reports whether an object must wait until all others are healthy; it already counts as
    leaving.
    """
    if going.directives.prune_last:
        service.pruned += not going.owned.leaving
        going.owned.leaving = True
    return going.directives.prune_last


async def _delete_object(
    context: ReconcileContext, service: ServiceState, going: _PendingDeletion
) -> bool:
    """Deletes one object; True if it is already gone."""
    owned = going.owned
    try:
        if metadata_of(going.live).get("deletionTimestamp"):
            owned.observe(going.live)
            gone = False
        else:
            gone = (await context.cluster.delete(owned.ref, going.live)).gone
    except TowlineError as error:
        service.failures[owned.key] = problem_of(error, owned.ref)
        return False
    if gone:
        _record_deletion(context, service, owned)
    elif not owned.leaving:
        service.pruned += 1
        owned.leaving = True
    return gone


def _record_deletion(context: ReconcileContext, service: ServiceState, owned: OwnedObject) -> None:
    service.pruned += not owned.leaving
    forget(context, service, owned)
