"""What the agent holds in memory: services, their objects, and what grew from these."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from fleet.runtime.backoff import Backoff
from syncagent.domain.changes import PlannedChange
from syncagent.domain.events import Sighting
from syncagent.domain.health import Health, Verdict
from syncagent.domain.inventory import Component, Owned, Tree
from syncagent.domain.objects import Api, KubeObject, ObjectKey, ObjectRef, ref_of
from syncagent.domain.ownership import SERVICE_LABEL, claim_of, owner_of
from syncagent.domain.services import Desired, HealthRule, Phase, Problem, Stamps
from syncagent.domain.strays import Strays
from syncagent.ports import KnownService

_UNSEEN = Verdict(Health.PROGRESSING, "has not been looked at since the agent started", "Unknown")
_RETRY_FIRST_S = 2.0
_RETRY_LIMIT_S = 120.0
_MOST_STRANGERS = 10_000

# Where an object stands in its bundle: offset and length in bytes.
Span = tuple[int, int]


def _retry() -> Backoff:
    return Backoff(first=_RETRY_FIRST_S, limit=_RETRY_LIMIT_S, factor=2.0)


@dataclass(frozen=True, slots=True)
class Gate:
    """What a sync waits for before it goes on: objects to be healthy, hooks to end.

    `until` is when it has taken too long (monotonic seconds), `look_at` when the hooks are asked
    after although nothing was seen.
    """

    name: str
    sequence: int
    objects: frozenset[ObjectKey]
    hooks: frozenset[ObjectKey]
    until: float
    look_at: float


@dataclass(slots=True)
class Service:
    """One service at work. `busy` is what is being done to it, since `busy_since` (monotonic
    seconds); None when nothing is.

    `failures` holds what keeps it from being as desired, by object; None stands for the whole.
    `inbox` holds what was seen of its objects and not been looked at, newest only. `commands` are
    ids of those that nobody has taken up yet, `begun` of those without an answer so far. Before
    `hold_until` (monotonic seconds) what is due is not tried again. `urgings` counts the times
    that something new made trying again worth while. `written` and `pruned` count for the
    sequence `counted`; `tried` is the one whose walk has come to its end. `gate` is what the sync
    waits for; `awaiting` are deletions that a person must agree to, `planned` what a dry run
    found, `adopted` counts objects taken over, by tool. `hooks_seen` are objects of hooks as last
    seen; `asked_again`: failed hooks are to have another try; `stopped` is a sequence that
    somebody has put an end to. `held` says why the last good bundle stands for the wanted one.
    `barred` are objects that it wants and another service has.
    """

    desired: Desired
    current: Desired | None = None
    owned: dict[ObjectKey, Owned] = field(default_factory=dict)
    spans: dict[ObjectKey, Span] | None = None
    failures: dict[ObjectKey | None, Problem] = field(default_factory=dict)
    inbox: dict[ObjectKey, Sighting] = field(default_factory=dict)
    commands: list[str] = field(default_factory=list)
    begun: list[str] = field(default_factory=list)
    reported: dict[ObjectKey, Component] | None = None
    stamps: Stamps = Stamps()
    busy: Phase | None = None
    busy_since: float = 0.0
    written: int = 0
    pruned: int = 0
    tried: int = 0
    counted: int = 0
    retry: Backoff = field(default_factory=_retry)
    hold_until: float = 0.0
    urgings: int = 0
    gate: Gate | None = None
    asked_again: bool = False
    stopped: int = 0
    awaiting: tuple[ObjectRef, ...] = ()
    planned: tuple[PlannedChange, ...] | None = None
    adopted: dict[str, int] = field(default_factory=dict)
    hooks_seen: dict[ObjectKey, KubeObject] = field(default_factory=dict)
    held: str = ""
    barred: frozenset[ObjectKey] = frozenset()

    @property
    def id(self) -> str:
        return self.desired.service_id

    @property
    def name(self) -> str:
        return self.desired.spec.name if self.desired.spec else self.id

    @property
    def due(self) -> bool:
        """Whether something must be applied, pruned or removed."""
        spec = self.desired.spec
        if spec is None and self.desired.removal is None:
            return False
        if spec is not None and (spec.options.paused or self.stopped == self.desired.sequence):
            return False
        if spec is not None and spec.options.dry_run:
            return self.tried != self.desired.sequence or bool(self.failures)
        return (
            self.current != self.desired
            or bool(self.failures)
            or (
                spec is not None and self.tried != self.desired.sequence and not self.stamps.applied
            )
            or any(one.doubtful or one.leaving for one in self.owned.values())
        )

    @property
    def rules(self) -> tuple[HealthRule, ...]:
        """How its users want health to be read."""
        spec = self.desired.spec or (self.current.spec if self.current else None)
        return spec.options.health_rules if spec else ()

    @property
    def unseen(self) -> bool:
        """Whether the cluster has yet to be asked about some of its objects."""
        return any(not one.seen for one in self.owned.values())


class Registry:
    """All services; who owns an object, by its name and by its uid.

    `namespaces` holds names of namespaces that were made, with the fingerprint of what they got.
    `strangers` names services of other installations of Towline by the objects that they claim.
    `tree` has what grew from what is ours, `strays` what grew beside it where we looked.
    `gap` says why some owned objects may be missing here; empty when it is complete.
    """

    def __init__(self) -> None:
        self.tree, self.strays = Tree(), Strays()
        self.gap = ""
        self.strangers: dict[ObjectKey, str] = {}
        self.namespaces: set[tuple[str, str]] = set()
        self._services: dict[str, Service] = {}
        self._claims: dict[ObjectKey, str] = {}
        self._uids: dict[str, str] = {}
        self._hooks: dict[ObjectKey, tuple[ObjectRef, str]] = {}

    def restore(self, known: list[KnownService], owned: list[Owned]) -> None:
        """Take over what the disk, or the cluster, remembers."""
        for one in known:
            self.put(Service(one.desired, one.current, stamps=one.stamps))
        for entry in owned:
            service = self._services.get(entry.service_id)
            if service is not None:
                entry.verdict = _UNSEEN
                entry.synced = bool(entry.applied)
                entry.doubtful = not entry.synced
                self.add(service, entry)

    def get(self, service_id: str) -> Service | None:
        return self._services.get(service_id)

    def put(self, service: Service) -> None:
        self._services[service.id] = service

    def __iter__(self) -> Iterator[Service]:
        return iter(list(self._services.values()))

    def add(self, service: Service, one: Owned) -> None:
        """An object belongs to a service from now on."""
        key = one.key
        service.owned[key] = one
        self._claims[key] = service.id
        self.identify(one)

    def identify(self, one: Owned) -> None:
        """The uid of an object has become known."""
        if one.uid:
            self._uids[one.uid] = one.service_id

    def drop(self, service: Service, one: Owned) -> None:
        """An object no longer belongs to its service."""
        service.owned.pop(one.key, None)
        if self._claims.get(one.key) == service.id:
            del self._claims[one.key]
        if self._uids.get(one.uid) == service.id:
            self.disown(one.uid)

    def disown(self, uid: str) -> None:
        """The object of this uid is not ours any more: neither is what grew from it."""
        if self._uids.pop(uid, None) is None:
            return
        for child in list(self.tree.beneath(uid)):
            self.tree.drop(child.uid)
            self.strays.put(child.ref.key, child.ref.api, child.owner_uid)

    def note_hook(self, service: Service, ref: ObjectRef, uid: str) -> None:
        """A hook of a service runs: what grows from it belongs to the service as well."""
        if uid and self._hooks.get(ref.key) != (ref, uid):
            self.end_hook(ref.key)
            self._hooks[ref.key] = (ref, uid)
            self._uids[uid] = service.id

    def end_hook(self, key: ObjectKey) -> None:
        """A hook has ended, or is to be forgotten."""
        _, uid = self._hooks.pop(key, (None, ""))
        self.disown(uid)

    def remove(self, service: Service) -> None:
        """A service is gone with all it had."""
        for one in list(service.owned.values()):
            self.drop(service, one)
        for key, (_, uid) in list(self._hooks.items()):
            if self._uids.get(uid) == service.id:
                self.end_hook(key)
        self._services.pop(service.id, None)

    def uid_of(self, key: ObjectKey) -> str:
        """uid of an object of ours, a hook's included; empty if it is not known."""
        if key in self._hooks:
            return self._hooks[key][1]
        holder = self.claimant(key)
        return holder.owned[key].uid if holder is not None else ""

    def apis(self) -> set[Api]:
        """The kinds of all owned objects and of hooks that run, by version."""
        return {ref.api for ref in self.workloads()}

    def workloads(self) -> Iterator[ObjectRef]:
        """All owned objects, and hooks that run."""
        for service in self._services.values():
            yield from (one.ref for one in service.owned.values())
        yield from (ref for ref, _ in self._hooks.values())

    def places_of(self, api: Api) -> set[str]:
        """Namespaces of the owned objects, and of hooks that run, of a kind."""
        return {ref.namespace for ref in self.workloads() if ref.api == api}

    def awaited_kinds(self) -> set[tuple[str, str]]:
        """Kinds (group, kind) of objects that services wait to have, or cannot have now."""
        return {
            key[:2]
            for service in self._services.values()
            for key in (*service.barred, *service.failures)
            if key is not None
        }

    def claimant(self, key: ObjectKey) -> Service | None:
        """The service that owns an object."""
        return self._services.get(self._claims.get(key, ""))

    def rival(self, service: Service, ref: ObjectRef) -> str:
        """Who else has an object that a service wants, for people; empty if nobody."""
        holder, stranger = self.claimant(ref.key), self.strangers.get(ref.key)
        if stranger is not None:
            return (
                f"{ref} belongs to service {stranger} of another Towline installation;"
                f" {_leaves(service)}; if the other is gone, take its label {SERVICE_LABEL} off"
            )
        if holder is None or holder is service:
            return ""
        return f"{ref} belongs to service {holder.name} already; {_leaves(service)}"

    def heir(self, holder: Service, key: ObjectKey) -> Service | None:
        """Another service, which is to stay, that waits to have what its holder gives up."""
        others = (one for one in self._services.values() if one is not holder and one.desired.spec)
        return next((one for one in others if key in one.barred), None)

    def note_claim(self, live: KubeObject) -> bool:
        """Remember whether a stranger claims an object; whether one does."""
        key, owner = ref_of(live).key, owner_of(live)
        claim = claim_of(live) if owner is not None and owner not in self._services else None
        if claim is None:
            self.strangers.pop(key, None)
        elif key in self.strangers or len(self.strangers) < _MOST_STRANGERS:
            self.strangers[key] = claim
        return claim is not None

    def note_listed(self, api: Api, namespace: str, keys: Collection[ObjectKey]) -> None:
        """Objects that are not in a whole list are claimed by nobody."""
        for key in list(self.strangers):
            within = key[:2] == (api.group, api.kind) and namespace in ("", key[2])
            if within and key not in keys:
                del self.strangers[key]

    def service_above(self, uid: str) -> Service | None:
        """The service from whose objects this one grew."""
        return self._services.get(self._uids.get(self.tree.root_of(uid), ""))

    def objects_of(self, api: Api, namespace: str | None = None) -> list[Owned]:
        """All owned objects of one kind in one version; `namespace`: only those within it."""
        return [
            one
            for service in self._services.values()
            for one in service.owned.values()
            if one.ref.api == api and namespace in (None, one.ref.namespace)
        ]


def _leaves(service: Service) -> str:
    return f"service {service.name} leaves it alone: one of the two must give it up"
