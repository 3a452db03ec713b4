"""Two muxes over a link in memory, driven at random and compared with a simple model."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from core.mux.budget import ReceiveBudget
from core.mux.codec import CLOSE, END, FEATURE_ZSTD, KIND_HTTP, KIND_TCP, Hello, Open
from core.mux.congestion import CongestionWindow
from core.mux.mux import Mux, MuxSettings, MuxTime
from tests.fakes.tunnel import ManualLoop, MemoryLink, RecordingMuxOwner, RecordingOwner

SETTINGS = MuxSettings(window=48 << 10, small_window=4 << 10, max_window=192 << 10)
SIZES = st.one_of(
    st.just(0), st.integers(1, 64), st.integers(0, 9000), st.integers(30_000, 120_000)
)


class Narrow(CongestionWindow):
    """A link that looks narrow all the time, so that all bulk is packed that can be."""

    __slots__ = ()

    def on_ack(self, size: int, now: float) -> None:
        super().on_ack(size, now)
        self.narrow = True


class Side:
    """One end, and the data that it was given to send, stream by stream."""

    def __init__(self, loop: ManualLoop, *, hub: bool, packing: bool) -> None:
        self.link = MemoryLink()
        self.events = RecordingMuxOwner()
        self.budget = ReceiveBudget(400 << 10, links=1, tenants=2)
        self.mux = Mux(
            self.link,
            self.events,
            hub=hub,
            hello=Hello(
                b"h" * 16 if hub else b"a" * 16,
                SETTINGS.window,
                features=FEATURE_ZSTD if packing else 0,
            ),
            time=MuxTime(loop, loop),
            budget=self.budget,
            settings=SETTINGS,
        )
        self.link.mux = self.mux
        self.mux._congestion.__class__ = Narrow
        self.mux._congestion.narrow = True
        self.sent: dict[int, bytearray] = {}
        self.ended: dict[int, bool] = {}
        self.owners: dict[int, RecordingOwner] = self.events.accepted


class TunnelMachine(RuleBasedStateMachine):
    """Rules are what owners and the network may do; the invariants are the promises."""

    streams = Bundle("streams")

    @initialize(hub=st.booleans(), agent=st.booleans())
    def connect(self, hub: bool, agent: bool) -> None:
        """Each side offers to unpack, or does not."""
        self.loop = ManualLoop()
        self.hub = Side(self.loop, hub=True, packing=hub)
        self.agent = Side(self.loop, hub=False, packing=agent)
        self.cut = False
        self.pattern = 0
        self._settle()
        assert self.hub.events.ready and self.agent.events.ready

    @rule(
        target=streams,
        tenant=st.sampled_from([b"ann", b"bob"]),
        kind=st.sampled_from([KIND_HTTP, KIND_TCP]),
    )
    def open(self, tenant: bytes, kind: int) -> int:
        if self.cut:
            return 0
        owner = RecordingOwner()
        request = Open(b"GET / HTTP/1.1\r\n\r\n", tenant, b"r" * 16, kind=kind)
        stream = self.hub.mux.open(owner, request, tenant=tenant)
        owner.stream = stream
        self.hub.owners[stream.id] = owner
        return stream.id

    @rule(stream=streams, hub=st.booleans(), size=SIZES)
    def send(self, stream: int, hub: bool, size: int) -> None:
        side = self._side(hub)
        owner = side.owners.get(stream)
        if owner is None or stream in side.ended or not owner.may_send or owner.reset:
            return
        data = self._bytes(size)
        side.sent.setdefault(stream, bytearray()).extend(data)
        owner.may_send = owner.stream.send(data)

    @rule(stream=streams, hub=st.booleans(), size=SIZES, close=st.booleans())
    def end(self, stream: int, hub: bool, size: int, close: bool) -> None:
        side = self._side(hub)
        owner = side.owners.get(stream)
        if owner is None or stream in side.ended or owner.reset:
            return
        data = self._bytes(size)
        side.sent.setdefault(stream, bytearray()).extend(data)
        side.ended[stream] = close
        owner.stream.send(data, END | CLOSE if close else END)

    @rule(stream=streams, hub=st.booleans())
    def reset(self, stream: int, hub: bool) -> None:
        owner = self._side(hub).owners.get(stream)
        if owner is not None and owner.reset is None:
            owner.stream.reset(499, "enough")
            owner.reset = (499, "here")

    @rule(stream=streams, hub=st.booleans(), size=SIZES)
    def consume(self, stream: int, hub: bool, size: int) -> None:
        owner = self._side(hub).owners.get(stream)
        if owner is not None:
            owner.consume(size)

    @rule(hub=st.booleans(), messages=st.integers(1, 6))
    def deliver(self, hub: bool, messages: int) -> None:
        for _ in range(messages):
            self._deliver_one(hub)

    @rule(seconds=st.sampled_from([0.0, 0.0002, 0.002, 1.0]))
    def tick(self, seconds: float) -> None:
        self.loop.advance(seconds)
        self.loop.run()

    @invariant()
    def nobody_holds_more_than_its_share(self) -> None:
        for side in (self.hub, self.agent):
            for tenant in (b"ann", b"bob"):
                streams = side.mux.streams.values()
                held = sum(one.held for one in streams if one.tenant == tenant)
                assert held <= side.budget.limit // 2
            holders = {one for one in side.mux.streams.values() if one.held}
            assert set(side.budget.holders(side.mux)) == holders

    @invariant()
    def bytes_arrive_in_order(self) -> None:
        for here, there in self._directions():
            for stream, owner in there.owners.items():
                sent = here.sent.get(stream, b"")
                assert sent[: len(owner.received)] == owner.received

    @invariant()
    def nobody_sends_beyond_what_was_granted(self) -> None:
        for side in (self.hub, self.agent):
            assert not side.link.closed_for
            for stream in side.mux.streams.values():
                assert stream.credit >= 0
                assert stream.granted >= 0
                assert stream.held <= stream.window
            assert side.budget.used <= side.budget.limit

    @invariant()
    def counts_of_the_queue_are_true(self) -> None:
        for side in (self.hub, self.agent):
            queue = side.mux._queue
            assert queue.bulk_size == sum(s.sendable for s in side.mux.streams.values())
            assert queue.lane_size == sum(len(h) + len(p) for h, p in queue._lane)

    def teardown(self) -> None:
        if hasattr(self, "loop"):
            self._everything_that_can_end_ends()

    def _everything_that_can_end_ends(self) -> None:
        """All is delivered and consumed: each stream that was ended or reset is gone there too."""
        for _ in range(400):
            for side in (self.hub, self.agent):
                for owner in side.owners.values():
                    owner.consume(1 << 30)
            if not self._settle():
                break
        for here, there in self._directions():
            for stream, sent in here.sent.items():
                owner, source = there.owners[stream], here.owners[stream]
                if owner.reset or source.reset:
                    continue
                assert owner.received == sent
                assert owner.ended == here.ended.get(stream)
                assert source.may_send or stream in here.ended
        for stream, owner in self.hub.owners.items():
            other = self.agent.owners[stream]
            done = stream in self.hub.ended and stream in self.agent.ended
            if owner.reset or other.reset or done:
                assert stream not in self.hub.mux.streams
                assert stream not in self.agent.mux.streams
        assert not self.hub.budget.used and not self.agent.budget.used

    def _settle(self) -> bool:
        """Deliver until nothing moves; False if nothing did."""
        moved = False
        while True:
            before = moved
            for hub in (True, False):
                while self._side(hub).link.sent:
                    self._deliver_one(hub)
                    moved = True
            self.loop.advance(0.2)
            if self.loop.idle and before == moved:
                return moved
            self.loop.run()
            if self.loop.idle and not (self.hub.link.sent or self.agent.link.sent):
                return moved

    def _deliver_one(self, hub: bool) -> None:
        here, there = self._side(hub), self._side(not hub)
        if here.link.sent:
            here.link.deliver(there.mux)

    def _side(self, hub: bool) -> Side:
        return self.hub if hub else self.agent

    def _directions(self) -> tuple[tuple[Side, Side], tuple[Side, Side]]:
        return (self.hub, self.agent), (self.agent, self.hub)

    def _bytes(self, size: int) -> bytes:
        """Bytes that no other piece has at its start, so that a swap is seen."""
        self.pattern += 1
        seed = self.pattern.to_bytes(4, "big")
        return (seed * (size // 4 + 1))[:size]


TunnelMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)
TestTunnel = TunnelMachine.TestCase
