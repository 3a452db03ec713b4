"""What keeps a link's time."""

from fleet.mux.mux import Mux
from fleet.runtime.clock import Clock

BEAT_SECONDS = 1.0


async def beat(mux: Mux, clock: Clock) -> None:
    """Have the mux look after its streams and its far side, for ever."""
    while True:
        await clock.sleep(BEAT_SECONDS)
        mux.beat()
