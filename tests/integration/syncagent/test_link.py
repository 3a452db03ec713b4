"""The link alone: greeting, order, goodbyes, fetching; real gRPC, no cluster."""

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from core.errors import Invalid, NotFound
from core.identity import local_id
from core.rpc.calls import CallFailed, CallStatus
from core.rpc.methods import TUNNEL
from core.runtime.clock import SystemClock
from core.runtime.tasks import Tasks
from core.spec.bundle import make_bundle
from core.spec.desired import Desired
from core.spec.facts import ClusterFacts
from core.spec.sync import ObjectSelection
from core.wire.v1 import agent_pb2 as pb
from syncagent.link.channel import Endpoint
from syncagent.link.commands import Commands
from syncagent.link.facts import ClusterFactsCache
from syncagent.link.fetch import BundleTransfer
from syncagent.link.logs import LogQueue
from syncagent.link.session import LinkPorts
from syncagent.link.supervisor import AgentIdentity, LinkSupervisor
from syncagent.ports import LinkDown
from syncagent.state.database import Database
from syncagent.state.outbox import SqliteOutbox
from tests.fakes.hub import TOKEN, FakeHub


class Listener:
    """Records the messages of the link."""

    def __init__(self) -> None:
        self.received: list[Desired] = []
        self.links = 0
        self.full_reports = 0
        self.refused: list[str] = []

    def desire(self, desired: Desired) -> None:
        self.received.append(desired)

    def stored_services(self) -> list[tuple[str, int]]:
        return [(one.service_id, one.sequence) for one in self.received]

    def linked(self) -> None:
        self.links += 1

    def report_all(self) -> None:
        self.full_reports += 1

    def sync_now(
        self, command_id: str, service_id: str, selection: ObjectSelection | None = None
    ) -> None:
        raise AssertionError("not asked for")

    def terminate(self, command_id: str, service_id: str) -> None:
        raise AssertionError("not asked for")

    def refuse(self, command_id: str, reason: str) -> None:
        self.refused.append(command_id)


async def facts() -> ClusterFacts:
    return ClusterFacts("v1.36.3", "", 3)


@pytest.fixture
async def hub() -> AsyncIterator[FakeHub]:
    async with FakeHub() as running:
        yield running


def link_to(
    endpoint: Endpoint, listener: Listener, outbox: SqliteOutbox, fetcher: BundleTransfer
) -> LinkSupervisor:
    """A link that is yet to be run."""
    clock = SystemClock()
    return LinkSupervisor(
        endpoint,
        AgentIdentity("me", sealing_key=b"k" * 32),
        LinkPorts(listener, Commands(listener), outbox, LogQueue(), clock),
        fetcher,
        ClusterFactsCache(facts, clock),
    )


@pytest.fixture
async def link(
    hub: FakeHub, tmp_path: Path
) -> AsyncIterator[tuple[Listener, SqliteOutbox, BundleTransfer]]:
    """A running link."""
    listener, tasks = Listener(), Tasks("test")
    database = Database(tmp_path / "agent.db")
    outbox = SqliteOutbox(database, SystemClock())
    endpoint = Endpoint(hub.address, TOKEN)
    fetcher = BundleTransfer(endpoint.metadata)
    tasks.forever("link", link_to(endpoint, listener, outbox, fetcher).run())
    yield listener, outbox, fetcher
    await tasks.stop()
    database.close()


async def test_the_greeting_says_what_is_held(hub: FakeHub, link) -> None:
    """Versions, facts; after a reconnect also the services, so that nothing is sent twice."""
    listener, _, _ = link
    await hub.until(lambda: hub.hellos)
    assert hub.hellos[0].facts.nodes == 3
    hub.want("a", [])
    await until(lambda: listener.received)
    await hub.stop()
    await hub.start()
    await hub.until(lambda: len(hub.hellos) == 2)
    assert [(h.service_id, h.sequence) for h in hub.hellos[1].held] == [("a", 1)]
    hub.want("b", [])
    await until(lambda: len(listener.received) > 1)
    assert [one.service_id for one in listener.received] == ["a", "b"]


async def test_a_restored_hub_gets_every_report_again(hub: FakeHub, link) -> None:
    """It acknowledges less than it once did; a hub that lost nothing gets no report twice."""
    listener, outbox, _ = link
    outbox.put("a", pb.Report().SerializeToString())
    outbox.put("b", pb.Report().SerializeToString())
    await until(lambda: outbox.acknowledged() == 2)
    for committed, full_reports in ((2, 0), (1, 1)):
        await hub.stop()
        hub.committed = committed
        hub.hellos.clear()
        await hub.start()
        hub.want(f"after-{committed}", [])
        await until(lambda count=full_reports + 1: len(listener.received) == count)
        assert hub.hellos[-1].acknowledged == 2 and listener.full_reports == full_reports


