"""Pruning of objects that a service no longer contains; it deletes only the service's own
objects.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

from fleet.errors import TowlineError
from syncagent.domain.deletion import Candidate, awaiting, awaiting_removal, budget
from syncagent.domain.directives import Directives, Leave, directives_of
from syncagent.domain.inventory import Owned
from syncagent.domain.objects import KubeObject, ObjectKey, ObjectRef, metadata_of
from syncagent.domain.ownership import owner_of, release_patch
from syncagent.domain.waves import Wave, in_waves, wave_of
from syncagent.reconcile.apply import problem_of
from syncagent.reconcile.gates import is_well
from syncagent.reconcile.registry import Service
from syncagent.reconcile.tools import Tools

_TOGETHER = 64


@dataclass(frozen=True, slots=True)
class Terms:
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
class _Going:
    """An owned object to delete, in its present state."""

    one: Owned
    live: KubeObject
    directives: Directives

    @property
    def wave(self) -> Wave:
        return (self.directives.wave, wave_of(self.one.ref))


def prunable(service: Service, wanted: Iterable[ObjectKey]) -> list[Owned]:
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


async def take_away(
    tools: Tools, service: Service, going: list[Owned], terms: Terms
) -> tuple[ObjectRef, ...]:
    """Deletes objects, last wave first; each annotated wave waits until the later ones are gone.
    Returns the objects that need a person's confirmation first.
    """
    if not going:
        return ()
    owned = len(service.owned)
    found = await _examine(tools, service, going, terms)
    held = _held(found, terms, owned)
    kept = {ref.key for ref in held}
    await _delete(
        tools, service, [candidate for candidate in found if candidate.one.key not in kept]
    )
    return tuple(held)


def forget(tools: Tools, service: Service, owned: Owned) -> None:
    """Removes an object from its service."""
    tools.registry.drop(service, owned)
    service.failures.pop(owned.key, None)
    tools.memory.record((), gone=(owned,))


async def _examine(
    tools: Tools, service: Service, going: list[Owned], terms: Terms
) -> list[_Going]:
    found: list[_Going | None] = []
    for start in range(0, len(going), _TOGETHER):
        part = going[start : start + _TOGETHER]
        found += await asyncio.gather(*(_look_at(tools, service, owned, terms) for owned in part))
    return [result for result in found if result is not None]


async def _look_at(tools: Tools, service: Service, owned: Owned, terms: Terms) -> _Going | None:
    """Prepares the deletion of an object; None if there is nothing to delete."""
    heir = None if owned.leaving else tools.registry.heir(service, owned.key)
    if heir is not None and heir.due and heir.current != heir.desired:
        # Its newest desired state decides whether it still wants the object.
        owned.doubtful = True
        tools.urge(heir)
        return None
    try:
        if heir is not None:
            await _hand_over(tools, service, owned, heir)
            return None
        live = await tools.cluster.get(owned.ref)
        if live is None or owner_of(live) != service.id:
            _has_gone(tools, service, owned)
            return None
        directives = directives_of(live)
        if terms.keep or (directives.prune if terms.prunes else directives.delete) == Leave.NEVER:
            await tools.cluster.merge(owned.ref, release_patch())
            _has_gone(tools, service, owned)
            return None
        return _Going(owned, live, directives)
    except TowlineError as error:
        service.failures[owned.key] = problem_of(error, owned.ref)
        return None


async def _hand_over(tools: Tools, service: Service, owned: Owned, heir: Service) -> None:
    """Hands an unchanged object over to the adopting service.
    Our labels are removed: an adopting service that is paused, or not loaded after a restart, would
    take the object for a foreign one.
    """
    live = await tools.cluster.get(owned.ref)
    if live is not None and owner_of(live) == service.id:
        await tools.cluster.merge(owned.ref, release_patch())
    forget(tools, service, owned)
    tools.urge(heir)


def _held(found: list[_Going], terms: Terms, owned: int) -> list[ObjectRef]:
    open_ones = [
        candidate for candidate in found if not metadata_of(candidate.live).get("deletionTimestamp")
    ]
    candidates = [Candidate(candidate.one.ref, candidate.directives) for candidate in open_ones]
    if not terms.prunes:
        return awaiting_removal(candidates, terms.confirmed)
    return awaiting(candidates, terms.confirmed, budget(owned, terms.most))


async def _delete(tools: Tools, service: Service, going: list[_Going]) -> None:
    if not all(is_well(owned) for owned in service.owned.values() if not owned.leaving):
        going = [candidate for candidate in going if not _postponed(service, candidate)]
    waves = list(reversed(in_waves(going)))
    for _, annotated in groupby(waves, key=lambda wave: wave[0].wave[0]):
        stays = False
        for wave in annotated:
            gone = await asyncio.gather(*(_one(tools, service, candidate) for candidate in wave))
            stays = stays or not all(gone)
        if stays:
            return


def _postponed(service: Service, going: _Going) -> bool:
    """Reports whether an object must wait until all others are healthy; it already counts as
    leaving.
    """
    if going.directives.prune_last:
        service.pruned += not going.one.leaving
        going.one.leaving = True
    return going.directives.prune_last


async def _one(tools: Tools, service: Service, going: _Going) -> bool:
    """Deletes one object; True if it is already gone."""
    owned = going.one
    try:
        if metadata_of(going.live).get("deletionTimestamp"):
            owned.observe(going.live)
            gone = False
        else:
            gone = (await tools.cluster.delete(owned.ref, going.live)).gone
    except TowlineError as error:
        service.failures[owned.key] = problem_of(error, owned.ref)
        return False
    if gone:
        _has_gone(tools, service, owned)
    elif not owned.leaving:
        service.pruned += 1
        owned.leaving = True
    return gone


def _has_gone(tools: Tools, service: Service, owned: Owned) -> None:
    service.pruned += not owned.leaving
    forget(tools, service, owned)
