"""Dry run: the changes of an apply according to the API server, without any writes."""

import asyncio
from collections.abc import Iterable

from fleet.errors import TowlineError
from syncagent.domain.changes import Change, FieldChange, PlannedChange
from syncagent.domain.drift import field_changes
from syncagent.domain.leaving import kept
from syncagent.domain.ownership import Manifest
from syncagent.domain.services import ServiceSpec
from syncagent.ports import Refused, UnknownApi
from syncagent.reconcile import sealed
from syncagent.reconcile.apply import is_immutable, problem_of
from syncagent.reconcile.manifests import Plan
from syncagent.reconcile.registry import Service
from syncagent.reconcile.tools import Tools

_TOGETHER = 64


async def plan_changes(
    tools: Tools, service: Service, plan: Plan, spec: ServiceSpec, manifests: Iterable[Manifest]
) -> list[PlannedChange]:
    """Lists the changes of an apply; a refused object becomes a failure of the service."""
    todo, found = list(manifests), []
    for start in range(0, len(todo), _TOGETHER):
        part = todo[start : start + _TOGETHER]
        found += await asyncio.gather(
            *(_one(tools, service, plan, spec, manifest) for manifest in part)
        )
    return [change for change in found if change is not None]


async def _one(
    tools: Tools, service: Service, plan: Plan, spec: ServiceSpec, manifest: Manifest
) -> PlannedChange | None:
    try:
        return await _planned(tools, spec, manifest)
    except TowlineError as error:
        if _comes_first(error, plan, spec, manifest):
            return PlannedChange(manifest.ref, Change.CREATE)
        service.failures[manifest.key] = problem_of(error, manifest.ref)
        return None


async def _planned(tools: Tools, spec: ServiceSpec, manifest: Manifest) -> PlannedChange | None:
    ref, force = manifest.ref, spec.options.force
    live = await tools.cluster.get(ref)
    body = manifest.body if live is None else kept(manifest, live)
    try:
        would_be = await sealed.apply(tools, manifest, body, force=force, dry_run=True)
    except Refused as error:
        replace = spec.options.replace_immutable or manifest.directives.replace
        if replace and is_immutable(error):
            return PlannedChange(ref, Change.REPLACE)
        raise
    if live is None:
        return PlannedChange(ref, Change.CREATE)
    fields: tuple[FieldChange, ...] = field_changes(live, would_be)
    return PlannedChange(ref, Change.UPDATE, fields) if fields else None


def _comes_first(error: TowlineError, plan: Plan, spec: ServiceSpec, manifest: Manifest) -> bool:
    """Reports whether an object fails only because its kind or namespace does not exist yet."""
    ref = manifest.ref
    if isinstance(error, UnknownApi):
        return (ref.group, ref.kind) in plan.defines
    namespace = ("", "Namespace", "", ref.namespace)
    made = namespace in plan.manifests or (
        spec.options.create_namespace and ref.namespace == spec.namespace
    )
    return made and isinstance(error, Refused) and error.status == 404
