"""Objects of services in the API: owners, live state, events and field origins."""

from datetime import datetime

import strawberry

from controlplane.domain.livestate import ObjectEvent
from controlplane.graphql.context import Info
from controlplane.graphql.scalars import Map
from controlplane.graphql.types import RevisionType, ServiceComponent
from controlplane.usecases.blame import FieldBlame as FieldBlameRow
from controlplane.usecases.components import ObjectFamily


@strawberry.type
class ComponentFamily:
    """An object with its owners and descendants."""

    id: strawberry.ID
    component: ServiceComponent
    """The object."""
    parents: list[ServiceComponent]
    """Owners of the object, nearest first."""
    children: list[ServiceComponent]
    """Objects that the object owns, directly or indirectly."""

    @classmethod
    def of(cls, row: ObjectFamily) -> "ComponentFamily":
        return cls(
            id=strawberry.ID(row.component.id),
            component=ServiceComponent.of(row.component),
            parents=[ServiceComponent.of(parent) for parent in row.parents],
            children=[ServiceComponent.of(child) for child in row.children],
        )


@strawberry.type
class ComponentLive:
    """Live state of an object. Values of Secrets are masked."""

    id: strawberry.ID
    object: Map
    """The object as JSON."""
    read_at: datetime
    """Time at which the agent read the object."""


@strawberry.type
class ComponentEvent:
    """A Kubernetes event about an object."""

    kind: str
    """Kind of the object."""
    namespace: str | None
    """Namespace of the object. Null for a cluster-scoped object."""
    name: str
    """Name of the object."""
    type: str
    """`Normal` or `Warning`."""
    reason: str
    """Reason code, such as `BackOff`."""
    message: str
    """Message for people."""
    count: int
    """Number of occurrences until `lastAt`."""
    source: str | None
    """Component that reported the event."""
    first_at: datetime | None
    """Time of the first occurrence."""
    last_at: datetime | None
    """Time of the last occurrence."""

    @classmethod
    def of(cls, row: ObjectEvent) -> "ComponentEvent":
        return cls(
            kind=row.kind,
            namespace=row.namespace or None,
            name=row.name,
            type=row.type,
            reason=row.reason,
            message=row.message,
            count=row.count,
            source=row.source or None,
            first_at=row.first_at,
            last_at=row.last_at,
        )


@strawberry.type
class FieldBlameType:
    """A field of an object and its origin, as far as it is known.

    Fields of the service name the oldest of the last 30 revisions with this value. Other fields
    name the request through Towline that wrote them, for callers who may read the audit log.
    """

    pointer: str
    """JSON pointer of the field (RFC 6901)."""
    value: str
    """Value as JSON, cut after 500 characters."""
    manager: str
    """Field manager (server-side apply)."""
    operation: str
    """`Apply` or `Update`."""
    subresource: str | None
    """Subresource that was written, such as `status`."""
    at: datetime | None
    """Time of the last write by the manager."""
    revision: RevisionType | None
    """Revision of the service that introduced the value."""
    is_oldest_revision: bool
    """True if the value may be older than `revision`."""
    person: str | None
    """E-mail address of the commit author, or of the user who sent the request."""
    request_id: str | None
    """ID of the request that wrote the field."""

    @classmethod
    def of(cls, row: FieldBlameRow) -> "FieldBlameType":
        revision, request = row.revision, row.request
        person = revision.author if revision else request.actor if request else None
        return cls(
            pointer=row.field.pointer,
            value=row.field.value,
            manager=row.field.manager,
            operation=row.field.operation,
            subresource=row.field.subresource or None,
            at=row.field.at,
            revision=RevisionType.of(revision) if revision else None,
            is_oldest_revision=row.is_oldest,
            person=person,
            request_id=request.request_id if request else None,
        )


@strawberry.type
class ComponentQuery:
    @strawberry.field
    async def component(self, info: Info, id: strawberry.ID) -> ComponentFamily | None:
        """An object of a service, with its owners and descendants.

        Args:
            id: ID of the component.
        """
        components = info.context.verbs.components
        return ComponentFamily.of(await components.family(info.context.actor, id))

    @strawberry.field
    async def component_live(self, info: Info, id: strawberry.ID) -> ComponentLive | None:
        """Live state of an object, read from the cluster with the permissions of the caller.

        Args:
            id: ID of the component.
        """
        found = await info.context.verbs.components.look(info.context.actor, id)
        return ComponentLive(
            id=strawberry.ID(found.component.id), object=Map(found.object), read_at=found.read_at
        )

    @strawberry.field
    async def component_blame(
        self, info: Info, id: strawberry.ID, pointer: str = ""
    ) -> list[FieldBlameType]:
        """Owners of the fields of an object, read from the cluster with the permissions of the
        caller.

        Args:
            id: ID of the component.
            pointer: JSON pointer. Only fields below it are returned. Default: all fields.
        """
        rows = await info.context.verbs.blame.of_component(info.context.actor, id, pointer)
        return [FieldBlameType.of(row) for row in rows]

    @strawberry.field
    async def component_events(self, info: Info, id: strawberry.ID) -> list[ComponentEvent]:
        """Kubernetes events about an object, newest first.

        Args:
            id: ID of the component.
        """
        rows = await info.context.verbs.components.events(info.context.actor, id)
        return [ComponentEvent.of(row) for row in rows]

    @strawberry.field
    async def service_events(self, info: Info, service_id: strawberry.ID) -> list[ComponentEvent]:
        """Kubernetes events about the objects of a service, newest first.

        Args:
            service_id: ID of the service.
        """
        components = info.context.verbs.components
        rows = await components.service_events(info.context.actor, service_id)
        return [ComponentEvent.of(row) for row in rows]
