"""Advances rotations on agent reports, refreshes due secrets, and rotates keys by the clock."""

from controlplane.platform.context import SECRET, SERVICE
from controlplane.platform.loops.background import BackgroundLoop
from controlplane.platform.loops.retry import retry_forever
from controlplane.platform.ports import LOST_WAKES, Bus
from controlplane.secrets.operations.keys import DataKeyOperations
from controlplane.secrets.operations.refresh import SecretRefresher
from controlplane.secrets.operations.rotations import Rotations
from core.runtime.clock import Clock
from core.runtime.work_queue import WorkQueue

_TICK_SECONDS = 5.0
_SWEEP_SECONDS = 30.0
_KEYS_SECONDS = 20.0
_SEALED_SECONDS = 600.0


class SecretLoop(BackgroundLoop):
    """Drives `Rotations`, `SecretRefresher` and `DataKeyOperations`."""

    def __init__(
        self,
        rotations: Rotations,
        refreshing: SecretRefresher,
        keys: DataKeyOperations,
        bus: Bus,
        clock: Clock,
    ) -> None:
        super().__init__("secrets", clock)
        self._rotations = rotations
        self._refreshing = refreshing
        self._keys = keys
        self._bus = bus
        self._rotating: set[str] = set()
        self._resealed_at = -_SEALED_SECONDS
        self._advances = WorkQueue("secret", rotations.advance, self.tasks, clock)
        self._reads = WorkQueue("source", refreshing.refresh, self.tasks, clock)

    async def start(self) -> None:
        self.tasks.forever("wakes", self._follow_events())
        self._every(_TICK_SECONDS, "tick", self._advance_by_clock)
        self._every(_SWEEP_SECONDS, "sweep", self._sweep)
        self._every(_KEYS_SECONDS, "keys", self._reload_keys)

    async def _follow_events(self) -> None:
        async for topic, key in self._bus.subscribe(SECRET, SERVICE, LOST_WAKES):
            if topic == SERVICE:
                self._request_advance(self._rotating)
            elif topic == SECRET and key:
                await retry_forever("sources", self._read_due, self._clock)
                self._rotating.add(key)
                self._request_advance([key])
            elif topic == SECRET:
                await retry_forever("keys", self._keys.load, self._clock)

    async def _advance_by_clock(self) -> None:
        """Ends waiting periods of rotations by the clock."""
        await self._read_due()
        self._request_advance(self._rotating)

    async def _sweep(self) -> None:
        """Covers unfrozen clusters and missed events."""
        self._rotating = await self._rotations.rotating()
        self._request_advance(await self._rotations.outdated())

    async def _reload_keys(self) -> None:
        """Re-encrypts values that an older key sealed.

        Repeats it, since another replica may seal with the old key a little longer.
        """
        changed, now = await self._keys.load(), self._clock.monotonic()
        if changed or now - self._resealed_at >= _SEALED_SECONDS:
            self._resealed_at = now
            # Repeated here: the next `load` does not tell the same change again.
            while await retry_forever("seals", self._keys.reseal, self._clock):
                pass

    async def _read_due(self) -> None:
        for id in await self._refreshing.due():
            self._reads.add(id)

    def _request_advance(self, ids: set[str] | list[str]) -> None:
        for id in ids:
            self._advances.add(id)
