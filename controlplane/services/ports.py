"""Ports of services."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeVar

from controlplane.authorization import Actor, Visible
from controlplane.platform.context import OperationContext
from controlplane.platform.ports import (
    ANY,
    AppendOnlyRows,
    DeletableRows,
    Ids,
    PageQuery,
    ProjectRows,
    ReadableRows,
    Rows,
    Transaction,
)
from controlplane.services.model.ledger import LedgerEntry, LedgerStage
from controlplane.services.model.parts import ContextBinding, SecretUse, UsedSecrets
from controlplane.services.model.quarantine import DeniedRevision
from controlplane.services.model.render_state import RenderState
from controlplane.services.model.service import (
    Component,
    Confirmation,
    DryRunResult,
    Revision,
    Service,
    ServiceSource,
)
from controlplane.services.model.status_codes import ClusterMapRow
from core.json_object import JsonMapping
from core.spec.objects import ObjectRef
from core.spec.sync import Removal

P = TypeVar("P")
T = TypeVar("T")
ReplacePart = Callable[[OperationContext, Transaction, Actor, Service, P], Awaitable[bool]]


class ServiceRows(Rows[T], Protocol[T]):
    """Rows that belong to services."""

    async def of_services(self, services: Ids) -> list[T]:
        return await self.select(service_id=services)


class ComponentStore(ReadableRows[Component], Protocol):
    """The inventory of cluster objects."""

    async def of_services(self, services: Ids) -> list[Component]:
        return await self.select(service_id=services)

    async def upsert(self, components: Iterable[Component]) -> None: ...

    async def forget(self, ids: Collection[str]) -> None: ...

    async def forget_service(self, service_id: str) -> None: ...

    async def count_by_cluster(self, clusters: Collection[str]) -> dict[str, int]:
        """Returns the number of components of each cluster that has some."""
        ...

    async def objects(self, service_id: str) -> dict[str, ObjectRef]:
        """Returns the objects of a service by the ids of its components, without versions."""
        ...

    async def component_ids(self, services: Collection[str]) -> dict[str, set[str]]:
        """Returns the ids of components by the id of their service."""
        ...


class ServiceStore(DeletableRows[Service], ProjectRows[Service], Protocol):
    """Services, and the fleet map."""

    async def in_cluster(self, id: str, cluster_id: str) -> Service | None:
        return await self.find(id=id, cluster_id=cluster_id)

    async def by_name(self, cluster_id: str, name: str) -> Service | None:
        """Returns the service with a name, also a deleted one: it keeps the name meanwhile."""
        return await self.find(cluster_id=cluster_id, name=name, deleted_at=ANY)

    async def peek_by_name(self, cluster_id: str, name: str) -> Service | None:
        """Same as `by_name`, without a lock."""
        return await self.find_unlocked(cluster_id=cluster_id, name=name, deleted_at=ANY)

    async def prefetch_names(self, keys: Collection[tuple[str, str]]) -> None:
        """Reads services whose clusters and names the transaction looks up later."""
        await self.prefetch_keys(("cluster_id", "name"), keys, deleted_at=ANY)

    async def reported(self, ids: Collection[str], clusters: Collection[str]) -> list[Service]:
        """Returns services of these clusters, also deleted ones."""
        return await self.select(id=ids, cluster_id=clusters, deleted_at=ANY)

    async def with_digest(self, digest: str) -> Service | None:
        """Returns a service with a digest that its agent did not report, as for a mirrored one."""
        return await self.find(digest=digest, mirrored=False)

    async def with_names(self, clusters: Ids, names: Ids) -> list[Service]:
        return await self.select(cluster_id=clusters, name=names)

    async def with_names_and_deleted(self, clusters: Ids, names: Ids) -> list[Service]:
        """Returns services with these names, also deleted ones: they keep the name meanwhile."""
        return await self.select(cluster_id=clusters, name=names, deleted_at=ANY)

    async def with_digests(self, clusters: Ids, digests: Ids) -> list[Service]:
        """Returns services with digests that their agent did not report, as for mirrored ones."""
        return await self.select(cluster_id=clusters, digest=digests, mirrored=False)

    async def of_clusters(self, clusters: Ids) -> list[Service]:
        return await self.select(cluster_id=clusters)

    async def of_clusters_with_deleted(self, clusters: Ids) -> list[Service]:
        return await self.select(cluster_id=clusters, deleted_at=ANY)

    async def mirrored(self, cluster_id: str) -> list[Service]:
        return await self.select(cluster_id=cluster_id, mirrored=True)

    async def unpinned(self, clusters: Ids) -> list[Service]:
        return await self.select(cluster_id=clusters, promoted=False, pinned_sha=None)

    async def waiting(self, clusters: Ids) -> list[Service]:
        return await self.select(cluster_id=clusters, waiting=True)

    async def of_repository(self, repository_id: str) -> list[Service]:
        return await self.select(repository_id=repository_id)

    async def of_repository_with_deleted(self, repository_id: str) -> list[Service]:
        return await self.select(repository_id=repository_id, deleted_at=ANY)

    async def following(self, repository_id: str, ref: str) -> list[Service]:
        return await self.select(repository_id=repository_id, ref=ref)

    async def of_owner(self, owner_id: str) -> list[Service]:
        return await self.select(owner_id=owner_id)

    async def of_owner_with_deleted(self, owner_id: str) -> list[Service]:
        return await self.select(owner_id=owner_id, deleted_at=ANY)

    async def previews(self, owner_id: str, ref: str) -> list[Service]:
        return await self.select(owner_id=owner_id, ref=ref)

    async def quarantined(self, revision: str) -> list[Service]:
        return await self.select(quarantined=revision)

    async def mark_for_render(self, id: str) -> None:
        await self.change(id, input_digest=None)

    async def set_ref(self, id: str, ref: str) -> None:
        await self.change(id, ref=ref)

    async def set_generation(self, id: str, generation: int) -> None:
        await self.change(id, generation=generation)

    async def fleet_map(
        self, query: PageQuery, clusters: Collection[str] | None = None
    ) -> list[ClusterMapRow]:
        """Returns one row for each cluster, sorted by handle, with the status codes of the matching
        services.
        """
        ...

    async def clusters_of(self, ids: Collection[str]) -> set[str]:
        """Returns the ids of the clusters of these services."""
        ...

    async def with_dependencies(self, visible: Visible, limit: int) -> list[Service]:
        """Returns services that depend on others."""
        ...

    async def changed_since(self, since: datetime, visible: Visible, limit: int) -> list[str]:
        """Returns the ids of services that were changed, observed or removed since a time."""
        ...

    async def confirm(self, id: str, confirmed: Confirmation, generation: int) -> None:
        await self.change(id, confirmed=confirmed, generation=generation)

    async def set_uses_secrets(self, id: str, uses: bool) -> None:
        await self.change(id, uses_secrets=uses)

    async def remove_owner(self, id: str) -> None:
        await self.change(id, owner_kind=None, owner_id=None)

    async def unpin(self, id: str) -> None:
        await self.change(id, promoted=False, pinned_sha=None)

    async def set_commits_behind(self, id: str, behind: int | None) -> None:
        await self.change(id, commits_behind=behind)

    async def mark_deleted(self, id: str, removal: Removal, generation: int, at: datetime) -> None:
        await self.change(id, deleted_at=at, removal=removal, generation=generation, updated_at=at)


class LiveObjects(Protocol):
    """Live objects of clusters, read with the permissions of the requesting user."""

    async def read(self, actor: Actor, handle: str, path: str) -> JsonMapping:
        """Returns the JSON at a path of a cluster's API.

        Raises NotFound or Forbidden as the cluster or the Kubernetes proxy answers, LimitExceeded
        for an oversized answer, Unavailable if the cluster does not answer.
        """
        ...


class RenderStateStore(ReadableRows[RenderState], Protocol):
    """The part of each service that decides whether it is rendered again."""

    async def of_repository(self, repository_id: str) -> list[RenderState]:
        return await self.select(repository_id=repository_id)

    async def of_repository_among(
        self, repository_id: str, ids: Collection[str]
    ) -> list[RenderState]:
        return await self.select(repository_id=repository_id, id=ids)


class ServiceSourceStore(ServiceRows[ServiceSource], Protocol):
    """Further sources of services."""

    async def prefetch_services(self, services: Ids) -> None:
        """Reads what `of_services` returns for one service at a time later."""
        await self.prefetch("service_id", services)

    async def of_repository(self, repository_id: str) -> list[ServiceSource]:
        return await self.select(repository_id=repository_id)

    async def following(self, repository_id: str, ref: str) -> list[ServiceSource]:
        return await self.select(repository_id=repository_id, ref=ref)

    async def set_tree(self, id: str, sha: str, tree: str) -> None:
        await self.change(id, sha=sha, tree=tree)


class RevisionStore(ServiceRows[Revision], Protocol):
    """Revisions of services."""

    async def with_digest(self, services: Ids, digest: str) -> list[Revision]:
        return await self.select(service_id=services, digest=digest)

    async def of_commits(self, services: Ids, commits: Ids) -> list[Revision]:
        return await self.select(service_id=services, sha=commits)


class PlanStore(Rows[DryRunResult], Protocol):
    """Dry-run plans of services."""


class DeniedRevisionStore(Rows[DeniedRevision], Protocol):
    """Revisions that no service of a project, or of any project, may get."""

    async def of_revisions(self, revisions: Ids) -> list[DeniedRevision]:
        return await self.select(revision=revisions)


class LedgerStore(AppendOnlyRows[LedgerEntry], Protocol):
    """The deployment ledger, append-only."""

    async def held(self, services: Ids) -> list[LedgerEntry]:
        return await self.select(service_id=services, stage=LedgerStage.HELD)

    async def deployments_of(self, service_id: str, sequence: int) -> list[LedgerEntry]:
        return await self.select(
            service_id=service_id, sequence=sequence, stage=LedgerStage.RENDERED
        )


class SecretUseStore(ServiceRows[SecretUse], Protocol):
    """Secrets that services use."""

    async def of_secret(self, secret_id: str) -> list[SecretUse]:
        return await self.select(secret_id=secret_id)

    async def of_version(self, secret_id: str, version: int) -> list[SecretUse]:
        return await self.select(secret_id=secret_id, version=version)

    async def following(self, secret_id: str) -> list[SecretUse]:
        return await self.select(secret_id=secret_id, pinned=False)

    async def unpinned(self) -> list[SecretUse]:
        return await self.select(pinned=False)


class ContextBindingStore(ServiceRows[ContextBinding], Protocol):
    """Contexts that services use."""

    async def of_context(self, context_id: str) -> list[ContextBinding]:
        return await self.select(context_id=context_id)


class FlowStore(Protocol):
    """Exports and imports of services."""

    async def delete_flow(self, service_id: str) -> None:
        """Deletes the exports and imports of a service."""
        ...


@dataclass(frozen=True, slots=True)
class ServiceParts:
    """Functions of nouns above `services`, for their data and rules of a service."""

    bind_contexts: ReplacePart[Collection[str]]
    """Replaces the contexts of a service, by id; True if any changed."""
    use_secrets: ReplacePart[UsedSecrets]
    """Replaces the secrets that a service uses; True if any changed."""
    check_changeable: Callable[[Transaction, Actor, Service, Collection[str]], Awaitable[None]]
    """Conflict: the cluster is frozen, or a generator manages a changed field."""
    deletion_checks: Sequence[Callable[[Transaction, Service], Awaitable[None]]]
    """Conflict: a generator would create the service again, or others import its values."""
    promoting_pipeline_name: Callable[[Transaction, str], Awaitable[str | None]]
    """Returns the name of the pipeline that sets the commits of a service, by id."""
    prefetch: Callable[[Transaction, Collection[str]], Awaitable[None]]
    """Reads the data for checks of many services, by id, with one query."""
