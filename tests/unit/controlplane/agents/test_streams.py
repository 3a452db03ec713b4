"""Operations on open requests, over the in-memory store."""

from dataclasses import replace

import pytest

from controlplane.agents.operations.streams import PART_BYTES, OpenRequestOperations
from controlplane.authorization import ANONYMOUS, DEFAULT_PROJECT, Actor, ResourceKind
from controlplane.authorization.resources import scope_of
from controlplane.authorization.roles import BuiltInRole
from controlplane.platform.ports import MAX_PAGE_ROWS
from core.errors import Forbidden, NotFound, TowlineError, Unauthenticated, Unavailable
from core.identity import ClusterId
from core.open_streams import FoundStreams, OpenStream, RecordingPart, StreamFilter
from tests.fakes.actors import ADMIN, EDITOR, VIEWER, person
from tests.fakes.audit_rows import audit_rows
from tests.fakes.clock import START
from tests.fakes.operations import make_cluster, operations_over_memory

ROOT = person(BuiltInRole.ADMIN, "second")
PROJECT = "00000000-0000-7000-8000-000000000008"


class Sessions:
    """A proxy with these open requests and this recording; keeps the filter of the last question.

    `silent`: replicas that do not answer.
    """

    def __init__(self, *streams: OpenStream, silent: tuple[str, ...] = ()) -> None:
        self.asked: StreamFilter | None = None
        self.streams, self.silent = list(streams), silent
        self.ended: list[tuple[str, str]] = []
        self.recorded = b"x" * (2 * PART_BYTES + 1)

    async def open_streams(self, stream_filter: StreamFilter) -> FoundStreams:
        self.asked = stream_filter
        return FoundStreams(stream_filter.select(self.streams), self.silent)

    async def end_stream(self, stream: OpenStream, by: str) -> bool:
        self.ended.append((stream.id, by))
        return stream.what != "has ended"

    async def recording(self, request_id: str, offset: int, max_bytes: int) -> RecordingPart:
        if not request_id.startswith("r"):
            raise NotFound("no such recording")
        end = offset + max_bytes
        next_offset = end if end < len(self.recorded) else None
        return RecordingPart(self.recorded[offset:end], next_offset, False, ClusterId("dev"))


async def test_an_administrator_sees_the_requests_of_all_clusters_of_a_project() -> None:
    """A project can have more clusters than a page has rows."""
    world, sessions = operations_over_memory(), Sessions()
    clusters = [
        make_cluster(f"c{number:04}", project_id=PROJECT) for number in range(MAX_PAGE_ROWS + 2)
    ]
    await world.given(*clusters, make_cluster("other"))
    operations = OpenRequestOperations(world.context, sessions)
    owner = person(BuiltInRole.ADMIN, "owner", scope_of(ResourceKind.PROJECT, PROJECT))
    await operations.page(owner)
    assert sessions.asked is not None and sessions.asked.clusters is not None
    assert set(sessions.asked.clusters) == {cluster.id for cluster in clusters}


async def test_others_see_only_their_own_requests() -> None:
    world, sessions = operations_over_memory(), Sessions()
    await world.given(make_cluster("dev"))
    operations = OpenRequestOperations(world.context, sessions)
    await operations.page(EDITOR)
    assert sessions.asked == StreamFilter(owner=EDITOR.id, clusters=())
    await operations.page(ADMIN)
    assert sessions.asked is not None and sessions.asked.clusters is None


DEV = make_cluster("dev")
SHELL = OpenStream(
    "s1", START, DEV.id, "dev", EDITOR.id, EDITOR.email, "", "exec web", "upgrade",
    "192.0.2.1", "kubectl", 0, 0, recorded=True,
)  # fmt: skip


async def test_requests_are_found_by_cluster_and_user() -> None:
    sessions = Sessions()
    await OpenRequestOperations(operations_over_memory().context, sessions).page(ADMIN, "dev", "ed")
    assert sessions.asked == StreamFilter(handle="dev", user="ed", owner=ADMIN.id, clusters=None)


async def test_an_ended_request_is_audited_and_its_user_learns_who_ended_it() -> None:
    """Also if a replica with other requests does not answer."""
    sessions = Sessions(replace(SHELL, id="s0"), SHELL, silent=("replica-2",))
    world = operations_over_memory()
    await world.given(DEV)
    assert await OpenRequestOperations(world.context, sessions).end(ADMIN, "s1") == SHELL
    assert sessions.ended == [("s1", ADMIN.shown_name)]
    assert await world.audited() == [(ADMIN.email, "endStream", "dev: exec web")]
    assert await world.audit_details() == [("endStream", {"user": EDITOR.email, "stream": "s1"})]


