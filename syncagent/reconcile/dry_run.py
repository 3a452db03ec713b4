"""Dry run: the changes of an apply according to the API server, without any writes."""

import asyncio
from collections.abc import Iterable

from core.errors import TowlineError
from core.spec.desired import BundleSpec
from core.spec.objects import FieldChange
from core.spec.plan import PlannedAction, PlannedChange
from syncagent.domain.drift import field_changes
from syncagent.domain.ignored_differences import owned_part
from syncagent.domain.ownership import ObjectManifest
from syncagent.ports import RequestRefused, UnknownApi
from syncagent.reconcile import sealed
from syncagent.reconcile.applier import is_immutable, problem_of
from syncagent.reconcile.bundle_plan import BundlePlan
from syncagent.reconcile.context import ReconcileContext
from syncagent.reconcile.registry import ServiceState

_BATCH_SIZE = 64


async def plan_changes(
    context: ReconcileContext,
    service: ServiceState,
    plan: BundlePlan,
    spec: BundleSpec,
    manifests: Iterable[ObjectManifest],
) -> list[PlannedChange]:
    """Lists the changes of an apply; a refused object becomes a failure of the service."""
    queue, found = list(manifests), []
    for start in range(0, len(queue), _BATCH_SIZE):
        part = queue[start : start + _BATCH_SIZE]
        found += await asyncio.gather(
            *(_plan_object(context, service, plan, spec, manifest) for manifest in part)
        )
    return [change for change in found if change is not None]


async def _plan_object(
    context: ReconcileContext,
    service: ServiceState,
    plan: BundlePlan,
    spec: BundleSpec,
    manifest: ObjectManifest,
) -> PlannedChange | None:
    try:
        return await _dry_run_change(context, spec, manifest)
    except TowlineError as error:
        if _depends_on_bundle(error, plan, spec, manifest):
            return PlannedChange(manifest.ref, PlannedAction.CREATE)
        service.failures[manifest.key] = problem_of(error, manifest.ref)
        return None


async def _dry_run_change(
    context: ReconcileContext, spec: BundleSpec, manifest: ObjectManifest
) -> PlannedChange | None:
    ref, force = manifest.ref, not spec.options.fail_on_conflict
    live = await context.cluster.get(ref)
    body = manifest.body if live is None else owned_part(manifest, live)
    try:
        would_be = await sealed.apply(context, manifest, body, force=force, dry_run=True)
    except RequestRefused as error:
        replace = spec.options.replace_immutable or manifest.directives.replace
        if replace and is_immutable(error):
            return PlannedChange(ref, PlannedAction.REPLACE)
        raise
    if live is None:
        return PlannedChange(ref, PlannedAction.CREATE)
    fields: tuple[FieldChange, ...] = field_changes(live, would_be)
    return PlannedChange(ref, PlannedAction.UPDATE, fields) if fields else None


def _depends_on_bundle(
    error: TowlineError, plan: BundlePlan, spec: BundleSpec, manifest: ObjectManifest
) -> bool:
    """Reports whether an object fails only because its kind or namespace does not exist yet."""
    ref = manifest.ref
    if isinstance(error, UnknownApi):
        return (ref.group, ref.kind) in plan.defines
    namespace = ("", "Namespace", "", ref.namespace)
    is_created = namespace in plan.manifests or (
        spec.options.create_namespace and ref.namespace == spec.namespace
    )
    return is_created and isinstance(error, RequestRefused) and error.status == 404
