"""Previews of changes in the API."""

import strawberry

from controlplane.delivery.operations.diffs import (
    Diffs,
    FleetDiff,
    FleetGroup,
    ServiceDiff,
    ServiceInCluster,
    ServiceManifests,
)
from controlplane.platform.graphql.context import Info
from controlplane.platform.graphql.derive import Output, computed, output
from controlplane.platform.graphql.scalars import Map
from core.spec.diff import ObjectChange, ObjectChangeKind
from core.spec.objects import FieldChange

strawberry.enum(ObjectChangeKind, name="ChangeKind")


@output(FieldChange, nullable={"old", "new"})
class FieldChangeType(Output[FieldChange]):
    """A field that differs."""


@output(ObjectChange, nullable={"namespace"})
class ObjectChangeType(Output[ObjectChange]):
    """An object that differs."""


@output(ServiceDiff, hide={"service", "commit"})
class ServiceDiffType(Output[ServiceDiff]):
    """Differences between two rendered states of a service. Values of Secrets are masked."""

    service_id: strawberry.ID = computed(lambda diff: diff.service.id)
    """ID of the service."""
    sha: str | None = computed(lambda diff: diff.commit.sha if diff.commit else None)
    """Commit of the new bundle. Null if it was selected by digest."""


@output(ServiceManifests, hide={"service", "commit", "objects"})
class ServiceManifestsType(Output[ServiceManifests]):
    """Rendered objects of a service. Values of Secrets are masked."""

    service_id: strawberry.ID = computed(lambda rendered: rendered.service.id)
    """ID of the service."""
    sha: str | None = computed(lambda rendered: rendered.commit.sha if rendered.commit else None)
    """Commit that was rendered. Null if no ref was given."""
    objects: list[Map] = computed(lambda rendered: list(rendered.objects))
    """Objects. Limit: 500 per request; use `skip` for the next ones."""


@output(ServiceInCluster, hide={"service"})
class AffectedService(Output[ServiceInCluster]):
    """A service that a commit affects."""

    id: strawberry.ID = computed(lambda affected: affected.service.id)
    name: str = computed(lambda affected: affected.service.name)
    """Name of the service."""


@output(FleetGroup)
class FleetDiffGroup(Output[FleetGroup]):
    """Services for which a commit has the same effect. Numbers of objects are per service."""


@output(FleetDiff, hide={"commit"})
class FleetDiffType(Output[FleetDiff]):
    """Effect of a commit on all services of its repository."""

    sha: str = computed(lambda diff: diff.commit.sha)
    """Full SHA of the commit."""


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
        diff = await diffs.of_service(actor, id, ref=ref, new=new_digest, old=old_digest)
        return ServiceDiffType.of(diff)

    @strawberry.field
    async def service_manifests(
        self,
        info: Info,
        id: strawberry.ID,
        ref: str | None = None,
        digest: str | None = None,
        skip: int = 0,
    ) -> ServiceManifestsType:
        """Rendered manifests of a service.

        Args:
            id: ID of the service.
            ref: Branch, tag or commit to render. Default: the desired state.
            digest: Digest that the service has or had. It takes precedence over `ref`.
            skip: Number of objects to skip.
        """
        diffs, actor = info.context[Diffs], info.context.actor
        manifests = await diffs.manifests(actor, id, ref=ref, digest=digest, skip=skip)
        return ServiceManifestsType.of(manifests)

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
            ref: Branch, tag or commit.
            service_ids: IDs of services to compare. Default: all services that follow the
                repository. Limit: 5,000.
        """
        diffs, actor = info.context[Diffs], info.context.actor
        only = frozenset(service_ids) if service_ids is not None else None
        return FleetDiffType.of(await diffs.of_fleet(actor, repository_id, ref, only))
