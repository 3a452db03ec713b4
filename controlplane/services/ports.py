"""Ports of services."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, TypeVar

from controlplane.authorization import Actor, Visible
from controlplane.platform.context import OperationContext
from controlplane.platform.ports import AppendOnlyRows, PageQuery, ReadableRows, Rows, Transaction
from controlplane.services.model.ledger import LedgerEntry
from controlplane.services.model.objects import DryRunResult
from controlplane.services.model.parts import ContextBinding, SecretUse, UsedSecrets
from controlplane.services.model.quarantine import DeniedRevision
from controlplane.services.model.render_state import RenderState
from controlplane.services.model.service import Component, Revision, Service
from controlplane.services.model.sources import ServiceSource
from controlplane.services.model.status_codes import ClusterMapRow

P = TypeVar("P")
ReplacePart = Callable[[OperationContext, Transaction, Actor, Service, P], Awaitable[bool]]


class ComponentStore(ReadableRows[Component], Protocol):
    """The inventory of cluster objects."""

    async def upsert(self, components: Iterable[Component]) -> None: ...

    async def forget(self, ids: Collection[str]) -> None: ...

    async def forget_service(self, service_id: str) -> None: ...

    async def count_by_cluster(self, clusters: Collection[str]) -> dict[str, int]:
        """Returns the number of components of each cluster that has some."""
        ...

    async def component_ids(self, services: Collection[str]) -> dict[str, set[str]]:
        """Returns the ids of components by the id of their service."""
        ...


class ServiceStore(Rows[Service], Protocol):
    """Services, and the fleet map."""

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

    async def changed_since(self, moment: datetime, visible: Visible, most: int) -> list[str]:
        """Returns the ids of services that were changed, observed or removed since a moment."""
        ...


class LiveObjects(Protocol):
    """Live objects of clusters, read with the permissions of the requesting user."""

    async def read(self, actor: Actor, handle: str, path: str) -> Mapping[str, Any]:
        """Returns the JSON at a path of a cluster's API.

        Raises NotFound or Forbidden as the cluster or the Kubernetes proxy answers, LimitExceeded
        for an oversized answer, Unavailable if the cluster does not answer.
        """
        ...


class RenderStateStore(ReadableRows[RenderState], Protocol):
    """The part of each service that decides whether it is rendered again."""


class ServiceSourceStore(Rows[ServiceSource], Protocol):
    """Further sources of services."""


class RevisionStore(Rows[Revision], Protocol):
    """Revisions of services."""


class PlanStore(Rows[DryRunResult], Protocol):
    """Dry-run plans of services."""


class DeniedRevisionStore(Rows[DeniedRevision], Protocol):
    """Revisions that no service may get."""


class LedgerStore(AppendOnlyRows[LedgerEntry], Protocol):
    """The deployment ledger, append-only."""


class SecretUseStore(Rows[SecretUse], Protocol):
    """Secrets that services use."""


class ContextBindingStore(Rows[ContextBinding], Protocol):
    """Contexts that services use."""


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
    pipeline_of: Callable[[Transaction, str], Awaitable[str | None]]
    """Returns the name of the pipeline that sets the commits of a service, by id."""
