"""Inputs of the API for clusters."""

import strawberry

from controlplane.access.api.inputs import RbacAttributes, subjects_by_role
from controlplane.clusters.operations.clusters import ClusterChange
from controlplane.platform.graphql.derive import Draft, FieldValues, draft
from controlplane.platform.graphql.scalars import Json


@strawberry.input
class TagAttributes:
    """A name and a value."""

    name: str
    """Name. Limit: 63 characters."""
    value: str
    """Value."""


@draft(ClusterChange, hide={"subjects"})
class ClusterAttributes(RbacAttributes, Draft[ClusterChange]):
    """Fields of a cluster to register."""

    name: str
    tags: list[TagAttributes | None] | None = None
    metadata: Json | None = None

    def field_values(self) -> FieldValues:
        return {**super().field_values(), "subjects": subjects_by_role(self)}


@draft(ClusterChange, hide={"subjects", "project_id"})
class ClusterUpdateAttributes(RbacAttributes, Draft[ClusterChange]):
    """Fields of a cluster to change. A field that is null or absent stays as it is."""

    tags: list[TagAttributes | None] | None = None
    metadata: Json | None = None

    def field_values(self) -> FieldValues:
        return {**super().field_values(), "subjects": subjects_by_role(self)}
