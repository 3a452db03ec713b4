"""The heartbeat of many links."""

import asyncio

from core.links.heartbeat import BEAT_SECONDS, Heartbeat
from tests.fakes.clock import FakeClock


class CountingLink:
    """Counts its beats; may end another link at its first one."""

    def __init__(self, heartbeat: Heartbeat, ends: "CountingLink | None" = None) -> None:
        self.beats = 0
        self._heartbeat, self._ends = heartbeat, ends

    def beat(self) -> None:
        self.beats += 1
        if self._ends is not None:
            self._heartbeat.discard(self._ends)


async def test_each_open_link_beats_once_a_second() -> None:
    clock = FakeClock()
    heartbeat = Heartbeat(clock)
    links = [CountingLink(heartbeat) for _ in range(250)]
    for link in links:
        heartbeat.add(link)
    await clock.advance(BEAT_SECONDS)
    assert {link.beats for link in links} == {1}
    heartbeat.discard(links[0])
    await clock.advance(BEAT_SECONDS)
    assert [link.beats for link in links] == [1, *[2] * 249]


async def test_a_link_that_ends_during_a_beat_beats_no_more() -> None:
    clock = FakeClock()
    heartbeat = Heartbeat(clock)
    last = CountingLink(heartbeat)
    heartbeat.add(CountingLink(heartbeat, ends=last))
    heartbeat.add(last)
    await clock.advance(BEAT_SECONDS)
    assert last.beats == 0


async def test_no_task_is_left_without_links_and_a_later_link_beats() -> None:
    clock = FakeClock()
    heartbeat = Heartbeat(clock)
    link = CountingLink(heartbeat)
    tasks = asyncio.all_tasks()
    for beats in (1, 2):
        heartbeat.add(link)
        await clock.advance(BEAT_SECONDS)
        heartbeat.discard(link)
        assert link.beats == beats
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == tasks
