"""Service contexts: named configuration and secrets that templates of services read."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import orjson

from controlplane.access.operations.scopes import check_not_moved, project_for
from controlplane.authorization import Actor, Resource, ResourceKind, Verb, require, require_member
from controlplane.clusters.operations.freezes import check_not_frozen
from controlplane.configuration.model.contexts import ServiceContext
from controlplane.configuration.model.overrides import (
    SECRET,
    ContextOverride,
    LayeredValue,
    OverrideLayer,
)
from controlplane.configuration.operations.imports import flow_values
from controlplane.configuration.operations.layers import (
    check_override_place,
    check_types,
    check_values,
    layers_of,
)
from controlplane.configuration.operations.secret_references import (
    check_references,
    open_context_secrets,
    reference_name,
    store_secret_flags,
)
from controlplane.configuration.ports import ContextOverrideStore, ContextStore
from controlplane.platform.context import RENDER_SERVICES, Change, NamedOperations, OperationContext
from controlplane.platform.limits import check_count
from controlplane.platform.names import check_text
from controlplane.platform.ports import Transaction
from controlplane.platform.references import found, reference
from controlplane.platform.retry import retry_operations
from controlplane.platform.sealing import Sealer
from controlplane.services.model.parts import ContextBinding
from controlplane.services.model.service import Service
from controlplane.services.operations.generations import raise_generation, wake_agents
from controlplane.services.ports import ContextBindingStore, ServiceStore
from core.errors import Conflict, Invalid, TowlineError
from core.json_object import JsonMapping, JsonObject
from core.sealing import placeholder

MAX_BOUND_CONTEXTS = 64
_MAX_SECRETS = 500
_MAX_OVERRIDES = 1000
_MAX_SECRETS_LENGTH = 512 * 1024


@dataclass(frozen=True, slots=True)
class ContextOverrideChange:
    """Override of a context for a project, a cluster group or a cluster; empty removes it."""

    layer: OverrideLayer
    """Layer of the override."""
    place_id: str
    """ID of the project, cluster group or cluster."""
    configuration: JsonMapping
    """JSON object with values by key."""

    @property
    def place(self) -> tuple[OverrideLayer, str]:
        """Layer and ID of the place."""
        return self.layer, self.place_id


@dataclass(frozen=True, slots=True)
class ContextChange:
    """Changes to a context. None leaves a field unchanged; a value replaces the whole field."""

    configuration: JsonMapping | None = None
    """Values by key."""
    secrets: Mapping[str, str] | None = field(default=None, repr=False)
    """Secret values. Limit: 500 values, 512 KiB together."""
    project_id: str | None = None
    """ID of the project."""
    types: Mapping[str, str] | None = None
    """Types of values, by key. Default: any."""
    by_reference: bool | None = None
    """True gives templates placeholders, and secrets only to agents. Default: false."""
    overrides: Sequence[ContextOverrideChange] | None = None
    """Overrides for projects, cluster groups and clusters. Limit: 1,000."""


@retry_operations
class ServiceContexts(NamedOperations[ServiceContext]):
    """Operations on service contexts."""

    kind = ResourceKind.CONTEXT
    noun = "context"
    port = ContextStore

    async def of(
        self, actor: Actor, service_ids: Collection[str]
    ) -> dict[str, list[ServiceContext]]:
        """The contexts bound to services that the actor may read, by service id."""
        async with self._context.read(actor) as tx:
            bound = await _bound_contexts(tx, service_ids)
        return {
            id: [context for context in rows if actor.may(Verb.READ, context.target)]
            for id, rows in bound.items()
        }

    async def save(self, actor: Actor, name: str, change: ContextChange) -> ServiceContext:
        """Creates or changes a context. Each service that uses it is rendered again once."""
        now = self._context.clock.now()
        async with self._context.change(actor, "saveServiceContext") as tx:
            before = await tx[ContextStore].by_name(check_text(name, "name"))
            if before is None:
                project = await project_for(tx, ResourceKind.CONTEXT, change.project_id)
                new = ServiceContext(self._context.new_id(), name, now, now, project_id=project)
                after = self._with_changes(new, change)
                await tx[ContextStore].add(after)
                tx[ContextOverrideStore].mark_absent("context_id", after.id)
                tx[ContextBindingStore].mark_absent("context_id", after.id)
            else:
                tx.authorize(Verb.WRITE, before.target)
                check_not_moved(f"context {name!r}", before.project_id, change.project_id)
                after = replace(self._with_changes(before, change), updated_at=now)
                if before.sealed is None and after.sealed is not None:
                    await _check_may_reveal(tx, after)
                await tx[ContextStore].put(after)
            check_references(self._context.sealer, after)
            differs = bool(before) and _rendered_content(before) != _rendered_content(after)
            users = await self._notify_users(tx, actor, after) if differs else []
            tx.audit(name, after.id)
            if await self._replace_overrides(tx, after, change.overrides) or differs:
                await _mark_users_for_render(tx, after.id)
            if change.types:
                await _check_override_types(tx, after)
        wake_agents(self._context, users)
        return after

    async def _notify_users(
        self, tx: Transaction, actor: Actor, after: ServiceContext
    ) -> list[Service]:
        """Sends changed secrets of a `by_reference` context to the agents of its services.

        Conflict: a cluster is frozen.
        """
        users = await _services_using(tx, after.id)
        await store_secret_flags(tx, [service.id for service in users])
        if not after.by_reference:
            return []
        changed = [f"of context {after.name}, version {after.secrets_version}"]
        for service in users:
            await check_not_frozen(tx, service.cluster_id)
            await raise_generation(self._context, tx, service, changed, actor.shown_name)
        return users

    async def delete(self, actor: Actor, id: str) -> ServiceContext:
        """Deletes a context. Conflict: services still use it."""
        async with self._context.change(actor, "deleteServiceContext") as tx:
            context = await self._find(tx, id)
            tx.authorize(Verb.WRITE, context.target)
            users = await _services_using(tx, id)
            if users:
                names = ", ".join(sorted(service.name for service in users)[:5])
                raise Conflict(f"{len(users)} services use context {context.name!r}: {names}")
            overrides = await tx[ContextOverrideStore].of_contexts(id)
            await tx[ContextOverrideStore].remove_each([override.id for override in overrides])
            await tx[ContextStore].remove(id)
            tx.audit(context.name, id)
        return context

    async def override(
        self, actor: Actor, id: str, change: ContextOverrideChange
    ) -> ContextOverride | None:
        """Replaces a context's override for a project, cluster group or cluster; empty removes it.

        Needs write access to the context and to the place. Services that use the context are
        rendered again.
        """
        async with self._context.change(actor, "overrideServiceContext") as tx:
            context = await self._find(tx, id)
            tx.authorize(Verb.WRITE, context.target)
            existing = await _overrides_of(tx, id)
            if change.configuration:
                check_count(len(existing.keys() | {change.place}), "overrides", _MAX_OVERRIDES)
            after = await self._apply_override(tx, context, change, existing.get(change.place))
            await _mark_users_for_render(tx, id)
        return after if change.configuration else None

    async def _apply_override(
        self,
        tx: Change,
        context: ServiceContext,
        change: ContextOverrideChange,
        before: ContextOverride | None,
    ) -> ContextOverride:
        now, user = self._context.clock.now(), tx.actor.shown_name
        layer, place = change.layer, change.place_id
        is_removal = before is not None and not change.configuration
        await check_override_place(tx, tx.actor, layer, place, is_removal=is_removal)
        check_values(context.types, change.configuration)
        new = ContextOverride(self._context.new_id(), context.id, layer, place, now, now, user)
        after = replace(
            before or new, configuration=dict(change.configuration), updated_at=now, actor=user
        )
        await _save_override(tx, before, after)
        tx.audit_as(
            "overrideServiceContext", f"{context.name} in {layer.value}",
            context.id, place=place, keys=sorted(change.configuration)[:50],
        )  # fmt: skip
        return after

    async def _replace_overrides(
        self, tx: Change, context: ServiceContext, overrides: Sequence[ContextOverrideChange] | None
    ) -> bool:
        """Replaces all overrides of a context; True if any changed."""
        if overrides is None:
            return False
        check_count(len(overrides), "overrides", _MAX_OVERRIDES)
        existing = await _overrides_of(tx, context.id)
        before = {place: dict(override.configuration) for place, override in existing.items()}
        after = {change.place: dict(change.configuration) for change in overrides}
        if len(after) < len(overrides):
            raise Invalid("contains a project, group or cluster twice", field="overrides")
        # Removals come first: they make room for additions.
        places = sorted(before.keys() | after.keys(), key=lambda place: (place in after, place))
        changed = [place for place in places if before.get(place, {}) != after.get(place, {})]
        for place in changed:
            change = ContextOverrideChange(*place, after.get(place, {}))
            await self._apply_override(tx, context, change, existing.get(place))
        return bool(changed)

    async def overrides(self, actor: Actor, id: str) -> list[ContextOverride]:
        """The overrides of a context for projects, groups and clusters."""
        async with self._context.read(actor) as tx:
            context = await self._find(tx, id)
            require(actor, Verb.READ, context.target)
            rows = await tx[ContextOverrideStore].of_contexts(id)
        return sorted(
            rows,
            key=lambda override: (list(OverrideLayer).index(override.layer), override.place_id),
        )

    async def values(self, actor: Actor, service: Service) -> dict[str, dict[str, LayeredValue]]:
        """The context values of a service, by context name, each with its origin.

        Secrets are listed without their values.
        """
        require_member(actor)
        require(actor, Verb.READ, service.target)
        async with self._context.store.read() as tx:
            bound = await _bound_contexts(tx, [service.id])
            layers = await layers_of(tx, [service], bound)
        return {
            context.name: _redacted_values(
                self._context.sealer, context, layers[service.id, context.id]
            )
            for context in bound.get(service.id, ())
            if actor.may(Verb.READ, context.target)
        }

    def secrets_of(self, context: ServiceContext) -> Mapping[str, str]:
        """Returns the plain secrets of a context: the caller must drop them."""
        return open_context_secrets(self._context.sealer, context)

    def _with_changes(self, before: ServiceContext, change: ContextChange) -> ServiceContext:
        before = replace(before, project_given=before.project_given or bool(change.project_id))
        if change.types is not None:
            before = replace(before, types=check_types(change.types))
        if change.configuration is not None:
            before = replace(before, configuration=dict(change.configuration))
        if change.by_reference is not None:
            before = replace(before, by_reference=change.by_reference)
        check_values(before.types, before.configuration)
        if change.secrets is None or self._has_same_secrets(before, change.secrets):
            return before
        plain = orjson.dumps(_check_secrets(change.secrets))
        sealed = (
            self._context.sealer.seal(plain, f"context:{before.id}") if change.secrets else None
        )
        return replace(before, sealed=sealed, secrets_version=before.secrets_version + 1)

    def _has_same_secrets(self, before: ServiceContext, secrets: Mapping[str, str]) -> bool:
        """True if the secrets are unchanged, so that no agent has to be notified."""
        try:
            stored = open_context_secrets(self._context.sealer, before)
            return stored == dict(secrets)
        except TowlineError:
            # A secret that cannot be decrypted is repaired by setting it again.
            return False


async def bind_contexts(
    context: OperationContext,
    tx: Transaction,
    actor: Actor,
    service: Service,
    context_ids: Collection[str],
) -> bool:
    """Replaces the contexts of a service; True if any changed."""
    check_count(len(context_ids), "contextBindings", MAX_BOUND_CONTEXTS)
    bound = {
        binding.context_id: binding
        for binding in await tx[ContextBindingStore].of_services(service.id)
    }
    new, removed = set(context_ids) - bound.keys(), bound.keys() - set(context_ids)
    for id in sorted(new):
        with reference("contextBindings.contextId", id):
            service_context = found(await tx[ContextStore].get(id), ResourceKind.CONTEXT)
            require(actor, Verb.READ, service_context.target)
        secrets = Resource.within(ResourceKind.SECRET, service_context.project_id)
        if service_context.sealed is not None:
            # Templates can expose the secret: binding needs the permission to use secrets.
            require(actor, Verb.USE, secrets)
        may_reveal = actor.may(Verb.USE, secrets)
        binding = ContextBinding(context.new_id(), id, service.id, may_reveal)
        await tx[ContextBindingStore].add(binding)
    for id in removed:
        await tx[ContextBindingStore].remove(bound[id].id)
    await store_secret_flags(tx, [service.id])
    return bool(removed or new)


async def template_values(
    sealer: Sealer, tx: Transaction, services: Sequence[Service]
) -> dict[str, dict[str, JsonObject]]:
    """Values of `contexts` and `imports` in templates, by service id.

    An entry `problem` says why a service cannot be rendered.
    """
    ids = [service.id for service in services]
    bound = await _bound_contexts(tx, ids)
    layers = await layers_of(tx, [service for service in services if service.id in bound], bound)
    imports, problems = await flow_values(tx, ids)
    values: dict[str, dict[str, JsonObject]] = {}
    for id in ids:
        contexts = {
            context.name: _context_values(sealer, context, layers[id, context.id])
            for context in bound.get(id, ())
        }
        values[id] = {"contexts": contexts, "imports": imports.get(id, {})}
        if id in problems:
            values[id]["problem"] = {"message": problems[id]}
    return values


def _context_values(
    sealer: Sealer, context: ServiceContext, values: Mapping[str, LayeredValue]
) -> JsonObject:
    secrets = open_context_secrets(sealer, context)
    if context.by_reference:
        secrets = {key: placeholder(reference_name(context, key)) for key in secrets}
    return {**{key: layered.value for key, layered in values.items()}, **secrets}


def _redacted_values(
    sealer: Sealer, context: ServiceContext, values: Mapping[str, LayeredValue]
) -> dict[str, LayeredValue]:
    secrets = open_context_secrets(sealer, context)
    return {**values, **dict.fromkeys(secrets, LayeredValue(None, SECRET))}


async def _overrides_of(
    tx: Transaction, context_id: str
) -> dict[tuple[OverrideLayer, str], ContextOverride]:
    """The overrides of a context, by layer and place."""
    rows = await tx[ContextOverrideStore].of_contexts(context_id)
    return {(row.layer, row.place_id): row for row in rows}


async def _check_override_types(tx: Transaction, context: ServiceContext) -> None:
    """Invalid: an override does not have the new types; names its layer and place."""
    for override in await tx[ContextOverrideStore].of_contexts(context.id):
        try:
            check_values(context.types, override.configuration)
        except Invalid as error:
            place = f"{override.layer.value} {override.place_id!r}"
            raise Invalid(f"{error.message} in the override of {place}", field="types") from None


async def _save_override(
    tx: Transaction, before: ContextOverride | None, after: ContextOverride
) -> None:
    if not after.configuration:
        if before is not None:
            await tx[ContextOverrideStore].remove(before.id)
    elif before is not None:
        await tx[ContextOverrideStore].put(after)
    else:
        await tx[ContextOverrideStore].add(after)


async def _bound_contexts(
    tx: Transaction, service_ids: Collection[str]
) -> dict[str, list[ServiceContext]]:
    rows = await tx[ContextBindingStore].of_services(service_ids) if service_ids else []
    context_rows = await tx[ContextStore].by_ids({row.context_id for row in rows}) if rows else []
    contexts = {context.id: context for context in context_rows}
    bound: dict[str, list[ServiceContext]] = {}
    for row in rows:
        bound.setdefault(row.service_id, []).append(contexts[row.context_id])
    return bound


async def _services_using(tx: Transaction, context_id: str) -> list[Service]:
    rows = await tx[ContextBindingStore].of_context(context_id)
    return await tx[ServiceStore].by_ids({r.service_id for r in rows}, deleted=True) if rows else []


async def _check_may_reveal(tx: Transaction, context: ServiceContext) -> None:
    """Conflict: a context gets its first secrets, and somebody who may not use them bound it.

    Templates can expose secrets, and without them binding needed only read access.
    """
    bindings = await tx[ContextBindingStore].of_context(context.id)
    if count := sum(not binding.may_reveal for binding in bindings):
        raise Conflict(
            f"{count} services use context {context.name!r}, bound by users who may not use "
            "its secrets: unbind them, add the secrets, then bind them again"
        )


async def _mark_users_for_render(tx: Change, context_id: str) -> None:
    """Marks the services of a context for rendering."""
    for service in await _services_using(tx, context_id):
        await tx[ServiceStore].mark_for_render(service.id)
        if service.repository_id:
            tx.publish(RENDER_SERVICES, f"{service.repository_id}/")


def _rendered_content(context: ServiceContext) -> tuple[object, ...]:
    return (context.configuration, context.sealed, context.by_reference)


def _check_secrets(secrets: Mapping[str, str]) -> dict[str, str]:
    check_count(len(secrets), "secrets", _MAX_SECRETS)
    for name in secrets:
        check_text(name, "secrets.name")
    check_count(sum(map(len, secrets.values())), "secrets", _MAX_SECRETS_LENGTH, "characters")
    return dict(secrets)
