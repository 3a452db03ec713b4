"""Ports that all operations get, their changes, and the topics of the event bus."""

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final, Generic, Protocol, TypeVar

from controlplane.authorization import Actor, Resource, ResourceKind, Verb, require, require_member
from controlplane.platform.audit_entry import AuditEntry, AuditVerdict
from controlplane.platform.conflicts import name_conflict
from controlplane.platform.git_ports import AgentRenderer, GitWriter, ManifestSource
from controlplane.platform.ports import (
    AuditTrail,
    Bus,
    NamedRows,
    Page,
    PageQuery,
    Store,
    Transaction,
)
from controlplane.platform.rate_limits import RenderRates
from controlplane.platform.references import found
from controlplane.platform.sealing import Sealer
from core.identity import new_id
from core.runtime.clock import Clock
from core.spec.source import RenderedBundle, RenderRequest

P = TypeVar("P")
N = TypeVar("N", bound="NamedResource")
Permission = tuple[Verb, Resource]
"""Operation on a resource."""
_MAX_TARGET_LENGTH = 320
CLUSTER: Final = "cluster"
"""A cluster row changed. Key: cluster id."""
SERVICE: Final = "service"
"""A service row changed. Key: service id."""
DESIRED_STATE: Final = "desired"
"""The desired state or commands of a cluster changed. Key: `<cluster id>/<service id>`."""
RENDER_SERVICES: Final = "deliver"
"""Services may need a render. Key: `<repository id>/<service id>`; without a service id, all."""
PIPELINE: Final = "pipeline"
"""A pipeline row changed. Key: pipeline id."""
ACCESS: Final = "access"
"""Permissions of a user changed. Key: user id; empty for all users."""
CLUSTER_JOB: Final = "cluster-job"
"""A cluster job or its log changed. Key: job id."""
SECRET: Final = "secret"
"""A secret row or the encryption keys changed. Key: secret id; empty for the keys."""
CONFIGURATION_SOURCE: Final = "configuration-source"
"""A configuration source changed, or has a job. Key: id of the source."""
CLUSTER_SOURCE: Final = "cluster-source"
"""A cluster source changed, or has a job. Key: id of the source."""
NOTIFY: Final = "news"
"""A user requested a notification. No key."""
GENERATORS: Final = "targets"
"""A generator has to be reconciled. Key: `<kind>/<id>`; empty for all generators."""
REVOKED: Final = "revoked"
"""A token was revoked. Key: token id."""
TUNNEL: Final = "tunnel"
"""An agent's link was claimed or released. Key: `<cluster id> <replica id>`; released: no id."""
AGENT_CHANGED: Final = "linked"
"""Another agent instance than before began its Sync call. Key: cluster id."""


class Change:
    """The transaction of one operation, with its authorization, audit entries and publications.

    `change[ClusterStore]` is a repository, as in every transaction. Nothing is written if the
    block raises, or if it writes without `authorize` or without `audit`.
    """

    def __init__(self, context: "StoreContext", tx: Transaction, actor: Actor, action: str) -> None:
        self.context = context
        self.actor = actor
        self._tx = tx
        self._action = action
        self._is_authorized = False
        self._entries: list[AuditEntry] = []
        self._publications: dict[tuple[str, str], None] = {}

    def __getitem__(self, port: type[P]) -> P:
        return self._tx[port]

    @property
    def has_writes(self) -> bool:
        """True after the first write of a row."""
        return self._tx.has_writes

    def authorize(self, verb: Verb, resource: Resource) -> None:
        """Raises NotFound or Forbidden unless the actor may `verb` the resource."""
        require(self.actor, verb, resource)
        self._is_authorized = True

    def authorized_by(self, reason: str) -> None:
        """Declares that another rule than a role allows the change, such as `own token`."""
        self._is_authorized = bool(reason)

    def audit(self, target: str, target_id: str, **detail: object) -> None:
        """Adds an audit entry with the action of the change."""
        self.audit_as(self._action, target, target_id, **detail)

    def audit_as(self, action: str, target: str, target_id: str, **detail: object) -> None:
        """Adds an audit entry with another action."""
        entry = self.context.audit_entry(self.actor, action, target, target_id, **detail)
        self._entries.append(entry)

    def publish(self, topic: str, key: str = "") -> None:
        """Publishes on the event bus after the commit, each topic and key once."""
        self._publications[topic, key] = None

    async def finish(self) -> None:
        """Writes the audit entries. RuntimeError: the operation forgot to authorize or to audit."""
        if self._tx.has_writes and not self._is_authorized:
            raise RuntimeError(f"{self._action} writes without authorization")
        if self._tx.has_writes and not self._entries:
            raise RuntimeError(f"{self._action} writes without an audit entry")
        if self._entries:
            await self._tx[AuditTrail].append(self._entries)

    def publish_all(self) -> None:
        """Publishes what the change has collected."""
        for topic, key in self._publications:
            self.context.bus.publish(topic, key)


