"""Services of the cluster's own: read, rendered, desired, and shown to the control plane.

Whatever is unreadable changes nothing: a service goes only when its folder could be read as a
whole and no longer defines it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import structlog

from fleet.errors import TowlineError
from fleet.identity import is_local_id, local_id
from fleet.runtime.clock import Clock
from syncagent.autonomy.definitions import Definitions, read_definitions
from syncagent.domain.mirrors import Definition, Mirror
from syncagent.domain.services import Desired, Removal, ServiceSpec
from syncagent.ports import Bundles, Memory, MirrorReports, Renders

log = structlog.get_logger(__name__)

_EVERY_S = 15.0


class LocalServices:
    """Looks at the folder every 15 s, and at once when asked.

    `place` tells what names the cluster for ever (the uid of kube-system), so that ids stay the
    same after a lost disk.
    """

    def __init__(
        self,
        folder: Path,
        place: Callable[[], Awaitable[str]],
        renders: Renders,
        desire: Callable[[Desired], None],
        bundles: Bundles,
        memory: Memory,
        reports: MirrorReports,
        clock: Clock,
    ) -> None:
        self._folder = folder
        self._place = place
        self._cluster = ""
        self._renders = renders
        self._desire = desire
        self._bundles = bundles
        self._reports = reports
        self._clock = clock
        self._wake = asyncio.Event()
        self._mirrors: dict[str, Mirror] = {}
        self._known = {
            one.desired.service_id: one.desired
            for one in memory.services()
            if is_local_id(one.desired.service_id)
        }

    def refresh(self) -> None:
        """Look now."""
        self._wake.set()

    async def run(self) -> None:
        """Keep what the folder defines desired, for ever."""
        while True:
            try:
                await self.look()
            except TowlineError as error:
                log.error("services of this cluster cannot be read", error=error.message)
            await self._pause()

    async def look(self) -> None:
        """Read the folder and desire what it defines. Invalid: it cannot be read."""
        self._cluster = self._cluster or await self._place()
        read = await asyncio.to_thread(read_definitions, self._folder)
        for problem in read.problems:
            log.error("service cannot be read", problem=problem)
        for one in read.services:
            await self._keep(one)
        self._drop_missing(read)

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(_EVERY_S):
                await self._wake.wait()
        except TimeoutError:
            pass
        self._wake.clear()

    async def _keep(self, one: Definition) -> None:
        service_id = local_id(self._cluster, one.name)
        known = self._known.get(service_id)
        try:
            rendered = await self._renders.render(one)
            bundle = rendered.bundle
            size = len(bundle.data)
            spec = ServiceSpec(
                one.name, one.namespace, bundle.digest, size, one.options, rendered.commit
            )
            if not self._bundles.has(bundle.digest):
                await self._bundles.save(bundle.digest, bundle.data)
        except TowlineError as error:
            self._show(one, service_id, known, error=error.message)
            return
        if known is None or known.spec != spec:
            known = Desired(service_id, (known.sequence if known else 0) + 1, spec)
            self._show(one, service_id, known)
            self._desire(known)
            self._known[service_id] = known
        else:
            self._show(one, service_id, known)

    def _drop_missing(self, read: Definitions) -> None:
        if read.problems:
            return
        defined = {local_id(self._cluster, one.name) for one in read.services}
        for service_id, known in list(self._known.items()):
            if service_id in defined or known.spec is None:
                continue
            gone = Desired(service_id, known.sequence + 1, removal=Removal.CASCADE)
            self._desire(gone)
            self._known[service_id] = gone
            self._tell(Mirror(service_id, known.spec.name, known.spec.namespace, removed=True))

    def _show(
        self, one: Definition, service_id: str, known: Desired | None, error: str = ""
    ) -> None:
        """Let the control plane know, if that is news."""
        spec = known.spec if known else None
        self._tell(
            Mirror(
                service_id,
                one.name,
                one.namespace,
                repository=one.repository or f"file://{self._folder}",
                ref=one.ref if one.repository else "",
                folder=one.folder,
                commit=spec.commit if spec else "",
                digest=spec.digest if spec else "",
                sequence=known.sequence if known else 0,
                error=error,
            )
        )

    def _tell(self, mirror: Mirror) -> None:
        if self._mirrors.get(mirror.service_id) != mirror:
            self._reports.mirror(mirror)
            self._mirrors[mirror.service_id] = mirror
