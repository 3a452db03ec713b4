"""Writing manifests into the cluster, wave by wave; what fails, fails alone."""

import asyncio
from dataclasses import dataclass

import structlog

from fleet.errors import TowlineError, Unavailable
from syncagent.domain.drift import live_digest
from syncagent.domain.objects import KubeObject, ObjectRef, resource_version
from syncagent.domain.ownership import Manifest
from syncagent.domain.services import Problem, ServiceSpec, SyncOptions
from syncagent.domain.waves import in_waves
from syncagent.ports import Refused, UnknownApi
from syncagent.reconcile.manifests import Plan
from syncagent.reconcile.registry import Service
from syncagent.reconcile.tools import Tools

log = structlog.get_logger(__name__)

# After so many objects in one go got no answer, the others are not tried.
_UNANSWERED_LIMIT = 3
# A new kind is served about a second after its definition; waits between looks, seconds.
_ESTABLISHING_S = (0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 2.0, 2.0, 4.0, 8.0, 10.0)
_TOGETHER = 64
HEALS_KEPT = 15


@dataclass(slots=True)
class Writer:
    """One pass over the manifests of a service."""

    tools: Tools
    service: Service
    plan: Plan
    spec: ServiceSpec
    unanswered: int = 0

    async def write(self, manifests: list[Manifest]) -> None:
        """Apply all; failures are noted on the service."""
        for wave in in_waves(manifests):
            for start in range(0, len(wave), _TOGETHER):
                part = wave[start : start + _TOGETHER]
                await asyncio.gather(*(self._one(manifest) for manifest in part))

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
            text = "internal error of the agent; see its log"
            self.service.failures[manifest.key] = Problem(text, "Internal", manifest.ref)

    async def _apply(self, manifest: Manifest) -> None:
        live = await self._send(manifest)
        if not self.spec.options.dry_run:
            self.service.written += adopt(self.tools, self.service, manifest, live)

    async def _send(self, manifest: Manifest) -> KubeObject:
        kind = (manifest.ref.group, manifest.ref.kind)
        for wait in _ESTABLISHING_S if kind in self.plan.defines else ():
            try:
                return await send(self.tools, self.spec.options, manifest)
            except UnknownApi:
                await self.tools.clock.sleep(wait)
        return await send(self.tools, self.spec.options, manifest)


async def send(tools: Tools, options: SyncOptions, manifest: Manifest) -> KubeObject:
    """Server-side apply of one manifest; the live object."""
    return await tools.cluster.apply(
        manifest.ref, manifest.body, force=options.force, dry_run=options.dry_run
    )


def adopt(tools: Tools, service: Service, manifest: Manifest, live: KubeObject) -> bool:
    """Note what an apply has led to; whether it changed the object."""
    one = service.owned[manifest.key]
    changed = resource_version(live) != one.version or not one.uid
    if changed and one.applied == manifest.digest:
        one.heals = (*one.heals[-HEALS_KEPT:], tools.clock.monotonic())
    one.ref = manifest.ref
    one.observe(live)
    one.applied = manifest.digest
    one.live = live_digest(manifest.body, live)
    one.synced, one.doubtful, one.leaving = True, False, False
    tools.registry.identify(one)
    tools.watch(one.ref)
    return changed


def problem_of(error: TowlineError, ref: ObjectRef | None) -> Problem:
    """A failure as people read it."""
    if isinstance(error, Refused):
        return Problem(error.message, error.reason, ref)
    if isinstance(error, UnknownApi):
        return Problem(error.message, "UnknownKind", ref)
    return Problem(error.message, str(error.code), ref)
