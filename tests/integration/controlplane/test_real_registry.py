"""Triggers' registry client against a real registry, which has written its own answers."""

from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta

import pytest

from controlplane.notify.outward import GuardedSender
from controlplane.ports import RegistryAccount
from controlplane.registry.client import RegistryClient
from core.errors import NotFound, Unavailable
from core.runtime.clock import SystemClock
from tests.servers.registry import PASSWORD, USER, Registry, find_registry

THEN = datetime(2026, 1, 1, tzinfo=UTC)
ACCOUNT = RegistryAccount(USER, PASSWORD)


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    program = find_registry()
    if program is None:
        pytest.skip("no docker-registry on this machine: your system's package manager has it")
    with Registry(program) as running:
        yield running


@pytest.fixture
async def client() -> AsyncIterator[RegistryClient]:
    outward = GuardedSender(("127.0.0.0/8",))
    yield RegistryClient(outward, SystemClock())
    await outward.close()


async def test_all_pages_of_tags_are_read_where_one_signs_in(
    registry: Registry, client: RegistryClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controlplane.registry.client._PAGE", 2)
    for number in range(5):
        registry.push("team/shop", f"1.{number}", THEN)
    image = f"{registry.host}/team/shop"
    assert sorted(await client.tags(image, ACCOUNT)) == [f"1.{number}" for number in range(5)]
    for wrong in (None, RegistryAccount(USER, "wrong")):
        with pytest.raises(Unavailable):
            await client.tags(image, wrong)
    with pytest.raises((NotFound, Unavailable)):
        await client.tags(f"{registry.host}/team/nothing", ACCOUNT)


async def test_digests_and_times_are_those_that_were_pushed(
    registry: Registry, client: RegistryClient
) -> None:
    """A tag that moves has another digest; of several platforms the times are told too."""
    image = f"{registry.host}/web"
    first = registry.push("web", "live", THEN)
    assert await client.digest(image, "live", ACCOUNT) == first
    assert await client.made(image, "live", ACCOUNT) == THEN
    later = THEN + timedelta(days=1)
    second = registry.push("web", "live", later, index=True)
    assert await client.digest(image, "live", ACCOUNT) == second != first
    assert await client.made(image, "live", ACCOUNT) == later
