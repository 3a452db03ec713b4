"""Global services: a template for many clusters, with overrides for single clusters."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields, replace

from controlplane.authorization import Actor, ResourceKind, Verb, require, require_member
from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.operations.clusters import find_cluster
from controlplane.clusters.operations.freezes import check_not_frozen
from controlplane.clusters.ports import ClusterStore
from controlplane.generators.model.global_service import GlobalOverride, GlobalService
from controlplane.generators.operations.definitions import (
    GeneratorChange,
    GeneratorOperations,
    template_from,
)
from controlplane.generators.operations.generation import template_of
from controlplane.generators.ports import GlobalOverrideStore, GlobalServiceStore
from controlplane.platform.context import Change
from controlplane.platform.ports import Transaction
from controlplane.platform.references import reference
from controlplane.platform.retry import retry_operations
from controlplane.services.model.service import OwnerKind, Service
from controlplane.services.model.templates import (
    OverrideDelta,
    ServiceTemplate,
    TemplateOverride,
    apply_override,
    check_override,
    override_delta,
)
from controlplane.services.operations.lookup import find_service
from controlplane.services.operations.services import ServiceChange
from controlplane.services.operations.source_repositories import find_or_add_repository
from controlplane.services.ports import ServiceStore
from core.errors import Conflict, Invalid

_MAX_OVERRIDES = 10_000
_SAME_EVERYWHERE = (
    "name",
    "namespace",
    "repository_id",
    "promoted",
    "paused",
    "docs_path",
    "dependencies",
    "context_ids",
    "sources",
)


@dataclass(frozen=True, slots=True)
class GlobalChange(GeneratorChange):
    """Changes to a global service. `template` and `source_id` exclude each other."""

    source_id: str | None = None
    template: ServiceChange | None = None
    """Template of the services. Give it or a service ID."""
    repository_url: str | None = None
    """URL of the repository of a new template, instead of its ID. An unknown one is added."""


@dataclass(frozen=True, slots=True)
class GlobalServiceView:
    """A cluster's effective configuration of a global service, and its difference to the
    template."""

    cluster: Cluster
    """The cluster."""
    effective: ServiceTemplate
    """Template with the overrides of the cluster."""
    delta: tuple[OverrideDelta, ...]
    """Fields that differ from the template."""
    override: GlobalOverride | None


@retry_operations
class GlobalServices(GeneratorOperations[GlobalService, GlobalChange]):
    """Operations on global services."""

    owner_kind = OwnerKind.GLOBAL
    noun = "global service"
    port = GlobalServiceStore
    model = GlobalService

    async def override(
        self,
        actor: Actor,
        id: str,
        cluster_id: str,
        change: ServiceChange,
        without: Collection[str] = (),
    ) -> GlobalServiceView:
        """Replaces all overrides of one cluster; an empty patch removes them.

        `without` lists configuration names of the template that the cluster does not get. The actor
        needs write access to services of the cluster.
        """
        now = self._context.clock.now()
        async with self._context.change(actor, "overrideGlobalService") as tx:
            definition = await self._find(tx, id)
            require(actor, Verb.READ, definition.target)
            cluster = await find_cluster(tx, cluster_id)
            tx.authorize(Verb.WRITE, cluster.target.below(ResourceKind.SERVICE))
            await check_not_frozen(tx, cluster.id)
            patch = _template_override(change, without)
            before = await tx[GlobalOverrideStore].of_cluster(id, cluster_id)
            row = before or GlobalOverride(
                self._context.new_id(), id, cluster.id, now, now, patch, actor.shown_name
            )
            row = replace(row, patch=patch, updated_at=now, actor=actor.shown_name)
            await _save_override(tx, before, row)
            template, _ = await template_of(tx, definition)
            check_override(template, patch)
            tx.audit(
                f"{definition.name} in {cluster.handle}",
                id,
                fields=[delta.field for delta in override_delta(template, patch)][:50],
            )
            self._request_reconcile(tx, id)
        return _cluster_view(cluster, template, None if patch.empty else row)

    async def sources(self, actor: Actor, globals: Sequence[GlobalService]) -> list[Service]:
        """The source services of these global services that the actor may see."""
        require_member(actor)
        ids = {definition.source_id for definition in globals if definition.source_id}
        if not ids:
            return []
        async with self._context.store.read() as tx:
            services = await tx[ServiceStore].by_ids(ids)
        return [service for service in services if actor.may(Verb.READ, service.target)]

    async def clusters(self, actor: Actor, id: str) -> list[GlobalServiceView]:
        """The effective configuration of each matching, visible cluster, sorted by handle."""
        definition = await self.get(actor, id)
        async with self._context.store.read() as tx:
            template, _ = await template_of(tx, definition)
            owned = {row.cluster_id for row in await tx[ServiceStore].of_owner(id)}
            patches = {
                row.cluster_id: row for row in await tx[GlobalOverrideStore].of_definition(id)
            }
            cluster_rows = await tx[ClusterStore].by_ids(owned | patches.keys())
        readable = sorted(
            (c for c in cluster_rows if actor.may(Verb.READ, c.target)), key=lambda c: c.handle
        )
        return [_cluster_view(cluster, template, patches.get(cluster.id)) for cluster in readable]

    async def overrides(self, definition: GlobalService) -> list[GlobalOverride]:
        """The overrides of a global service that the caller may change."""
        async with self._context.store.read() as tx:
            return await tx[GlobalOverrideStore].of_definition(definition.id)

    async def _with_repository(
        self, tx: Change, change: GlobalChange, project_id: str
    ) -> GlobalChange:
        if not change.repository_url:
            return change
        if change.template is None:
            raise Invalid("needs a template", field="repositoryUrl")
        repository_id = await find_or_add_repository(
            tx, change.template.repository_id, change.repository_url, project_id
        )
        return replace(change, template=replace(change.template, repository_id=repository_id))

    async def _fill_in(
        self, tx: Transaction, actor: Actor, definition: GlobalService, change: GlobalChange
    ) -> GlobalService:
        is_new = definition.source_id is None and definition.template is None
        if not (is_new or change.source_id or change.template):
            return definition
        if bool(change.source_id) == bool(change.template):
            raise Invalid("specify either a service or a template", field="template")
        if change.source_id:
            with reference("serviceId", change.source_id):
                source = await find_service(tx, change.source_id)
                require(actor, Verb.WRITE, source.target)
            if source.owner_id is not None or source.mirrored:
                raise Conflict(
                    f"service {source.name!r} is managed by a generator or by its cluster"
                )
            return replace(definition, source_id=source.id, template=None)
        template_change = change.template
        template = (
            await template_from(tx, actor, template_change, definition.template)
            if template_change
            else None
        )
        return replace(definition, source_id=None, template=template)


async def _save_override(
    tx: Transaction, before: GlobalOverride | None, row: GlobalOverride
) -> None:
    """Saves the overrides of a cluster, or removes empty ones."""
    if row.patch.empty:
        if before is not None:
            await tx[GlobalOverrideStore].remove(before.id)
    elif before is not None:
        await tx[GlobalOverrideStore].put(row)
    elif len(await tx[GlobalOverrideStore].of_definition(row.global_id)) >= _MAX_OVERRIDES:
        raise Invalid(f"at most {_MAX_OVERRIDES:,} overrides per global service")
    else:
        await tx[GlobalOverrideStore].add(row)


def _template_override(change: ServiceChange, without: Collection[str]) -> TemplateOverride:
    """The validated fields that clusters may override. Invalid: any other field."""
    if not_overridable := [name for name in _SAME_EVERYWHERE if getattr(change, name)]:
        raise Invalid("cannot be overridden for one cluster", field=not_overridable[0])
    columns = change.checked()
    allowed = {field.name for field in fields(TemplateOverride)}
    patch = {name: value for name, value in columns.items() if name in allowed}
    if without:
        configuration = patch.get("configuration", {})
        patch["configuration"] = {**configuration, **dict.fromkeys(without)}
    return TemplateOverride(**patch)


def _cluster_view(
    cluster: Cluster, template: ServiceTemplate, row: GlobalOverride | None
) -> GlobalServiceView:
    patch = row.patch if row else None
    return GlobalServiceView(
        cluster, apply_override(template, patch), override_delta(template, patch), row
    )
