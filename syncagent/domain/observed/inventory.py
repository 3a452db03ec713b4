"""Inventory of a service: its applied objects and their descendants."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from core.spec.health import HealthRule, HealthState
from core.spec.objects import ObjectKey, ObjectRef
from core.spec.reports.inventory import InventoryChange, ObservedComponent
from syncagent.domain.objects import (
    KubeObject,
    controller_uid,
    metadata_of,
    ref_of,
    resource_version,
)
from syncagent.domain.observed.health import assess
from syncagent.domain.observed.object_status import HEALTHY, HealthStatus
from syncagent.domain.observed.pods import images_of
from syncagent.domain.observed.user_rules import health_of

_STUCK = {"Unschedulable", "SchedulingGated"}
_MISSING = HealthStatus(HealthState.MISSING, "is not in the cluster", "Missing")


@dataclass(slots=True)
class OwnedObject:
    """An object that was applied, or is about to be, for a service.
    `applied`: digest of the manifest last applied. `live`: digest of its fields in the cluster
    right after that. Both are empty until the object is known to exist. `needs_apply`: it must be
    applied again, whatever the digests. `leaving`: it is being deleted at our request. `heals`:
    times of the last heals. `reported_drift`: identifies the drift last reported and left.
    `diagnosis`: messages of events about an unhealthy object.
    """

    service_id: str
    ref: ObjectRef
    uid: str = ""
    applied: str = ""
    live: str = ""
    version: int = 0
    verdict: HealthStatus = HEALTHY
    images: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    generation: int = 0
    finalizers: tuple[str, ...] = ()
    seen: bool = False
    synced: bool = False
    needs_apply: bool = False
    leaving: bool = False
    heals: tuple[float, ...] = ()
    reported_drift: str = ""
    diagnosis: str = ""

    @property
    def key(self) -> ObjectKey:
        return self.ref.key

    @property
    def has_drifted(self) -> bool:
        """Reports whether the object was applied, and differs from that by a foreign change."""
        return bool(self.applied) and self.seen and not self.synced and not self.leaving

    @classmethod
    def intended(cls, service_id: str, ref: ObjectRef) -> "OwnedObject":
        """Creates the entry of an object before its first apply."""
        owned = cls(service_id, ref, needs_apply=True)
        owned.mark_missing()
        return owned

    def observe(self, live: KubeObject, rules: Sequence[HealthRule] = ()) -> None:
        """Updates the entry from a live object; a user's rules take precedence for its health."""
        meta = metadata_of(live)
        self.uid = meta.get("uid") or ""
        self.version = resource_version(live)
        self.verdict = health_of(live, rules)
        if self.verdict.health == HealthState.HEALTHY:
            self.diagnosis = ""
        self.images = images_of(live)
        self.labels = _labels(live)
        self.generation = meta.get("generation") or 0
        self.finalizers = _finalizers_of(live)
        self.seen = True

    def is_known(self, live: KubeObject) -> bool:
        """Reports whether this version of a live object was observed before."""
        return self.seen and self.version == resource_version(live) > 0

    def mark_missing(self) -> None:
        """Marks the object as missing from the cluster."""
        self.seen, self.synced = True, False
        self.uid = self.live = ""
        self.verdict = _MISSING


def child_of(live: KubeObject) -> ObservedComponent:
    """Builds the component of an object that a controller created."""
    verdict = assess(live)
    return ObservedComponent(
        ref_of(live),
        metadata_of(live).get("uid") or "",
        controller_uid(live),
        verdict.health,
        verdict.message,
        verdict.reason,
        True,
        images_of(live),
        _labels(live),
        metadata_of(live).get("generation") or 0,
        "",
        _finalizers_of(live),
    )


@dataclass(slots=True)
class DescendantTree:
    """Objects created by controllers, by owner; the order of arrival does not matter."""

    _children: dict[str, ObservedComponent] = field(default_factory=dict)
    _by_owner: dict[str, set[str]] = field(default_factory=dict)
    _by_key: dict[ObjectKey, str] = field(default_factory=dict)

    def put(self, child: ObservedComponent) -> bool:
        """Adds or replaces a child; True if anything changed."""
        if self._children.get(child.uid) == child:
            return False
        self.drop(child.uid)
        self._children[child.uid] = child
        self._by_owner.setdefault(child.owner_uid, set()).add(child.uid)
        self._by_key[child.ref.key] = child.uid
        return True

    def drop(self, uid: str) -> None:
        """Removes a child; its own children stay until they are removed."""
        child = self._children.pop(uid, None)
        if child is None:
            return
        if self._by_key.get(child.ref.key) == uid:
            del self._by_key[child.ref.key]
        siblings = self._by_owner[child.owner_uid]
        siblings.discard(uid)
        if not siblings:
            del self._by_owner[child.owner_uid]

    def __len__(self) -> int:
        return len(self._children)

    def root_of(self, uid: str) -> str:
        """Returns the uid of the outermost known owner; `uid` itself if it has none."""
        seen: set[str] = set()
        while uid in self._children and uid not in seen:
            seen.add(uid)
            uid = self._children[uid].owner_uid
        return uid

    def descendants_of(self, uid: str) -> Iterator[ObservedComponent]:
        """Iterates over all descendants of an object, depth first."""
        pending, seen = [uid], {uid}
        while pending:
            for child in self._by_owner.get(pending.pop(), set()) - seen:
                seen.add(child)
                pending.append(child)
                yield self._children[child]

    def get(self, uid: str) -> ObservedComponent | None:
        return self._children.get(uid)

    def uid_of(self, key: ObjectKey) -> str:
        """Returns the uid of the newest child with this key; empty if there is none."""
        return self._by_key.get(key, "")

    def members(self, kind: str, namespace: str) -> list[ObservedComponent]:
        """Lists the children of one kind in a namespace, or in all namespaces if it is empty."""
        return [
            child
            for child in self._children.values()
            if child.ref.kind == kind and namespace in ("", child.ref.namespace)
        ]


