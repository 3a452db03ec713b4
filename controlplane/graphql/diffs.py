"""What a change would do, asked before it is made."""

from enum import Enum

import strawberry

from controlplane.graphql.context import Info
from controlplane.usecases.diffs import FleetDiff as FleetRow
from controlplane.usecases.diffs import FleetGroup, Placed
from controlplane.usecases.diffs import ServiceDiff as ServiceRow
from fleet.diff import Difference
from fleet.diff import FieldChange as FieldRow
from fleet.diff import ObjectChange as ObjectRow


@strawberry.enum
class ChangeKind(Enum):
    """What becomes of an object."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


@strawberry.type
class FieldChange:
    """A field by JSON pointer; `old` and `new` are JSON, null where there is none."""

    pointer: str
    old: str | None
    new: str | None

    @classmethod
    def of(cls, row: FieldRow) -> "FieldChange":
        return cls(pointer=row.pointer, old=row.old, new=row.new)


@strawberry.type
class ObjectChange:
    """An object that differs. `more` counts fields beyond those listed."""

    change: ChangeKind
    api_version: str
    kind: str
    namespace: str | None
    name: str
    fields: list[FieldChange]
    more: int

    @classmethod
    def of(cls, row: ObjectRow) -> "ObjectChange":
        return cls(
            change=ChangeKind(row.change.value),
            api_version=row.api_version,
            kind=row.kind,
            namespace=row.namespace or None,
            name=row.name,
            fields=[FieldChange.of(one) for one in row.fields],
            more=row.more,
        )


@strawberry.type
class ServiceDiff:
    """What differs between two states of a service. Values of Secrets are masked."""

    service_id: strawberry.ID
    old_digest: str | None
    new_digest: str
    sha: str | None
    added: int
    removed: int
    changed: int
    objects: list[ObjectChange]

    @classmethod
    def of(cls, row: ServiceRow) -> "ServiceDiff":
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
    id: strawberry.ID
    name: str
    cluster: str

    @classmethod
    def of(cls, row: Placed) -> "AffectedService":
        return cls(id=strawberry.ID(row.service.id), name=row.service.name, cluster=row.cluster)


@strawberry.type
class FleetDiffGroup:
    """Services for which a commit means the same. With an `error` it does not render for them."""

    old_digest: str | None
    new_digest: str | None
    error: str | None
    added: int
    removed: int
    changed: int
    objects: list[ObjectChange]
    services: list[AffectedService]

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
            services=[AffectedService.of(one) for one in row.members],
        )


@strawberry.type
class FleetDiff:
    """A commit's effect on all services that follow its repository.

    `looked` services were compared, `untouched` of them stay as they are; the sums count objects
    over all affected services. `more` counts groups beyond those listed.
    """

    sha: str
    looked: int
    untouched: int
    added: int
    removed: int
    changed: int
    groups: list[FleetDiffGroup]
    more: int

    @classmethod
    def of(cls, row: FleetRow) -> "FleetDiff":
        sums = {
            name: sum(getattr(one.difference, name) * len(one.members) for one in row.groups)
            for name in ("added", "removed", "changed")
        }
        return cls(
            sha=row.commit.sha,
            looked=row.looked,
            untouched=row.untouched,
            groups=[FleetDiffGroup.of(one) for one in row.groups],
            more=row.more,
            **sums,
        )


@strawberry.type
class DiffQuery:
    @strawberry.field(
        description="What a ref would make of a service, or what differs between two digests "
        "that it has had; without `oldDigest`, from what it has now."
    )
    async def service_diff(
        self,
        info: Info,
        id: strawberry.ID,
        ref: str | None = None,
        new_digest: str | None = None,
        old_digest: str | None = None,
    ) -> ServiceDiff:
        diffs, actor = info.context.verbs.diffs, info.context.actor
        found = await diffs.of_service(actor, id, ref=ref, new=new_digest, old=old_digest)
        return ServiceDiff.of(found)

    @strawberry.field(
        description="What a ref of a repository would do to every service that follows it, "
        "or to these of its services, whatever moves them."
    )
    async def fleet_diff(
        self,
        info: Info,
        repository_id: strawberry.ID,
        ref: str,
        service_ids: list[strawberry.ID] | None = None,
    ) -> FleetDiff:
        diffs, actor = info.context.verbs.diffs, info.context.actor
        only = frozenset(service_ids) if service_ids is not None else None
        return FleetDiff.of(await diffs.of_fleet(actor, repository_id, ref, only))


def _objects(difference: Difference) -> list[ObjectChange]:
    return [ObjectChange.of(one) for one in difference.objects]
