"""Open requests through the whole program: listed, ended, counted, and their recordings read."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from controlplane.access.operations.users import Users
from controlplane.authorization import SYSTEM
from tests.integration.serve.conftest import Json, Running, running
from tests.integration.serve.test_cluster import agent
from tests.integration.serve.waiting import until
from towline.demo.clusters.cluster import LocalCluster

STREAMS = "{ openStreams { nodes { id cluster user what kind bytesOut recorded replica } silent } }"
WATCH = "/k8s/clusters/dev/api/v1/namespaces/default/configmaps?watch=1"


@pytest.fixture
async def watched(
    tmp_path: Path, cluster: LocalCluster, bound_groups: None
) -> AsyncIterator[tuple[Running, aiohttp.ClientResponse]]:
    """A control plane with a cluster, and a watch that has begun."""
    async with running(tmp_path / "data", listen_metrics="127.0.0.1:0") as hub:
        token = (await hub.cluster())["deployToken"]
        async with agent(hub, token, cluster, tmp_path / "agent"):
            answer = await watch(hub)
            yield hub, answer
            answer.close()


async def watch(hub: Running) -> aiohttp.ClientResponse:
    headers = {"authorization": f"Bearer {hub.token}"}

    async def ask() -> aiohttp.ClientResponse:
        answer = await hub.http.get(hub.url + WATCH, headers=headers)
        if answer.status != 200:
            await answer.read()
        return answer

    answer = await until(ask, lambda answer: answer.status == 200, 30)
    assert await answer.content.readline()
    return answer


async def rows(hub: Running, text: str) -> list[Json]:
    document = "query ($q: String) { auditLogs(q: $q) { edges { node { action detail status } } } }"
    return [one["node"] for one in (await hub.ask(document, q=text))["auditLogs"]["edges"]]


async def test_an_open_watch_is_listed_and_ended(
    watched: tuple[Running, aiohttp.ClientResponse],
) -> None:
    """Its user sees the connection break; the trail has who ended it, and the watch's end."""
    hub, answer = watched
    (stream,) = (await hub.ask(STREAMS))["openStreams"]["nodes"]
    assert (stream["cluster"], stream["user"], stream["kind"]) == ("dev", "admin", "watch")
    assert stream["what"] == "watch configmaps default"
    assert stream["bytesOut"] > 0
    document = "mutation ($id: ID!) { endStream(id: $id) { id } }"
    assert (await hub.ask(document, id=stream["id"]))["endStream"]["id"] == stream["id"]
    assert [row["action"] for row in await rows(hub, "endStream")] == ["endStream"]
    with pytest.raises(aiohttp.ClientError):
        await answer.content.read()
    assert (await hub.ask(STREAMS))["openStreams"]["nodes"] == []
    error = await hub.refusal(document, id=stream["id"])
    assert error["extensions"]["code"] == "NOT_FOUND"

    async def ends() -> list[Json]:
        found = await rows(hub, "kubernetes.watch")
        return [row for row in found if row["detail"].get("reason") != "refused"]

    found = await until(ends, lambda found: len(found) == 2, 60)
    assert {row["detail"].get("reason", row["detail"].get("phase")) for row in found} == {
        "ended",
        "started",
    }


async def test_requests_are_metered(watched: tuple[Running, aiohttp.ClientResponse]) -> None:
    """By cluster, verb and code, with the open ones and refusals by reason."""
    hub, _ = watched
    for path, token in (("version", hub.token), ("version", "nobody")):
        headers = {"authorization": f"Bearer {token}"}
        async with hub.http.get(f"{hub.url}/k8s/clusters/dev/{path}", headers=headers) as answer:
            await answer.read()
    async with hub.http.get(f"http://{hub.addresses.metrics}/metrics") as answer:
        text = await answer.text()
    assert 'towline_proxy_requests_total{cluster="dev",code="200",verb="get"} 1.0' in text
    assert 'towline_proxy_open_requests{cluster="dev",kind="watch"} 1.0' in text
    assert 'towline_proxy_refusals_total{code="401"} 1.0' in text


async def test_nobody_sees_what_is_not_theirs(
    watched: tuple[Running, aiohttp.ClientResponse],
) -> None:
    """A viewer sees no stream of others, ends none, reads no recording; strangers nothing."""
    hub, _ = watched
    (stream,) = (await hub.ask(STREAMS))["openStreams"]["nodes"]
    token = await viewer(hub)
    assert (await hub.post(STREAMS, token=token))["data"]["openStreams"]["nodes"] == []
    end = "mutation ($id: ID!) { endStream(id: $id) { id } }"
    read = "query ($id: ID!) { sessionRecording(requestId: $id) { data } }"
    for document, code in ((end, "NOT_FOUND"), (read, "FORBIDDEN")):
        answer = await hub.post(document, {"id": stream["id"]}, token)
        assert answer["errors"][0]["extensions"]["code"] == code
    answer = await hub.post(STREAMS, token="")
    assert answer["errors"][0]["extensions"]["code"] == "UNAUTHENTICATED"
    assert (await hub.ask(STREAMS))["openStreams"]["nodes"][0]["id"] == stream["id"]


async def viewer(hub: Running) -> str:
    """The token of somebody who may only look."""
    attributes = {"email": "vera@example.org", "name": "Vera", "role": "VIEWER"}
    document = "mutation ($a: UserAttributes!) { upsertUser(attributes: $a) { id } }"
    await hub.ask(document, a=attributes)
    users = hub.process.plane.operations[Users]
    return await users.create_token_for(SYSTEM, "vera@example.org", "test")


async def test_recordings_are_read_in_parts(tmp_path: Path) -> None:
    """As the lines that they were kept as; an unknown one is not found."""
    async with running(tmp_path / "data") as hub:
        folder = tmp_path / "data" / "recordings"
        folder.mkdir()
        text = '{"version":2}\n' + '[1.0,"o","x"]\n' * 40_000
        await asyncio.to_thread((folder / f"{'a' * 32}.cast").write_text, text)
        document = """query ($id: ID!, $offset: Int!) {
          sessionRecording(requestId: $id, offset: $offset) { data next ongoing } }"""
        found, offset = "", 0
        while offset is not None:
            part = await hub.ask(document, id="a" * 32, offset=offset)
            found += part["sessionRecording"]["data"]
            offset = part["sessionRecording"]["next"]
        assert found == text
        error = await hub.refusal(document, id="b" * 32, offset=0)
        assert error["extensions"]["code"] == "NOT_FOUND"
        assert len(await rows(hub, "readRecording")) == 1
