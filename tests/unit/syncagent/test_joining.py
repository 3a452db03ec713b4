"""Credentials of an agent that joins, and its health pages meanwhile."""

import asyncio
import base64
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import aiohttp
import pytest

from core.errors import Invalid, Unavailable
from core.rpc.calls import CallChannel
from syncagent.compose import check_join, joined_settings
from syncagent.kube.client import KubeClient
from syncagent.kube.credentials import CredentialSecret
from syncagent.link.joining import AgentCredentials, ClusterJoin, CredentialFile, StoredInSecret
from syncagent.ports import RequestRefused
from syncagent.settings import Settings, from_environment
from tests.fakes.clock import FakeClock, settle
from towline import agent
from towline.demo.ports import free_ports

PATH = "/api/v1/namespaces/towline/secrets/credentials"
KEPT = AgentCredentials("twa_kept", "c1")


class FakeApiServer:
    """One Secret, and the namespace kube-system; `refusal` is raised at each request."""

    def __init__(self, **data: str) -> None:
        self.data = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
        self.refusal: Exception | None = None

    async def request(
        self, method: str, path: str, *, body: Any = None, content_type: str = ""
    ) -> Any:
        if self.refusal is not None:
            raise self.refusal
        if path == "/api/v1/namespaces/kube-system":
            return {"metadata": {"uid": "u1"}}
        assert path == PATH
        if method == "PATCH":
            assert content_type == "application/merge-patch+json"
            self.data |= body["data"]
        return {"data": self.data} if self.data else {}


def secret(server: FakeApiServer) -> CredentialSecret:
    return CredentialSecret(cast("KubeClient", server), "towline/credentials")


async def test_credentials_survive_in_the_secret() -> None:
    server = FakeApiServer()
    store = StoredInSecret(secret(server))
    assert await store.load() is None
    await store.save(KEPT)
    assert await StoredInSecret(secret(server)).load() == KEPT
    assert set(server.data) == {"deployToken", "clusterId"}
    assert "twa_kept" not in str(server.data)


async def test_a_secret_with_other_data_has_no_credentials() -> None:
    assert await secret(FakeApiServer(clusterId="c1")).read() is None
    assert await secret(FakeApiServer(deployToken="twa_x")).read() == ("twa_x", "")


async def test_a_damaged_secret_names_the_next_step() -> None:
    server = FakeApiServer()
    for data in ("%%%", "/w=="):
        server.data = {"deployToken": data}
        with pytest.raises(Invalid, match="is damaged: delete its data"):
            await secret(server).read()


async def test_a_secret_that_the_agent_may_not_write_is_named() -> None:
    server = FakeApiServer()
    server.refusal = RequestRefused("secrets is forbidden", status=403, reason="Forbidden")
    with pytest.raises(Invalid, match="Secret towline/credentials: secrets is forbidden; let"):
        await secret(server).write("twa_x", "c1")


def bootstrap_settings(tmp_path: Path, **more: str) -> Settings:
    """Settings of an agent whose API server and control plane do not answer."""
    kubeconfig = tmp_path / "kubeconfig"
    cluster, user = {"server": "https://127.0.0.1:1"}, {"token": "t"}
    context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
    kubeconfig.write_text(
        json.dumps(
            {
                "clusters": [{"name": "c", "cluster": cluster}],
                "users": [{"name": "u", "user": user}],
                "contexts": [context],
                "current-context": "x",
            }
        )
    )
    return from_environment(
        {
            "TOWLINE_AGENT_HUB_ADDRESS": "http://127.0.0.1:1",
            "TOWLINE_AGENT_HUB_BOOTSTRAP_TOKEN": "twb_x",
            "TOWLINE_AGENT_KUBERNETES_KUBECONFIG": str(kubeconfig),
            "TOWLINE_AGENT_STATE_DIRECTORY": str(tmp_path / "state"),
            **more,
        }
    )


