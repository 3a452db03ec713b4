"""Writing manifests into the cluster, kind by kind; what fails, fails alone."""

import asyncio
import re
from collections import defaultdict
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass, field
from typing import Any

import structlog

from fleet.errors import TowlineError, Unavailable
from syncagent.domain.adoption import former_tools, handed_over, relinquished
from syncagent.domain.deletion import is_precious
from syncagent.domain.directives import Leave, directives_of
from syncagent.domain.leaving import given_up, kept
from syncagent.domain.objects import KubeObject, ObjectRef, metadata_of
from syncagent.domain.ownership import Manifest
from syncagent.domain.services import Problem, ServiceSpec, SyncOptions
from syncagent.domain.waves import in_waves
from syncagent.ports import Refused, UnknownApi
from syncagent.reconcile import sealed
from syncagent.reconcile.manifests import Plan
from syncagent.reconcile.registry import Service
from syncagent.reconcile.tools import Tools

log = structlog.get_logger(__name__)

# Objects of one API group that are under way at once; of how many are sent the client decides.
_AT_ONCE = 32
# After so many objects in one go got no answer, the others are not tried.
_UNANSWERED_LIMIT = 3
# A new kind is served about a second after its definition; waits between looks, seconds.
_ESTABLISHING_S = (0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 2.0, 2.0, 4.0, 8.0, 10.0)
_GOING_S = (0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 2.0, 4.0, 8.0, 15.0)
_IMMUTABLE = re.compile(
    r"immutable|updates to \w+ spec for fields other than|may not (be )?change|cannot be changed"
    r"|not be updated|forbidden: spec is immutable",
    re.IGNORECASE,
)
HEALS_KEPT = 15
# What people are told of a fault of our own.
INTERNAL = "internal error of the agent; see its log"


@dataclass(slots=True)
class Writer:
    """One pass over the manifests of a service; `unserved` are kinds waited for in vain."""

    tools: Tools
    service: Service
    plan: Plan
    spec: ServiceSpec
    unanswered: int = 0
    unserved: set[tuple[str, str]] = field(default_factory=set)

    async def write(self, manifests: list[Manifest]) -> None:
        """Apply all; failures are noted on the service."""
        for wave in in_waves(manifests):
            groups: dict[str, list[Manifest]] = defaultdict(list)
            for manifest in wave:
                groups[manifest.ref.group].append(manifest)
            await asyncio.gather(*(one for part in groups.values() for one in self._workers(part)))
        self._watch(manifests)

    def _watch(self, manifests: list[Manifest]) -> None:
        """Nobody looks at what is seen during a walk: one list after it costs less than to be told
        of each of our own writes."""
        for manifest in manifests:
            if (one := self.service.owned[manifest.key]).uid:
                self.tools.watch(one.ref)

    def _workers(self, manifests: list[Manifest]) -> list[Coroutine[Any, Any, None]]:
        """Some for each API group: a slow one holds up no other, and thousands of objects that
        wait for their turn take no memory."""
        todo = iter(manifests)
        return [self._work(todo) for _ in range(min(_AT_ONCE, len(manifests)))]

    async def _work(self, todo: Iterator[Manifest]) -> None:
        for manifest in todo:
            await self._one(manifest)

    async def _one(self, manifest: Manifest) -> None:
        try:
            if self.unanswered >= _UNANSWERED_LIMIT:
                raise Unavailable("not tried: the API server does not answer")
            await self._apply(manifest)
            self.service.failures.pop(manifest.key, None)
        except TowlineError as error:
            self.unanswered += isinstance(error, Unavailable)
            if isinstance(error, Refused) and error.status == 404:
                # Its namespace has gone: it is made anew next time.
                self.tools.registry.namespaces.clear()
            self.service.failures[manifest.key] = problem_of(error, manifest.ref)
        except Exception:
            log.exception("object cannot be applied", object=str(manifest.ref))
            self.service.failures[manifest.key] = Problem(INTERNAL, "Internal", manifest.ref)

    async def _apply(self, manifest: Manifest) -> None:
        known = self.service.owned[manifest.key].uid
        live = await self._send(manifest)
        if not known:
            live = await self._take_over(manifest, live)
        self.service.written += note(self.tools, self.service, manifest, live)

    async def _send(self, manifest: Manifest) -> KubeObject:
        try:
            return await self._when_served(manifest)
        except Refused as error:
            if not is_immutable(error):
                raise
            if not (self.spec.options.replace_immutable or manifest.directives.replace):
                raise _cannot_change(error) from error
            return await self._replace(manifest)

    async def _when_served(self, manifest: Manifest) -> KubeObject:
        kind = (manifest.ref.group, manifest.ref.kind)
        waits = kind in self.plan.defines and kind not in self.unserved
        for wait in _ESTABLISHING_S if waits else ():
            try:
                return await send(self.tools, self.spec.options, manifest)
            except UnknownApi:
                await self.tools.clock.sleep(wait)
        try:
            return await send(self.tools, self.spec.options, manifest)
        except UnknownApi:
            self.unserved.add(kind)
            raise

    async def _replace(self, manifest: Manifest) -> KubeObject:
        """Delete and make anew. The pods of a stateful set stay and are taken over."""
        ref, live = manifest.ref, await self.tools.cluster.get(manifest.ref)
        stateful = ref.kind == "StatefulSet"
        if is_precious(ref) and not stateful and not self._is_agreed(ref, live):
            self.service.awaiting = (*self.service.awaiting, ref)
            raise Refused(
                "must be deleted to be changed, and with it its content: confirm the deletion",
                status=409,
                reason="Unconfirmed",
            )
        if live is not None:
            await self.tools.cluster.delete(ref, live, orphan=stateful)
            await until_gone(self.tools, ref, metadata_of(live).get("uid") or "")
        return await self._when_served(manifest)

    def _is_agreed(self, ref: ObjectRef, live: KubeObject | None) -> bool:
        """Whether a person has agreed that an object goes, to us or by a word on it."""
        confirmed = any(one.key == ref.key for one in self.spec.options.confirmed)
        return confirmed or live is None or directives_of(live).prune == Leave.AGREED

    async def _take_over(self, manifest: Manifest, live: KubeObject) -> KubeObject:
        """Make what another tool applied wholly ours; a new object is nobody else's."""
        entries = handed_over(live)
        if entries is None:
            return live
        tools = former_tools(live)
        live = await self.tools.cluster.assign(manifest.ref, live, entries)
        live = await send(self.tools, self.spec.options, manifest)
        for tool in tools:
            self.service.adopted[tool] = self.service.adopted.get(tool, 0) + 1
        text = f"taken over from {', '.join(tools)} by service {self.spec.name}"
        uid = metadata_of(live).get("uid") or ""
        self.tools.notices.add(manifest.ref, uid, "Adopted", text, warns=False)
        log.info("object adopted", object=str(manifest.ref), tools=tools)
        return live


