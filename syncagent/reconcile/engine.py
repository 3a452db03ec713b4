"""The agent's scheduler: takes desired state and observations, and decides what to do and when.
Each service has a queue key. Its work has a fixed order: sync the service if due, process
observations, then schedule a retry.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass

import structlog

from core.errors import Invalid, TowlineError, Unavailable
from core.identity import is_local_id
from core.runtime.backoff import Backoff
from core.runtime.clock import Clock
from core.runtime.tasks import Tasks
from core.runtime.work_queue import WorkQueue
from core.sealing import SealingKey
from core.spec.desired import Desired
from core.spec.objects import ObjectKey
from core.spec.reports.commands import CommandAnswer, CommandOutcome
from core.spec.status import Problem, StageTimes
from core.spec.sync import ObjectSelection
from syncagent.domain.events import Observation
from syncagent.ports import (
    INTERNAL_ERROR,
    BundleFetcher,
    BundleStore,
    DecryptionKeys,
    Fences,
    InputChecks,
    KubeApi,
    LinkDown,
    Metrics,
    ServiceReports,
    StateStore,
)
from syncagent.reconcile.applier import TRANSIENT_REASONS, problem_of
from syncagent.reconcile.context import ReconcileContext
from syncagent.reconcile.diagnostics import Diagnostics
from syncagent.reconcile.event_recorder import EventRecorder
from syncagent.reconcile.gates import SyncPaused, is_closed, is_waiting
from syncagent.reconcile.heal import process_observation
from syncagent.reconcile.hook_runner import terminate_sync
from syncagent.reconcile.masking import Masking
from syncagent.reconcile.observe.api_server_monitor import ApiServerMonitor
from syncagent.reconcile.observe.descendants import Descendants
from syncagent.reconcile.observe.watchers import Watchers
from syncagent.reconcile.recovery import recover
from syncagent.reconcile.registry import ServiceRegistry, ServiceState, SyncGate
from syncagent.reconcile.removal import remove_service, removed_status
from syncagent.reconcile.reporter import Reporter
from syncagent.reconcile.selective_sync import sync_objects
from syncagent.reconcile.sync_check import mark_changed_objects
from syncagent.reconcile.sync_steps import sync_service
from syncagent.reconcile.verifier import Verifier

log = structlog.get_logger(__name__)

_COLLECT_GARBAGE_EVERY_S = 600.0
_ANSWER_AGAIN_S = 5.0


@dataclass(frozen=True, slots=True)
class ReconcilePorts:
    """The ports of the engine. `metrics` are queried when bundles are verified."""

    cluster: KubeApi
    fences: Fences
    bundles: BundleStore
    fetcher: BundleFetcher
    memory: StateStore
    reports: ServiceReports
    inputs: InputChecks
    metrics: Metrics | None = None


class ReconcileEngine:
    """Brings all services of this cluster to their desired state and keeps them there.
    `key` opens values sealed to this agent; `identities` decrypts values from git. `max_syncs`:
    maximum number of services that are synced at the same time; heals do not count.
    """

    def __init__(
        self,
        ports: ReconcilePorts,
        clock: Clock,
        key: SealingKey,
        identities: DecryptionKeys,
        max_syncs: int = 16,
    ) -> None:
        self._tasks = Tasks("engine")
        cluster, memory, reports = ports.cluster, ports.memory, ports.reports
        self._memory = memory
        self._bundles = ports.bundles
        self._cluster = cluster
        self._reports = reports
        self._clock = clock
        self._registry = ServiceRegistry()
        self._api_server_monitor = ApiServerMonitor(cluster, clock, self._on_api_server_change)
        self._reporter = Reporter(self._registry, reports, memory, clock, self._api_server_monitor)
        masking = Masking(ports.bundles, key, identities)
        self._diagnostics = Diagnostics(
            cluster, self._registry, masking, self._tasks, clock, self._reporter.mark_changed
        )
        self._event_recorder = EventRecorder(cluster, clock)
        descendants = Descendants(
            cluster,
            self._registry,
            self._tasks,
            self._diagnostics,
            clock,
            self._reporter.mark_changed,
        )
        self._watchers = Watchers(
            cluster, self._registry, self._tasks, descendants, clock, self._on_observation
        )
        self._verifier = Verifier(
            cluster, self._registry, memory, reports, clock, self._roll_back, ports.metrics
        )
        self._queue = WorkQueue("service", self._process_service, self._tasks, clock)
        self._turn = asyncio.Semaphore(max_syncs)
        self._cluster_checked = asyncio.Event()
        self._fences = ports.fences
        self._context = ReconcileContext(
            cluster,
            None,
            ports.inputs,
            ports.bundles,
            ports.fetcher,
            memory,
            reports,
            self._registry,
            self._diagnostics,
            self._event_recorder,
            clock,
            key,
            identities,
            self._watchers.watch,
            self._reporter.mark_changed,
            self._require_cluster,
            self._sync_soon,
        )

    def start(self) -> None:
        """Loads the stored state and begins to reconcile, with or without the control plane.
        After a lost disk, the agent writes nothing before it has found its objects in the cluster.
        """
        self._registry.restore(self._memory.load_services(), self._memory.load_objects())
        for service in self._registry:
            service.quarantine_reason = self._verifier.quarantine_reason(service.desired)
        self._tasks.forever("reporter", self._reporter.run())
        self._tasks.forever("tidy", self._collect_garbage())
        self._tasks.forever("event_recorder", self._event_recorder.run())
        self._tasks.forever("reach", self._api_server_monitor.run())
        self._tasks.forever("verifier", self._verifier.run())
        if self._memory.fresh:
            self._registry.gap = "the objects of this cluster have not been listed yet"
            self._tasks.spawn("recover", self._recover())
        else:
            self._cluster_checked.set()
        self.resume()

    async def failed(self) -> BaseException:
        """Waits until a permanent task has ended, and returns its error."""
        return await self._tasks.wait_failed()

    async def stop(self) -> None:
        """Stops all work; unfinished work is on disk and continues after the next start."""
        await self._tasks.stop()

    def desire(self, desired: Desired) -> None:
        """Takes the newest desired state of a service; ignores older ones.
        Unavailable: it could not be stored and has no effect.
        """
        service = self._registry.get(desired.service_id)
        if service is None and desired.removal is not None and not self._registry.gap:
            self._reports.status(removed_status(ServiceState(desired)))
            return
        if service is not None and desired.sequence <= service.desired.sequence:
            return
        admitted, held = self._verifier.admit(desired)
        if service is None:
            service = ServiceState(admitted)
        self._store_desired(service, admitted)
        service.quarantine_reason = held

    def _roll_back(self, service: ServiceState, desired: Desired, reason: str) -> None:
        self._store_desired(service, desired)
        service.quarantine_reason = reason

    def _store_desired(self, service: ServiceState, desired: Desired) -> None:
        """Stores a desired state and starts to sync it."""
        stamps = StageTimes(received=self._context.clock.now())
        self._memory.save_desired_state(desired, stamps)
        self._registry.put(service)
        service.desired = desired
        service.stamps = stamps
        self._sync_soon(service)

    def stored_services(self) -> list[tuple[str, int]]:
        """Returns ids and sequences of the services with a stored desired state.
        Services known only from labels in the cluster are left out: their owner is unknown, so the
        control plane must not be asked to remove them.
        """
        return [
            (service.id, service.desired.sequence)
            for service in self._registry
            if service.desired.sequence
        ]

    def linked(self) -> None:
        """Handles a new connection: retries services that wait for bundles."""
        for service in self._registry:
            if service.current != service.desired:
                self._sync_soon(service)

    def report_all(self) -> None:
        """Reports status and inventory of every service again."""
        for service in self._registry:
            service.reported = None
            self._reporter.forget(service.id)

    def sync_now(
        self, command_id: str, service_id: str, selection: ObjectSelection | None = None
    ) -> None:
        """Syncs a service with the cluster, or only its selected objects; the command is executed
        once and answered at the end.
        """
        service = self._service_of_command(command_id, service_id)
        spec = service.desired.spec if service is not None else None
        if service is None or spec is None:
            return
        if spec.paused:
            self._answer(CommandAnswer(command_id, CommandOutcome.REFUSED, "the service is paused"))
        elif selection is not None:
            service.selections[command_id] = selection
            self._queue.add(service.id)
        elif command_id not in (*service.commands, *service.begun):
            service.retry_requested, service.stopped = True, 0
            service.commands.append(command_id)
            self._sync_soon(service)

    def terminate(self, command_id: str, service_id: str) -> None:
        """Terminates a sync and its running hooks; objects stay in their present state."""
        service = self._service_of_command(command_id, service_id)
        if service is not None and command_id not in (*service.commands, *service.begun):
            service.stopped = service.desired.sequence
            service.commands.append(command_id)
            self._sync_soon(service)

    def refuse(self, command_id: str, reason: str) -> None:
        """Answers a command that this agent does not support."""
        self._answer(CommandAnswer(command_id, CommandOutcome.REFUSED, reason))

    def _service_of_command(self, command_id: str, service_id: str) -> ServiceState | None:
        """Returns the service of a command; None: the command has been answered."""
        answer = self._memory.find_answer(command_id)
        service = self._registry.get(service_id)
        if answer is not None:
            self._reports.done(answer)
        elif service is not None and service.desired.spec is not None:
            return service
        else:
            self._answer(
                CommandAnswer(command_id, CommandOutcome.REFUSED, "the agent knows no such service")
            )
        return None

    def resume(self) -> None:
        """Watches and syncs all services: after the start, a recovery or a freeze."""
        for service in self._registry:
            for owned in service.owned.values():
                self._watchers.watch(owned.ref)
            self._sync_soon(service)

    async def _require_cluster(self) -> None:
        await self._cluster_checked.wait()
        if self._api_server_monitor.problem is not None:
            raise Unavailable(self._api_server_monitor.problem.message)
        if self._registry.gap:
            raise Unavailable(self._registry.gap)

    def _on_api_server_change(self) -> None:
        self._cluster_checked.set()
        for service in self._registry:
            self._reporter.mark_changed(service.id)
            if self._api_server_monitor.problem is None and service.due:
                self._sync_soon(service)

    def _sync_soon(self, service: ServiceState) -> None:
        service.retry_at = 0.0
        service.retry_requests += 1
        service.retry.reset()
        self._queue.add(service.id)

    def _on_observation(self, service: ServiceState, must_process: bool) -> None:
        self._reporter.mark_changed(service.id)
        if must_process:
            self._queue.add(service.id)

    async def _process_service(self, service_id: str) -> None:
        service = self._registry.get(service_id)
        if service is None:
            return
        retry_requests, asked = service.retry_requests, service.commands
        service.commands, service.begun = [], service.begun + asked
        if asked and service.stopped != service.desired.sequence:
            await self._mark_changed_objects(service)
        syncs = service.due and (asked or self._may_sync(service))
        if syncs:
            await self._sync(service)
        elif service.stopped == service.desired.sequence and asked:
            await self._terminate(service)
        self._answer_all(service)
        await self._sync_selections(service)
        wait = await self._process_inbox(service)
        if retry_requests == service.retry_requests:
            self._schedule_retry(service, wait)
        if syncs:
            self._record_failure_events(service)
            self._reporter.report_now(service_id)
        else:
            self._reporter.mark_changed(service_id)

    def _answer_all(self, service: ServiceState) -> None:
        """Answers commands after the end of the sync; retries later if the disk fails."""
        if is_waiting(service) and service.stopped != service.desired.sequence:
            return
        while service.begun:
            try:
                self._answer(_sync_result(service.begun[0], service))
            except Unavailable as error:
                log.error("a command's answer cannot be stored", reason=error.message)
                self._queue.add_after(service.id, _ANSWER_AGAIN_S)
                return
            del service.begun[0]

    async def _sync_selections(self, service: ServiceState) -> None:
        """Syncs the selected objects of each command, and answers it; retries only the answer if
        the disk fails.
        """
        for command_id, selection in list(service.selections.items()):
            if self._memory.find_answer(command_id) is None:
                answer = await self._sync_selection(service, command_id, selection)
                try:
                    self._answer(answer)
                except Unavailable as error:
                    log.error("a command's answer cannot be stored", reason=error.message)
                    self._queue.add_after(service.id, _ANSWER_AGAIN_S)
                    return
            del service.selections[command_id]

    async def _sync_selection(
        self, service: ServiceState, command_id: str, selection: ObjectSelection
    ) -> CommandAnswer:
        try:
            async with self._turn:
                problems = await sync_objects(self._fenced_context(service), service, selection)
        except Invalid as error:
            return CommandAnswer(command_id, CommandOutcome.REFUSED, error.message)
        except TowlineError as error:
            return CommandAnswer(command_id, CommandOutcome.FAILED, error.message)
        except Exception:
            log.exception("objects cannot be synced", service=service.id)
            return CommandAnswer(command_id, CommandOutcome.FAILED, INTERNAL_ERROR)
        text = "; ".join(problem.message for problem in problems)
        outcome = CommandOutcome.FAILED if problems else CommandOutcome.SUCCEEDED
        return CommandAnswer(command_id, outcome, text)

    def _may_sync(self, service: ServiceState) -> bool:
        now = self._clock.monotonic()
        return now >= service.retry_at and not is_closed(service, now)

    def _record_failure_events(self, service: ServiceState) -> None:
        """Writes failures as events on the object, or on its namespace."""
        spec = service.desired.spec
        for key, problem in service.failures.items():
            if problem.reason in TRANSIENT_REASONS or spec is None or problem.ref is None:
                continue
            owned = service.owned.get(key) if key else None
            text = f"service {spec.name}: {problem.message}"
            self._event_recorder.add(
                problem.ref, owned.uid if owned else "", problem.reason, text, warns=True
            )

    def _fenced_context(self, service: ServiceState) -> ReconcileContext:
        """Returns the context within the fence of a service. Invalid: this cluster has no such
        tenant.
        """
        if is_local_id(service.id):
            return self._context
        desired = service.desired
        if desired.spec is None and desired.fence is None:
            # The removal of a service that the control plane has forgotten names no fence.
            desired = service.current or desired
        spec = desired.spec or (service.current.spec if service.current else None)
        fenced = self._fences.within(desired.fence, spec.namespace if spec else "")
        return self._context.within(fenced.objects, fenced.fence)

    async def _mark_changed_objects(self, service: ServiceState) -> None:
        # The sync itself reports a fence that this cluster refuses.
        with suppress(Invalid):
            await mark_changed_objects(self._fenced_context(service), service)

    async def _sync(self, service: ServiceState) -> None:
        """Runs the steps of a sync; an error that ends it early becomes a failure of the whole
        service.
        """
        async with self._turn:
            target = service.desired
            service.busy_since = self._clock.monotonic()
            try:
                await (sync_service if target.spec else remove_service)(
                    self._fenced_context(service), service
                )
            except SyncPaused:
                log.debug("sync paused", service=service.id)
            except TowlineError as error:
                self._on_sync_error(service, error)
            except Exception:
                log.exception("service cannot be synced", service=service.id)
                service.failures[None] = Problem(INTERNAL_ERROR, reason="Internal")
            finally:
                service.busy = None

    async def _terminate(self, service: ServiceState) -> None:
        try:
            await terminate_sync(self._fenced_context(service), service)
        except TowlineError as error:
            self._on_sync_error(service, error)

    def _on_sync_error(self, service: ServiceState, error: TowlineError) -> None:
        if not isinstance(error, LinkDown):
            service.failures[None] = problem_of(error, None)
        if self._api_server_monitor.problem is None:
            log.warning("service waits", service=service.id, reason=error.message)

    async def _process_inbox(self, service: ServiceState) -> float:
        """Processes all observations; returns the seconds until the earliest retry, or 0."""
        soonest = 0.0
        while service.inbox:
            key = next(iter(service.inbox))
            wait = await self._process_observation(service, key, service.inbox.pop(key))
            if wait:
                soonest = min(soonest or wait, wait)
        return soonest

    async def _process_observation(
        self, service: ServiceState, key: ObjectKey, observation: Observation
    ) -> float:
        """Processes one observation; an error of one object must not affect the others."""
        try:
            return await process_observation(
                self._fenced_context(service), service, key, observation
            )
        except TowlineError as error:
            service.failures[key] = problem_of(error, None)
        except Exception:
            log.exception("object cannot be processed", service=service.id, object=key)
            service.failures[key] = Problem(INTERNAL_ERROR, reason="Internal")
        return service.retry.next()

    def _schedule_retry(self, service: ServiceState, wait: float) -> None:
        if not service.due:
            service.retry.reset()
            return
        if self._api_server_monitor.problem is not None:
            return
        now = self._clock.monotonic()
        if service.gate is not None and (service.gate.hooks or not service.failures):
            self._schedule_gate_check(service, service.gate, now)
            return
        if service.retry_at <= now:
            service.retry_at = now + (wait or service.retry.next())
        self._queue.add_after(service.id, service.retry_at - now)

    def _schedule_gate_check(self, service: ServiceState, gate: SyncGate, now: float) -> None:
        """Schedules the next check of a gate; hooks are polled."""
        if not is_closed(service, now):
            self._queue.add(service.id)
            return
        at = min(gate.until, gate.check_hooks_at) if gate.hooks else gate.until
        self._queue.add_after(service.id, max(0.0, at - now))

    def _answer(self, done: CommandAnswer) -> None:
        self._memory.save_answer(done)
        self._reports.done(done)

    async def _recover(self) -> None:
        backoff = Backoff(first=1.0, limit=5.0)
        while True:
            try:
                found = await recover(self._cluster, self._memory, self._registry)
                break
            except TowlineError as error:
                self._registry.gap = error.message
                self._cluster_checked.set()
                log.error("objects of the cluster cannot be listed", error=error.message)
                await self._clock.sleep(backoff.next())
        log.info("state directory is new", objects_found=found)
        self._registry.gap = ""
        self._cluster_checked.set()
        self.resume()

    async def _collect_garbage(self) -> None:
        """Ends watches and deletes bundles that no service needs any more."""
        while True:
            await self._clock.sleep(_COLLECT_GARBAGE_EVERY_S)
            self._watchers.tidy()
            needed = {
                desired.spec.digest
                for service in self._registry
                for desired in (service.desired, service.current)
                if desired is not None and desired.spec is not None
            }
            needed.update(self._verifier.digests())
            self._bundles.keep_only(needed)


def _sync_result(command_id: str, service: ServiceState) -> CommandAnswer:
    if service.stopped == service.desired.sequence:
        return CommandAnswer(command_id, CommandOutcome.SUCCEEDED, "stopped")
    if not service.failures:
        return CommandAnswer(command_id, CommandOutcome.SUCCEEDED)
    first = next(iter(service.failures.values()))
    return CommandAnswer(command_id, CommandOutcome.FAILED, first.message)
