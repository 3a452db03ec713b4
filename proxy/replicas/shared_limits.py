"""Exchange of open-request counts: the limits of users and projects apply across replicas."""

from collections.abc import Iterable, Mapping

import structlog

from core.errors import TowlineError
from core.runtime.clock import Clock
from core.runtime.tasks import Tasks
from proxy.domain.limits import Load
from proxy.ports import RequestCounts
from proxy.replicas.client import ReplicaClient

log = structlog.get_logger(__name__)

UPDATE_SECONDS = 1.0


class SharedLimits:
    """Asks the other replicas every second, but only while a user has many requests open here, or a
    project with a limit has any.
    A replica that does not answer counts as empty, so that limits are then local.
    """

    def __init__(self, counts: RequestCounts, replica_client: ReplicaClient, clock: Clock) -> None:
        self._counts, self._replica_client, self._clock = counts, replica_client, clock
        self.tasks = Tasks("loads")

    def start(self) -> None:
        """Starts the background task."""
        self.tasks.forever("update", self._run())

    async def update(self) -> None:
        """Updates the counts of other replicas if needed."""
        elsewhere: list[Mapping[str, Load]] = []
        if self._counts.loads():
            try:
                elsewhere = await self._replica_client.loads()
            except TowlineError as error:
                log.warning("request limits count only this replica", why=error.message)
        self._counts.set_remote_loads(_sum_loads(elsewhere))

    async def _run(self) -> None:
        while True:
            await self._clock.sleep(UPDATE_SECONDS)
            await self.update()


def _sum_loads(loads: Iterable[Mapping[str, Load]]) -> dict[str, Load]:
    """Sums the loads that the replicas reported."""
    totals: dict[str, Load] = {}
    for reported in loads:
        for user, load in reported.items():
            totals[user] = totals[user].plus(load) if user in totals else load
    return totals
