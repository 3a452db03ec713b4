"""Runs the same work once for all concurrent callers."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Result = TypeVar("Result")


class SingleFlight(Generic[Key, Result]):
    """Running work by key. All callers of a key get the same result or error."""

    def __init__(self) -> None:
        self._running: dict[Key, asyncio.Future[Result]] = {}

    async def once(self, key: Key, work: Callable[[], Awaitable[Result]]) -> Result:
        """Does the work, or waits for the running call; takes over if that one is cancelled."""
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
