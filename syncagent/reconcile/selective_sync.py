"""Sync of selected objects of a service: without its hooks, and without all other objects.

The state of the sync of the whole service stays: its failures, pending deletions, stages and times.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from core.errors import Invalid
from core.spec.desired import BundleSpec
from core.spec.objects import ObjectRef
from core.spec.status import Problem
from core.spec.sync import ObjectSelection
from syncagent.domain.observed.inventory import OwnedObject
from syncagent.domain.ownership import ObjectManifest
from syncagent.reconcile.applier import ManifestApplier
from syncagent.reconcile.bundle_plan import BundlePlan, plan_bundle
from syncagent.reconcile.context import ReconcileContext
from syncagent.reconcile.prune import DeletionTerms, delete_objects
from syncagent.reconcile.registry import ServiceState
from syncagent.reconcile.sync_steps import load_or_fetch


@dataclass(frozen=True, slots=True)
class _SelectedObjects:
    """The selected manifests of a bundle, and the selected objects that it no longer contains."""

    manifests: list[ObjectManifest]
    deleted: list[OwnedObject]


async def sync_objects(
    context: ReconcileContext, service: ServiceState, selection: ObjectSelection
) -> tuple[Problem, ...]:
    """Applies the selected objects of the desired bundle, and prunes those that it no longer
    contains. Returns the problems of objects. Invalid: the selection is refused as a whole.
    LinkDown, NotFound, Unavailable.
    """
    spec = _spec_to_sync(service)
    await context.require_cluster()
    context.inputs.check(service.desired)
    data = await load_or_fetch(context, spec)
    plan = await plan_bundle(context.cluster, service.desired, data, context.fence)
    if plan.problems:
        raise Invalid(f"the bundle is refused: {plan.problems[0].message}")
    selected = _divide_selection(context, service, plan, selection)
    failures, awaiting = service.failures, service.awaiting
    service.failures = {}
    try:
        await _apply_manifests(context, service, plan, spec, selected.manifests)
        unconfirmed = await _prune_objects(context, service, spec, selected.deleted)
        return (*service.failures.values(), *map(_unconfirmed_problem, unconfirmed))
    finally:
        service.failures, service.awaiting = failures, awaiting


def _spec_to_sync(service: ServiceState) -> BundleSpec:
    """Returns the spec to sync to. Raises Invalid if no single object may be written now."""
    spec = service.desired.spec
    if spec is None:
        raise Invalid("the service is being removed")
    if spec.paused or spec.dry_run:
        raise Invalid("the service is paused" if spec.paused else "the service is a dry run")
    if service.current is None:
        raise Invalid("nothing of the service has been applied yet: sync the whole service first")
    return spec


def _divide_selection(
    context: ReconcileContext, service: ServiceState, plan: BundlePlan, selection: ObjectSelection
) -> _SelectedObjects:
    """Divides the selection. Raises Invalid for an object that cannot be synced by itself."""
    keys = {ref.key: ref for ref in selection.objects}
    for reason in _reasons_to_refuse(context, service, plan, selection):
        raise Invalid(reason)
    manifests = [plan.manifests[key] for key in keys if key in plan.manifests]
    return _SelectedObjects(
        manifests, [service.owned[key] for key in keys if key not in plan.manifests]
    )


def _reasons_to_refuse(
    context: ReconcileContext, service: ServiceState, plan: BundlePlan, selection: ObjectSelection
) -> Iterator[str]:
    hooks = {hook.ref.key for hook in plan.hooks}
    for ref in selection.objects:
        if ref.key in plan.manifests:
            if text := context.registry.conflicting_owner(service, ref):
                yield text
        elif ref.key in hooks:
            yield f"{ref} is a hook; only a sync of the whole service runs hooks"
        elif ref.key not in service.owned:
            yield f"{ref} is no object of the service"
        elif not selection.prune:
            yield f"{ref} is no longer in the manifests; sync it with prune to delete it"


async def _apply_manifests(
    context: ReconcileContext,
    service: ServiceState,
    plan: BundlePlan,
    spec: BundleSpec,
    manifests: list[ObjectManifest],
) -> None:
    """Applies manifests, and stores before any write which of them may be created."""
    assert service.current is not None
    created = [manifest.ref for manifest in manifests if manifest.key not in service.owned]
    if created:
        context.memory.save_apply_intent(service.current, created)
    for ref in created:
        context.registry.add(service, OwnedObject.intended(service.id, ref))
    await ManifestApplier(context, service, plan, service.desired, spec).write(manifests)
    context.memory.save_objects(service.owned[manifest.key] for manifest in manifests)


async def _prune_objects(
    context: ReconcileContext, service: ServiceState, spec: BundleSpec, deleted: list[OwnedObject]
) -> tuple[ObjectRef, ...]:
    """Deletes objects on the terms of a whole sync; returns those that need a confirmation."""
    options, confirmed = spec.options, service.desired.agreed
    terms = DeletionTerms(options.keep_on_prune, True, confirmed, options.deletion_budget)
    return await delete_objects(context, service, deleted, terms)


def _unconfirmed_problem(ref: ObjectRef) -> Problem:
    text = f"the deletion of {ref} needs a confirmation; a sync of the whole service asks for it"
    return Problem(text, reason="Unconfirmed", ref=ref)
