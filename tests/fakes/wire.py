"""The Sync call without a network, and a hub that is only the rules: for schedules by thousands.

Nothing moves unless a test lets it. A cut loses whatever is under way, in both directions.
"""

import asyncio
from collections import Counter

from core.rpc.calls import CallFailed, CallStatus
from core.wire.limits import check
from core.wire.v1 import agent_pb2 as pb


class FakeCall:
    """One life of the call: `write` and `read` are the agent's end, the queues the hub's."""

    def __init__(self, room: int) -> None:
        self.up: asyncio.Queue[pb.AgentMessage] = asyncio.Queue(room)
        self.down: asyncio.Queue[pb.HubMessage | None] = asyncio.Queue()
        self.alive = True

    async def write(self, message: pb.AgentMessage) -> None:
        await self.up.put(message)

    async def read(self) -> pb.HubMessage:
        message = await self.down.get() if self.alive else None
        if message is None or not self.alive:
            raise CallFailed(CallStatus.UNAVAILABLE, "cut")
        return message

    def cancel(self) -> None:
        self.cut()

    def cut(self) -> None:
        self.alive = False
        self.down.put_nowait(None)


class RuleHub:
    """What a hub must do, with its state in plain sight.

    `desired` maps services to sequences (negative: removed), `commands` are those without an
    answer. Reports that are taken but not committed are lost with the connection.
    """

    def __init__(self) -> None:
        self.desired: dict[str, int] = {}
        self.commands: dict[str, pb.Command] = {}
        self.answers: Counter[str] = Counter()
        self.statuses: dict[str, list[int]] = {}
        self.inventory: dict[str, dict[str, int]] = {}
        self.drifts: list[str] = []
        self.committed = 0
        self.call: FakeCall | None = None
        self._taken: list[pb.Report] = []
        self._greeted = False

    def sync(self) -> FakeCall:
        """A new call replaces an older one."""
        self.cut()
        self.call = FakeCall(room=8)
        return self.call

    def cut(self) -> None:
        if self.call is not None:
            self.call.cut()
        self.call, self._taken, self._greeted = None, [], False

    def want(self, service: str, *, removed: bool = False) -> None:
        sequence = abs(self.desired.get(service, 0)) + 1
        self.desired[service] = -sequence if removed else sequence
        if self._greeted:
            self._offer(service)

    def ask(self, command_id: str) -> None:
        command = pb.Command(id=command_id, sync_now=pb.SyncNow(service_id="s"))
        self.commands[command_id] = command
        if self._greeted:
            self._send(pb.HubMessage(command=command))

    def take(self, most: int) -> int:
        """Take some of what the agent has written; how many messages there were."""
        taken = 0
        while self.call is not None and taken < most and not self.call.up.empty():
            self.hear(self.call.up.get_nowait())
            taken += 1
        return taken

    def hear(self, message: pb.AgentMessage) -> None:
        """Take in one message of the agent's."""
        check(message)
        if message.HasField("hello"):
            self._greet(message.hello)
        elif message.HasField("report"):
            self._taken.append(message.report)

    def commit(self) -> None:
        """Commit what was taken, once each, and acknowledge it."""
        for report in self._taken:
            if report.number > self.committed:
                assert report.number == self.committed + 1, "a number was left out"
                self.committed = report.number
                self._keep(report)
        if self._taken:
            self._send(pb.HubMessage(ack=pb.Ack(number=self.committed)))
        self._taken = []

    def _greet(self, hello: pb.Hello) -> None:
        welcome = pb.Welcome(protocol=1, pulse_ms=15_000, acknowledged=self.committed)
        self._send(pb.HubMessage(welcome=welcome))
        held = {one.service_id: one.sequence for one in hello.held}
        self._greeted = True
        for service, sequence in self.desired.items():
            if held.get(service, 0) < abs(sequence):
                self._offer(service)
        self._send(pb.HubMessage(desired_end=pb.DesiredEnd(services=len(self.desired))))
        for command in self.commands.values():
            self._send(pb.HubMessage(command=command))

    def _offer(self, service: str) -> None:
        sequence = self.desired[service]
        message = pb.Desired(service_id=service, sequence=abs(sequence))
        if sequence < 0:
            message.removal = pb.REMOVAL_CASCADE
        else:
            message.spec.name = service
        self._send(pb.HubMessage(desired=message))

    def _send(self, message: pb.HubMessage) -> None:
        if self.call is not None and self.call.alive:
            self.call.down.put_nowait(message)

    def _keep(self, report: pb.Report) -> None:
        match report.WhichOneof("body"):
            case "status":
                service = report.status.service_id
                self.statuses.setdefault(service, []).append(report.status.sequence)
            case "inventory":
                known = self.inventory.setdefault(report.inventory.service_id, {})
                if report.inventory.complete:
                    known.clear()
                for ref in report.inventory.gone:
                    known.pop(ref.name, None)
                for one in report.inventory.present:
                    known[one.object.name] = one.generation
            case "drift":
                self.drifts.append(report.drift.manager)
            case "result":
                self.answers[report.result.command_id] += 1
                self.commands.pop(report.result.command_id, None)
