"""The agent's scheduler: takes desired state and observations, and decides what to do and when.
Each service has a queue key. Its work has a fixed order: sync the service if due, process
observations, then schedule a retry.
"""

import asyncio

import structlog

from fleet.errors import Code, TowlineError, Unavailable
from fleet.runtime.backoff import Backoff
from fleet.runtime.clock import Clock
from fleet.runtime.tasks import Tasks
from fleet.sealing import SealingKey
from syncagent.domain.events import CommandDone, Outcome, Sighting
from syncagent.domain.objects import ObjectKey
from syncagent.domain.services import Desired, Problem, Stamps
from syncagent.ports import (
    Bundles,
    Cluster,
    Fetcher,
    Identities,
    LinkDown,
    Memory,
    Metrics,
    Reports,
)
from syncagent.reconcile.apply import INTERNAL, problem_of
from syncagent.reconcile.checking import doubt_what_changed
from syncagent.reconcile.evidence import Evidence
from syncagent.reconcile.gates import Ended, is_closed, waits
from syncagent.reconcile.heal import look
from syncagent.reconcile.hooking import halt
from syncagent.reconcile.lanes import Lanes
from syncagent.reconcile.masking import Masking
from syncagent.reconcile.notices import Notices
from syncagent.reconcile.offspring import Offspring
from syncagent.reconcile.reach import Reach
from syncagent.reconcile.recovery import recover
from syncagent.reconcile.registry import Gate, Registry, Service
from syncagent.reconcile.removal import remove, removed
from syncagent.reconcile.reporter import Reporter
from syncagent.reconcile.steps import synchronize
from syncagent.reconcile.tools import Tools
from syncagent.reconcile.verifying import Verifier
from syncagent.reconcile.watchers import Watchers

log = structlog.get_logger(__name__)

_TIDY_EVERY_S = 600.0
_ANSWER_AGAIN_S = 5.0
# Problems that cannot be written as events now.
_UNSAID = {str(Code.UNAVAILABLE), "Unreachable"}


