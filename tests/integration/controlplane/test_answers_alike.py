"""Absent and hidden resources get the same answer, in the same time."""

import statistics
import time
from collections.abc import Awaitable, Callable

import pytest

from controlplane.authorization import Actor, Scope
from controlplane.authorization.roles import BuiltInRole as Role
from core.errors import NotFound
from tests.integration.controlplane.conftest import World, person

ROUNDS = 150
Ask = Callable[[Actor, str], Awaitable[object]]


async def timed(ask: Ask, actor: Actor, id: str) -> float:
    start = time.perf_counter()
    with pytest.raises(NotFound):
        await ask(actor, id)
    return time.perf_counter() - start


@pytest.mark.parametrize("what", ["cluster", "service", "repository", "revoked token"])
async def test_a_foreign_id_takes_no_longer_than_an_absent_one(world: World, what: str) -> None:
    """Asked in turns, so that what else runs here slows both."""
    cluster, repository = await world.cluster(), await world.repository()
    service = await world.service(cluster, repository)
    user = await world.people.upsert(world.admin, "ann@example.org")
    ann = await world.identity.actor_of(user.id)
    row, _ = await world.identity.create_token(ann, "laptop")
    asks: dict[str, tuple[Ask, str]] = {
        "cluster": (lambda who, id: world.clusters.get(who, id), cluster.id),
        "service": (world.services.get, service.id),
        "repository": (lambda who, id: world.repositories.get(who, id), repository.id),
        "revoked token": (world.identity.revoke_token, row.id),
    }
    ask, foreign = asks[what]
    eve = person(Role.EDITOR, "eve", Scope("project:elsewhere"))
    absent = foreign[:-4] + "0000"
    pairs = [(await timed(ask, eve, foreign), await timed(ask, eve, absent)) for _ in range(ROUNDS)]
    ratio = statistics.median(there / missing for there, missing in pairs)
    assert 0.6 < ratio < 1.6, ratio