@dataclass(frozen=True, slots=True)
class StoreContext:
    """The ports of operations that need the store alone, such as authentication."""

    store: Store
    bus: Bus
    clock: Clock

    def new_id(self) -> str:
        """A new id that contains the present time."""
        return new_id(self.clock.now())

    def read(self, actor: Actor) -> AbstractAsyncContextManager[Transaction]:
        """Opens a read-only transaction. Unauthenticated: the actor is anonymous."""
        require_member(actor)
        return self.store.read()

    @asynccontextmanager
    async def change(
        self, actor: Actor, action: str, permission: Permission | None = None
    ) -> AsyncGenerator[Change, None]:
        """Opens the transaction of a change.

        `action` is the name in the audit log: that of the mutation. `permission` authorizes the
        change before the transaction begins, if no row decides. Raises Unauthenticated for an
        anonymous actor, and TransactionConflict as `Store.write` does.
        """
        require_member(actor)
        if permission:
            require(actor, *permission)
        async with self.store.write() as tx:
            change = Change(self, tx, actor, action)
            if permission:
                change.authorize(*permission)
            yield change
            await change.finish()
        change.publish_all()

    async def audit(
        self, tx: Transaction, actor: Actor, action: str, target: str, target_id: str, **detail: Any
    ) -> None:
        """Adds an audit entry for an allowed change in the same transaction."""
        await tx[AuditTrail].append([self.audit_entry(actor, action, target, target_id, **detail)])

    def audit_entry(
        self, actor: Actor, action: str, target: str, target_id: str, **detail: object
    ) -> AuditEntry:
        """The audit entry for an allowed change."""
        return AuditEntry(
            at=self.clock.now(),
            actor=actor.shown_name,
            actor_id=actor.id,
            token_id=actor.token_id,
            source=actor.source,
            action=action,
            verdict=AuditVerdict.ALLOWED,
            target=target[:_MAX_TARGET_LENGTH],
            target_id=target_id,
            detail={**detail, **dict(actor.cause)},
        )


@dataclass(frozen=True, slots=True)
class OperationContext(StoreContext):
    """The ports, passed to every other group of operations.

    Without `writer`, nothing is written to git. Without `agent_renders`, no agent renders.
    """

    manifests: ManifestSource
    sealer: Sealer
    writer: GitWriter | None = None
    render_rates: RenderRates = field(default_factory=RenderRates, compare=False, repr=False)
    agent_renders: AgentRenderer | None = None

    async def render(self, request: RenderRequest) -> RenderedBundle:
        """Renders a request in the git cache, or by the agent of the cluster in `by`."""
        if request.by is None or self.agent_renders is None:
            return await self.manifests.render(request)
        return await self.agent_renders.render(request.by, request)


@dataclass(eq=False)
class StoreOperations:
    """Base class of operations that need the store alone."""

    _context: StoreContext


@dataclass(eq=False)
class ContextOperations:
    """Base class of operations that need no ports but those of the context."""

    _context: OperationContext


class NamedResource(Protocol):
    """A resource with a unique name."""

    @property
    def name(self) -> str: ...

    @property
    def target(self) -> Resource: ...


class NamedOperations(ContextOperations, Generic[N]):
    """Operations that most resources with unique names share: lists, and searches by ID or name.

    They only read, so they never collide with another transaction.
    """

    kind: ResourceKind
    """Kind whose readers see the resources."""
    noun: str
    port: type[NamedRows[N]]

    async def page(self, actor: Actor, query: PageQuery) -> Page[N]:
        """Lists the resources that the actor may read."""
        async with self._context.read(actor) as tx:
            return await tx[self.port].page(replace(query, visible=actor.policy.visible(self.kind)))

    async def get(self, actor: Actor, id: str | None, name: str | None = None) -> N:
        """Finds a resource by ID; without an ID, by name.

        NotFound: it does not exist, or the actor may not see it.
        """
        async with self._context.read(actor) as tx:
            row = await self._find(tx, id, name)
        require(actor, Verb.READ, row.target)
        return row

    async def _find(self, tx: Transaction | Change, id: str | None, name: str | None = None) -> N:
        """Finds a resource. NotFound: it does not exist."""
        return found(await tx[self.port].by_id_or_name(id, name), self.kind)

    async def _check_name(self, tx: Change, name: str) -> None:
        """Conflict: another resource has the name."""
        if (existing := await tx[self.port].by_name(name)) is not None:
            raise name_conflict(tx.actor, existing, f"{self.noun} {name!r} already exists")