class Engine:
    """Brings all services of this cluster to their desired state and keeps them there.
    `key` opens values sealed to this agent; `identities` decrypts values from git. `walks`: maximum
    number of services that are synced at the same time; heals do not count. `metrics` are queried
    when bundles are verified.
    """

    def __init__(
        self,
        cluster: Cluster,
        bundles: Bundles,
        fetcher: Fetcher,
        memory: Memory,
        reports: Reports,
        clock: Clock,
        key: SealingKey,
        identities: Identities,
        metrics: Metrics | None = None,
        walks: int = 16,
    ) -> None:
        self._tasks = Tasks("engine")
        self._memory = memory
        self._bundles = bundles
        self._cluster = cluster
        self._reports = reports
        self._clock = clock
        self._registry = Registry()
        self._reach = Reach(cluster, clock, self._reach_changed)
        self._reporter = Reporter(self._registry, reports, memory, clock, self._reach)
        masking = Masking(bundles, key, identities)
        self._evidence = Evidence(
            cluster, self._registry, masking, self._tasks, clock, self._reporter.touch
        )
        self._notices = Notices(cluster, clock)
        offspring = Offspring(
            cluster, self._registry, self._tasks, self._evidence, clock, self._offspring_changed
        )
        self._watchers = Watchers(
            cluster, self._registry, self._tasks, offspring, clock, self._sighted
        )
        self._verifier = Verifier(
            cluster, self._registry, memory, reports, clock, self._go_back, metrics
        )
        self._lanes = Lanes(self._tasks, clock, self._work)
        self._turn = asyncio.Semaphore(walks)
        self._looked = asyncio.Event()
        self._tools = Tools(
            cluster,
            bundles,
            fetcher,
            memory,
            reports,
            self._registry,
            self._evidence,
            self._notices,
            clock,
            key,
            identities,
            self._watchers.watch,
            self._reporter.touch,
            self._require_cluster,
            self._now,
        )

    def start(self) -> None:
        """Loads the stored state and begins to reconcile, with or without the control plane.
        After a lost disk, the agent writes nothing before it has found its objects in the cluster.
        """
        self._registry.restore(self._memory.services(), self._memory.owned())
        for service in self._registry:
            service.held = self._verifier.standing(service.desired)
        self._tasks.forever("reporter", self._reporter.run())
        self._tasks.forever("tidy", self._tidy())
        self._tasks.forever("notices", self._notices.run())
        self._tasks.forever("reach", self._reach.run())
        self._tasks.forever("verifier", self._verifier.run())
        if self._memory.fresh:
            self._registry.gap = "the objects of this cluster have not been listed yet"
            self._tasks.spawn("recover", self._recover())
        else:
            self._looked.set()
        self._take_up()

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
            self._reports.status(removed(Service(desired)))
            return
        if service is not None and desired.sequence <= service.desired.sequence:
            return
        admitted, held = self._verifier.admit(desired)
        if service is None:
            service = Service(admitted)
        self._take(service, admitted)
        service.held = held

    def _go_back(self, service: Service, desired: Desired, reason: str) -> None:
        self._take(service, desired)
        service.held = reason

    def _take(self, service: Service, desired: Desired) -> None:
        """Stores a desired state and starts to sync it."""
        stamps = Stamps(received=self._tools.now_ms())
        self._memory.desire(desired, stamps)
        self._registry.put(service)
        service.desired = desired
        service.stamps = stamps
        self._now(service)

    def held(self) -> list[tuple[str, int]]:
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
                self._now(service)

    def retell(self) -> None:
        """Reports status and inventory of every service again."""
        for service in self._registry:
            service.reported = None
            self._reporter.forget(service.id)

    def sync_now(self, command_id: str, service_id: str) -> None:
        """Syncs a service with the cluster; the command is executed once and answered at
        the end.
        """
        service = self._asked(command_id, service_id)
        spec = service.desired.spec if service is not None else None
        if service is None or spec is None:
            return
        if spec.options.paused:
            self._answer(CommandDone(command_id, Outcome.REFUSED, "the service is paused"))
        elif command_id not in (*service.commands, *service.begun):
            service.asked_again, service.stopped = True, 0
            service.commands.append(command_id)
            self._now(service)

    def terminate(self, command_id: str, service_id: str) -> None:
        """Terminates a sync and its running hooks; objects stay in their present state."""
        service = self._asked(command_id, service_id)
        if service is not None and command_id not in (*service.commands, *service.begun):
            service.stopped = service.desired.sequence
            service.commands.append(command_id)
            self._now(service)

    def refuse(self, command_id: str, reason: str) -> None:
        """Answers a command that this agent does not support."""
        self._answer(CommandDone(command_id, Outcome.REFUSED, reason))

    def _asked(self, command_id: str, service_id: str) -> Service | None:
        """Returns the service of a command; None: the command has been answered."""
        answer = self._memory.answered(command_id)
        service = self._registry.get(service_id)
        if answer is not None:
            self._reports.done(answer)
        elif service is not None and service.desired.spec is not None:
            return service
        else:
            self._answer(
                CommandDone(command_id, Outcome.REFUSED, "the agent knows no such service")
            )
        return None

    def _take_up(self) -> None:
        for service in self._registry:
            for owned in service.owned.values():
                self._watchers.watch(owned.ref)
            self._now(service)

    async def _require_cluster(self) -> None:
        await self._looked.wait()
        if self._reach.problem is not None:
            raise Unavailable(self._reach.problem.message)
        if self._registry.gap:
            raise Unavailable(self._registry.gap)

    def _reach_changed(self) -> None:
        self._looked.set()
        for service in self._registry:
            self._reporter.touch(service.id)
            if self._reach.problem is None and service.due:
                self._now(service)

    def _now(self, service: Service) -> None:
        service.hold_until = 0.0
        service.urgings += 1
        service.retry.reset()
        self._lanes.trigger(service.id)

    def _sighted(self, service: Service, mail: bool) -> None:
        self._reporter.touch(service.id)
        if mail:
            self._lanes.trigger(service.id)

    def _offspring_changed(self, service: Service) -> None:
        self._reporter.touch(service.id)

    async def _work(self, service_id: str) -> None:
        service = self._registry.get(service_id)
        if service is None:
            return
        urgings, asked = service.urgings, service.commands
        service.commands, service.begun = [], service.begun + asked
        if asked and service.stopped != service.desired.sequence:
            await doubt_what_changed(self._tools, service)
        walks = service.due and (asked or self._may_walk(service))
        if walks:
            await self._walk(service)
        elif service.stopped == service.desired.sequence and asked:
            await self._halt(service)
        self._answer_all(service)
        wait = await self._look(service)
        if urgings == service.urgings:
            self._try_later(service, wait)
        if walks:
            self._notice(service)
            self._reporter.say(service_id)
        else:
            self._reporter.touch(service_id)

    def _answer_all(self, service: Service) -> None:
        """Answers commands after the end of the sync; retries later if the disk fails."""
        if waits(service) and service.stopped != service.desired.sequence:
            return
        while service.begun:
            try:
                self._answer(_result(service.begun[0], service))
            except Unavailable as error:
                log.error("a command's answer cannot be stored", reason=error.message)
                self._lanes.trigger_in(service.id, _ANSWER_AGAIN_S)
                return
            del service.begun[0]

    def _may_walk(self, service: Service) -> bool:
        now = self._clock.monotonic()
        return now >= service.hold_until and not is_closed(service, now)

    def _notice(self, service: Service) -> None:
        """Writes failures as events on the object, or on its namespace."""
        spec = service.desired.spec
        for key, problem in service.failures.items():
            if problem.reason in _UNSAID or spec is None or problem.ref is None:
                continue
            owned = service.owned.get(key) if key else None
            text = f"service {spec.name}: {problem.message}"
            self._notices.add(
                problem.ref, owned.uid if owned else "", problem.reason, text, warns=True
            )

    async def _walk(self, service: Service) -> None:
        """Runs the steps of a sync; an error that ends it early becomes a failure of the whole
        service.
        """
        async with self._turn:
            target = service.desired
            service.busy_since = self._clock.monotonic()
            try:
                await (synchronize if target.spec else remove)(self._tools, service)
            except Ended:
                log.debug("sync paused", service=service.id)
            except TowlineError as error:
                self._ended_early(service, error)
            except Exception:
                log.exception("service cannot be synced", service=service.id)
                service.failures[None] = Problem(INTERNAL, "Internal")
            finally:
                service.busy = None

    async def _halt(self, service: Service) -> None:
        try:
            await halt(self._tools, service)
        except TowlineError as error:
            self._ended_early(service, error)

    def _ended_early(self, service: Service, error: TowlineError) -> None:
        if not isinstance(error, LinkDown):
            service.failures[None] = problem_of(error, None)
        if self._reach.problem is None:
            log.warning("service waits", service=service.id, reason=error.message)

    async def _look(self, service: Service) -> float:
        """Processes all observations; returns the seconds until the earliest retry, or 0."""
        soonest = 0.0
        while service.inbox:
            key = next(iter(service.inbox))
            wait = await self._look_at(service, key, service.inbox.pop(key))
            if wait:
                soonest = min(soonest or wait, wait)
        return soonest

    async def _look_at(self, service: Service, key: ObjectKey, sighting: Sighting) -> float:
        """Processes one observation; an error of one object must not affect the others."""
        try:
            return await look(self._tools, service, key, sighting)
        except TowlineError as error:
            service.failures[key] = problem_of(error, None)
        except Exception:
            log.exception("object cannot be processed", service=service.id, object=key)
            service.failures[key] = Problem(INTERNAL, "Internal")
        return service.retry.next()

    def _try_later(self, service: Service, wait: float) -> None:
        if not service.due:
            service.retry.reset()
            return
        if self._reach.problem is not None:
            return
        now = self._clock.monotonic()
        if service.gate is not None and not service.failures:
            self._look_at_gate(service, service.gate, now)
            return
        if service.hold_until <= now:
            service.hold_until = now + (wait or service.retry.next())
        self._lanes.trigger_in(service.id, service.hold_until - now)

    def _look_at_gate(self, service: Service, gate: Gate, now: float) -> None:
        """Schedules the next check of a gate; hooks are polled."""
        if not is_closed(service, now):
            self._lanes.trigger(service.id)
            return
        at = min(gate.until, gate.look_at) if gate.hooks else gate.until
        self._lanes.trigger_in(service.id, max(0.0, at - now))

    def _answer(self, done: CommandDone) -> None:
        self._memory.answer(done)
        self._reports.done(done)

    async def _recover(self) -> None:
        backoff = Backoff(first=1.0, limit=5.0)
        while True:
            try:
                found = await recover(self._cluster, self._memory, self._registry)
                break
            except TowlineError as error:
                self._registry.gap = error.message
                self._looked.set()
                log.error("objects of the cluster cannot be listed", error=error.message)
                await self._clock.sleep(backoff.next())
        log.info("state directory is new", objects_found=found)
        self._registry.gap = ""
        self._looked.set()
        self._take_up()

    async def _tidy(self) -> None:
        """Ends watches and deletes bundles that no service needs any more."""
        while True:
            await self._clock.sleep(_TIDY_EVERY_S)
            self._watchers.tidy()
            needed = {
                desired.spec.digest
                for service in self._registry
                for desired in (service.desired, service.current)
                if desired is not None and desired.spec is not None
            }
            needed.update(self._verifier.digests())
            self._bundles.keep_only(needed)


def _result(command_id: str, service: Service) -> CommandDone:
    if service.stopped == service.desired.sequence:
        return CommandDone(command_id, Outcome.SUCCEEDED, "stopped")
    if not service.failures:
        return CommandDone(command_id, Outcome.SUCCEEDED)
    first = next(iter(service.failures.values()))
    return CommandDone(command_id, Outcome.FAILED, first.message)
