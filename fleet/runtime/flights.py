"""The same work is done once, however many ask for it at the same time."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Result = TypeVar("Result")


class Flights(Generic[Key, Result]):
    """Work under way, by key. All who ask get the one result, or its failure."""

    def __init__(self) -> None:
        self._running: dict[Key, asyncio.Future[Result]] = {}

    async def once(self, key: Key, work: Callable[[], Awaitable[Result]]) -> Result:
        """Do the work, or wait for whoever does it; take over if they are cancelled."""
        while (running := self._running.get(key)) is not None:
            await asyncio.wait([running])
            if not running.cancelled():
                return running.result()
        future = self._running[key] = asyncio.get_running_loop().create_future()
        try:
            future.set_result(await work())
        except asyncio.CancelledError:
            future.cancel()
            raise
        except Exception as error:
            future.set_exception(error)
        finally:
            del self._running[key]
        return future.result()