async def probe(url: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session:
        while True:
            try:
                async with session.get(url) as answer:
                    return answer.status, await answer.text()
            except aiohttp.ClientConnectionError:
                await asyncio.sleep(0.01)


async def test_an_agent_that_waits_to_join_is_alive_but_not_ready(tmp_path: Path) -> None:
    """Until it is stopped, which it obeys at once."""
    (port,) = free_ports(1)
    listen = {"TOWLINE_AGENT_HEALTH_LISTEN": f"127.0.0.1:{port}"}
    stop = asyncio.Event()
    settings = bootstrap_settings(tmp_path, **listen)
    run = asyncio.ensure_future(agent.joined_settings(settings, FakeClock(), stop))
    async with asyncio.timeout(20):
        assert await probe(f"http://127.0.0.1:{port}/healthz") == (200, "ok\n")
        not_ready = (503, "the cluster has not joined yet\n")
        assert await probe(f"http://127.0.0.1:{port}/readyz") == not_ready
        _, metrics = await probe(f"http://127.0.0.1:{port}/metrics")
        assert "towline_agent_connected 0.0" in metrics
        stop.set()
        assert await run is None
    # The port is free for the pages of the agent itself.
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", port)
    server.close()


async def test_an_agent_with_stored_credentials_goes_on(tmp_path: Path) -> None:
    settings = bootstrap_settings(tmp_path)
    await CredentialFile(settings.state.directory / "credentials.json").save(KEPT)
    found = await agent.joined_settings(settings, FakeClock(), asyncio.Event())
    assert found is not None
    assert (found.hub.token, found.hub.cluster_id) == ("twa_kept", "c1")
    assert await joined_settings(found, FakeClock()) is found


@pytest.mark.parametrize("content", [b"", b"\xff", b"[]", b'{"token": "twa_x"}'])
async def test_a_damaged_file_of_credentials_names_the_next_step(
    tmp_path: Path, content: bytes
) -> None:
    """Such as the empty file that a power cut leaves."""
    (tmp_path / "credentials.json").write_bytes(content)
    with pytest.raises(Invalid, match="credentials.json is damaged: delete it"):
        await CredentialFile(tmp_path / "credentials.json").load()


async def test_joining_repeats_while_nobody_answers_and_ends_with_a_refusal(tmp_path: Path) -> None:
    asked = 0

    async def read_uid() -> str:
        nonlocal asked
        asked += 1
        raise Unavailable("no API server") if asked < 3 else Invalid("refused")

    @asynccontextmanager
    async def connect() -> AsyncGenerator[CallChannel]:
        raise AssertionError("not reached")
        yield

    clock = FakeClock()
    store = CredentialFile(tmp_path / "credentials.json")
    join = ClusterJoin("twb_x", "edge", connect, read_uid)
    work = asyncio.ensure_future(join.obtain(store, clock))
    await settle()
    assert asked == 1 and clock.sleepers == 1
    await clock.advance(600)
    with pytest.raises(Invalid, match="refused"):
        await work
    assert asked == 3


async def test_the_doctor_knows_a_cluster_that_has_joined(tmp_path: Path) -> None:
    place = {"TOWLINE_AGENT_HUB_CREDENTIALS_SECRET": "towline/credentials"}
    settings = bootstrap_settings(tmp_path, **place)
    server = FakeApiServer(deployToken="twa_kept", clusterId="c1")
    found, result = await check_join(settings, cast("KubeClient", server))
    assert (result.good, result.step, result.text) == (
        True,
        "joins",
        "the cluster has joined; ID c1",
    )
    assert (found.hub.token, found.hub.cluster_id) == ("twa_kept", "c1")


async def test_the_doctor_says_why_a_cluster_cannot_join(tmp_path: Path) -> None:
    settings = bootstrap_settings(tmp_path)
    server = FakeApiServer()
    found, result = await check_join(settings, cast("KubeClient", server))
    assert found is settings and not result.good
    assert "the control plane" in result.text
    server.refusal = RequestRefused("namespaces is forbidden", status=403, reason="Forbidden")
    _, result = await check_join(settings, cast("KubeClient", server))
    assert (result.good, result.text) == (False, "namespaces is forbidden")
