"""In-memory state of the agent: services, their objects, and descendants of these."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from core.runtime.backoff import Backoff
from core.spec.desired import Desired
from core.spec.health import HealthRule, HealthState
from core.spec.input_checks import InputVerdict
from core.spec.objects import GroupVersionKind, ObjectKey, ObjectRef
from core.spec.plan import PlannedChange
from core.spec.reports.inventory import ObservedComponent
from core.spec.status import Phase, Problem, StageTimes
from core.spec.sync import ObjectSelection
from syncagent.domain.events import Observation
from syncagent.domain.objects import KubeObject, ref_of
from syncagent.domain.observed.inventory import DescendantTree, OwnedObject
from syncagent.domain.observed.object_status import HealthStatus
from syncagent.domain.observed.unmanaged_children import UnmanagedChildren
from syncagent.domain.ownership import SERVICE_LABEL, claiming_service, owner_of
from syncagent.ports import StoredService

_UNSEEN = HealthStatus(
    HealthState.PROGRESSING, "has not been checked since the agent started", "Unknown"
)
_RETRY_FIRST_S = 2.0
_RETRY_LIMIT_S = 120.0
_MAX_FOREIGN_CLAIMS = 10_000

# Position of an object in its bundle: offset and length in bytes.
Span = tuple[int, int]


def _new_backoff() -> Backoff:
    return Backoff(first=_RETRY_FIRST_S, limit=_RETRY_LIMIT_S, factor=2.0)


@dataclass(frozen=True, slots=True)
class SyncGate:
    """Condition that a sync waits for: objects to be healthy, hooks to end.
    `until`: timeout (monotonic seconds). `check_hooks_at`: time of the next check of the hooks if
    none of them is observed before.
    """

    name: str
    sequence: int
    objects: frozenset[ObjectKey]
    hooks: frozenset[ObjectKey]
    until: float
    check_hooks_at: float


@dataclass(slots=True)
class RunningHook:
    """The object of a running hook. `diagnosis`: messages of events about it."""

    ref: ObjectRef
    uid: str
    diagnosis: str = ""


@dataclass(slots=True)
class ServiceState:
    """In-memory state of one service.
    `busy`: present activity since `busy_since` (monotonic seconds), None if idle. `failures`:
    problems by object, None for the whole service. `inbox`: newest unprocessed observation of each
    object. `commands`: ids of new commands; `begun`: ids of started commands without an answer.
    `selections`: syncs of selected objects by the id of their command.
    `retry_at`: no retry before this time (monotonic seconds). `retry_requests`: number of events
    that justified an immediate retry. `written` and `pruned`: counts for the sequence `counted`.
    `tried`: sequence whose sync has come to its end. `gate`: present wait of the sync. `awaiting`:
    deletions that need confirmation. `planned`: result of a dry run. `adopted`: number of adopted
    objects by tool. `observed_hooks`: last observed objects of hooks. `retry_requested`: failed
    hooks get another attempt. `stopped`: sequence that was terminated. `quarantine_reason`: reason
    why the desired bundle is quarantined and the last good one applied. `conflicting_objects`:
    desired objects that another service owns. `inputs`: checks of the last planned bundle.
    """

    desired: Desired
    current: Desired | None = None
    owned: dict[ObjectKey, OwnedObject] = field(default_factory=dict)
    spans: dict[ObjectKey, Span] | None = None
    failures: dict[ObjectKey | None, Problem] = field(default_factory=dict)
    inbox: dict[ObjectKey, Observation] = field(default_factory=dict)
    commands: list[str] = field(default_factory=list)
    begun: list[str] = field(default_factory=list)
    selections: dict[str, ObjectSelection] = field(default_factory=dict)
    reported: dict[ObjectKey, ObservedComponent] | None = None
    stamps: StageTimes = StageTimes()
    busy: Phase | None = None
    busy_since: float = 0.0
    written: int = 0
    pruned: int = 0
    tried: int = 0
    counted: int = 0
    retry: Backoff = field(default_factory=_new_backoff)
    retry_at: float = 0.0
    retry_requests: int = 0
    gate: SyncGate | None = None
    retry_requested: bool = False
    stopped: int = 0
    awaiting: tuple[ObjectRef, ...] = ()
    planned: tuple[PlannedChange, ...] | None = None
    adopted: dict[str, int] = field(default_factory=dict)
    observed_hooks: dict[ObjectKey, KubeObject] = field(default_factory=dict)
    quarantine_reason: str = ""
    conflicting_objects: frozenset[ObjectKey] = frozenset()
    inputs: InputVerdict | None = None

    @property
    def id(self) -> str:
        return self.desired.service_id

    @property
    def name(self) -> str:
        return self.desired.spec.name if self.desired.spec else self.id

    @property
    def project(self) -> str:
        """Name of the service's project; empty for a service of the cluster's own."""
        return self.desired.fence.project if self.desired.fence else ""

    @property
    def due(self) -> bool:
        """Reports whether something must be applied, pruned or removed."""
        spec = self.desired.spec
        if spec is None and self.desired.removal is None:
            return False
        if spec is not None and (spec.paused or self.stopped == self.desired.sequence):
            return False
        if spec is not None and spec.dry_run:
            return self.tried != self.desired.sequence or bool(self.failures)
        return (
            self.current != self.desired
            or bool(self.failures)
            or (
                spec is not None and self.tried != self.desired.sequence and not self.stamps.applied
            )
            or any(owned.needs_apply or owned.leaving for owned in self.owned.values())
        )

    @property
    def rules(self) -> tuple[HealthRule, ...]:
        """The users' health rules."""
        spec = self.desired.spec or (self.current.spec if self.current else None)
        return spec.options.health_rules if spec else ()

    @property
    def unseen(self) -> bool:
        """Reports whether some of its objects have not been observed yet."""
        return any(not owned.seen for owned in self.owned.values())


