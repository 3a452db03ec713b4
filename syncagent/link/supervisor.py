"""Maintains the link: connects, and reconnects with backoff."""

import random
from collections.abc import Callable
from dataclasses import dataclass

import structlog

import fleet
from fleet.errors import TowlineError
from fleet.identity import is_local_id
from fleet.rpc.calls import CallFailed, Channel, Status
from fleet.rpc.methods import SYNC
from fleet.runtime.backoff import Backoff
from fleet.runtime.clock import Clock
from fleet.runtime.tasks import Tasks
from fleet.wire.v1 import agent_pb2 as pb
from syncagent.link.channel import Endpoint
from syncagent.link.commands import Commands
from syncagent.link.connection import Companion, Connection
from syncagent.link.facts import Facts
from syncagent.link.fetch import HubFetcher
from syncagent.link.logs import LogQueue
from syncagent.link.session import PROTOCOL, Parted, Session
from syncagent.link.wire import facts_to_wire, held_to_wire
from syncagent.ports import Outbox, Reconciler

log = structlog.get_logger(__name__)

_REFUSED_S = 60.0
_DRAINED_S = 0.5
_STEADY_S = 30.0


@dataclass(frozen=True, slots=True)
class Introduction:
    """Identity of an agent: its instance id, its mode, and its public key."""

    instance_id: str
    autonomous: bool = False
    sealing_key: bytes = b""


class Link:
    """Keeps one connection after another.
    After a loss it reconnects within 1 s, growing to 20 s, with full jitter. If the control plane
    drains, it reconnects at once while open tunnel streams end on the old connection. After a
    refused token, or a takeover by a newer agent, it retries about once a minute with a log entry.
    `complaint` returns the present problem of the agent, which each pulse carries.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        me: Introduction,
        reconciler: Reconciler,
        commands: Commands,
        outbox: Outbox,
        logs: LogQueue,
        fetcher: HubFetcher,
        facts: Facts,
        clock: Clock,
        companions: tuple[Companion, ...] = (),
        complaint: Callable[[], str] = str,
    ) -> None:
        self._endpoint = endpoint
        self._me = me
        self._reconciler = reconciler
        self._commands = commands
        self._outbox = outbox
        self._logs = logs
        self._fetcher = fetcher
        self._facts = facts
        self._clock = clock
        self._companions = companions
        self._complaint = complaint
        self.linked = False
        self.was_linked = False
        self._left = Tasks("left connections")
        self._backoff = Backoff()

    async def run(self) -> None:
        """Stays connected until cancelled."""
        try:
            while True:
                began = self._clock.monotonic()
                wait = await self._life()
                if self._clock.monotonic() - began > _STEADY_S:
                    self._backoff.reset()
                await self._clock.sleep(wait)
        finally:
            await self._left.stop()

    async def _life(self) -> float:
        """Runs one connection; returns the seconds to wait before the next."""
        try:
            connection = Connection(self._endpoint.connect(self._clock))
        except TowlineError as error:
            # The agent keeps healing, although only a corrected file or address helps here.
            return self._after_loss(Status.INVALID_ARGUMENT, error.message)
        left = False
        try:
            await self._converse(connection)
        except Parted as goodbye:
            if left := goodbye.reason == pb.GOODBYE_REASON_DRAINING:
                self._left.spawn("leave", connection.leave())
            return self._after_goodbye(goodbye)
        except CallFailed as end:
            return self._after_loss(end.status, end.message)
        except TowlineError as error:
            return self._after_loss(Status.UNKNOWN, error.message)
        except Exception:
            # A problem of the link must not stop the healing of drift.
            log.exception("link failed")
            return self._backoff.next()
        finally:
            self._fetcher.use(None)
            if not left:
                await connection.close()
        return 0.0

    async def _converse(self, connection: Connection) -> None:
        """Runs Sync from its greeting to its end; raises the reason of its end."""
        self._fetcher.use(connection.channel)
        session = await self._session(connection.channel)
        try:
            await session.greet()
            self.linked = self.was_linked = True
            connection.accompany(self._companions)
            await session.run()
        finally:
            self.linked = False
            session.close()

    async def _session(self, channel: Channel) -> Session:
        hello = pb.Hello(
            lowest_protocol=PROTOCOL,
            highest_protocol=PROTOCOL,
            agent_version=fleet.__version__,
            instance_id=self._me.instance_id,
            mode=pb.MODE_AUTONOMOUS if self._me.autonomous else pb.MODE_MANAGED,
            facts=facts_to_wire(await self._facts.known()),
            held=held_to_wire(held for held in self._reconciler.held() if not is_local_id(held[0])),
            sealing_key=self._me.sealing_key,
            acknowledged=self._outbox.acknowledged(),
        )
        return Session(
            await SYNC.begin(channel, self._endpoint.metadata),
            hello,
            self._reconciler,
            self._commands,
            self._outbox,
            self._logs,
            self._clock,
            self._complaint,
            self._fetcher.offer,
        )

    def _after_loss(self, status: Status, details: str) -> float:
        if status == Status.UNAUTHENTICATED:
            wait = back_in(drained=False)
            log.error(
                "the control plane refuses the agent's token", details=details, retry_s=round(wait)
            )
            return wait
        wait = self._backoff.next()
        log.warning("link lost", status=status.name, details=details, retry_s=round(wait, 1))
        return wait

    def _after_goodbye(self, goodbye: Parted) -> float:
        reason = pb.GoodbyeReason.Name(goodbye.reason)
        wait = back_in(drained=goodbye.reason == pb.GOODBYE_REASON_DRAINING)
        log.warning("parted", reason=reason, message=goodbye.message, retry_s=round(wait, 1))
        return wait


def back_in(*, drained: bool) -> float:
    """Seconds until the next connection after a drain, or after a refusal."""
    return random.uniform(0, _DRAINED_S) if drained else _REFUSED_S * random.uniform(0.75, 1.25)
