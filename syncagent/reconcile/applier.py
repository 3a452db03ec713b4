"""Applies manifests kind by kind; a failure affects only its own object."""

import asyncio
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import structlog

from core.errors import Code, TowlineError, Unavailable
from core.runtime.tasks import Work
from core.spec.desired import BundleSpec, Desired
from core.spec.objects import ObjectRef
from core.spec.status import Problem
from core.spec.sync import SyncOptions
from syncagent.domain.adoption import former_tools, with_adopted_fields, without_own_fields
from syncagent.domain.deletion import is_protected
from syncagent.domain.directives import DeletionPolicy, directives_of
from syncagent.domain.ignored_differences import ignored_fields, owned_part
from syncagent.domain.objects import KubeObject, metadata_of
from syncagent.domain.ownership import ObjectManifest
from syncagent.domain.waves import in_waves
from syncagent.ports import INTERNAL_ERROR, RequestRefused, UnknownApi
from syncagent.reconcile import sealed
from syncagent.reconcile.bundle_plan import BundlePlan
from syncagent.reconcile.context import ReconcileContext
from syncagent.reconcile.registry import ServiceState

log = structlog.get_logger(__name__)

# Maximum number of concurrent objects in one API group; the client limits the actual requests.
_MAX_CONCURRENT = 32
# After this number of unanswered requests in one pass, the other objects are not tried.
_UNANSWERED_LIMIT = 3
# A new kind is served about a second after its definition; waits between looks, seconds.
_ESTABLISHING_S = (0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 2.0, 2.0, 4.0, 8.0, 10.0)
_DELETION_POLL_S = (0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 2.0, 4.0, 8.0, 15.0)
_IMMUTABLE = re.compile(
    r"immutable|updates to \w+ spec for fields other than|may not (be )?change|cannot be changed"
    r"|not be updated|forbidden: spec is immutable",
    re.IGNORECASE,
)
HEALS_KEPT = 15
# Reasons of problems that say nothing about the objects: the cluster cannot be reached.
TRANSIENT_REASONS = frozenset({str(Code.UNAVAILABLE), "Unreachable"})


@dataclass(slots=True)
class ManifestApplier:
    """One pass over the manifests of a service; `unserved`: kinds that did not appear in time."""

    context: ReconcileContext
    service: ServiceState
    plan: BundlePlan
    target: Desired
    spec: BundleSpec
    unanswered: int = 0
    unserved: set[tuple[str, str]] = field(default_factory=set)

    async def write(self, manifests: list[ObjectManifest]) -> None:
        """Applies all manifests; records failures on the service."""
        for wave in in_waves(manifests):
            groups: dict[str, list[ObjectManifest]] = defaultdict(list)
            for manifest in wave:
                groups[manifest.ref.group].append(manifest)
            await asyncio.gather(
                *(worker for part in groups.values() for worker in self._workers_for(part))
            )
        self._watch_objects(manifests)

    def _watch_objects(self, manifests: list[ObjectManifest]) -> None:
        """Watches the objects after the sync: one list then costs less than an event for each of
        our writes.
        """
        for manifest in manifests:
            if (owned := self.service.owned[manifest.key]).uid:
                self.context.watch(owned.ref)

    def _workers_for(self, manifests: list[ObjectManifest]) -> list[Work[None]]:
        """Creates some workers for each API group: a slow group delays no other, and thousands of
        waiting objects take no memory.
        """
        queue = iter(manifests)
        return [self._apply_each(queue) for _ in range(min(_MAX_CONCURRENT, len(manifests)))]

    async def _apply_each(self, queue: Iterator[ObjectManifest]) -> None:
        for manifest in queue:
            await self._try_apply(manifest)

    async def _try_apply(self, manifest: ObjectManifest) -> None:
        try:
            if self.unanswered >= _UNANSWERED_LIMIT:
                raise Unavailable("not tried: the API server does not respond")
            await self._apply(manifest)
            self.service.failures.pop(manifest.key, None)
        except TowlineError as error:
            self.unanswered += isinstance(error, Unavailable)
            if isinstance(error, RequestRefused) and error.status == 404:
                # Its namespace is gone: the next pass creates it again.
                self.context.registry.namespaces.clear()
            self.service.failures[manifest.key] = problem_of(error, manifest.ref)
        except Exception:
            log.exception("object cannot be applied", object=str(manifest.ref))
            self.service.failures[manifest.key] = Problem(
                INTERNAL_ERROR, reason="Internal", ref=manifest.ref
            )

    async def _apply(self, manifest: ObjectManifest) -> None:
        known = self.service.owned[manifest.key].uid
        live = await self._apply_or_replace(manifest)
        if not known:
            live = await self._adopt(manifest, live)
        self.service.written += record_apply(self.context, self.service, manifest, live)

    async def _apply_or_replace(self, manifest: ObjectManifest) -> KubeObject:
        try:
            return await self._apply_once_served(manifest)
        except RequestRefused as error:
            if not is_immutable(error):
                raise
            if not (self.spec.options.replace_immutable or manifest.directives.replace):
                raise _immutable_problem(error) from error
            return await self._replace(manifest)

    async def _apply_once_served(self, manifest: ObjectManifest) -> KubeObject:
        kind = (manifest.ref.group, manifest.ref.kind)
        waits = kind in self.plan.defines and kind not in self.unserved
        for wait in _ESTABLISHING_S if waits else ():
            try:
                return await apply_manifest(self.context, self.spec.options, manifest)
            except UnknownApi:
                await self.context.clock.sleep(wait)
        try:
            return await apply_manifest(self.context, self.spec.options, manifest)
        except UnknownApi:
            self.unserved.add(kind)
            raise

    async def _replace(self, manifest: ObjectManifest) -> KubeObject:
        """Deletes and creates an object. The pods of a stateful set stay and are adopted."""
        ref, live = manifest.ref, await self.context.cluster.get(manifest.ref)
        stateful = ref.kind == "StatefulSet"
        if is_protected(ref) and not stateful and not self._is_deletion_confirmed(ref, live):
            self.service.awaiting = (*self.service.awaiting, ref)
            raise RequestRefused(
                "cannot be changed without deleting it and its content: confirm the deletion",
                status=409,
                reason="Unconfirmed",
            )
        if live is not None:
            await self.context.cluster.delete(ref, live, orphan=stateful)
            await until_gone(self.context, ref, metadata_of(live).get("uid") or "")
        return await self._apply_once_served(manifest)

    def _is_deletion_confirmed(self, ref: ObjectRef, live: KubeObject | None) -> bool:
        """Reports whether a person has confirmed the deletion of an object, or its annotation
        permits it.
        """
        confirmed = ref.key in self.target.agreed
        return confirmed or live is None or directives_of(live).prune == DeletionPolicy.AGREED

    async def _adopt(self, manifest: ObjectManifest, live: KubeObject) -> KubeObject:
        """Takes an object over from another tool; does nothing for a new object."""
        entries = with_adopted_fields(live)
        if entries is None:
            return live
        former = former_tools(live)
        live = await self.context.cluster.replace_managed_fields(manifest.ref, live, entries)
        live = await apply_manifest(self.context, self.spec.options, manifest)
        for tool in former:
            self.service.adopted[tool] = self.service.adopted.get(tool, 0) + 1
        text = f"taken over from {', '.join(former)} by service {self.spec.name}"
        uid = metadata_of(live).get("uid") or ""
        self.context.event_recorder.add(manifest.ref, uid, "Adopted", text, warns=False)
        log.info("object adopted", object=str(manifest.ref), former=former)
        return live


