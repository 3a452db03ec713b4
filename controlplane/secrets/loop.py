"""Advances rotations on agent reports, refreshes due secrets, and rotates keys by the clock."""

from controlplane.platform.context import SECRET, SERVICE
from controlplane.platform.loops.retry import retry_forever
from controlplane.platform.ports import LOST_WAKES, Bus
from controlplane.secrets.operations.keys import DataKeyOperations
from controlplane.secrets.operations.refresh import SecretRefresher
from controlplane.secrets.operations.rotations import Rotations
from core.runtime.clock import Clock
from core.runtime.tasks import Tasks
from core.runtime.work_queue import WorkQueue

_TICK_SECONDS = 5.0
_SWEEP_SECONDS = 30.0
_KEYS_SECONDS = 20.0
_SEALED_SECONDS = 600.0


class SecretLoop:
    """Drives `Rotations`, `SecretRefresher` and `DataKeyOperations`."""

    def __init__(
        self,
        rotations: Rotations,
        refreshing: SecretRefresher,
        keys: DataKeyOperations,
        bus: Bus,
        clock: Clock,
    ) -> None:
        self._rotations = rotations
        self._refreshing = refreshing
        self._keys = keys
        self._bus = bus
        self._clock = clock
        self._rotating: set[str] = set()
        self.tasks = Tasks("secrets")
        self._moving = WorkQueue("secret", rotations.advance, self.tasks, clock)
        self._reading = WorkQueue("source", refreshing.refresh, self.tasks, clock)

    def start(self) -> None:
        """Starts in the background."""
        self.tasks.forever("wakes", self._follow())
        self.tasks.forever("tick", self._tick())
        self.tasks.forever("sweep", self._sweep())
        self.tasks.forever("keys", self._reload_keys())

    async def _follow(self) -> None:
        async for topic, key in self._bus.subscribe(SECRET, SERVICE, LOST_WAKES):
            if topic == SERVICE:
                self._ask(self._rotating)
            elif topic == SECRET and key:
                await retry_forever("sources", self._read_due, self._clock)
                self._rotating.add(key)
                self._ask([key])
            elif topic == SECRET:
                await retry_forever("keys", self._keys.load, self._clock)

    async def _tick(self) -> None:
        """Ends waiting periods of rotations by the clock."""
        while True:
            await retry_forever("sources", self._read_due, self._clock)
            self._ask(self._rotating)
            await self._clock.sleep(_TICK_SECONDS)

    async def _sweep(self) -> None:
        """Covers unfrozen clusters and missed events."""
        while True:
            self._rotating = await retry_forever("rotations", self._rotations.rotating, self._clock)
            self._ask(await retry_forever("followers", self._rotations.behind, self._clock))
            await self._clock.sleep(_SWEEP_SECONDS)

    async def _reload_keys(self) -> None:
        """Re-encrypts values that an older key sealed.

        Repeats it, since another replica may seal with the old key a little longer.
        """
        looked_at = -_SEALED_SECONDS
        while True:
            changed = await retry_forever("keys", self._keys.load, self._clock)
            if changed or self._clock.monotonic() - looked_at >= _SEALED_SECONDS:
                looked_at = self._clock.monotonic()
                while await retry_forever("seals", self._keys.reseal, self._clock):
                    pass
            await self._clock.sleep(_KEYS_SECONDS)

    async def _read_due(self) -> None:
        for id in await self._refreshing.due():
            self._reading.add(id)

    def _ask(self, ids: set[str] | list[str]) -> None:
        for id in ids:
            self._moving.add(id)