async def test_a_draining_hub_is_left_and_found_again_at_once(hub: FakeHub, link) -> None:
    """DRAINING is answered by a new call within about a second."""
    await hub.until(lambda: hub.hellos)
    hub.drain()
    await hub.until(lambda: len(hub.hellos) == 2)


async def test_an_agent_that_a_newer_one_has_replaced_says_so_and_stays_away(
    hub: FakeHub, link, capsys: pytest.CaptureFixture[str]
) -> None:
    """For about a minute each time, so that two of one identity do not push each other out."""
    await hub.until(lambda: hub.hellos)
    reason, said = pb.GOODBYE_REASON_REPLACED, ""
    hub.send(pb.HubMessage(goodbye=pb.Goodbye(reason=reason, message="another one is here")))
    async with asyncio.timeout(60):
        while "control plane ended the connection" not in said:
            await asyncio.sleep(0.02)
            said += capsys.readouterr().out
    assert "another one is here" in said and "GOODBYE_REASON_REPLACED" in said
    waits = re.search(r"retry_s\W+(?:\x1b\[\d+m)*([\d.]+)", said)
    assert waits is not None and float(waits[1]) >= 45
    assert len(hub.hellos) == 1


async def test_a_word_that_makes_no_sense_harms_only_itself(hub: FakeHub, link) -> None:
    """Desired with neither spec nor removal is ignored; the next one arrives on the same call."""
    listener, _, _ = link
    await hub.until(lambda: hub.hellos)
    hub.send(pb.HubMessage(desired=pb.Desired(service_id="odd", sequence=1)))
    hub.want("a", [])
    await until(lambda: listener.received)
    assert [one.service_id for one in listener.received] == ["a"]
    assert len(hub.hellos) == 1


async def test_many_reports_arrive_in_order(hub: FakeHub, link) -> None:
    """More than the window holds, each once, numbers without a gap."""
    _, outbox, _ = link
    for number in range(1000):
        status = pb.ServiceStatus(service_id=str(number))
        outbox.put(f"status/{number}", pb.Report(status=status).SerializeToString())
    await hub.until(lambda: len(hub.reports) == 1000)
    assert [r.number for r in hub.reports] == list(range(1, 1001))
    assert [r.status.service_id for r in hub.reports] == [str(n) for n in range(1000)]
    assert all(r.at_ms for r in hub.reports)


async def test_a_window_full_of_unacknowledged_reports_lets_newer_words_replace_older(
    hub: FakeHub, link
) -> None:
    """Beyond the window reports wait on disk, and a newer one takes an older one's place."""
    _, outbox, _ = link
    hub.acknowledging = False
    for number in range(256):
        outbox.put(f"status/{number}", pb.Report().SerializeToString())
    await hub.until(lambda: len(hub.reports) == 256)
    for number in range(50):
        status = pb.ServiceStatus(service_id="late", sequence=number)
        outbox.put("status/late", pb.Report(status=status).SerializeToString())
    hub.acknowledging, hub.committed = True, 256
    hub.send(pb.HubMessage(ack=pb.Ack(number=256)))
    await hub.until(lambda: len(hub.reports) == 257)
    assert hub.reports[-1].status.sequence == 49


async def test_bundles_are_fetched_and_checked(hub: FakeHub, link) -> None:
    """In chunks, against the digest; what the hub does not have is said."""
    _, _, fetcher = link
    await hub.until(lambda: hub.hellos)
    objects = [{"kind": "A", "data": "x" * 1000, "metadata": {"name": str(i)}} for i in range(90)]
    bundle = make_bundle(objects)
    hub.bundles[bundle.digest] = bundle.data
    assert await fetcher.fetch(bundle.digest, len(bundle.data)) == bundle.data
    hub.bundles[bundle.digest] = bundle.data + b"!"
    with pytest.raises(Invalid, match="digest"):
        await fetcher.fetch(bundle.digest, 1)
    with pytest.raises(NotFound):
        await fetcher.fetch("sha256:none", 1)


