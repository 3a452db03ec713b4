"""Maintains the link: connects, and reconnects with backoff."""

import random
from dataclasses import dataclass

import structlog

import core
from core.errors import TowlineError
from core.identity import is_local_id
from core.rpc.calls import CallChannel, CallFailed, CallStatus
from core.rpc.methods import SYNC
from core.runtime.backoff import Backoff
from core.runtime.tasks import Tasks
from core.wire.report_codec import cluster_facts_to_message
from core.wire.v1 import agent_pb2 as pb
from syncagent.link.channel import Endpoint
from syncagent.link.connection import Companion, ControlPlaneConnection
from syncagent.link.facts import ClusterFactsCache
from syncagent.link.fetch import BundleTransfer
from syncagent.link.session import PROTOCOL, LinkPorts, SyncEnded, SyncSession

log = structlog.get_logger(__name__)

_REFUSED_S = 60.0
_DRAINED_S = 0.5
_STEADY_S = 30.0


@dataclass(frozen=True, slots=True)
class AgentIdentity:
    """Identity of an agent: its instance id, its mode, and its public key."""

    instance_id: str
    autonomous: bool = False
    sealing_key: bytes = b""


class LinkSupervisor:
    """Keeps one connection after another.
    After a loss it reconnects within 1 s, growing to 20 s, with full jitter. If the control plane
    drains, it reconnects at once while open tunnel streams end on the old connection. After a
    refused token, or a takeover by a newer agent, it retries about once a minute with a log entry.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        agent_identity: AgentIdentity,
        ports: LinkPorts,
        fetcher: BundleTransfer,
        facts: ClusterFactsCache,
        companions: tuple[Companion, ...] = (),
    ) -> None:
        self._endpoint = endpoint
        self._agent_identity = agent_identity
        self._ports = ports
        self._fetcher = fetcher
        self._facts = facts
        self._clock = ports.clock
        self._companions = companions
        self.linked = False
        self.has_been_linked = False
        self._drained_connections = Tasks("left connections")
        self._backoff = Backoff()

    async def run(self) -> None:
        """Stays connected until cancelled."""
        try:
            while True:
                began = self._clock.monotonic()
                wait = await self._run_connection()
                if self._clock.monotonic() - began > _STEADY_S:
                    self._backoff.reset()
                await self._clock.sleep(wait)
        finally:
            await self._drained_connections.stop()

    async def _run_connection(self) -> float:
        """Runs one connection; returns the seconds to wait before the next."""
        try:
            connection = ControlPlaneConnection(self._endpoint.connect(self._clock))
        except TowlineError as error:
            # The agent keeps healing, although only a corrected file or address helps here.
            return self._after_loss(CallStatus.INVALID_ARGUMENT, error.message)
        left = False
        try:
            await self._run_session(connection)
        except SyncEnded as goodbye:
            if left := goodbye.reason == pb.GOODBYE_REASON_DRAINING:
                self._drained_connections.spawn("drain", connection.drain())
            return self._after_goodbye(goodbye)
        except CallFailed as end:
            return self._after_loss(end.status, end.message)
        except TowlineError as error:
            return self._after_loss(CallStatus.UNKNOWN, error.message)
        except Exception:
            # A problem of the link must not stop the healing of drift.
            log.exception("link failed")
            return self._backoff.next()
        finally:
            self._fetcher.use(None)
            if not left:
                await connection.close()
        return 0.0

    async def _run_session(self, connection: ControlPlaneConnection) -> None:
        """Runs Sync from its greeting to its end; raises the reason of its end."""
        self._fetcher.use(connection.channel)
        session = await self._session(connection.channel)
        try:
            await session.send_hello()
            self.linked = self.has_been_linked = True
            connection.start_companions(self._companions)
            await session.run()
        finally:
            self.linked = False
            session.close()

    async def _session(self, channel: CallChannel) -> SyncSession:
        hello = pb.Hello(
            lowest_protocol=PROTOCOL,
            highest_protocol=PROTOCOL,
            agent_version=core.__version__,
            instance_id=self._agent_identity.instance_id,
            mode=pb.MODE_AUTONOMOUS if self._agent_identity.autonomous else pb.MODE_MANAGED,
            facts=cluster_facts_to_message(await self._facts.known()),
            held=(
                pb.Held(service_id=service_id, sequence=sequence)
                for service_id, sequence in self._ports.reconciler.stored_services()
                if not is_local_id(service_id)
            ),
            sealing_key=self._agent_identity.sealing_key,
            acknowledged=self._ports.outbox.acknowledged(),
        )
        return SyncSession(
            await SYNC.begin(channel, self._endpoint.metadata),
            hello,
            self._ports,
            self._fetcher.offer,
        )

    def _after_loss(self, status: CallStatus, details: str) -> float:
        if status == CallStatus.UNAUTHENTICATED:
            wait = reconnect_delay(drained=False)
            log.error(
                "the control plane refuses the agent's token", details=details, retry_s=round(wait)
            )
            return wait
        wait = self._backoff.next()
        log.warning("link lost", status=status.name, details=details, retry_s=round(wait, 1))
        return wait

    def _after_goodbye(self, goodbye: SyncEnded) -> float:
        reason = pb.GoodbyeReason.Name(goodbye.reason)
        wait = reconnect_delay(drained=goodbye.reason == pb.GOODBYE_REASON_DRAINING)
        log.warning(
            "control plane ended the connection",
            reason=reason,
            message=goodbye.message,
            retry_s=round(wait, 1),
        )
        return wait


def reconnect_delay(*, drained: bool) -> float:
    """Seconds until the next connection after a drain, or after a refusal."""
    return random.uniform(0, _DRAINED_S) if drained else _REFUSED_S * random.uniform(0.75, 1.25)
