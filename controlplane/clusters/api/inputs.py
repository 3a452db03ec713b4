"""Inputs of the API for clusters."""

import strawberry

from controlplane.access.api.inputs import PolicyBindingAttributes, subjects_by_role
from controlplane.clusters.operations.clusters import ClusterChange
from controlplane.platform.graphql.inputs import json_object
from controlplane.platform.graphql.scalars import Json


@strawberry.input
class TagAttributes:
    """A name and a value."""

    name: str
    """Name. Limit: 63 characters."""
    value: str
    """Value."""


@strawberry.input
class ClusterAttributes:
    """Fields of a cluster to register."""

    name: str
    """Display name."""
    handle: str | None = None
    """Unique short name. Default: derived from `name`."""
    project_id: strawberry.ID | None = None
    """ID of the project. Default: the default project."""
    protect: bool | None = None
    """True refuses deletion. Default: false."""
    metadata: Json | None = None
    """Free-form metadata, a JSON object."""
    tags: list[TagAttributes] | None = None
    """Tags, used by selectors. Limit: 64."""
    read_bindings: list[PolicyBindingAttributes | None] | None = None
    """Users and groups with the role `viewer` on the cluster. Limit: 500."""
    write_bindings: list[PolicyBindingAttributes | None] | None = None
    """Users and groups with the role `editor` on the cluster. Limit: 500."""

    def change(self) -> ClusterChange:
        return _cluster_change(self)


@strawberry.input
class ClusterUpdateAttributes:
    """Fields of a cluster to change. A field that is null or absent stays as it is."""

    name: str | None = None
    """Display name."""
    handle: str | None = None
    """Unique short name."""
    protect: bool | None = None
    """True refuses deletion."""
    metadata: Json | None = None
    """Free-form metadata, a JSON object. Replaces the whole object."""
    tags: list[TagAttributes] | None = None
    """Tags, used by selectors. Replaces the whole list. Limit: 64."""
    read_bindings: list[PolicyBindingAttributes | None] | None = None
    """Users and groups with the role `viewer`. Replaces the whole list. Limit: 500."""
    write_bindings: list[PolicyBindingAttributes | None] | None = None
    """Users and groups with the role `editor`. Replaces the whole list. Limit: 500."""

    def change(self) -> ClusterChange:
        return _cluster_change(self)


def _cluster_change(given: ClusterAttributes | ClusterUpdateAttributes) -> ClusterChange:
    is_new = isinstance(given, ClusterAttributes)
    return ClusterChange(
        project_id=given.project_id or None if is_new else None,
        name=given.name,
        handle=given.handle,
        protect=given.protect,
        metadata=None if given.metadata is None else json_object(given.metadata, "metadata"),
        tags=None if given.tags is None else {tag.name: tag.value for tag in given.tags},
        subjects=subjects_by_role(given),
    )
