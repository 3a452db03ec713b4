"""Waiting for what must come, and saying what was there instead."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


async def until(
    look: Callable[[], Awaitable[T]], right: Callable[[T], object], seconds: float = 60
) -> T:
    """Returns the first right result of `look`. AssertionError, with the last one: timeout."""
    seen: list[T] = []
    try:
        async with asyncio.timeout(seconds):
            while True:
                seen[:] = [await look()]
                if right(seen[0]):
                    return seen[0]
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"not within {seconds} s; last seen: {seen}") from None
