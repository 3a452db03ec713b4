"""Previews of changes in the API."""

from enum import Enum

import strawberry

from controlplane.delivery.operations.diffs import Diffs, FleetGroup, ServiceInCluster
from controlplane.delivery.operations.diffs import FleetDiff as FleetRow
from controlplane.delivery.operations.diffs import ServiceDiff as ServiceRow
from controlplane.platform.graphql.context import Info
from core.spec.diff import Difference
from core.spec.diff import ObjectChange as ObjectRow
from core.spec.objects import FieldChange as FieldRow


@strawberry.enum
class ChangeKind(Enum):
    """Kind of change to an object."""

    ADDED = "added"
    """The object is new."""
    REMOVED = "removed"
    """The object no longer exists."""
    CHANGED = "changed"
    """Fields of the object differ."""


@strawberry.type
class FieldChangeType:
    """A field that differs."""

    pointer: str
    """JSON pointer of the field (RFC 6901)."""
    old: str | None
    """Old value as JSON. Null if the field is new."""
    new: str | None
    """New value as JSON. Null if the field is removed."""

    @classmethod
    def of(cls, row: FieldRow) -> "FieldChangeType":
        return cls(pointer=row.pointer, old=row.old or None, new=row.new or None)


@strawberry.type
class ObjectChangeType:
    """An object that differs."""

    change: ChangeKind
    """Kind of change."""
    api_version: str
    """API version, such as `apps/v1`."""
    kind: str
    """Kind, such as `Deployment`."""
    namespace: str | None
    """Namespace. Null for a cluster-scoped object."""
    name: str
    """Name."""
    fields: list[FieldChangeType]
    """Fields that differ."""
    more: int
    """Number of further fields that are not listed."""

    @classmethod
    def of(cls, row: ObjectRow) -> "ObjectChangeType":
        return cls(
            change=ChangeKind(row.change.value),
            api_version=row.api_version,
            kind=row.kind,
            namespace=row.namespace or None,
            name=row.name,
            fields=[FieldChangeType.of(change) for change in row.fields],
            more=row.more,
        )


@strawberry.type
class ServiceDiffType:
    """Differences between two rendered states of a service. Values of Secrets are masked."""

    service_id: strawberry.ID
    """ID of the service."""
    old_digest: str | None
    """Digest of the old bundle. Null if there was none."""
    new_digest: str
    """Digest of the new bundle."""
    sha: str | None
    """Commit of the new bundle. Null if it was selected by digest."""
    added: int
    """Number of new objects."""
    removed: int
    """Number of removed objects."""
    changed: int
    """Number of changed objects."""
    objects: list[ObjectChangeType]
    """Objects that differ."""

    @classmethod
    def of(cls, row: ServiceRow) -> "ServiceDiffType":
        return cls(
            service_id=strawberry.ID(row.service.id),
            old_digest=row.old,
            new_digest=row.new,
            sha=row.commit.sha if row.commit else None,
            added=row.difference.added,
            removed=row.difference.removed,
            changed=row.difference.changed,
            objects=_objects(row.difference),
        )


@strawberry.type
class AffectedService:
    """A service that a commit affects."""

    id: strawberry.ID
    name: str
    """Name of the service."""
    cluster: str
    """Handle of the cluster."""

    @classmethod
    def of(cls, row: ServiceInCluster) -> "AffectedService":
        return cls(id=strawberry.ID(row.service.id), name=row.service.name, cluster=row.cluster)


@strawberry.type
class FleetDiffGroup:
    """Services for which a commit has the same effect."""

    old_digest: str | None
    """Digest of the old bundle."""
    new_digest: str | None
    """Digest of the new bundle. Null if rendering failed."""
    error: str | None
    """Rendering error. Null if rendering succeeded."""
    added: int
    """Number of new objects per service."""
    removed: int
    """Number of removed objects per service."""
    changed: int
    """Number of changed objects per service."""
    objects: list[ObjectChangeType]
    """Objects that differ."""
    services: list[AffectedService]
    """Services of the group."""

    @classmethod
    def of(cls, row: FleetGroup) -> "FleetDiffGroup":
        return cls(
            old_digest=row.old,
            new_digest=row.new,
            error=row.error,
            added=row.difference.added,
            removed=row.difference.removed,
            changed=row.difference.changed,
            objects=_objects(row.difference),
            services=[AffectedService.of(member) for member in row.members],
        )


@strawberry.type
class FleetDiffType:
    """Effect of a commit on all services of its repository."""

    sha: str
    """Full SHA of the commit."""
    compared: int
    """Number of compared services."""
    unchanged: int
    """Number of services that stay as they are."""
    added: int
    """Number of new objects over all services."""
    removed: int
    """Number of removed objects over all services."""
    changed: int
    """Number of changed objects over all services."""
    groups: list[FleetDiffGroup]
    """Services grouped by effect. Limit: 200."""
    more: int
    """Number of further groups that are not listed."""

    @classmethod
    def of(cls, row: FleetRow) -> "FleetDiffType":
        sums = {
            name: sum(getattr(group.difference, name) * len(group.members) for group in row.groups)
            for name in ("added", "removed", "changed")
        }
        return cls(
            sha=row.commit.sha,
            compared=row.compared,
            unchanged=row.unchanged,
            groups=[FleetDiffGroup.of(group) for group in row.groups],
            more=row.more,
            **sums,
        )


@strawberry.type
class DiffQuery:
    @strawberry.field
    async def service_diff(
        self,
        info: Info,
        id: strawberry.ID,
        ref: str | None = None,
        new_digest: str | None = None,
        old_digest: str | None = None,
    ) -> ServiceDiffType:
        """Effect of a ref on a service, or the difference between two digests that the service has
        had.

        Args:
            id: ID of the service.
            ref: Branch, tag or commit to render.
            new_digest: Digest of the new bundle. Use it instead of `ref`.
            old_digest: Digest of the old bundle. Default: the desired one.
        """
        diffs, actor = info.context[Diffs], info.context.actor
        found = await diffs.of_service(actor, id, ref=ref, new=new_digest, old=old_digest)
        return ServiceDiffType.of(found)

    @strawberry.field
    async def fleet_diff(
        self,
        info: Info,
        repository_id: strawberry.ID,
        ref: str,
        service_ids: list[strawberry.ID] | None = None,
    ) -> FleetDiffType:
        """Effect of a ref on the services of a repository.

        Args:
            repository_id: ID of the repository.
            ref: Branch, tag or commit.
            service_ids: IDs of services to compare. Default: all services that follow the
                repository. Limit: 5,000.
        """
        diffs, actor = info.context[Diffs], info.context.actor
        only = frozenset(service_ids) if service_ids is not None else None
        return FleetDiffType.of(await diffs.of_fleet(actor, repository_id, ref, only))


def _objects(difference: Difference) -> list[ObjectChangeType]:
    return [ObjectChangeType.of(change) for change in difference.objects]
