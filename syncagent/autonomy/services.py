"""Services that the cluster defines itself: reading, rendering, applying, and reporting to the
control plane.
Unreadable places change nothing. A service is removed only if all places were read completely, none
is without any document, and none defines the service.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import structlog

from core.errors import TowlineError, reason_of
from core.identity import is_local_id, local_id
from core.spec.desired import BundleSpec, Desired
from core.spec.reports.local_services import LocalServiceReport
from core.spec.sync import Removal
from syncagent.autonomy.definitions import DefinitionReader, ParsedDefinitions
from syncagent.domain.local_services import Document, ServiceDefinition
from syncagent.ports import (
    INTERNAL_ERROR,
    BundleStore,
    DefinitionSource,
    FollowedRepositories,
    LocalRender,
    LocalRenders,
    LocalServiceReports,
    StateStore,
)

log = structlog.get_logger(__name__)

_READ_EVERY_S = 15.0
_UNDEFINED = (
    "is no longer defined, but a place of services holds no document at all: kept. To remove the "
    "service, leave an empty document there"
)
_UNREAD = "is not defined in the readable documents, and kept unchanged: {}"
_NAMED = 5


@dataclass(frozen=True, slots=True)
class LocalServicePorts:
    """The ports of local services; `desire` passes desired state to the engine."""

    renders: LocalRenders
    desire: Callable[[Desired], None]
    bundles: BundleStore
    memory: StateStore
    reports: LocalServiceReports
    repositories: FollowedRepositories | None = None


class LocalServices:
    """Syncs all places every 15 s, on news from a repository, and on request.
    `place` returns the permanent identity of the cluster (the uid of kube-system), so that ids
    survive a lost disk. `local` is the display name of folders that are in no repository.
    """

    def __init__(
        self,
        sources: Sequence[DefinitionSource],
        local: str,
        cluster_uid: Callable[[], Awaitable[str]],
        ports: LocalServicePorts,
    ) -> None:
        self._sources = sources
        self._reader = DefinitionReader()
        self._local = local
        self._cluster_uid = cluster_uid
        self._cluster = ""
        self._renders = ports.renders
        self._repositories = ports.repositories
        self._desire = ports.desire
        self._bundles = ports.bundles
        self._reports = ports.reports
        self._wake = asyncio.Event()
        self._refresh_requested = False
        self._problems: tuple[str, ...] = ()
        self._reported: dict[str, LocalServiceReport] = {}
        self._stored = {
            stored.desired.service_id: stored.desired
            for stored in ports.memory.load_services()
            if is_local_id(stored.desired.service_id)
        }

    def refresh(self) -> None:
        """Fetches from git servers and syncs now."""
        self._refresh_requested = True
        self._wake.set()

    def report_all(self) -> None:
        """Reports all services again."""
        self._reported.clear()
        self._wake.set()

    @property
    def problem(self) -> str:
        """Problems of the latest read; empty: none."""
        if not self._problems:
            return ""
        more = len(self._problems) - _NAMED
        named = "; ".join(self._problems[:_NAMED]) + (f" and {more} more" if more > 0 else "")
        return f"services cannot be read: {named}"

    async def run(self) -> None:
        """Keeps the desired state equal to the definitions until cancelled."""
        try:
            if self._repositories is not None:
                await self._repositories.start(self._wake.set)
            while True:
                await self._run_once()
        finally:
            if self._repositories is not None:
                await self._repositories.stop()

    async def read_and_render(self) -> None:
        """Reads all places and applies their definitions. Unavailable: the cluster has no
        identity.
        """
        self._cluster = self._cluster or await self._cluster_uid()
        read = await self._read_definitions()
        problems = (*read.unread, *read.problems)
        if problems != self._problems:
            log.error("services cannot be read", problems=problems)
            self._problems = problems
        for definition in read.services:
            await self._render_definition(definition)
        self._drop_missing(read)

    async def _run_once(self) -> None:
        try:
            if self._refresh_requested and self._repositories is not None:
                await self._repositories.refresh()
            self._refresh_requested = False
            await self.read_and_render()
        except TowlineError as error:
            log.error("services of this cluster cannot be synced", error=error.message)
        except Exception:
            log.exception("services of this cluster cannot be synced")
        await self._wait_for_changes()

    async def _wait_for_changes(self) -> None:
        try:
            async with asyncio.timeout(_READ_EVERY_S):
                await self._wake.wait()
        except TimeoutError:
            pass
        self._wake.clear()

    async def _read_definitions(self) -> ParsedDefinitions:
        documents: list[Document] = []
        unread: list[str] = []
        has_empty_source = False
        for source in self._sources:
            try:
                found = await source.documents()
                has_empty_source = has_empty_source or not found
                documents += found
            except TowlineError as error:
                unread.append(error.message)
        read = self._reader.read(documents)
        return replace(read, has_empty_source=has_empty_source, unread=tuple(unread))

    async def _render_definition(self, definition: ServiceDefinition) -> None:
        service_id = local_id(self._cluster, definition.name)
        stored = self._stored.get(service_id)
        try:
            rendered = await self._renders.render(definition)
            if not self._bundles.has(rendered.digest):
                await self._bundles.save(rendered.digest, await rendered.load())
        except TowlineError as error:
            self._report_definition(
                definition, service_id, stored, error=error.message, reason=reason_of(error)
            )
            return
        except Exception:
            log.exception("service cannot be rendered", service=definition.name)
            self._report_definition(definition, service_id, stored, error=INTERNAL_ERROR)
            return
        spec = _spec(definition, rendered, stored)
        if stored is None or stored.spec != spec:
            stored = Desired(service_id, (stored.sequence if stored else 0) + 1, spec)
            self._report_definition(definition, service_id, stored, rendered)
            self._desire(stored)
            self._stored[service_id] = stored
        else:
            self._report_definition(definition, service_id, stored, rendered)

    def _drop_missing(self, read: ParsedDefinitions) -> None:
        if read.unread:
            return
        defined = {local_id(self._cluster, definition.name) for definition in read.services}
        for service_id, stored in list(self._stored.items()):
            if service_id in defined or stored.spec is None:
                continue
            if read.problems or read.has_empty_source:
                named = "; ".join(read.problems[:_NAMED])
                reason = _UNREAD.format(named) if read.problems else _UNDEFINED
                self._keep_without_definition(stored, stored.spec, reason)
                continue
            gone = Desired(service_id, stored.sequence + 1, removal=Removal.CASCADE)
            self._desire(gone)
            self._stored[service_id] = gone
            self._report_if_changed(
                LocalServiceReport(
                    service_id, stored.spec.name, stored.spec.namespace, removed=True
                )
            )

    def _keep_without_definition(self, stored: Desired, spec: BundleSpec, reason: str) -> None:
        """Keeps an undefined service: a wrong mount or a lost label must not remove all
        services.
        """
        last = self._reported.get(stored.service_id) or LocalServiceReport(
            stored.service_id,
            spec.name,
            spec.namespace,
            repository=self._local,
            commit=spec.commit,
            digest=spec.digest,
            sequence=stored.sequence,
        )
        if last.error != reason:
            log.error("service is no longer defined; kept", service=spec.name, reason=reason)
        self._report_if_changed(replace(last, error=reason, reason=""))

    def _report_definition(
        self,
        definition: ServiceDefinition,
        service_id: str,
        stored: Desired | None,
        rendered: LocalRender | None = None,
        error: str = "",
        reason: str = "",
    ) -> None:
        """Reports a service to the control plane if anything changed."""
        spec = stored.spec if stored else None
        commit = spec.commit if spec else ""
        self._report_if_changed(
            LocalServiceReport(
                service_id,
                definition.name,
                definition.namespace,
                repository=definition.repository or self._local,
                ref=definition.ref if definition.repository else "",
                folder=definition.folder,
                commit=commit,
                digest=spec.digest if spec else "",
                sequence=stored.sequence if stored else 0,
                error=error,
                reason=reason,
                committed_at=self._committed_at(service_id, commit, rendered),
            )
        )

    def _committed_at(
        self, service_id: str, commit: str, rendered: LocalRender | None
    ) -> datetime | None:
        """Returns the time of a service's commit: newer commits may have rendered the same."""
        if rendered is not None and rendered.commit == commit:
            return rendered.committed_at
        last = self._reported.get(service_id)
        return last.committed_at if last is not None and last.commit == commit else None

    def _report_if_changed(self, report: LocalServiceReport) -> None:
        if self._reported.get(report.service_id) != report:
            self._reports.mirror(report)
            self._reported[report.service_id] = report


def _spec(
    definition: ServiceDefinition, rendered: LocalRender, stored: Desired | None
) -> BundleSpec:
    """Builds the present spec; returns the old one if only the commit is newer."""
    spec = BundleSpec(
        definition.name,
        definition.namespace,
        rendered.digest,
        rendered.size,
        definition.options,
        rendered.commit,
        dry_run=definition.dry_run,
        paused=definition.paused,
    )
    before = stored.spec if stored else None
    same = before is not None and replace(before, commit=spec.commit) == spec
    return before if before is not None and same else spec
