"""Operations on open requests, over the in-memory store."""

from controlplane.agents.operations.streams import OpenRequestOperations
from controlplane.authorization import ResourceKind
from controlplane.authorization.resources import scope_of
from controlplane.authorization.roles import BuiltInRole
from controlplane.platform.ports import MAX_PAGE_ROWS
from core.errors import NotFound
from core.open_streams import FoundStreams, OpenStream, RecordingPart, StreamFilter
from tests.fakes.actors import ADMIN, EDITOR, person
from tests.fakes.operations import make_cluster, operations_over_memory

PROJECT = "00000000-0000-7000-8000-000000000008"


class Sessions:
    """A proxy without open requests; keeps the filter of the last question."""

    def __init__(self) -> None:
        self.asked: StreamFilter | None = None

    async def open_streams(self, wanted: StreamFilter) -> FoundStreams:
        self.asked = wanted
        return FoundStreams([])

    async def end_stream(self, stream: OpenStream, by: str) -> bool:
        return False

    async def recording(self, request_id: str, offset: int, most: int) -> RecordingPart:
        raise NotFound("no recordings")


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
