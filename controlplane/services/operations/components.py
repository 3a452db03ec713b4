"""Objects of services: their owners, and their live state in the cluster."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from controlplane.authorization import Actor, ResourceKind
from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.operations.clusters import find_cluster
from controlplane.platform.context import OperationContext
from controlplane.platform.references import found
from controlplane.services.model.live_state import (
    ObjectEvent,
    discovery_path,
    events_path,
    object_path,
    parse_events,
    redact_object,
)
from controlplane.services.model.references import ReferenceKind, references
from controlplane.services.model.service import Component
from controlplane.services.operations.lookup import find_readable_service
from controlplane.services.ports import ComponentStore, LiveObjects, ServiceStore
from core.errors import Conflict, NotFound, Unavailable
from core.json_object import JsonMapping, JsonObject, JsonValue
from core.spec.bundle import open_bundle
from core.spec.projection import project

_MAX_NAMESPACES = 5


@dataclass(frozen=True, slots=True)
class ObjectFamily:
    """An object with its owners, nearest first, and the objects that it owns."""

    component: Component
    parents: tuple[Component, ...]
    children: tuple[Component, ...]


@dataclass(frozen=True, slots=True)
class LiveObject:
    """An object as read from its cluster at `read_at`."""

    component: Component
    object: JsonObject
    read_at: datetime


@dataclass(frozen=True, slots=True)
class ComparedObject:
    """An object's manifest, and its live state in the same fields. None: it does not exist."""

    desired: JsonObject | None
    live: JsonObject | None


@dataclass(frozen=True, slots=True)
class ManagedObject:
    """A live object with its `metadata.managedFields`, cluster handle and API resource name."""

    live: LiveObject
    cluster: str
    resource: str
    managed_fields: Sequence[object]


@dataclass(frozen=True, slots=True)
class ObjectRelation:
    """A reference from one object of a service to another."""

    source_id: str
    """ID of the component that refers to the other."""
    target_id: str
    """ID of the component that is referred to."""
    kind: ReferenceKind
    """Meaning of the reference."""


