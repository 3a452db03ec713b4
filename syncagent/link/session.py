"""One Sync call, from Hello to its end.
Up: reports in the order of their numbers, at most `_WINDOW` unacknowledged, so that on a slow link
newer reports replace older ones in the outbox instead of queueing behind them. Down: desired state,
commands, acknowledgements.
A failing disk does not end the call, because its error is reported in pulses. State that could not
be stored is sent again by the next call, which begins once the disk accepts writes.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import structlog

from core.errors import Invalid, Unavailable
from core.identity import is_local_id
from core.rpc.calls import CallFailed, CallStatus
from core.runtime.clock import Clock
from core.wire.codec import cut_text, desired_from_message
from core.wire.limits import check
from core.wire.v1 import agent_pb2 as pb
from syncagent.link.commands import Commands
from syncagent.link.logs import LogQueue
from syncagent.link.orders import SignedOrders
from syncagent.ports import NumberedReport, Outbox, Reconciler

log = structlog.get_logger(__name__)

PROTOCOL = 1
_WINDOW = 256
_BATCH = 64
_WELCOME_S = 20.0
_SHORTEST_PULSE_S = 0.5
_REFUSED_DISK_S = 5.0
_MAX_PROBLEM_BYTES = 1000


class SyncEnded(Exception):
    """The control plane ended the call with a goodbye."""

    def __init__(self, reason: int, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class SyncCall(Protocol):
    """The agent's end of a Sync call."""

    async def read(self) -> pb.HubMessage | None: ...
    async def write(self, message: pb.AgentMessage) -> None: ...
    def cancel(self) -> None: ...


@dataclass(frozen=True, slots=True)
class LinkPorts:
    """The parts of the agent that a link connects to the control plane.

    `problem` returns the present problem of the agent, which each pulse carries. `orders`
    verifies what the control plane orders; None: unsigned orders are accepted.
    """

    reconciler: Reconciler
    commands: Commands
    outbox: Outbox
    logs: LogQueue
    clock: Clock
    problem: Callable[[], str] = str
    orders: SignedOrders | None = None


