"""Advances rotations on agent reports, refreshes due secrets, and rotates keys by the clock."""

from controlplane.loops.keyed import KeyedWork
from controlplane.loops.patient import patiently
from controlplane.ports import MISSED, Bus
from controlplane.usecases.deps import SECRET, SERVICE
from controlplane.usecases.keys import Keys
from controlplane.usecases.refreshing import Refreshing
from controlplane.usecases.rotations import Rotations
from fleet.runtime.clock import Clock
from fleet.runtime.tasks import Tasks

_TICK_SECONDS = 5.0
_SWEEP_SECONDS = 30.0
_KEYS_SECONDS = 20.0
_SEALED_SECONDS = 600.0


class SecretLoop:
    """Drives `Rotations`, `Refreshing` and `Keys`."""

    def __init__(
        self, rotations: Rotations, refreshing: Refreshing, keys: Keys, bus: Bus, clock: Clock
    ) -> None:
        self._rotations = rotations
        self._refreshing = refreshing
        self._keys = keys
        self._bus = bus
        self._clock = clock
        self._rotating: set[str] = set()
        self.tasks = Tasks("secrets")
        self._moving = KeyedWork("secret", rotations.advance, self.tasks, clock)
        self._reading = KeyedWork("source", refreshing.refresh, self.tasks, clock)

    def start(self) -> None:
        """Starts in the background."""
        self.tasks.forever("wakes", self._follow())
        self.tasks.forever("tick", self._tick())
        self.tasks.forever("sweep", self._sweep())
        self.tasks.forever("keys", self._look_for_keys())

    async def _follow(self) -> None:
        async for topic, key in self._bus.subscribe(SECRET, SERVICE, MISSED):
            if topic == SERVICE:
                self._ask(self._rotating)
            elif topic == SECRET and key:
                await patiently("sources", self._read_due, self._clock)
                self._rotating.add(key)
                self._ask([key])
            elif topic == SECRET:
                await patiently("keys", self._keys.load, self._clock)

    async def _tick(self) -> None:
        """Ends waiting periods of rotations by the clock."""
        while True:
            await patiently("sources", self._read_due, self._clock)
            self._ask(self._rotating)
            await self._clock.sleep(_TICK_SECONDS)

    async def _sweep(self) -> None:
        """Covers unfrozen clusters and missed events."""
        while True:
            self._rotating = await patiently("rotations", self._rotations.rotating, self._clock)
            self._ask(await patiently("followers", self._rotations.behind, self._clock))
            await self._clock.sleep(_SWEEP_SECONDS)

    async def _look_for_keys(self) -> None:
        """Re-encrypts values that an older key sealed.

        Repeats it, since another replica may seal with the old key a little longer.
        """
        looked_at = -_SEALED_SECONDS
        while True:
            changed = await patiently("keys", self._keys.load, self._clock)
            if changed or self._clock.monotonic() - looked_at >= _SEALED_SECONDS:
                looked_at = self._clock.monotonic()
                while await patiently("seals", self._keys.seal_anew, self._clock):
                    pass
            await self._clock.sleep(_KEYS_SECONDS)

    async def _read_due(self) -> None:
        for id in await self._refreshing.due():
            self._reading.ask(id)

    def _ask(self, ids: set[str] | list[str]) -> None:
        for id in ids:
            self._moving.ask(id)
