"""Objects of services in the API: owners, live state, events and field origins."""

from datetime import datetime

import strawberry

from controlplane.platform.graphql.context import Info
from controlplane.platform.graphql.derive import Output, output
from controlplane.platform.graphql.scalars import Map
from controlplane.services.api.types import ServiceComponent
from controlplane.services.model.live_state import ObjectEvent
from controlplane.services.operations.components import (
    ComponentOperations,
    ObjectFamily,
    ObjectRelation,
)


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
            parents=ServiceComponent.of_each(row.parents),
            children=ServiceComponent.of_each(row.children),
        )


@strawberry.type
class ComponentLive:
    """Live state of an object. Values of Secrets are masked."""

    id: strawberry.ID
    object: Map
    """The object as JSON."""
    read_at: datetime
    """Time at which the agent read the object."""


@output(ObjectEvent, nullable={"namespace", "source"})
class ComponentEvent(Output[ObjectEvent]):
    """A Kubernetes event about an object."""


@output(ObjectRelation)
class ObjectRelationType(Output[ObjectRelation]):
    """A reference from one object of a service to another."""


@strawberry.type
class ComponentQuery:
    @strawberry.field
    async def component(self, info: Info, id: strawberry.ID) -> ComponentFamily | None:
        """An object of a service, with its owners and descendants.

        Args:
            id: ID of the component.
        """
        components = info.context[ComponentOperations]
        return ComponentFamily.of(await components.family(info.context.actor, id))

    @strawberry.field
    async def component_live(self, info: Info, id: strawberry.ID) -> ComponentLive | None:
        """Live state of an object, read from the cluster with the permissions of the caller.

        Args:
            id: ID of the component.
        """
        live = await info.context[ComponentOperations].read_live_object(info.context.actor, id)
        return ComponentLive(
            id=strawberry.ID(live.component.id), object=Map(live.object), read_at=live.read_at
        )

    @strawberry.field
    async def component_events(self, info: Info, id: strawberry.ID) -> list[ComponentEvent]:
        """Kubernetes events about an object, newest first.

        Args:
            id: ID of the component.
        """
        rows = await info.context[ComponentOperations].events(info.context.actor, id)
        return [ComponentEvent.of(row) for row in rows]

    @strawberry.field
    async def service_events(self, info: Info, service_id: strawberry.ID) -> list[ComponentEvent]:
        """Kubernetes events about the objects of a service, newest first."""
        components = info.context[ComponentOperations]
        rows = await components.service_events(info.context.actor, service_id)
        return [ComponentEvent.of(row) for row in rows]

    @strawberry.field
    async def object_relations(
        self, info: Info, service_id: strawberry.ID
    ) -> list[ObjectRelationType] | None:
        """References between the objects of a service, from its rendered manifests. `ownerUid` of
        the objects tells their owners."""
        components = info.context[ComponentOperations]
        rows = await components.relations(info.context.actor, service_id)
        return ObjectRelationType.of_each(rows)
