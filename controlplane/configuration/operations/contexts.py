"""Service contexts: named configuration and secrets that templates of services read."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from controlplane.access.operations.scopes import project_for
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
from controlplane.platform.context import RENDER_SERVICES, OperationContext
from controlplane.platform.names import check_text
from controlplane.platform.ports import ANY, Page, PageQuery, Transaction
from controlplane.platform.retry import retry_operations
from controlplane.services.model.parts import ContextBinding
from controlplane.services.model.service import Service
from controlplane.services.operations.generations import raise_generation, wake_agents
from controlplane.services.ports import ContextBindingStore, ServiceStore
from core.errors import Conflict, Invalid, NotFound, TowlineError
from core.sealing import placeholder

MAX_BOUND_CONTEXTS = 64
_MAX_SECRETS = 500
_MAX_OVERRIDES = 1000
_MAX_SECRETS_LENGTH = 512 * 1024


@dataclass(frozen=True, slots=True)
class ContextOverrideChange:
    """Override of a context for a project, a cluster group or a cluster; empty removes it."""

    layer: OverrideLayer
    place_id: str
    configuration: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ContextChange:
    """Changes to a context. None leaves a field unchanged; a value replaces the whole field.

    `types` maps keys to names of `flow.ValueType`; `by_reference`: see `ServiceContext`.
    """

    configuration: Mapping[str, Any] | None = None
    secrets: Mapping[str, str] | None = field(default=None, repr=False)
    project_id: str | None = None
    types: Mapping[str, str] | None = None
    by_reference: bool | None = None
    overrides: Sequence[ContextOverrideChange] | None = None


@retry_operations
class ServiceContexts:
    """Operations on service contexts."""

    def __init__(self, deps: OperationContext) -> None:
        self._context = deps

    async def page(self, actor: Actor, query: PageQuery) -> Page[ServiceContext]:
        require_member(actor)
        query = replace(query, visible=actor.policy.visible(ResourceKind.CONTEXT))
        async with self._context.store.read() as tx:
            return await tx[ContextStore].page(query)

    async def get(self, actor: Actor, name: str) -> ServiceContext:
        """Finds a context by name. NotFound: it does not exist, or the actor may not see it."""
        require_member(actor)
        async with self._context.store.read() as tx:
            context = await tx[ContextStore].find(name=name) if name else None
        if context is None:
            raise NotFound
        require(actor, Verb.READ, context.target)
        return context

    async def of(
        self, actor: Actor, service_ids: Collection[str]
    ) -> dict[str, list[ServiceContext]]:
        """The contexts bound to services that the actor may read, by service id."""
        require_member(actor)
        async with self._context.store.read() as tx:
            bound = await _bound(tx, service_ids)
        return {
            id: [context for context in rows if actor.may(Verb.READ, context.target)]
            for id, rows in bound.items()
        }

    async def save(self, actor: Actor, name: str, change: ContextChange) -> ServiceContext:
        """Creates or changes a context. Each service that uses it is rendered again once."""
        require_member(actor)
        now = self._context.clock.now()
        async with self._context.store.write() as tx:
            before = await tx[ContextStore].find(name=check_text(name, "name"))
            if before is None:
                project = await project_for(tx, actor, ResourceKind.CONTEXT, change.project_id)
                blank = ServiceContext(self._context.new_id(), name, now, now, project_id=project)
                after = self._changed(blank, change)
                await tx[ContextStore].add(after)
            else:
                require(actor, Verb.WRITE, before.target)
                _check_project(before, change)
                after = replace(self._changed(before, change), updated_at=now)
                await tx[ContextStore].put(after)
            check_references(self._context, after)
            differs = _differ(before, after)
            users = await self._notify_users(tx, actor, after) if differs else []
            await self._context.audit(tx, actor, "saveServiceContext", name, after.id)
            differs |= await self._replace_overrides(tx, actor, after, change.overrides)
            repositories = await mark_users_for_render(tx, after.id) if differs else set()
        for repository in repositories:
            self._context.bus.publish(RENDER_SERVICES, f"{repository}/")
        wake_agents(self._context, users)
        return after

    async def _notify_users(
        self, tx: Transaction, actor: Actor, after: ServiceContext
    ) -> list[Service]:
        """Sends changed secrets of a `by_reference` context to the agents of its services.

        Conflict: a cluster is frozen.
        """
        users = await _users(tx, after.id)
        await store_secret_flags(tx, [service.id for service in users])
        if not after.by_reference:
            return []
        said = [f"of context {after.name}, version {after.secrets_version}"]
        for service in users:
            await check_not_frozen(tx, service.cluster_id)
            await raise_generation(self._context, tx, service, said, actor.email or actor.name)
        return users

    async def delete(self, actor: Actor, id: str) -> ServiceContext:
        """Deletes a context. Conflict: services still use it."""
        require_member(actor)
        async with self._context.store.write() as tx:
            context = await tx[ContextStore].get(id)
            if context is None:
                raise NotFound
            require(actor, Verb.WRITE, context.target)
            users = await _users(tx, id)
            if users:
                names = ", ".join(sorted(service.name for service in users)[:5])
                raise Conflict(f"{len(users)} services use context {context.name!r}: {names}")
            for override in await tx[ContextOverrideStore].select(context_id=id):
                await tx[ContextOverrideStore].remove(override.id)
            await tx[ContextStore].remove(id)
            await self._context.audit(tx, actor, "deleteServiceContext", context.name, id)
        return context

    async def override(
        self,
        actor: Actor,
        id: str,
        layer: OverrideLayer,
        place_id: str,
        configuration: Mapping[str, Any],
    ) -> ContextOverride | None:
        """Replaces a context's override for a project, cluster group or cluster; empty removes it.

        Needs write access to the context and to the place. Services that use the context are
        rendered again.
        """
        require_member(actor)
        async with self._context.store.write() as tx:
            context = await tx[ContextStore].get(id)
            if context is None:
                raise NotFound
            require(actor, Verb.WRITE, context.target)
            after = await self._override(
                tx, actor, context, ContextOverrideChange(layer, place_id, configuration)
            )
            repositories = await mark_users_for_render(tx, id)
        for repository in repositories:
            self._context.bus.publish(RENDER_SERVICES, f"{repository}/")
        return after if configuration else None

    async def _override(
        self, tx: Transaction, actor: Actor, context: ServiceContext, asked: ContextOverrideChange
    ) -> ContextOverride:
        now, who = self._context.clock.now(), (actor.email or actor.name)[:320]
        layer, place = asked.layer, asked.place_id
        before = await tx[ContextOverrideStore].find(
            context_id=context.id, layer=layer, place_id=place
        )
        ends = before is not None and not asked.configuration
        await check_override_place(tx, actor, layer, place, ends=ends)
        check_values(context.types, asked.configuration)
        blank = ContextOverride(self._context.new_id(), context.id, layer, place, now, now, who)
        after = replace(
            before or blank, configuration=dict(asked.configuration), updated_at=now, actor=who
        )
        await _keep_override(tx, before, after)
        await self._context.audit(
            tx, actor, "overrideServiceContext", f"{context.name} in {layer.value}",
            context.id, place=place, keys=sorted(asked.configuration)[:50],
        )  # fmt: skip
        return after

    async def _replace_overrides(
        self,
        tx: Transaction,
        actor: Actor,
        context: ServiceContext,
        asked: Sequence[ContextOverrideChange] | None,
    ) -> bool:
        """Replaces all overrides of a context; True if any changed."""
        if asked is None:
            return False
        if len(asked) > _MAX_OVERRIDES:
            raise Invalid(f"must have at most {_MAX_OVERRIDES:,} entries", field="overrides")
        held = {
            (override.layer, override.place_id): dict(override.configuration)
            for override in await tx[ContextOverrideStore].select(context_id=context.id)
        }
        wanted = {
            (override.layer, override.place_id): dict(override.configuration) for override in asked
        }
        if len(wanted) < len(asked):
            raise Invalid("contains a project, group or cluster twice", field="overrides")
        # Removals come first: they make room for additions.
        places = sorted(held.keys() | wanted.keys(), key=lambda place: (place in wanted, place))
        moved = [place for place in places if held.get(place, {}) != wanted.get(place, {})]
        for place in moved:
            await self._override(
                tx, actor, context, ContextOverrideChange(*place, wanted.get(place, {}))
            )
        return bool(moved)

    async def overrides(self, actor: Actor, id: str) -> list[ContextOverride]:
        """The overrides of a context for projects, groups and clusters."""
        require_member(actor)
        async with self._context.store.read() as tx:
            context = await tx[ContextStore].get(id)
            if context is None:
                raise NotFound
            require(actor, Verb.READ, context.target)
            found = await tx[ContextOverrideStore].select(context_id=id)
        return sorted(
            found,
            key=lambda override: (list(OverrideLayer).index(override.layer), override.place_id),
        )

    async def values(self, actor: Actor, service: Service) -> dict[str, dict[str, LayeredValue]]:
        """The context values of a service, by context name, each with its origin.

        Secrets are listed without their values.
        """
        require_member(actor)
        require(actor, Verb.READ, service.target)
        async with self._context.store.read() as tx:
            bound = await _bound(tx, [service.id])
            layers = await layers_of(tx, [service], bound)
        return {
            context.name: _shown(self._context, context, layers[service.id, context.id])
            for context in bound.get(service.id, ())
            if actor.may(Verb.READ, context.target)
        }

    def _changed(self, before: ServiceContext, change: ContextChange) -> ServiceContext:
        if change.types is not None:
            before = replace(before, types=check_types(change.types))
        if change.configuration is not None:
            before = replace(before, configuration=dict(change.configuration))
        if change.by_reference is not None:
            before = replace(before, by_reference=change.by_reference)
        check_values(before.types, before.configuration)
        if change.secrets is None or self._is_same(before, change.secrets):
            return before
        plain = orjson.dumps(_check_secrets(change.secrets))
        sealed = (
            self._context.sealer.seal(plain, f"context:{before.id}") if change.secrets else None
        )
        return replace(before, sealed=sealed, secrets_version=before.secrets_version + 1)

    def _is_same(self, before: ServiceContext, secrets: Mapping[str, str]) -> bool:
        """True if the secrets are unchanged, so that no agent has to be notified."""
        try:
            return before.secrets_version > 0 and open_context_secrets(
                self._context, before
            ) == dict(secrets)
        except TowlineError:
            # A secret that cannot be decrypted is repaired by setting it again.
            return False


async def bind_contexts(
    deps: OperationContext,
    tx: Transaction,
    actor: Actor,
    service: Service,
    context_ids: Collection[str],
) -> bool:
    """Replaces the contexts of a service; True if any changed."""
    if len(context_ids) > MAX_BOUND_CONTEXTS:
        raise Invalid(f"must have at most {MAX_BOUND_CONTEXTS} entries", field="contextBindings")
    held = {
        binding.context_id: binding
        for binding in await tx[ContextBindingStore].select(service_id=service.id)
    }
    for id in sorted(set(context_ids) - held.keys()):
        context = await tx[ContextStore].get(id)
        if context is None:
            raise NotFound
        require(actor, Verb.READ, context.target)
        if context.sealed is not None:
            # Templates can expose the secret: binding needs the permission to use secrets.
            require(actor, Verb.USE, Resource.within(ResourceKind.SECRET, context.project_id))
        await tx[ContextBindingStore].add(ContextBinding(deps.new_id(), id, service.id))
    gone = held.keys() - set(context_ids)
    for id in gone:
        await tx[ContextBindingStore].remove(held[id].id)
    await store_secret_flags(tx, [service.id])
    return bool(gone) or bool(set(context_ids) - held.keys())


async def template_values(
    deps: OperationContext, tx: Transaction, services: Sequence[Service]
) -> dict[str, dict[str, dict[str, Any]]]:
    """Values of `contexts` and `imports` in templates, by service id.

    An entry `problem` says why a service cannot be rendered.
    """
    templated = [service for service in services if service.spec.templated]
    ids = [service.id for service in templated]
    bound = await _bound(tx, ids)
    layers = await layers_of(tx, [service for service in templated if service.id in bound], bound)
    imports, problems = await flow_values(tx, ids)
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for id in ids:
        contexts = {
            context.name: _values(deps, context, layers[id, context.id])
            for context in bound.get(id, ())
        }
        found[id] = {"contexts": contexts, "imports": imports.get(id, {})}
        if id in problems:
            found[id]["problem"] = {"message": problems[id]}
    return found


def _values(
    deps: OperationContext, context: ServiceContext, values: Mapping[str, LayeredValue]
) -> dict[str, Any]:
    secrets = open_context_secrets(deps, context)
    if context.by_reference:
        secrets = {key: placeholder(reference_name(context, key)) for key in secrets}
    return {**{key: layered.value for key, layered in values.items()}, **secrets}


def _shown(
    deps: OperationContext, context: ServiceContext, values: Mapping[str, LayeredValue]
) -> dict[str, LayeredValue]:
    sealed = open_context_secrets(deps, context)
    return {**values, **dict.fromkeys(sealed, LayeredValue(None, SECRET))}


async def _keep_override(
    tx: Transaction, before: ContextOverride | None, after: ContextOverride
) -> None:
    if not after.configuration:
        if before is not None:
            await tx[ContextOverrideStore].remove(before.id)
    elif before is not None:
        await tx[ContextOverrideStore].put(after)
    elif len(await tx[ContextOverrideStore].select(context_id=after.context_id)) >= _MAX_OVERRIDES:
        raise Invalid(f"at most {_MAX_OVERRIDES:,} overrides per context")
    else:
        await tx[ContextOverrideStore].add(after)


async def _bound(tx: Transaction, service_ids: Collection[str]) -> dict[str, list[ServiceContext]]:
    rows = await tx[ContextBindingStore].select(service_id=service_ids) if service_ids else []
    found = await tx[ContextStore].select(id={row.context_id for row in rows}) if rows else []
    known = {context.id: context for context in found}
    bound: dict[str, list[ServiceContext]] = {}
    for row in rows:
        bound.setdefault(row.service_id, []).append(known[row.context_id])
    return bound


async def _users(tx: Transaction, context_id: str) -> list[Service]:
    rows = await tx[ContextBindingStore].select(context_id=context_id)
    return (
        await tx[ServiceStore].select(id={r.service_id for r in rows}, deleted_at=ANY)
        if rows
        else []
    )


async def mark_users_for_render(tx: Transaction, context_id: str) -> set[str]:
    """Marks the templated services of a context for rendering; returns their repositories' ids."""
    users = [service for service in await _users(tx, context_id) if service.spec.templated]
    for service in users:
        await tx[ServiceStore].change(service.id, input_digest=None)
    return {service.repository_id for service in users if service.repository_id}


def _differ(before: ServiceContext | None, after: ServiceContext) -> bool:
    if before is None:
        return False
    return _content(before) != _content(after)


def _content(context: ServiceContext) -> tuple[Any, ...]:
    return (context.configuration, context.sealed, context.by_reference)


def _check_project(before: ServiceContext, change: ContextChange) -> None:
    if change.project_id and change.project_id != before.project_id:
        raise Conflict(
            f"context {before.name!r} cannot be moved: delete it and create it in the other project"
        )


def _check_secrets(secrets: Mapping[str, str]) -> dict[str, str]:
    if len(secrets) > _MAX_SECRETS:
        raise Invalid(
            f"{len(secrets)} secrets, but at most {_MAX_SECRETS} are allowed", field="secrets"
        )
    for name in secrets:
        check_text(name, "secrets.name")
    if (size := sum(map(len, secrets.values()))) > _MAX_SECRETS_LENGTH:
        raise Invalid(
            f"{size:,} characters, but at most {_MAX_SECRETS_LENGTH:,} are allowed", field="secrets"
        )
    return dict(secrets)
