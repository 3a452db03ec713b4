"""Observations of connected agents, and the rate at which their reports are committed."""

from collections.abc import Sequence
from datetime import datetime

import structlog

from controlplane.agents.link.report_limiter import THROTTLED_ALARM, ReportLimiter
from controlplane.agents.model.live_logs import LiveLogs
from controlplane.agents.operations.agents import AgentOperations
from controlplane.platform.context import CLUSTER_JOB
from controlplane.platform.ports import Bus
from controlplane.services.model.ledger import LedgerEntry, LedgerStage
from controlplane.services.model.service import Service
from core.errors import TowlineError
from core.identity import ClusterId
from core.runtime.clock import Clock
from core.wire.v1 import agent_pb2 as wire

log = structlog.get_logger(__name__)

_ADMIT_SECONDS = 0.2


class SessionObserver:
    """Receives liveness, offers and logs of all sessions; `write` stores the first two at once."""

    def __init__(self, agents: AgentOperations, bus: Bus, logs: LiveLogs, clock: Clock) -> None:
        self.limiter = ReportLimiter(clock)
        self.clock = clock
        self._agents = agents
        self._bus = bus
        self._logs = logs
        self._last_seen: dict[ClusterId, datetime] = {}
        self._unwritten_offers: dict[ClusterId, list[LedgerEntry]] = {}

    def record_heartbeat(self, cluster_id: ClusterId) -> None:
        self._last_seen[cluster_id] = self.clock.now()

    def record_offer(self, service: Service) -> None:
        self._unwritten_offers.setdefault(service.cluster_id, []).append(
            LedgerEntry.of(service, LedgerStage.OFFERED, self.clock.now())
        )

    def drain_offers(self, cluster_id: ClusterId) -> list[LedgerEntry]:
        """Returns the unwritten offers of a cluster; the caller writes them."""
        return self._unwritten_offers.pop(cluster_id, [])

    def append_log(self, piece: wire.JobLog) -> None:
        """Receives a piece of a running job's log."""
        self._logs.append(piece.command_id, piece.offset, piece.data)
        self._bus.publish(CLUSTER_JOB, piece.command_id)

    async def admit(self, cluster_id: ClusterId, weights: Sequence[int]) -> int:
        """Returns the number of oldest reports that may be committed, given their weights.

        Waits until at least one may.
        """
        while True:
            count = self.limiter.take(cluster_id, weights)
            if count < len(weights) and self.limiter.throttle(cluster_id):
                log.warning("agent throttled", action="agent.throttled", cluster=cluster_id)
                await self._agents.set_alarm(cluster_id, THROTTLED_ALARM)
            if count:
                return count
            await self.clock.sleep(_ADMIT_SECONDS)

    async def write(self) -> None:
        """Writes liveness and offers; keeps them for the next write if the store fails."""
        last_seen, self._last_seen = self._last_seen, {}
        offers, self._unwritten_offers = self._unwritten_offers, {}
        try:
            await self._agents.record_liveness(
                last_seen, [row for rows in offers.values() for row in rows]
            )
        except TowlineError as error:
            log.warning("could not store the liveness of agents", error=error.message)
            self._last_seen = last_seen | self._last_seen
            for cluster_id, rows in self._unwritten_offers.items():
                offers.setdefault(cluster_id, []).extend(rows)
            self._unwritten_offers = offers