class ServiceRegistry:
    """All services, and the owners of objects by key and by uid.
    `namespaces`: created namespaces with the fingerprint of their metadata. `foreign_claims`:
    services of other Towline installations by the objects they claim. `tree`: descendants of our
    objects. `unmanaged_children`: unmanaged children in the watched namespaces. `gap`: reason why
    owned objects may be missing here, empty if complete.
    """

    def __init__(self) -> None:
        self.tree, self.unmanaged_children = DescendantTree(), UnmanagedChildren()
        self.gap = ""
        self.foreign_claims: dict[ObjectKey, str] = {}
        self.namespaces: set[tuple[str, str]] = set()
        self._services: dict[str, ServiceState] = {}
        self._claims: dict[ObjectKey, str] = {}
        self._uids: dict[str, str] = {}
        self._hooks: dict[ObjectKey, RunningHook] = {}

    def restore(self, known: list[StoredService], owned: list[OwnedObject]) -> None:
        """Restores the state from the disk or the cluster."""
        for stored in known:
            self.put(ServiceState(stored.desired, stored.current, stamps=stored.stamps))
        for entry in owned:
            service = self._services.get(entry.service_id)
            if service is not None:
                entry.verdict = _UNSEEN
                entry.synced = bool(entry.applied)
                entry.needs_apply = not entry.synced
                self.add(service, entry)

    def get(self, service_id: str) -> ServiceState | None:
        return self._services.get(service_id)

    def put(self, service: ServiceState) -> None:
        self._services[service.id] = service

    def __iter__(self) -> Iterator[ServiceState]:
        return iter(list(self._services.values()))

    def add(self, service: ServiceState, owned: OwnedObject) -> None:
        """Adds an object to a service."""
        key = owned.key
        service.owned[key] = owned
        self._claims[key] = service.id
        self.identify(owned)

    def identify(self, owned: OwnedObject) -> None:
        """Registers the uid of an object."""
        if owned.uid:
            self._uids[owned.uid] = owned.service_id

    def drop(self, service: ServiceState, owned: OwnedObject) -> None:
        """Removes an object from its service."""
        service.owned.pop(owned.key, None)
        if self._claims.get(owned.key) == service.id:
            del self._claims[owned.key]
        if self._uids.get(owned.uid) == service.id:
            self.disown(owned.uid)

    def disown(self, uid: str) -> None:
        """Drops the uid of an object that is no longer ours, with its descendants."""
        if self._uids.pop(uid, None) is None:
            return
        for child in list(self.tree.descendants_of(uid)):
            self.tree.drop(child.uid)
            self.unmanaged_children.put(child.ref.key, child.ref.api, child.owner_uid)

    def add_hook(self, service: ServiceState, ref: ObjectRef, uid: str) -> RunningHook:
        """Registers a running hook, so that its descendants belong to the service."""
        known = self._hooks.get(ref.key)
        if known is not None and (known.ref, known.uid) == (ref, uid):
            return known
        self.end_hook(ref.key)
        hook = self._hooks[ref.key] = RunningHook(ref, uid)
        if uid:
            self._uids[uid] = service.id
        return hook

    def hook(self, key: ObjectKey) -> RunningHook | None:
        """Returns a running hook by the key of its object."""
        return self._hooks.get(key)

    def hook_diagnosis(self, key: ObjectKey) -> str:
        """Returns the message of an event about a running hook; empty if there is none."""
        hook = self._hooks.get(key)
        return hook.diagnosis if hook else ""

    def end_hook(self, key: ObjectKey) -> None:
        """Removes a hook that has ended."""
        ended = self._hooks.pop(key, None)
        if ended is not None:
            self.disown(ended.uid)

    def remove(self, service: ServiceState) -> None:
        """Removes a service with all of its objects."""
        for owned in list(service.owned.values()):
            self.drop(service, owned)
        for key, hook in list(self._hooks.items()):
            if self._uids.get(hook.uid) == service.id:
                self.end_hook(key)
        self._services.pop(service.id, None)

    def uid_of(self, key: ObjectKey) -> str:
        """Returns the uid of our object or hook; empty if it is not known."""
        if key in self._hooks:
            return self._hooks[key].uid
        holder = self.owner_of_key(key)
        return holder.owned[key].uid if holder is not None else ""

    def apis(self) -> set[GroupVersionKind]:
        """Returns the kinds of all owned objects and running hooks, by version."""
        return {ref.api for ref in self.workloads()}

    def workloads(self) -> Iterator[ObjectRef]:
        """Iterates over all owned objects and running hooks."""
        for service in self._services.values():
            yield from (owned.ref for owned in service.owned.values())
        yield from (hook.ref for hook in self._hooks.values())

    def namespaces_of(self, api: GroupVersionKind) -> set[str]:
        """Returns the namespaces of the owned objects and running hooks of a kind."""
        return {ref.namespace for ref in self.workloads() if ref.api == api}

    def awaited_kinds(self) -> set[tuple[str, str]]:
        """Returns the kinds (group, kind) of objects that services wait for or failed to apply."""
        return {
            key[:2]
            for service in self._services.values()
            for key in (*service.conflicting_objects, *service.failures)
            if key is not None
        }

    def owner_of_key(self, key: ObjectKey) -> ServiceState | None:
        """Returns the service that owns an object."""
        return self._services.get(self._claims.get(key, ""))

    def conflicting_owner(self, service: ServiceState, ref: ObjectRef) -> str:
        """Describes the conflicting owner of a desired object, for people; empty if there
        is none.
        """
        holder, foreign_claim = self.owner_of_key(ref.key), self.foreign_claims.get(ref.key)
        if foreign_claim is not None:
            return (
                f"{ref} belongs to service {foreign_claim} of another Towline installation;"
                f" {_ownership_advice(service)}; if the other is gone, remove its label "
                f"{SERVICE_LABEL}"
            )
        if holder is None or holder is service:
            return ""
        return f"{ref} already belongs to service {holder.name}; {_ownership_advice(service)}"

    def adopting_service(self, holder: ServiceState, key: ObjectKey) -> ServiceState | None:
        """Finds another service, not being removed, that wants an object of its present owner."""
        candidates = (
            service
            for service in self._services.values()
            if service is not holder and service.desired.spec
        )
        return next(
            (candidate for candidate in candidates if key in candidate.conflicting_objects), None
        )

    def record_foreign_claim(self, live: KubeObject) -> bool:
        """Records whether another installation claims an object; True if one does."""
        key, owner = ref_of(live).key, owner_of(live)
        claim = (
            claiming_service(live) if owner is not None and owner not in self._services else None
        )
        if claim is None:
            self.foreign_claims.pop(key, None)
        elif key in self.foreign_claims or len(self.foreign_claims) < _MAX_FOREIGN_CLAIMS:
            self.foreign_claims[key] = claim
        return claim is not None

    def drop_unlisted_claims(
        self, api: GroupVersionKind, namespace: str, keys: Collection[ObjectKey]
    ) -> None:
        """Drops claims on objects that are missing from a complete list."""
        for key in list(self.foreign_claims):
            within = key[:2] == (api.group, api.kind) and namespace in ("", key[2])
            if within and key not in keys:
                del self.foreign_claims[key]

    def service_of_descendant(self, uid: str) -> ServiceState | None:
        """Returns the service whose object is the root of this one."""
        return self._services.get(self._uids.get(self.tree.root_of(uid), ""))

    def objects_of(self, api: GroupVersionKind, namespace: str | None = None) -> list[OwnedObject]:
        """Lists the owned objects of one kind in one version; `namespace`: only those within it."""
        return [
            owned
            for service in self._services.values()
            for owned in service.owned.values()
            if owned.ref.api == api and namespace in (None, owned.ref.namespace)
        ]


def _ownership_advice(service: ServiceState) -> str:
    return f"service {service.name} does not touch it; remove it from one of the two"
