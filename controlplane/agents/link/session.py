"""One agent's Sync call: first the difference in desired state, then changes; reports in return."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from itertools import accumulate, takewhile
from typing import Protocol

import structlog

from controlplane.agents.link import messages
from controlplane.agents.link.observations import SessionObserver
from controlplane.agents.link.report_limiter import THROTTLED_ALARM, report_weight
from controlplane.agents.operations.agents import AgentOperations
from controlplane.agents.operations.desired_state import DesiredState
from controlplane.clusters.model.commands import Command, CommandKind
from controlplane.services.model.service import Service
from core import __version__
from core.errors import Invalid, TowlineError
from core.identity import ClusterId
from core.rpc.calls import CallFailed, CallStatus
from core.runtime.flag import Flag
from core.runtime.tasks import Tasks
from core.spec.fences import ServiceFence
from core.wire import limits
from core.wire.codec import (
    attestation_from_message,
    attestation_to_message,
    job_spec_to_message,
    plain_text,
)
from core.wire.orders import order_for_command, order_for_desired
from core.wire.report_codec import report_from_message
from core.wire.v1 import agent_pb2 as wire

log = structlog.get_logger(__name__)

PROTOCOL = 1
PULSE_SECONDS = 15.0
GOODBYE_SECONDS = 2.0
SMALL_BUNDLE_BYTES = 16 << 10
_MAX_WAITING_REPORTS, _MAX_WAITING_BYTES = 1000, 8 << 20
_MAX_BATCH, _MAX_OBJECTS_AT_ONCE = 100, 20_000
# Reports arrive together: first related ones of one agent, then more for each commit.
_GATHER_SECONDS, _COMMIT_PAUSE_SECONDS = 0.005, 0.05
_MAX_LOGS = 1000
_MAX_SIGNED_AT_ONCE = 50
_SIGN_RETRY_SECONDS = 2.0
_MAX_IDS_PER_QUERY = 1000
_AGENT_PROBLEM = "the agent reports: "
_DISCONNECTED = frozenset({CallStatus.CANCELLED, CallStatus.UNAVAILABLE})


class MessageWriter(Protocol):
    """Output of messages to the agent, one at a time."""

    async def write(self, message: wire.HubMessage) -> None: ...


class AgentSession:
    """The control plane's side of one Sync call.

    After goodbye no report is accepted and nothing more is offered. A peer that does not read
    cannot delay the end: after `GOODBYE_SECONDS` the call ends without the last message.
    """

    def __init__(
        self,
        cluster_id: ClusterId,
        token_id: str,
        agents: AgentOperations,
        stream: MessageWriter,
        observer: SessionObserver,
    ) -> None:
        self.cluster_id = cluster_id
        self.token_id = token_id
        self.instance_id = ""
        self.greeted = False
        self._agents = agents
        self._stream = stream
        self._observer = observer
        self._sent_generations: dict[str, int] = {}
        self._sent_digests: dict[str, str] = {}
        self._sent_commands: set[str] = set()
        self._alarm = ""
        self._rewound = False
        self._owned_jobs: dict[str, bool] = {}
        self._key_id = ""
        self._changed_ids: set[str] = set()
        self._changed = Flag()
        self._goodbye: wire.Goodbye | None = None
        self._call_timeout = asyncio.timeout(None)
        self._running = False
        self._reports: list[wire.Report] = []
        self._waiting_bytes = 0
        self._has_reports = Flag()
        self._has_room = Flag()
        self._has_room.set()
        self._writing = asyncio.Lock()

    async def run(self, hello: wire.Hello, incoming: AsyncIterator[wire.AgentMessage]) -> None:
        """Runs the whole call, starting with the answer to the first message.

        Returns once the agent or the control plane has said goodbye. Raises Invalid for an
        unsupported version or a message that breaks the protocol.
        """
        self.instance_id = hello.instance_id
        work = Tasks(f"agent {self.cluster_id}")
        try:
            async with self._call_timeout:
                self._running = True
                self._start_goodbye_timeout()
                await self._answer_hello(hello)
                log.info("agent connected", action="agent.connected", cluster=self.cluster_id)
                await _first_of(
                    work.spawn("read", self._read_until_disconnect(incoming)),
                    work.spawn("send", self._send_changes()),
                    work.spawn("commit", self._commit_reports()),
                )
        except TimeoutError:
            if not self._call_timeout.expired():
                raise
            log.info("agent did not read the goodbye message", cluster=self.cluster_id)
        finally:
            self._running = False
            await work.stop()
            log.info("agent left", action="agent.left", cluster=self.cluster_id)

    def wake(self, service_id: str) -> None:
        """Signals a change of this service or, if empty, of any state of the cluster."""
        self._changed_ids.add(service_id)
        self._changed.set()

    def say_goodbye(self, reason: wire.GoodbyeReason, message: str) -> None:
        """Ends the call after a last message with the reason."""
        self._goodbye = wire.Goodbye(reason=reason, message=message)
        self._changed.set()
        self._start_goodbye_timeout()

    def _start_goodbye_timeout(self) -> None:
        if self._goodbye is not None and self._running and self._call_timeout.when() is None:
            self._call_timeout.reschedule(asyncio.get_running_loop().time() + GOODBYE_SECONDS)

    async def _answer_hello(self, hello: wire.Hello) -> None:
        """Answers the first message, then sends all differences. Raises Invalid for an unsupported
        version.
        """
        if not hello.lowest_protocol <= PROTOCOL <= hello.highest_protocol:
            raise Invalid(
                f"the agent speaks protocol {hello.lowest_protocol} to "
                f"{hello.highest_protocol}, this control plane {PROTOCOL}: upgrade the older one"
            )
        connected = await self._agents.record_connection(
            self.cluster_id, messages.hello_from_message(hello)
        )
        self.greeted, cluster = True, connected.cluster
        welcome = wire.Welcome(
            protocol=PROTOCOL,
            cluster_id=cluster.id,
            handle=cluster.handle,
            hub_version=__version__,
            pulse_ms=int(PULSE_SECONDS * 1000),
            acknowledged=cluster.acknowledged,
        )
        await self._present_signing_key(welcome)
        self._alarm = cluster.alarm if cluster.alarm.startswith(_AGENT_PROBLEM) else ""
        if cluster.alarm == THROTTLED_ALARM:
            # Only this makes the alarm of an earlier process end later.
            self._observer.limiter.throttle(self.cluster_id)
        await self._write(wire.HubMessage(welcome=welcome))
        self._sent_generations = {service.service_id: service.sequence for service in hello.held}
        self._rewound = hello.acknowledged > cluster.acknowledged
        await self._send_services(connected.desired_state)

    async def _send_changes(self) -> None:
        """Sends changes until goodbye."""
        while self._goodbye is None:
            await self._changed.wait()
            self._changed.clear()
            changed_ids, self._changed_ids = self._changed_ids, set()
            if "" in changed_ids or len(changed_ids) > _MAX_IDS_PER_QUERY:
                await self._send_services(await self._agents.desired_state(self.cluster_id))
            elif changed_ids:
                state = await self._agents.desired_state(self.cluster_id, changed_ids)
                await self._offer_all(state)
                await self._send_commands(state.commands)
        await self._write(wire.HubMessage(goodbye=self._goodbye))

    async def _read_until_disconnect(self, incoming: AsyncIterator[wire.AgentMessage]) -> None:
        """Same as `_read`; an agent that disconnects without goodbye is no error."""
        try:
            await self._read(incoming)
        except CallFailed as end:
            if end.status not in _DISCONNECTED:
                raise
            log.info("agent lost", cluster=self.cluster_id, why=end.message)

    async def _read(self, incoming: AsyncIterator[wire.AgentMessage]) -> None:
        """Reads the agent's messages until it leaves; pauses while too many reports are
        uncommitted.
        """
        async for message in incoming:
            limits.check(message)
            self._observer.record_heartbeat(self.cluster_id)
            if message.WhichOneof("body") == "pulse":
                await self._show_agent_problem(plain_text(message.pulse.problem))
            if message.WhichOneof("body") == "job_log":
                await self._forward_log(message.job_log)
            if message.WhichOneof("body") == "report" and self._goodbye is None:
                self._reports.append(message.report)
                self._waiting_bytes += message.report.ByteSize()
                self._has_reports.set()
                if self._is_backlogged():
                    self._has_room.clear()
                    await self._has_room.wait()

    def _is_backlogged(self) -> bool:
        """Returns whether too many reports are uncommitted to read more."""
        many = len(self._reports) >= _MAX_WAITING_REPORTS
        return many or self._waiting_bytes >= _MAX_WAITING_BYTES

    async def _show_agent_problem(self, problem: str) -> None:
        """Shows the agent's own problem while it lasts."""
        alarm = f"{_AGENT_PROBLEM}{problem}" if problem else ""
        if alarm != self._alarm:
            self._alarm = alarm
            await self._agents.set_alarm(self.cluster_id, alarm)

    async def _forward_log(self, piece: wire.JobLog) -> None:
        """Forwards a piece of a log, if the job belongs to this cluster."""
        job_id = piece.command_id
        if job_id not in self._owned_jobs:
            if len(self._owned_jobs) >= _MAX_LOGS:
                del self._owned_jobs[next(iter(self._owned_jobs))]
            self._owned_jobs[job_id] = await self._agents.owns_job(self.cluster_id, job_id)
        if self._owned_jobs[job_id]:
            self._observer.append_log(piece)

    async def _commit_reports(self) -> None:
        """Commits reports in groups, limited by the rate limit.

        A group does not contain all waiting reports, so that other agents get their turn.
        """
        while True:
            await self._has_reports.wait()
            await self._observer.clock.sleep(_GATHER_SECONDS)
            self._has_reports.clear()
            while self._reports and self._goodbye is None:
                candidates = self._reports[: _batch_size(self._reports)]
                admitted = await self._observer.admit(
                    self.cluster_id, [*map(report_weight, candidates)]
                )
                batch, self._reports = self._reports[:admitted], self._reports[admitted:]
                self._waiting_bytes -= sum(report.ByteSize() for report in batch)
                self._has_room.set()
                await self._commit_batch(batch)
                await self._observer.clock.sleep(_COMMIT_PAUSE_SECONDS)

    async def _commit_batch(self, batch: list[wire.Report]) -> None:
        """Commits and acknowledges some reports; after goodbye, none."""
        if self._goodbye is not None:
            return
        reports = [report_from_message(report) for report in batch]
        offers = self._observer.drain_offers(self.cluster_id)
        number = await self._agents.record_reports(self.cluster_id, reports, offers)
        await self._write(wire.HubMessage(ack=wire.Ack(number=number)))

    async def _send_services(self, state: DesiredState) -> None:
        """Sends every difference between the agent's state and the desired state of all its
        services.
        """
        state = await self._expected_state(state)
        services = state.services
        current_ids = {service.id for service in services}
        await self._offer_all(state)
        deleted = {
            id: self._sent_generations.pop(id) for id in self._sent_generations.keys() - current_ids
        }
        orphans = [messages.orphan_service(id, sequence) for id, sequence in deleted.items()]
        if await self._sign(desired=orphans):
            for orphan in orphans:
                await self._write(wire.HubMessage(desired=orphan))
        else:
            self._sent_generations |= deleted
        await self._write(wire.HubMessage(desired_end=wire.DesiredEnd(services=len(services))))
        await self._send_commands(state.commands)

    async def _expected_state(self, state: DesiredState) -> DesiredState:
        """Returns the agent's expected state, based on its actual state."""
        if self._rewound or any(
            service.desired.generation < self._sent_generations.get(service.id, 0)
            for service in state.services
        ):
            await self._agents.catch_up_generations(
                self.cluster_id, self._sent_generations, rewound=self._rewound
            )
            self._rewound = False
            return await self._agents.desired_state(self.cluster_id)
        return state

    async def _offer_all(self, state: DesiredState) -> None:
        """Offers services in groups; the render tier signs each group in one request."""
        outdated = [
            service
            for service in state.services
            if self._sent_generations.get(service.id, -1) < service.desired.generation
        ]
        for start in range(0, len(outdated), _MAX_SIGNED_AT_ONCE):
            if self._goodbye is not None:
                return
            await self._offer_batch(outdated[start : start + _MAX_SIGNED_AT_ONCE], state.fences)

    async def _offer_batch(
        self, services: Sequence[Service], fences: Mapping[str, ServiceFence]
    ) -> None:
        offers: list[tuple[Service, wire.Desired]] = []
        for service in services:
            self._sent_generations[service.id] = service.desired.generation
            try:
                if (fence := fences.get(service.id)) is None:
                    raise Invalid("its project or its cluster does not exist any more")
                secrets = await self._agents.secrets(service)
                bundle = await self._small_bundle(service)
                desired = messages.desired(service, secrets, bundle, fence)
                await self._renew_attestation(desired)
                limits.check(desired)
                offers.append((service, desired))
            except TowlineError as error:
                await self._skip_service(service, error)
        if not await self._sign(desired=[desired for _, desired in offers]):
            for service, _ in offers:
                del self._sent_generations[service.id]
            return
        for service, desired in offers:
            await self._write(wire.HubMessage(desired=desired))
            self._observer.record_offer(service)

    async def _present_signing_key(self, welcome: wire.Welcome) -> None:
        """Adds the signing key; an agent keeps the one that it knows while it cannot be read."""
        try:
            identity = await self._agents.signing_identity()
        except TowlineError as error:
            log.warning("signing key unknown", cluster=self.cluster_id, why=error.message)
            return
        self._key_id = identity.key_id
        welcome.signing_key = identity.public_key
        welcome.rotations.extend(map(attestation_to_message, identity.rotations))

    async def _renew_attestation(self, desired: wire.Desired) -> None:
        """After a rotation of the key, agents trust only statements that it has signed."""
        attested = desired.spec.attestation
        if self._key_id and attested.key_id not in ("", self._key_id):
            renewed = await self._agents.renew(attestation_from_message(attested))
            attested.CopyFrom(attestation_to_message(renewed))

    async def _sign(
        self, desired: Sequence[wire.Desired] = (), commands: Sequence[wire.Command] = ()
    ) -> bool:
        """Adds signed orders to messages; False if the render tier cannot sign now: tries again."""
        unsigned = [*desired, *commands]
        requests = [
            *(order_for_desired(self.cluster_id, message) for message in desired),
            *(order_for_command(self.cluster_id, message) for message in commands),
        ]
        try:
            orders = await self._agents.sign_orders(requests) if requests else []
        except TowlineError as error:
            log.warning("orders not signed", cluster=self.cluster_id, why=error.message)
            asyncio.get_running_loop().call_later(_SIGN_RETRY_SECONDS, self.wake, "")
            return False
        for message, order in zip(unsigned, orders, strict=bool(orders)):
            message.order.CopyFrom(attestation_to_message(order))
        return True

    async def _small_bundle(self, service: Service) -> bytes:
        """Returns the bundle, if it is small and was not sent on this call before."""
        digest = service.desired.digest or ""
        is_known = self._sent_digests.get(service.id) == digest
        if is_known or not digest or service.desired.bundle_bytes > SMALL_BUNDLE_BYTES:
            return b""
        self._sent_digests[service.id] = digest
        return await self._agents.cached_bundle(service)

    async def _skip_service(self, service: Service, error: TowlineError) -> None:
        """Skips a service whose message would break the protocol and end the call for good.

        The next change, or the agent's next connection, tries again.
        """
        log.error("service not sent", service=service.name, why=error.message)
        text = f"this cannot be sent to the agent: {error.message}"
        await self._agents.record_unsent_state(
            self.cluster_id, service.id, service.desired.generation, text
        )

    async def _send_commands(self, pending: Sequence[Command]) -> None:
        for command in pending:
            if self._goodbye is None and command.id not in self._sent_commands:
                self._sent_commands.add(command.id)
                await self._send_command(command)

    async def _send_command(self, command: Command) -> None:
        try:
            message = await self._command_message(command)
            limits.check(message)
        except TowlineError as error:
            log.error("command not sent", command=command.id, why=error.message)
            await self._agents.reject_command(self.cluster_id, command, error.message)
            return
        if await self._sign(commands=[message]):
            await self._write(wire.HubMessage(command=message))
        else:
            self._sent_commands.discard(command.id)

    async def _command_message(self, command: Command) -> wire.Command:
        if command.kind is not CommandKind.RUN_JOB:
            return messages.command(command)
        return job_spec_to_message(await self._agents.job(self.cluster_id, command.id))

    async def _write(self, message: wire.HubMessage) -> None:
        async with self._writing:
            await self._stream.write(message)


def _batch_size(reports: Sequence[wire.Report]) -> int:
    """Returns the number of oldest reports for one transaction: at
    least one, whatever its weight.
    """
    inventories = (report.inventory for report in reports[:_MAX_BATCH])
    objects = accumulate(len(inventory.present) + len(inventory.gone) for inventory in inventories)
    return max(1, sum(1 for _ in takewhile(lambda count: count <= _MAX_OBJECTS_AT_ONCE, objects)))


async def _first_of(*tasks: asyncio.Task[None]) -> None:
    """Waits until one of the tasks ends; raises its error."""
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()
