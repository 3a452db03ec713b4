"""`kickService` over the API: what the answer of a requested sync shows."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import cast

from controlplane.access.operations.projects import Projects
from controlplane.api.schema import schema
from controlplane.authorization import Actor
from controlplane.bridges import SERVICE_PARTS
from controlplane.clusters.ports import CommandStore
from controlplane.platform.graphql.context import ApiBackend, Authenticator, Context
from controlplane.services.operations.fences import ServiceFences
from controlplane.services.operations.services import Services
from core.identity import RepositoryId
from core.spec.source import RepositorySpec, RepositoryState
from tests.fakes.actors import EDITOR, VIEWER
from tests.fakes.clock import START
from tests.fakes.manifests import FakeManifests
from tests.fakes.operations import (
    make_cluster,
    make_repository,
    make_service,
    operations_over_memory,
)

DEV, FLEET = make_cluster("dev"), make_repository("fleet")
WEB = make_service("web", DEV, repository_id=FLEET.id, ref="main")
KICK = """mutation ($id: ID!) {
    kickService(serviceId: $id) { name syncRequestedAt repository { polledAt } }
}"""


class PollingAtOnce(FakeManifests):
    """A git cache that has polled before the request returns."""

    polls = 0

    def state(self, repository_id: RepositoryId) -> RepositoryState | None:
        state = super().state(repository_id)
        return state and replace(state, polled_at=START + timedelta(seconds=self.polls))

    async def request_poll(
        self, repository_id: RepositoryId, announced: Mapping[str, str] | None = None
    ) -> None:
        await super().request_poll(repository_id, announced)
        self.polls += 1


async def test_the_answer_shows_the_poll_before_the_requested_one() -> None:
    """A client waits for a later one, and no poll can end between two of its requests."""
    world, manifests = operations_over_memory(), PollingAtOnce()
    manifests.follow(RepositorySpec(FLEET.id, FLEET.url, frozenset({"main"})))
    await world.given(DEV, FLEET, WEB)
    services = Services(replace(world.context, manifests=manifests), SERVICE_PARTS)
    projects = Projects(world.context, ServiceFences())
    operations = {Services: services, Projects: projects}
    backend = ApiBackend(operations, cast(Authenticator, None), agents_port=0)

    async def kick(actor: Actor) -> object:
        context = Context(backend, caller=actor)
        result = await schema.execute(KICK, {"id": WEB.id}, context_value=context)
        return result.data and result.data["kickService"]

    now = START.isoformat().replace("+00:00", "Z")
    assert await kick(VIEWER) is None and manifests.hints == []
    answer = {"name": "web", "syncRequestedAt": now, "repository": {"polledAt": now}}
    assert await kick(EDITOR) == answer
    assert manifests.hints == ["fleet"] and len(await world.rows(CommandStore)) == 1