def components_of(
    owned: Mapping[ObjectKey, OwnedObject], tree: DescendantTree
) -> dict[ObjectKey, ObservedComponent]:
    """Lists the components of a service, each root before its descendants."""
    found: dict[ObjectKey, ObservedComponent] = {}
    for key, owned_object in owned.items():
        below = list(tree.descendants_of(owned_object.uid)) if owned_object.uid and tree else ()
        found[key] = _component_of(owned_object, below)
        # A Deployment keeps replica sets of former revisions at zero: history, not state.
        found.update({c.ref.key: c for c in below if not _is_old_replica_set(c, tree)})
    return found


def inventory_change(
    service_id: str,
    reported: Mapping[ObjectKey, ObservedComponent] | None,
    current: Mapping[ObjectKey, ObservedComponent],
) -> InventoryChange | None:
    """Computes the report that brings the other side to `current`; None if nothing changed."""
    if reported is None:
        return InventoryChange(service_id, True, tuple(current.values()), ())
    present = tuple(c for key, c in current.items() if reported.get(key) != c)
    gone = tuple(c.ref for key, c in reported.items() if key not in current)
    fresh = frozenset(current.keys() - reported.keys())
    return InventoryChange(service_id, False, present, gone, fresh) if present or gone else None


def _component_of(owned: OwnedObject, below: Sequence[ObservedComponent]) -> ObservedComponent:
    verdict = owned.verdict
    if verdict.health == HealthState.PROGRESSING:
        verdict = _worst_pod(below) or _with_event_message(owned)
    return ObservedComponent(
        owned.ref,
        owned.uid,
        "",
        verdict.health,
        verdict.message,
        verdict.reason,
        owned.synced,
        owned.images,
        owned.labels,
        owned.generation,
        owned.applied,
        owned.finalizers,
    )


def _worst_pod(below: Sequence[ObservedComponent]) -> HealthStatus | None:
    """Returns the problem of a pod as that of its workload; failures take precedence."""
    pods = [child for child in below if child.ref.kind == "Pod"]
    failed = [pod for pod in pods if pod.health == HealthState.FAILED]
    stuck = [pod for pod in pods if pod.health == HealthState.PROGRESSING and pod.reason in _STUCK]
    health = HealthState.FAILED if failed else HealthState.PROGRESSING
    for pod in (failed or stuck)[:1]:
        return HealthStatus(health, f"{pod.ref.name}: {pod.message}", pod.reason)
    return None


def _with_event_message(owned: OwnedObject) -> HealthStatus:
    verdict = owned.verdict
    if not owned.diagnosis:
        return verdict
    text = f"{verdict.message}; {owned.diagnosis}" if verdict.message else owned.diagnosis
    return HealthStatus(verdict.health, text, verdict.reason or owned.diagnosis.partition(":")[0])


def _is_old_replica_set(child: ObservedComponent, tree: DescendantTree) -> bool:
    return (
        child.ref.kind == "ReplicaSet"
        and child.health == HealthState.HEALTHY
        and not any(tree.descendants_of(child.uid))
    )


def split_inventory(change: InventoryChange, size: int) -> Iterator[InventoryChange]:
    """Splits a change into parts of at most `size` components, to be sent in this order."""
    yield replace(change, present=change.present[:size])
    for start in range(size, len(change.present), size):
        part = change.present[start : start + size]
        yield replace(change, complete=False, present=part, gone=())


def merge_inventories(older: InventoryChange, newer: InventoryChange) -> InventoryChange:
    """Merges two successive changes.
    Drops components that were created and deleted in between. Otherwise the pods of a cron job
    would fill the disk of an agent without a link for days.
    """
    if newer.complete:
        return newer
    present = {component.ref.key: component for component in older.present}
    gone = {ref.key: ref for ref in older.gone}
    fresh = set(older.fresh)
    for ref in newer.gone:
        if present.pop(ref.key, None) is None or ref.key not in fresh:
            gone[ref.key] = ref
        fresh.discard(ref.key)
    for component in newer.present:
        key = component.ref.key
        # The other side may know a component that was gone and is back.
        if key not in present and key in newer.fresh and key not in gone:
            fresh.add(key)
        present[key] = component
        gone.pop(key, None)
    return InventoryChange(
        newer.service_id,
        older.complete,
        tuple(present.values()),
        () if older.complete else tuple(gone.values()),
        frozenset(fresh),
    )


def _labels(live: KubeObject) -> Mapping[str, str]:
    """Reads labels. Objects of one service mostly have equal labels, so equal ones share
    one value.
    """
    labels = metadata_of(live).get("labels")
    if not isinstance(labels, dict):
        return {}
    try:
        return _interned(tuple(labels.items()))
    except TypeError:
        return labels


@lru_cache(4096)
def _interned(labels: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    return dict(labels)


def _finalizers_of(live: KubeObject) -> tuple[str, ...]:
    """Returns the finalizers that hold an object that is being deleted."""
    meta = metadata_of(live)
    return tuple(meta.get("finalizers") or ()) if meta.get("deletionTimestamp") else ()
