"""An agent that joins with a bootstrap token, over a real connection."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest

from controlplane.access.ports import UserStore
from controlplane.authorization import Actor
from controlplane.authorization.roles import BuiltInRole
from controlplane.clusters.operations.bootstrap_tokens import BootstrapTokenChange, BootstrapTokens
from core.errors import Invalid
from core.identity import TokenKind, new_token
from core.rpc.calls import CallChannel
from core.runtime.clock import SystemClock
from syncagent.compose import check_join
from syncagent.kube.client import KubeClient
from syncagent.link.channel import Endpoint
from syncagent.link.joining import ClusterJoin, CredentialFile
from syncagent.settings import from_environment
from tests.integration.controlplane.conftest import World
from tests.integration.controlplane.test_agentlink import Hub, hub  # noqa: F401

UID = "0a1b2c3d-0000-4000-8000-000000000001"


async def person(world: World) -> Actor:
    """Somebody with an account who may register clusters."""
    await world.people.upsert(world.admin, "bo@example.org", None, BuiltInRole.EDITOR)
    async with world.deps.store.read() as tx:
        user = await tx[UserStore].by_email("bo@example.org")
    assert user is not None
    return await world.identity.actor_of(user.id)


def joining(hub: Hub, secret: str, uid: str = UID) -> ClusterJoin:  # noqa: F811
    @asynccontextmanager
    async def connect() -> AsyncGenerator[CallChannel]:
        channel = Endpoint(f"http://127.0.0.1:{hub.port}", "").connect(SystemClock())
        try:
            yield channel
        finally:
            await channel.close()

    async def read_uid() -> str:
        return uid

    return ClusterJoin(secret, "edge", connect, read_uid)


async def test_an_agent_joins_once_and_connects_with_its_own_token(
    hub: Hub,  # noqa: F811
    tmp_path: Path,
) -> None:
    tokens = BootstrapTokens(hub.world.deps)
    creator = await person(hub.world)
    row, secret = await tokens.create(creator, BootstrapTokenChange("edge"))
    store, clock = CredentialFile(tmp_path / "state" / "credentials.json"), SystemClock()
    await joining(hub, secret).check()
    found = await joining(hub, secret).obtain(store, clock)
    assert (tmp_path / "state" / "credentials.json").stat().st_mode & 0o777 == 0o600
    agent = await hub.agent(found.token)
    welcome = await agent.hello()
    assert (welcome.cluster_id, welcome.handle) == (found.cluster_id, "edge")
    await tokens.revoke(hub.world.admin, row.id)
    assert await joining(hub, secret).obtain(store, clock) == found


async def test_a_refused_agent_says_why(hub: Hub, tmp_path: Path) -> None:  # noqa: F811
    tokens = BootstrapTokens(hub.world.deps)
    _, secret = await tokens.create(await person(hub.world), BootstrapTokenChange("edge"))
    store, clock = CredentialFile(tmp_path / "credentials.json"), SystemClock()
    await joining(hub, secret).obtain(store, clock)
    other = CredentialFile(tmp_path / "other.json")
    with pytest.raises(Invalid, match="is used up: 1 of 1 clusters joined"):
        await joining(hub, secret, "other").obtain(other, clock)
    wrong = new_token(TokenKind.BOOTSTRAP)
    with pytest.raises(Invalid, match="refuses to join: invalid bootstrap token"):
        await joining(hub, wrong).check()


class KubeSystem:
    """An API server that only knows the UID of the cluster."""

    async def request(self, method: str, path: str) -> dict[str, dict[str, str]]:
        assert (method, path) == ("GET", "/api/v1/namespaces/kube-system")
        return {"metadata": {"uid": UID}}


async def test_the_doctor_asks_the_control_plane_without_joining(
    hub: Hub,  # noqa: F811
    tmp_path: Path,
) -> None:
    tokens = BootstrapTokens(hub.world.deps)
    row, secret = await tokens.create(await person(hub.world), BootstrapTokenChange("edge"))
    settings = from_environment(
        {
            "TOWLINE_AGENT_HUB_ADDRESS": f"http://127.0.0.1:{hub.port}",
            "TOWLINE_AGENT_HUB_BOOTSTRAP_TOKEN": secret,
            "TOWLINE_AGENT_STATE_DIRECTORY": str(tmp_path),
        }
    )
    client = cast("KubeClient", KubeSystem())
    for _ in range(2):
        same, result = await check_join(settings, client)
        assert (same, result.good) == (settings, True)
        assert "accepts the bootstrap token" in result.text
    await tokens.revoke(hub.world.admin, row.id)
    _, result = await check_join(settings, client)
    assert not result.good and "refuses to join" in result.text