async def test_a_fetch_is_resumed_where_it_broke_off(hub: FakeHub, link) -> None:
    """The second try asks for the rest only."""
    _, _, fetcher = link
    await hub.until(lambda: hub.hellos)
    bundle = make_bundle([{"kind": "A", "data": "x" * 200_000}])
    hub.bundles[bundle.digest] = bundle.data
    hub.break_fetch_at = 65_536
    with pytest.raises(LinkDown):
        await fetcher.fetch(bundle.digest, len(bundle.data))
    hub.break_fetch_at = None
    assert await fetcher.fetch(bundle.digest, len(bundle.data)) == bundle.data
    assert [request.offset for request in hub.fetches] == [0, 65_536]


async def test_a_small_bundle_that_came_by_itself_is_not_fetched(hub: FakeHub, link) -> None:
    """Not even if the link is gone since; one that is not what its digest names counts as none."""
    listener, _, fetcher = link
    await hub.until(lambda: hub.hellos)
    good, bad = hub.want("good", [{"kind": "A"}]), make_bundle([{"kind": "B"}])
    hub.bundles[bad.digest] = bad.data
    spec = pb.ServiceSpec(name="bad", namespace="n", digest=bad.digest, bundle=b"x")
    hub.send(pb.HubMessage(desired=pb.Desired(service_id="bad", sequence=1, spec=spec)))
    async with asyncio.timeout(60):
        while len(listener.received) < 2:
            await asyncio.sleep(0.02)
    assert await fetcher.fetch(good.digest, len(good.data)) == good.data and not hub.fetches
    assert await fetcher.fetch(bad.digest, len(bad.data)) == bad.data
    assert [request.digest for request in hub.fetches] == [bad.digest]


async def test_offered_bundles_have_bounded_room() -> None:
    """The oldest go first."""
    fetcher, piece = BundleTransfer(()), b"x" * (1 << 20)
    for number in range(20):
        fetcher.offer(f"sha256:{number}", piece)
    assert len(fetcher._offered) == 16 and "sha256:0" not in fetcher._offered


async def test_without_a_link_there_is_nothing_to_fetch_from() -> None:
    """LinkDown, at once."""
    with pytest.raises(LinkDown):
        await BundleTransfer(()).fetch("sha256:x", 1)


async def test_tls_is_the_default() -> None:
    """An address without a scheme is not spoken to in the clear."""
    async with FakeHub() as hub:
        channel = Endpoint(f"127.0.0.1:{hub.port}", TOKEN).connect(SystemClock())
        with pytest.raises(CallFailed) as failed:
            await channel.call(TUNNEL, ())
        assert failed.value.status is CallStatus.UNAVAILABLE
        assert not hub.fetches
        await channel.close()


async def until(right) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(60):
        while not right():
            await asyncio.sleep(0.01)


async def test_a_service_of_a_local_id_is_not_taken_from_the_control_plane(
    hub: FakeHub, link
) -> None:
    """What the cluster defines itself cannot be replaced from outside, nor is it offered."""
    listener, _, _ = link
    await hub.until(lambda: hub.hellos)
    hub.want(local_id("cluster", "shop"), [])
    hub.want("a", [])
    await until(lambda: listener.received)
    assert [one.service_id for one in listener.received] == ["a"]


async def test_unsupported_commands_are_refused(hub: FakeHub, link) -> None:
    """A job where none are run, a command of a later version: an answer, not silence."""
    listener, _, _ = link
    await hub.until(lambda: hub.hellos)
    assert hub.hellos[0].sealing_key == b"k" * 32
    hub.send(pb.HubMessage(command=pb.Command(id="1", run_job=pb.RunJob(manifest=b"{}"))))
    hub.send(pb.HubMessage(command=pb.Command(id="2")))
    await until(lambda: listener.refused == ["1", "2"])


@pytest.mark.parametrize(
    ("endpoint", "why"),
    [
        (Endpoint("127.0.0.1:1", TOKEN, b"no certificate"), "no readable certificates"),
        (Endpoint("a..b:1", TOKEN), "not a host name"),
        (Endpoint("ftp://hub:1", TOKEN), "not a valid"),
    ],
)
async def test_an_impossible_connection_is_logged_and_retried(
    tmp_path: Path, endpoint: Endpoint, why: str
) -> None:
    """A link that ends would take the healing of drift with it."""
    database, tasks = Database(tmp_path / "agent.db"), Tasks("test")
    outbox = SqliteOutbox(database, SystemClock())
    one = link_to(endpoint, Listener(), outbox, BundleTransfer(endpoint.metadata))
    with capture_logs() as logged:
        running = tasks.forever("link", one.run())
        await until(lambda: sum(why in str(line.get("details")) for line in logged) > 1)
    assert not running.done()
    await tasks.stop()
    database.close()
