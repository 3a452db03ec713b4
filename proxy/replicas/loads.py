"""What users have open in other replicas, so that their limits count everywhere."""

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
    """Asks the others every second while somebody has much open here, and nothing else.

    Of a replica that does not answer nothing is counted: limits are its own then.
    """

    def __init__(self, counts: Counts, inquiries: Inquiries, clock: Clock) -> None:
        self._counts, self._inquiries, self._clock = counts, inquiries, clock
        self.tasks = Tasks("loads")

    def start(self) -> None:
        """Begin to ask."""
        self.tasks.forever("look", self._follow())

    async def look(self) -> None:
        """Ask now, if there is a reason."""
        elsewhere: list[Mapping[str, Load]] = []
        if self._counts.loads():
            try:
                elsewhere = await self._inquiries.loads()
            except TowlineError as error:
                log.warning("limits count this replica alone", why=error.message)
        self._counts.count_elsewhere(_together(elsewhere))

    async def _follow(self) -> None:
        while True:
            await self._clock.sleep(LOOK_SECONDS)
            await self.look()


def _together(loads: Iterable[Mapping[str, Load]]) -> dict[str, Load]:
    """The sum of what replicas have told."""
    found: dict[str, Load] = {}
    for told in loads:
        for user, load in told.items():
            found[user] = found[user].plus(load) if user in found else load
    return found
