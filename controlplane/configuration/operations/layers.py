"""Layers of service contexts: overrides by project, cluster group and cluster, and value types."""

from collections.abc import Mapping, Sequence

from controlplane.access.ports import ProjectStore
from controlplane.authorization import Actor, ResourceKind, Verb, require
from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.model.groups import ClusterGroup
from controlplane.clusters.ports import ClusterGroupStore, ClusterStore
from controlplane.configuration.model.contexts import ServiceContext
from controlplane.configuration.model.flow import MAX_NAMES, ValueType, check_type
from controlplane.configuration.model.overrides import (
    ContextOverride,
    LayeredValue,
    LayerPlace,
    OverrideLayer,
    resolve_layers,
)
from controlplane.configuration.ports import ContextOverrideStore
from controlplane.platform.limits import check_count
from controlplane.platform.ports import Transaction
from controlplane.services.model.service import Service
from core.errors import Invalid, NotFound
from core.json_object import JsonMapping

Layers = dict[tuple[str, str], dict[str, LayeredValue]]


async def layers_of(
    tx: Transaction, services: Sequence[Service], bound: Mapping[str, Sequence[ServiceContext]]
) -> Layers:
    """The values of each context bound to each service, with their origins, by both ids."""
    ids = {context.id for rows in bound.values() for context in rows}
    overrides = await tx[ContextOverrideStore].of_contexts(ids) if ids else []
    places = await _places_by_cluster(tx, services, overrides)
    return {
        (service.id, context.id): resolve_layers(
            context, overrides, places.get(service.cluster_id, ())
        )
        for service in services
        for context in bound.get(service.id, ())
    }


async def _places_by_cluster(
    tx: Transaction, services: Sequence[Service], overrides: Sequence[ContextOverride]
) -> dict[str, list[LayerPlace]]:
    """Project, groups and cluster of each service's cluster, widest first, by cluster id."""
    if not overrides:
        return {}
    clusters = await tx[ClusterStore].by_ids({service.cluster_id for service in services})
    kinds = {override.layer for override in overrides}
    groups = await tx[ClusterGroupStore].all() if OverrideLayer.GROUP in kinds else []
    projects = {project.id: project.name for project in await tx[ProjectStore].all()}
    return {cluster.id: _places_of(cluster, groups, projects) for cluster in clusters}


def _places_of(
    cluster: Cluster, groups: Sequence[ClusterGroup], projects: Mapping[str, str]
) -> list[LayerPlace]:
    project = cluster.project_id
    members = sorted(
        (group for group in groups if group.contains(cluster)), key=lambda group: group.name
    )
    return [
        LayerPlace(OverrideLayer.PROJECT, project, projects.get(project, project)),
        *(LayerPlace(OverrideLayer.GROUP, group.id, group.name) for group in members),
        LayerPlace(OverrideLayer.CLUSTER, cluster.id, cluster.handle),
    ]


# Cluster groups are read with the permission for clusters.
_KINDS = {
    OverrideLayer.PROJECT: ResourceKind.PROJECT,
    OverrideLayer.GROUP: ResourceKind.CLUSTER,
    OverrideLayer.CLUSTER: ResourceKind.CLUSTER,
}


async def check_override_place(
    tx: Transaction, actor: Actor, layer: OverrideLayer, place_id: str, *, is_removal: bool = False
) -> None:
    """NotFound: no such project, group or cluster. Forbidden: the actor may not change it.

    If an override is removed (`is_removal`), its place may no longer exist.
    """
    rows = {
        OverrideLayer.PROJECT: tx[ProjectStore],
        OverrideLayer.GROUP: tx[ClusterGroupStore],
        OverrideLayer.CLUSTER: tx[ClusterStore],
    }
    row = await rows[layer].get(place_id)
    if row is None and is_removal:
        return
    if row is None:
        raise NotFound(
            f"{layer.value} {place_id[:80]!r} of the override does not exist", kind=_KINDS[layer]
        )
    require(actor, Verb.WRITE, row.target)


def check_types(types: Mapping[str, str]) -> dict[str, str]:
    """Value types by key. Invalid: unknown type."""
    check_count(len(types), "types", MAX_NAMES)
    for key, value_type in types.items():
        if value_type not in tuple(ValueType):
            expected = ", ".join(ValueType)
            raise Invalid(
                f"{key}: unknown type {value_type[:40]!r}; expected one of {expected}",
                field="types",
            )
    return dict(types)


def check_values(types: Mapping[str, str], values: JsonMapping) -> None:
    """Invalid: a value does not have its declared type."""
    for key in types.keys() & values.keys():
        check_type(key, ValueType(types[key]), values[key], "configuration")
