"""The flag that tasks wait for."""

import asyncio

import pytest

from core.runtime.flag import Flag


async def test_all_that_wait_are_woken_once() -> None:
    flag = Flag()
    waiting = [asyncio.ensure_future(flag.wait()) for _ in range(3)]
    await asyncio.sleep(0)
    flag.set()
    flag.clear()
    async with asyncio.timeout(10):
        await asyncio.gather(*waiting)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await flag.wait()


async def test_a_set_flag_is_not_waited_for() -> None:
    flag = Flag()
    flag.set()
    flag.set()
    async with asyncio.timeout(10):
        await flag.wait()
        await flag.wait()


async def test_a_cancelled_wait_leaves_nothing_and_the_others_wait_on() -> None:
    flag = Flag()
    first, second = (asyncio.ensure_future(flag.wait()) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait({first})
    assert first.cancelled() and not second.done()
    flag.set()
    async with asyncio.timeout(10):
        await second
    assert flag._waiters == ()