async def apply_manifest(
    context: ReconcileContext, options: SyncOptions, manifest: ObjectManifest
) -> KubeObject:
    """Applies one manifest server-side and returns the live object. Refused, UnknownApi,
    Unavailable.
    """
    ref, force = manifest.ref, not options.fail_on_conflict
    if not manifest.ignored:
        return await sealed.apply(context, manifest, manifest.body, force=force)
    before = await context.cluster.get(ref)
    live = before or await sealed.apply(context, manifest, manifest.body, force=force)
    entries = without_own_fields(live, ignored_fields(manifest, live))
    if entries is not None:
        live = await context.cluster.replace_managed_fields(ref, live, entries)
    if before is None:
        return live
    return await sealed.apply(context, manifest, owned_part(manifest, live), force=force)


async def until_gone(context: ReconcileContext, ref: ObjectRef, uid: str) -> None:
    """Waits until an object is gone. Unavailable: finalizers or a grace period hold it."""
    for wait in _DELETION_POLL_S:
        live = await context.cluster.get(ref)
        if live is None or metadata_of(live).get("uid") != uid:
            return
        await context.clock.sleep(wait)
    held_by = ", ".join(metadata_of(live).get("finalizers") or ()) or "its own grace period"
    raise Unavailable(f"{ref} is being deleted, held by {held_by}")


def record_apply(
    context: ReconcileContext, service: ServiceState, manifest: ObjectManifest, live: KubeObject
) -> bool:
    """Records the result of an apply; True if it changed the object."""
    owned = service.owned[manifest.key]
    known, version = owned.uid, owned.version
    owned.ref = manifest.ref
    owned.observe(live, service.rules)
    changed = owned.version != version or not known
    if changed and owned.applied == manifest.digest:
        owned.heals = (*owned.heals[-HEALS_KEPT:], context.clock.monotonic())
    context.diagnostics.schedule_event_check(service, owned)
    owned.applied = manifest.digest
    owned.live = sealed.live_state(context, manifest, live)
    owned.synced, owned.needs_apply, owned.leaving = True, False, False
    context.registry.identify(owned)
    return changed


def is_immutable(error: RequestRefused) -> bool:
    """Reports whether the API server refused the change of an immutable field."""
    return error.status == 422 and _IMMUTABLE.search(error.message) is not None


def problem_of(error: TowlineError, ref: ObjectRef | None) -> Problem:
    """Describes a failure for people."""
    if isinstance(error, RequestRefused):
        return Problem(error.message + _advice(error), reason=error.reason, ref=ref)
    if isinstance(error, UnknownApi):
        return Problem(error.message, reason="UnknownKind", ref=ref)
    return Problem(error.message, reason=str(error.code), ref=ref)


def _advice(error: RequestRefused) -> str:
    if error.reason == "Conflict" and "conflict with" in error.message:
        return "; set `failOnConflict: false` to take the fields over, or ignore these differences"
    if error.reason == "NotFound" and error.message.startswith("namespaces "):
        return (
            "; create it first: a service creates only its own namespace, in a fence only if "
            "`clusterScopedKinds` contains Namespace"
        )
    return ""


def _immutable_problem(error: RequestRefused) -> RequestRefused:
    text = (
        f"{error.message}; to delete and recreate it, add the annotation towline.dev/replace: true"
    )
    return RequestRefused(text, status=error.status, reason="Immutable")