class ComponentOperations:
    """Operations on components. Without `live`, the process cannot reach clusters."""

    def __init__(self, context: OperationContext, live: LiveObjects | None = None) -> None:
        self._context = context
        self._live = live

    async def family(self, actor: Actor, id: str) -> ObjectFamily:
        """An object with its owners and children.

        NotFound: it does not exist, or the actor may not see it.
        """
        component, _ = await self._find_component(actor, id)
        async with self._context.store.read() as tx:
            siblings = await tx[ComponentStore].of_services(component.service_id)
        by_uid = {sibling.uid: sibling for sibling in siblings if sibling.uid}
        parents: list[Component] = []
        owner = by_uid.get(component.owner_uid)
        while owner is not None and owner not in parents and owner.id != component.id:
            parents.append(owner)
            owner = by_uid.get(owner.owner_uid)
        children = [
            sibling for sibling in siblings if component.uid and sibling.owner_uid == component.uid
        ]
        return ObjectFamily(component, tuple(parents), tuple(children))

    async def read_live_object(self, actor: Actor, id: str) -> LiveObject:
        """The live object, read as the actor; values of Secrets are hidden.

        Conflict: another object has that name now. NotFound, Forbidden and Unavailable as returned
        by the cluster.
        """
        return (await self.read_managed_fields(actor, id)).live

    async def read_managed_fields(self, actor: Actor, id: str) -> ManagedObject:
        """The object as returned by `read_live_object`, with its managed fields."""
        component, cluster = await self._find_component(actor, id)
        live, handle = self._live_reader(), cluster.handle
        discovery = await live.read(
            actor, handle, discovery_path(component.group, component.version)
        )
        resources = discovery.get("resources")
        path = object_path(component, resources if isinstance(resources, list) else [])
        raw = await live.read(actor, handle, path)
        metadata = raw.get("metadata") or {}
        if component.uid and metadata.get("uid") != component.uid:
            raise Conflict(f"{component.kind} {component.name} was recreated: try again shortly")
        managed_fields = metadata.get("managedFields")
        return ManagedObject(
            LiveObject(component, redact_object(raw), self._context.clock.now()),
            handle,
            path.rsplit("/", 2)[1],
            managed_fields if isinstance(managed_fields, list) else [],
        )

    async def compare(self, actor: Actor, id: str) -> ComparedObject:
        """The manifest of an object, and its live state; values of Secrets are hidden.

        Raises the errors of `read_live_object`.
        """
        component, _ = await self._find_component(actor, id)
        async with self._context.store.read() as tx:
            service = await tx[ServiceStore].get(component.service_id, deleted=True)
        digest = service.desired.digest if service is not None else None
        desired = (
            await self.manifest_of(component, service.namespace, digest)
            if service is not None and digest
            else None
        )
        try:
            live = (await self.read_live_object(actor, id)).object
        except NotFound:
            live = None
        if desired is None:
            return ComparedObject(None, live)
        redacted = redact_object(desired)
        return ComparedObject(redacted, project(redacted, live) if live is not None else None)

    async def manifest_of(
        self, component: Component, namespace: str, digest: str
    ) -> JsonObject | None:
        """The object in a rendered bundle; None: the bundle does not contain it.

        `namespace` is that of the service, which holds for objects without one. Unavailable,
        NotFound: the bundle is not stored.
        """
        bundle = open_bundle(digest, await self._context.manifests.bundle(digest))
        return next((m for m in bundle.objects() if _is_manifest_of(m, component, namespace)), None)

    async def events(self, actor: Actor, id: str) -> list[ObjectEvent]:
        """Kubernetes events of an object, newest first, read as the actor."""
        component, cluster = await self._find_component(actor, id)
        if not component.uid:
            return []
        path = events_path(component.namespace, component.uid)
        response = await self._live_reader().read(actor, cluster.handle, path)
        return parse_events(_event_items(response), frozenset({component.uid}))

    async def service_events(self, actor: Actor, service_id: str) -> list[ObjectEvent]:
        """Kubernetes events of all objects of a service, newest first."""
        async with self._context.read(actor) as tx:
            service = await find_readable_service(tx, actor, service_id)
            cluster = await find_cluster(tx, service.cluster_id)
            components = await tx[ComponentStore].of_services(service_id)
        uids = frozenset(component.uid for component in components if component.uid)
        namespaces = sorted(
            {component.namespace for component in components if component.namespace}
        )
        items: list[object] = []
        for namespace in namespaces[:_MAX_NAMESPACES]:
            response = await self._live_reader().read(actor, cluster.handle, events_path(namespace))
            items += _event_items(response)
        return parse_events(items, uids)

    async def relations(self, actor: Actor, service_id: str) -> list[ObjectRelation]:
        """References between the objects of a service, from its rendered manifests.

        Unavailable, NotFound: the bundle is not stored.
        """
        async with self._context.read(actor) as tx:
            service = await find_readable_service(tx, actor, service_id)
            objects = await tx[ComponentStore].objects(service_id)
        digest = service.desired.digest
        if digest is None or service.mirrored:
            return []
        bundle = open_bundle(digest, await self._context.manifests.bundle(digest))
        # Components of cluster-scoped objects have no namespace; references use the service's.
        ids = {
            replace(object, namespace=object.namespace or service.namespace): id
            for id, object in objects.items()
        }
        return [
            ObjectRelation(ids[edge.source], ids[edge.target], edge.kind)
            for edge in references(bundle.objects(), service.namespace)
            if edge.source in ids and edge.target in ids
        ]

    async def _find_component(self, actor: Actor, id: str) -> tuple[Component, Cluster]:
        async with self._context.read(actor) as tx:
            component = found(await tx[ComponentStore].get(id), ResourceKind.SERVICE)
            await find_readable_service(tx, actor, component.service_id)
            return component, await find_cluster(tx, component.cluster_id)

    def _live_reader(self) -> LiveObjects:
        if self._live is None:
            raise Unavailable("this process has no connection to clusters")
        return self._live


def _is_manifest_of(manifest: JsonMapping, component: Component, namespace: str) -> bool:
    metadata = manifest.get("metadata") or {}
    group = str(manifest.get("apiVersion", "")).rpartition("/")[0]
    identity = (group, manifest.get("kind"), metadata.get("name"))
    if identity != (component.group, component.kind, component.name):
        return False
    # Components of cluster-scoped objects have no namespace, their manifests may have one.
    return (
        not component.namespace or (metadata.get("namespace") or namespace) == component.namespace
    )


def _event_items(response: JsonValue) -> Sequence[object]:
    items = response.get("items")
    return items if isinstance(items, list) else []
