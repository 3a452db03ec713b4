"""Global services: a template for many clusters, with overrides for single clusters."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields, replace

from controlplane.domain.access import Actor, ResourceKind, Verb, require, require_member
from controlplane.domain.clusters import Cluster
from controlplane.domain.globals import GlobalOverride, GlobalService
from controlplane.domain.ownership import OwnerKind
from controlplane.domain.services import Service
from controlplane.domain.targets import TargetPlan
from controlplane.domain.templates import (
    OverrideDelta,
    ServiceTemplate,
    TemplateOverride,
    apply_override,
    check_override,
    override_delta,
)
from controlplane.ports import Transaction
from controlplane.usecases.clusters import find_cluster
from controlplane.usecases.definitions import (
    GeneratorChange,
    GeneratorOperations,
    require_generator_project,
    template_from,
)
from controlplane.usecases.evaluation import template_of
from controlplane.usecases.freezes import check_not_frozen
from controlplane.usecases.retrying import retry_operations
from controlplane.usecases.services import ServiceChange, find_service
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
class GlobalChange:
    """Changes to a global service. `template` and `source_id` exclude each other."""

    common: GeneratorChange = GeneratorChange()
    source_id: str | None = None
    template: ServiceChange | None = None


@dataclass(frozen=True, slots=True)
class GlobalServiceView:
    """A cluster's effective configuration of a global service, and its difference to the
    template."""

    cluster: Cluster
    effective: ServiceTemplate
    delta: tuple[OverrideDelta, ...]
    override: GlobalOverride | None


@retry_operations
class GlobalServices(GeneratorOperations[GlobalService]):
    """Operations on global services."""

    kind = OwnerKind.GLOBAL
    noun = "GlobalService"

    async def create(self, actor: Actor, change: GlobalChange) -> GlobalService:
        """Creates a global service and reconciles it at once."""
        require_member(actor)
        blank = GlobalService(**self._blank(change.common))

        async def fill(tx: Transaction, definition: GlobalService) -> GlobalService:
            return await self._with_source(tx, actor, definition, change)

        return await self._make(actor, blank, fill)

    async def update(self, actor: Actor, id: str, change: GlobalChange) -> GlobalService:
        """Changes a global service and all its services."""
        require_member(actor)

        async def fill(tx: Transaction, definition: GlobalService) -> GlobalService:
            if change.source_id or change.template:
                return await self._with_source(tx, actor, definition, change)
            return definition

        return await self._renew(actor, id, change.common.columns, fill)

    async def preview(self, actor: Actor, id: str | None, change: GlobalChange) -> TargetPlan:
        """Previews the effect of creating or updating a global service."""
        require_member(actor)
        async with self._context.store.read() as tx:
            if id:
                before = await self._open(tx, actor, id)
                definition = replace(before, **change.common.columns(before))
            else:
                definition = GlobalService(**self._blank(change.common))
                await require_generator_project(tx, actor, definition.project_id)
            if not id or change.source_id or change.template:
                definition = await self._with_source(tx, actor, definition, change)
        return await self._planned(actor, definition)

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
        require_member(actor)
        patch = _patch(change, without)
        now = self._context.clock.now()
        async with self._context.store.write() as tx:
            definition = await self._find(tx, id)
            require(actor, Verb.READ, definition.target)
            cluster = await find_cluster(tx, cluster_id)
            require(actor, Verb.WRITE, cluster.target.below(ResourceKind.SERVICE))
            await check_not_frozen(tx, cluster.id)
            before = await tx.overrides.find(global_id=id, cluster_id=cluster_id)
            who = (actor.email or actor.name)[:320]
            row = before or GlobalOverride(
                self._context.new_id(), id, cluster.id, now, now, patch, who
            )
            row = replace(row, patch=patch, updated_at=now, actor=who)
            await self._keep(tx, before, row)
            template, _ = await template_of(tx, definition)
            check_override(template, patch)
            await self._context.audit(
                tx,
                actor,
                "overrideGlobalService",
                f"{definition.name} in {cluster.handle}",
                id,
                fields=[d.field for d in override_delta(template, patch)][:50],
            )
        self._wake(id)
        return _view(cluster, template, None if patch.empty else row)

    async def sources(self, actor: Actor, globals: Sequence[GlobalService]) -> list[Service]:
        """The source services of these global services that the actor may see."""
        require_member(actor)
        ids = {definition.source_id for definition in globals if definition.source_id}
        if not ids:
            return []
        async with self._context.store.read() as tx:
            found = await tx.services.select(id=ids)
        return [service for service in found if actor.may(Verb.READ, service.target)]

    async def clusters(self, actor: Actor, id: str) -> list[GlobalServiceView]:
        """The effective configuration of each matching cluster that the actor may see, by
        handle."""
        definition = await self.get(actor, id)
        async with self._context.store.read() as tx:
            template, _ = await template_of(tx, definition)
            owned = {row.cluster_id for row in await tx.services.select(owner_id=id)}
            patches = {row.cluster_id: row for row in await tx.overrides.select(global_id=id)}
            found = await tx.clusters.select(id=owned | patches.keys())
        seen = sorted((c for c in found if actor.may(Verb.READ, c.target)), key=lambda c: c.handle)
        return [_view(cluster, template, patches.get(cluster.id)) for cluster in seen]

    async def _keep(
        self, tx: Transaction, before: GlobalOverride | None, row: GlobalOverride
    ) -> None:
        if row.patch.empty:
            if before is not None:
                await tx.overrides.remove(before.id)
        elif before is not None:
            await tx.overrides.put(row)
        elif len(await tx.overrides.select(global_id=row.global_id)) >= _MAX_OVERRIDES:
            raise Invalid(f"at most {_MAX_OVERRIDES:,} overrides per global service")
        else:
            await tx.overrides.add(row)

    async def _with_source(
        self, tx: Transaction, actor: Actor, definition: GlobalService, change: GlobalChange
    ) -> GlobalService:
        if bool(change.source_id) == bool(change.template):
            raise Invalid("specify either a service or a template", field="template")
        if change.source_id:
            source = await find_service(tx, change.source_id)
            require(actor, Verb.WRITE, source.target)
            if source.owner_id is not None or source.mirrored:
                raise Conflict(
                    f"service {source.name!r} is managed by a generator or by its cluster"
                )
            return replace(definition, source_id=source.id, template=None)
        given = change.template
        template = await template_from(tx, actor, given, definition.template) if given else None
        return replace(definition, source_id=None, template=template)


def _patch(change: ServiceChange, without: Collection[str]) -> TemplateOverride:
    """The validated fields that clusters may override. Invalid: any other field."""
    if strange := [name for name in _SAME_EVERYWHERE if getattr(change, name)]:
        raise Invalid("cannot be overridden for one cluster", field=strange[0])
    columns = change.checked()
    allowed = {field.name for field in fields(TemplateOverride)}
    patch = {name: value for name, value in columns.items() if name in allowed}
    if without:
        given = patch.get("configuration", {})
        patch["configuration"] = {**given, **dict.fromkeys(without)}
    return TemplateOverride(**patch)


def _view(
    cluster: Cluster, template: ServiceTemplate, row: GlobalOverride | None
) -> GlobalServiceView:
    patch = row.patch if row else None
    return GlobalServiceView(
        cluster, apply_override(template, patch), override_delta(template, patch), row
    )