class SyncSession:
    """One Sync session: call `send_hello`, then `run`. Both raise Parted or a TowlineError."""

    def __init__(
        self,
        stream: SyncCall,
        hello: pb.Hello,
        ports: LinkPorts,
        offer: Callable[[str, bytes], None] | None = None,
    ) -> None:
        self._hello = hello
        self._ports = ports
        self._reconciler = ports.reconciler
        self._outbox = ports.outbox
        self._clock = ports.clock
        self._offer = offer
        self._stream = stream
        self._unacknowledged = 0
        self._last = 0
        self._deleted_up_to = 0
        self._lost_message = False
        self._room = asyncio.Event()
        self._writing = asyncio.Lock()
        self._wrote_at = ports.clock.monotonic()
        self._pulse_s = _SHORTEST_PULSE_S

    async def run(self) -> None:
        """Sends and receives until either ends."""
        try:
            self._reconciler.linked()
            async with asyncio.TaskGroup() as both:
                both.create_task(self._receive_messages(), name="sync/receive")
                both.create_task(self._send_reports(), name="sync/send")
                both.create_task(self._send_pulses(), name="sync/pulse")
                both.create_task(self._send_logs(), name="sync/logs")
        except BaseExceptionGroup as ended:
            raise ended.exceptions[0] from None

    def close(self) -> None:
        """Ends the call."""
        self._stream.cancel()

    async def send_hello(self) -> None:
        """Sends Hello and processes Welcome."""
        await self._write(pb.AgentMessage(hello=self._hello))
        try:
            async with asyncio.timeout(_WELCOME_S):
                message = await self._read()
        except TimeoutError as error:
            text = f"the control plane did not answer Hello within {_WELCOME_S:g} s"
            raise Unavailable(text) from error
        if message.WhichOneof("body") != "welcome":
            raise Invalid("the control plane's first message is not Welcome")
        if message.welcome.protocol != PROTOCOL:
            raise Invalid(f"the control plane speaks protocol {message.welcome.protocol}")
        if self._ports.orders is not None:
            self._ports.orders.welcome(message.welcome)
        self._last = message.welcome.acknowledged
        self._delete_acknowledged(self._last)
        if self._last < self._hello.acknowledged:
            log.warning("the control plane was restored from a backup; resending all reports")
            self._reconciler.report_all()
        log.info(
            "linked",
            cluster=message.welcome.handle,
            hub_version=message.welcome.hub_version,
            services=len(self._hello.held),
        )
        self._pulse_s = max(message.welcome.pulse_ms / 1000, _SHORTEST_PULSE_S)

    async def _send_reports(self) -> None:
        for report in self._outbox.sent():
            await self._send_report(report)
        while True:
            await self._outbox.wait()
            while self._unacknowledged >= _WINDOW:
                self._room.clear()
                await self._room.wait()
            try:
                reports = self._outbox.take(min(_BATCH, _WINDOW - self._unacknowledged))
            except Unavailable:
                await self._clock.sleep(_REFUSED_DISK_S)
                continue
            for report in reports:
                await self._send_report(report)

    async def _send_logs(self) -> None:
        while True:
            await self._write(pb.AgentMessage(job_log=await self._ports.logs.take()))

    async def _send_report(self, report: NumberedReport) -> None:
        message = pb.Report.FromString(report.body)
        message.number, message.at_ms = report.number, report.at_ms
        self._last = report.number
        self._unacknowledged += 1
        await self._write(pb.AgentMessage(report=message))

    async def _send_pulses(self) -> None:
        """Sends pulses at least at the interval from Welcome."""
        while True:
            remaining = self._wrote_at + self._pulse_s * 0.8 - self._clock.monotonic()
            if remaining > 0:
                await self._clock.sleep(remaining)
            else:
                pulse = pb.Pulse(problem=cut_text(self._ports.problem(), _MAX_PROBLEM_BYTES))
                await self._write(pb.AgentMessage(pulse=pulse))
                if self._lost_message and self._delete_acknowledged(self._deleted_up_to):
                    raise Unavailable("requesting again the state that could not be stored")

    async def _receive_messages(self) -> None:
        while True:
            message = await self._read()
            match message.WhichOneof("body"):
                case "desired":
                    self._on_desired(message.desired)
                case "desired_end":
                    self._compare_counts(message.desired_end.services)
                case "command":
                    self._on_command(message.command)
                case "ack":
                    self._on_acknowledged(message.ack.number)
                case "goodbye":
                    raise SyncEnded(message.goodbye.reason, message.goodbye.message)

    def _on_desired(self, message: pb.Desired) -> None:
        """Passes on a service; an invalid one must not block the others."""
        try:
            if is_local_id(message.service_id):
                raise Invalid("services with this id are defined in the cluster itself")
            if message.spec.bundle and self._offer is not None:
                self._offer(message.spec.digest, message.spec.bundle)
            desired = desired_from_message(message)
            if self._ports.orders is None:
                self._reconciler.desire(desired)
            else:
                self._ports.orders.desire(message, desired)
        except Invalid as error:
            log.error("service ignored", service=message.service_id, reason=error.message)
        except Unavailable as error:
            self._on_disk_error(error)

    def _on_command(self, message: pb.Command) -> None:
        try:
            if self._ports.orders is not None:
                self._ports.orders.check_command(message)
            self._ports.commands.take(message)
        except Invalid as error:
            log.error("command refused", command=message.id, reason=error.message)
            self._refuse(message.id, error.message)
        except Unavailable as error:
            self._on_disk_error(error)

    def _refuse(self, command_id: str, reason: str) -> None:
        try:
            self._reconciler.refuse(command_id, reason)
        except Unavailable as error:
            self._on_disk_error(error)

    def _on_disk_error(self, error: Unavailable) -> None:
        log.error("a message of the control plane cannot be stored", reason=error.message)
        self._lost_message = True

    def _delete_acknowledged(self, number: int) -> bool:
        """Deletes reports up to this number; False if the disk failed, so that they are
        sent twice.
        """
        try:
            self._outbox.acknowledge(number)
        except Unavailable as error:
            log.error("acknowledged reports cannot be deleted", reason=error.message)
            return False
        self._deleted_up_to = number
        return True

    def _on_acknowledged(self, number: int) -> None:
        if number > self._last:
            raise Invalid(f"the control plane acknowledges report {number}, which was not sent")
        self._unacknowledged = max(0, self._last - number)
        # A report that was not deleted is sent twice at worst; its number shows that.
        if self._unacknowledged == 0 or number - self._deleted_up_to >= _BATCH:
            self._delete_acknowledged(number)
        self._room.set()

    def _compare_counts(self, services: int) -> None:
        """Compares the number of services; a difference only logs a warning and deletes nothing."""
        stored_count = sum(
            not is_local_id(service_id) for service_id, _ in self._reconciler.stored_services()
        )
        if stored_count != services:
            log.warning(
                "services differ from the control plane's", here=stored_count, there=services
            )

    async def _write(self, message: pb.AgentMessage) -> None:
        async with self._writing:
            await self._stream.write(message)
            self._wrote_at = self._clock.monotonic()

    async def _read(self) -> pb.HubMessage:
        message = await self._stream.read()
        if message is None:
            raise CallFailed(CallStatus.OK, "the control plane ended the call")
        check(message)
        return message
