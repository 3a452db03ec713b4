"""Objects of services in the API: what owns what, how they are now, what happened to them."""

from datetime import datetime

import strawberry

from controlplane.domain.livestate import ObjectEvent
from controlplane.graphql.context import Info
from controlplane.graphql.scalars import Map
from controlplane.graphql.types import Revision, ServiceComponent
from controlplane.usecases.blame import FieldBlame as FieldBlameRow
from controlplane.usecases.components import Family


@strawberry.type
class ComponentFamily:
    """An object, what it has grown from (nearest first), and what has grown from it."""

    id: strawberry.ID
    component: ServiceComponent
    parents: list[ServiceComponent]
    children: list[ServiceComponent]

    @classmethod
    def of(cls, row: Family) -> "ComponentFamily":
        return cls(
            id=strawberry.ID(row.component.id),
            component=ServiceComponent.of(row.component),
            parents=[ServiceComponent.of(one) for one in row.parents],
            children=[ServiceComponent.of(one) for one in row.children],
        )


@strawberry.type
class ComponentLive:
    """An object as it was in its cluster at `readAt`; values of Secrets are hidden."""

    id: strawberry.ID
    object: Map
    read_at: datetime


@strawberry.type
class ComponentEvent:
    """What a cluster says has happened to an object; `count` times until `lastAt`."""

    kind: str
    namespace: str | None
    name: str
    type: str
    reason: str
    message: str
    count: int
    source: str | None
    first_at: datetime | None
    last_at: datetime | None

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


@strawberry.type(
    description="A field of an object, and where it comes from as far as can be told. Of a field "
    "that the service sets: the first of its last 30 revisions since which the value is the same; "
    "`isOldestRevision`: it may be older than that. Of any other: the request through Towline that "
    "wrote it, for those who may read the audit trail."
)
class FieldBlame:
    pointer: str
    value: str = strawberry.field(description="JSON, cut at 500 characters.")
    manager: str
    operation: str
    subresource: str | None
    at: datetime | None
    revision: Revision | None
    is_oldest_revision: bool
    person: str | None
    request_id: str | None

    @classmethod
    def of(cls, row: FieldBlameRow) -> "FieldBlame":
        revision, request = row.revision, row.request
        person = revision.author if revision else request.actor if request else None
        return cls(
            pointer=row.field.pointer,
            value=row.field.value,
            manager=row.field.manager,
            operation=row.field.operation,
            subresource=row.field.subresource or None,
            at=row.field.at,
            revision=Revision.of(revision) if revision else None,
            is_oldest_revision=row.is_oldest,
            person=person,
            request_id=request.request_id if request else None,
        )


@strawberry.type
class ComponentQuery:
    @strawberry.field(description="An object of a service, with its parents and children.")
    async def component(self, info: Info, id: strawberry.ID) -> ComponentFamily | None:
        components = info.context.verbs.components
        return ComponentFamily.of(await components.family(info.context.actor, id))

    @strawberry.field(description="The object as it is in its cluster now, read as the caller.")
    async def component_live(self, info: Info, id: strawberry.ID) -> ComponentLive | None:
        found = await info.context.verbs.components.look(info.context.actor, id)
        return ComponentLive(
            id=strawberry.ID(found.component.id), object=Map(found.object), read_at=found.read_at
        )

    @strawberry.field(
        description="Who decided on the fields of an object, or on those below a JSON pointer: as "
        "its cluster notes it now, read as the caller."
    )
    async def component_blame(
        self, info: Info, id: strawberry.ID, pointer: str = ""
    ) -> list[FieldBlame]:
        rows = await info.context.verbs.blame.of_component(info.context.actor, id, pointer)
        return [FieldBlame.of(row) for row in rows]

    @strawberry.field(description="What its cluster tells of an object, newest first.")
    async def component_events(self, info: Info, id: strawberry.ID) -> list[ComponentEvent]:
        rows = await info.context.verbs.components.events(info.context.actor, id)
        return [ComponentEvent.of(row) for row in rows]

    @strawberry.field(description="What the cluster tells of a service's objects, newest first.")
    async def service_events(self, info: Info, service_id: strawberry.ID) -> list[ComponentEvent]:
        components = info.context.verbs.components
        rows = await components.service_events(info.context.actor, service_id)
        return [ComponentEvent.of(row) for row in rows]
