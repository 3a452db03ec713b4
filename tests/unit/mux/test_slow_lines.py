"""Both ends of a link over a slow line, in simulated time."""

import random
from collections.abc import Sequence

import pytest

from core.mux.budget import ReceiveBudget
from core.mux.codec import Buffer, Hello, Open
from core.mux.mux import Mux, MuxSettings, MuxTime
from tests.fakes.tunnel import ManualLoop, RecordingMuxOwner, RecordingOwner

REQUEST = Open(b"GET / HTTP/1.1\r\n\r\n", b"ann", b"r" * 16)
SETTINGS = MuxSettings()


class SlowLink:
    """One end. It takes whatever it is given, as gRPC does; the line is slow behind that.

    A part of all messages is late by `stall` seconds, and all behind it, as after a loss.
    """

    blocked = False

    def __init__(self, loop: ManualLoop, rate: float, delay: float, stall: float = 0.0) -> None:
        self.other: Mux
        self.ended = False
        self._loop, self._rate, self._delay, self._stall = loop, rate, delay, stall
        self._choice = random.Random(6)
        self._free_at = 0.0

    def send(self, buffers: Sequence[Buffer]) -> None:
        message, now = b"".join(buffers), self._loop.monotonic()
        lost = self._stall if self._choice.random() < 0.01 else 0.0
        self._free_at = max(now, self._free_at) + len(message) / self._rate + lost
        self._loop.call_later(self._free_at + self._delay - now, self._arrive, message)

    def close(self, reason: str) -> None:
        self.ended = True

    def _arrive(self, message: bytes) -> None:
        if not self.ended:
            self.other.on_message(message)


class Pair:
    """Two ends over a line with a rate in bytes a second and a one-way delay in seconds."""

    def __init__(self, rate: float, delay: float, stall: float = 0.0) -> None:
        self.loop = ManualLoop()
        self.links = [SlowLink(self.loop, rate, delay, stall) for _ in range(2)]
        self.owners = [RecordingMuxOwner() for _ in range(2)]
        self.hub, self.agent = (
            Mux(
                link,
                owner,
                hub=owner is self.owners[0],
                hello=Hello(b"i" * 16, SETTINGS.window),
                time=MuxTime(self.loop, self.loop),
                budget=ReceiveBudget(64 << 20),
                settings=SETTINGS,
            )
            for link, owner in zip(self.links, self.owners, strict=True)
        )
        self.links[0].other, self.links[1].other = self.agent, self.hub
        self.run(2)

    def run(self, seconds: float, until=lambda: False) -> float:
        """Let time pass; how much did until the condition held."""
        step, passed = min(0.005, seconds), 0.0
        while passed < seconds and not until():
            self.loop.advance(step)
            while not self.loop.idle:
                self.loop.run()
            for owner in self._all():
                owner.consume(1 << 30)
            passed += step
        return passed

    def open(self) -> tuple[RecordingOwner, RecordingOwner]:
        """A stream, seen from both ends."""
        here = RecordingOwner()
        here.stream = self.hub.open(here, REQUEST, tenant=b"ann")
        self.opened = [*getattr(self, "opened", []), here]
        self.run(30, lambda: here.stream.id in self.owners[1].accepted)
        return here, self.owners[1].accepted[here.stream.id]

    def _all(self) -> list[RecordingOwner]:
        return [*getattr(self, "opened", []), *self.owners[1].accepted.values()]


def keep_sending(pair: Pair, there: RecordingOwner, data: bytes) -> None:
    """Bulk from the agent that never ends by itself."""
    for at in range(0, len(data), 32 << 10):
        there.stream.send(data[at : at + (32 << 10)])


def test_small_frames_are_quick_beside_bulk_at_64_kbit_a_second() -> None:
    """500 ms there and back: an answer comes within 2 round trips and a second, from the start."""
    pair = Pair(rate=8_000, delay=0.25)
    _, bulk = pair.open()
    _, small = pair.open()
    keep_sending(pair, bulk, b"b" * (400 << 10))
    waits = []
    for number in range(12):
        seen = len(pair.opened[1].received)
        small.stream.send(b"event %d" % number)
        waits.append(pair.run(20, lambda seen=seen: len(pair.opened[1].received) > seen))
        pair.run(0.7)
    assert max(waits) <= 2 * 0.5 + 1
    assert sorted(waits)[len(waits) // 2] <= 1.5


@pytest.mark.parametrize(
    ("rate", "delay", "part"),
    [(8e3, 0.25, 0.9), (1.25e6, 0.05, 0.9), (12.5e6, 0.025, 0.9), (125e6, 0.025, 0.45)],
)
def test_bulk_fills_the_line(rate: float, delay: float, part: float) -> None:
    """Short turns must not leave a line idle; the start counts, too."""
    pair = Pair(rate, delay)
    here, there = pair.open()
    seconds = 30 if rate < 1e5 else 3
    sent = 0
    step = delay / 10
    for _ in range(int(seconds / step)):
        while there.may_send and sent < rate * seconds * 2:
            there.may_send = there.stream.send(b"b" * (32 << 10))
            sent += 32 << 10
        pair.run(step)
    assert len(here.received) >= part * rate * (seconds - 8 * delay)


def test_nothing_is_mixed_up_on_a_lossy_line() -> None:
    """Retransmissions hold up the line; bytes stay whole and in order."""
    pair = Pair(rate=64_000, delay=0.25, stall=0.5)
    here, there = pair.open()
    data = random.Random(7).randbytes(300 << 10)
    keep_sending(pair, there, data)
    pair.run(60, lambda: len(here.received) == len(data))
    assert here.received == data


def test_a_cut_line_ends_streams_on_both_sides_and_a_new_link_serves() -> None:
    """The far ends notice by silence; what was open is reset, nothing is doubled later."""
    pair = Pair(rate=8_000, delay=0.25)
    here, there = pair.open()
    for link in pair.links:
        link.ended = True
    for _ in range(26):
        pair.run(1)
        pair.hub.beat()
        pair.agent.beat()
    assert here.reset and there.reset
    again = Pair(rate=8_000, delay=0.25)
    here, there = again.open()
    there.stream.send(b"new")
    again.run(5, lambda: here.received)
    assert here.received == b"new"
