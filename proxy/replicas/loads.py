"""Exchange of open-request counts, so that the limits of users apply across replicas."""

from collections.abc import Iterable, Mapping

import structlog

from fleet.errors import TowlineError
from fleet.runtime.clock import Clock
from fleet.runtime.tasks import Tasks
from proxy.domain.limits import Load
from proxy.ports import Counts
from proxy.replicas.asking import Inquiries

log = structlog.get_logger(__name__)

LOOK_SECONDS = 1.0


class SharedLimits:
    """Asks the other replicas every second, but only while a user has many requests open here.
    A replica that does not answer counts as empty, so that limits are then local.
    """

    def __init__(self, counts: Counts, inquiries: Inquiries, clock: Clock) -> None:
        self._counts, self._inquiries, self._clock = counts, inquiries, clock
        self.tasks = Tasks("loads")

    def start(self) -> None:
        """Starts the background task."""
        self.tasks.forever("look", self._follow())

    async def look(self) -> None:
        """Updates the counts of other replicas if needed."""
        elsewhere: list[Mapping[str, Load]] = []
        if self._counts.loads():
            try:
                elsewhere = await self._inquiries.loads()
            except TowlineError as error:
                log.warning("request limits count only this replica", why=error.message)
        self._counts.count_elsewhere(_together(elsewhere))

    async def _follow(self) -> None:
        while True:
            await self._clock.sleep(LOOK_SECONDS)
            await self.look()


def _together(loads: Iterable[Mapping[str, Load]]) -> dict[str, Load]:
    """Sums the loads that the replicas reported."""
    found: dict[str, Load] = {}
    for told in loads:
        for user, load in told.items():
            found[user] = found[user].plus(load) if user in found else load
    return found