async def send(tools: Tools, options: SyncOptions, manifest: Manifest) -> KubeObject:
    """Server-side apply of one manifest; the live object. Refused, UnknownApi, Unavailable."""
    ref, force = manifest.ref, options.force
    if not manifest.left:
        return await sealed.apply(tools, manifest, manifest.body, force=force)
    before = await tools.cluster.get(ref)
    live = before or await sealed.apply(tools, manifest, manifest.body, force=force)
    entries = relinquished(live, given_up(manifest, live))
    if entries is not None:
        live = await tools.cluster.assign(ref, live, entries)
    if before is None:
        return live
    return await sealed.apply(tools, manifest, kept(manifest, live), force=force)


async def until_gone(tools: Tools, ref: ObjectRef, uid: str) -> None:
    """Wait until an object has really gone. Unavailable: something holds it."""
    for wait in _GOING_S:
        live = await tools.cluster.get(ref)
        if live is None or metadata_of(live).get("uid") != uid:
            return
        await tools.clock.sleep(wait)
    held_by = ", ".join(metadata_of(live).get("finalizers") or ()) or "its own grace period"
    raise Unavailable(f"{ref} is being deleted, held by {held_by}")


def note(tools: Tools, service: Service, manifest: Manifest, live: KubeObject) -> bool:
    """Note what an apply has led to; whether it changed the object."""
    one = service.owned[manifest.key]
    known, version = one.uid, one.version
    one.ref = manifest.ref
    one.observe(live, service.rules)
    changed = one.version != version or not known
    if changed and one.applied == manifest.digest:
        one.heals = (*one.heals[-HEALS_KEPT:], tools.clock.monotonic())
    tools.evidence.suspect(service, one)
    one.applied = manifest.digest
    one.live = sealed.live_state(tools, manifest, live)
    one.synced, one.doubtful, one.leaving = True, False, False
    tools.registry.identify(one)
    return changed


def is_immutable(error: Refused) -> bool:
    """Whether the API server refuses because a field cannot be changed in place."""
    return error.status == 422 and _IMMUTABLE.search(error.message) is not None


def problem_of(error: TowlineError, ref: ObjectRef | None) -> Problem:
    """A failure as people read it."""
    if isinstance(error, Refused):
        return Problem(error.message + _advice(error), error.reason, ref)
    if isinstance(error, UnknownApi):
        return Problem(error.message, "UnknownKind", ref)
    return Problem(error.message, str(error.code), ref)


def _advice(error: Refused) -> str:
    if error.reason == "Conflict" and "conflict with" in error.message:
        return "; let this service take the fields over, or leave them to that manager"
    return ""


def _cannot_change(error: Refused) -> Refused:
    text = f"{error.message}; to delete and create it anew, annotate it towline.dev/replace: true"
    return Refused(text, status=error.status, reason="Immutable")
