"""Two replicas, agents that move between them, and news that comes late or not at all."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from core.identity import ClusterId
from core.mux.mux import Mux
from core.spec.tunnels import Tunnel
from proxy.tunnel.link_table import LinkTable, instance_of
from tests.fakes.tunnel import ManualLoop, greeted_link

CLUSTER = ClusterId("c1")
REPLICAS = st.sampled_from("xy")
AGENTS = st.sampled_from([b"a", b"b"])
START = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class Claim:
    """A link at a replica and its epoch in the store; `is_confirmed`: the replica knows it."""

    replica: str
    link: Mux
    epoch: int
    is_confirmed: bool = False


@dataclass
class Claims:
    """The row of the cluster, and every claim of it."""

    row: Tunnel = field(default_factory=lambda: Tunnel(CLUSTER, START))
    made: list[Claim] = field(default_factory=list)

    def claim(self, replica: str, link: Mux) -> None:
        # An hour between claims: that two agents fight is another test's story.
        now = self.row.since + timedelta(hours=1)
        self.row = self.row.claimed(replica, instance_of(link), "", now)
        self.made.append(Claim(replica, link, self.row.epoch))

    @property
    def waiting(self) -> list[Claim]:
        """Claims whose replica has not heard the answer."""
        return [one for one in self.made if not one.is_confirmed]


class Epochs(RuleBasedStateMachine):
    """Links come and end at either replica; answers and news reach them in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = ManualLoop()
        self.claims = Claims()
        self.held = {"x": LinkTable(), "y": LinkTable()}

    @rule(replica=REPLICAS, agent=AGENTS)
    def connect(self, replica: str, agent: bytes) -> None:
        """An agent's link is ready; the store counts it, and its answer is on its way."""
        self.claims.claim(replica, greeted_link(self.loop, agent))

    @precondition(lambda self: self.claims.waiting)
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        """A replica hears of the epoch of one of its links."""
        self._answer(data.draw(st.sampled_from(self.claims.waiting)))

    @rule(replica=REPLICAS)
    def look(self, replica: str) -> None:
        """A replica asks what became of its links; while it is cut off it does not."""
        row = self.claims.row
        held = self.held[replica].epochs.get(CLUSTER, row.epoch)
        if row.epoch > held:
            self.held[replica].supersede(CLUSTER, row.epoch, row.instance)

    @precondition(lambda self: self.claims.made)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        """An agent goes away."""
        claim = data.draw(st.sampled_from(self.claims.made))
        claim.link.close("gone")
        self.held[claim.replica].remove(CLUSTER, claim.link)

    @invariant()
    def only_the_newest_claim_serves_whoever_asks_by_the_row(self) -> None:
        """A request that names the row's epoch reaches that claim's link, or none."""
        for name, registry in self.held.items():
            link = registry.find_epoch(CLUSTER, self.claims.row.epoch)
            newest = self.claims.made[-1] if self.claims.made else None
            assert link is None or (newest and newest.link is link and newest.replica == name)

    def teardown(self) -> None:
        """Once all news has arrived one link is left at most, that of the newest claim.

        Of the others, the newest agent's own are handed over, not cut.
        """
        for claim in self.claims.waiting:
            self._answer(claim)
        for replica in self.held:
            self.look(replica)
        left = [registry.find(CLUSTER) for registry in self.held.values()]
        assert sum(link is not None for link in left) <= 1
        if not self.claims.made:
            return
        *older, newest = self.claims.made
        if not newest.link.closed:
            assert newest.link in left and newest.link.accepts_streams
        for claim in older:
            assert not claim.link.accepts_streams

    def _answer(self, claim: Claim) -> None:
        claim.is_confirmed = True
        if not claim.link.closed:
            self.held[claim.replica].add(CLUSTER, claim.link, claim.epoch)


TestEpochs = Epochs.TestCase
TestEpochs.settings = settings(max_examples=50, stateful_step_count=15, deadline=None)