@pytest.mark.parametrize(
    ("sessions", "actor", "error", "text"),
    [
        (Sessions(), ADMIN, NotFound, "it has ended"),
        (Sessions(silent=("replica-2",)), ADMIN, Unavailable, "no answer from replica-2"),
        (Sessions(replace(SHELL, what="has ended")), ADMIN, NotFound, "it has ended"),
        (Sessions(SHELL), VIEWER, NotFound, "you have no access"),
        (Sessions(SHELL), ANONYMOUS, Unauthenticated, "sign in"),
        (None, ADMIN, NotFound, "it has ended"),
    ],
)
async def test_a_request_that_is_not_open_or_not_visible_is_not_ended(
    sessions: Sessions | None, actor: Actor, error: type[TowlineError], text: str
) -> None:
    world = operations_over_memory()
    await world.given(DEV)
    with pytest.raises(error, match=text):
        await OpenRequestOperations(world.context, sessions).end(actor, "s1")


async def test_a_process_without_a_proxy_has_no_open_requests_and_no_recordings() -> None:
    operations = OpenRequestOperations(operations_over_memory().context)
    assert await operations.page(ADMIN) == FoundStreams([])
    with pytest.raises(Unavailable, match="stores no recordings"):
        await operations.recording(ADMIN, "r1")


async def test_a_recording_needs_read_access_to_the_audit_log() -> None:
    operations = OpenRequestOperations(operations_over_memory().context, Sessions())
    with pytest.raises(Forbidden):
        await operations.recording(EDITOR, "r1")


async def test_a_playback_leaves_one_audit_entry_of_its_cluster() -> None:
    world = operations_over_memory()
    await world.given(make_cluster("dev"))
    operations = OpenRequestOperations(world.context, Sessions())
    read, offset = b"", 0
    while offset is not None:
        part = await operations.recording(ADMIN, "r1", offset)
        read, offset = read + part.data, part.next
    assert len(read) == 2 * PART_BYTES + 1
    async with world.store.read() as tx:
        (entry,) = await audit_rows(tx)
    assert (entry.action, entry.target) == ("readRecording", "r1")
    assert (entry.cluster_id, entry.project_id) == ("dev", DEFAULT_PROJECT)
    await operations.recording(ADMIN, "r1")
    assert len(await world.audited()) == 2


@pytest.mark.parametrize("offset", [-1, 0, 1, PART_BYTES])
async def test_no_offset_reads_a_recording_without_an_audit_entry(offset: int) -> None:
    world = operations_over_memory()
    operations = OpenRequestOperations(world.context, Sessions())
    await operations.recording(ADMIN, "r1", offset)
    await operations.recording(ROOT, "r1", max(1, offset))
    assert await world.audited() == [
        (ADMIN.email, "readRecording", "r1"),
        (ROOT.email, "readRecording", "r1"),
    ]


async def test_the_readings_that_need_no_entry_are_limited() -> None:
    """Of the recordings that were read in the last minutes, the 1,000 newest are remembered."""
    world = operations_over_memory()
    operations = OpenRequestOperations(world.context, Sessions())
    await world.clock.advance(3_600)
    await operations.recording(ADMIN, "r1", 1)
    for number in range(999):
        await operations.recording(ADMIN, f"r-{number}", 1)
    for request_id, is_audited in (("r1", False), ("r-new", True), ("r1", False), ("r-0", True)):
        before = len(await world.audited())
        await operations.recording(ADMIN, request_id, 1)
        assert (len(await world.audited()) - before) == is_audited, request_id


async def test_a_recording_that_is_read_again_later_is_audited_again() -> None:
    world = operations_over_memory()
    operations = OpenRequestOperations(world.context, Sessions())
    for _ in range(2):
        await operations.recording(ADMIN, "r1", 1)
        await world.clock.advance(600)
    assert len(await world.audited()) == 2


async def test_a_missing_recording_leaves_no_audit_entry() -> None:
    world = operations_over_memory()
    with pytest.raises(NotFound):
        await OpenRequestOperations(world.context, Sessions()).recording(ADMIN, "none")
    assert await world.audited() == []
