"""Subscriptions over graphql-transport-ws."""

import asyncio
import json
import shutil
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from controlplane.access.operations.users import Users
from controlplane.authorization import SYSTEM
from controlplane.platform.batch import BatchedBus
from controlplane.platform.bus.memory import MemoryBus
from tests.integration.serve.conftest import Json, Running
from tests.integration.serve.waiting import until

PROTOCOL = "graphql-transport-ws"
CLUSTERS = "subscription { clusterDelta { id payload { handle version } } }"
SERVICES = "subscription { serviceDeploymentDelta { id payload { name } } }"
USER = "mutation ($email: String!) { upsertUser(attributes: {email: $email}) { id } }"
BIND = """mutation ($role: String!, $scope: String!, $user: String!) { createRoleBinding(
  attributes: {role: $role, scope: $scope, user: $user}) { id } }"""
MAKE = """mutation ($attributes: ClusterAttributes!) {
  createCluster(attributes: $attributes) { id } }"""
PIPELINES = "subscription { pipelineDelta { id payload { name } } }"


class Socket:
    """One WebSocket of the protocol."""

    def __init__(self, raw: aiohttp.ClientWebSocketResponse) -> None:
        self.raw = raw

    async def init(self, token: str | None) -> Json:
        """Send `connection_init`; the answer."""
        payload = {} if token is None else {"token": token}
        await self.raw.send_json({"type": "connection_init", "payload": payload})
        return await self.next()

    async def subscribe(self, document: str, id: str = "1", **variables: Any) -> None:
        payload = {"query": document, "variables": variables}
        await self.raw.send_json({"id": id, "type": "subscribe", "payload": payload})

    async def next(self, seconds: float = 60) -> Json:
        """The next message; an end of the connection as `{"closed": code}`."""
        got = await self.raw.receive(seconds)
        if got.type is aiohttp.WSMsgType.TEXT:
            return got.json()
        return {"closed": self.raw.close_code}


async def follow(hub: Running, one: Socket, document: str, id: str = "1") -> None:
    """Subscribe, and wait until nothing that happens is missed."""
    batched = hub.process.plane.context.bus
    assert isinstance(batched, BatchedBus)
    bus = batched.inner
    assert isinstance(bus, MemoryBus)

    async def readers() -> int:
        return sum(len(found) for found in tuple(bus._waiting.values()))

    before = await readers()
    await one.subscribe(document, id)
    await until(readers, lambda now: now > before)


@asynccontextmanager
async def socket(hub: Running, *protocols: str) -> AsyncGenerator[Socket, None]:
    """A WebSocket that has not said who it is."""
    url = f"{hub.url}/gql".replace("http:", "ws:")
    async with hub.http.ws_connect(url, protocols=protocols or (PROTOCOL,)) as raw:
        yield Socket(raw)


@pytest.fixture
async def signed_in(hub: Running) -> AsyncIterator[Socket]:
    """A WebSocket of the administrator's."""
    async with socket(hub) as one:
        assert await one.init(hub.token) == {"type": "connection_ack"}
        yield one


async def robot(hub: Running) -> Json:
    """A fresh token, with its id."""
    document = 'mutation { createAccessToken(attributes: {name: "robot"}) { id token } }'
    return (await hub.ask(document))["createAccessToken"]


async def revoke(hub: Running, token: Json) -> None:
    await hub.ask("mutation ($id: ID!) { deleteAccessToken(id: $id) { id } }", id=token["id"])


@pytest.mark.parametrize("token", [None, "", "twu_nonsense"])
async def test_strangers_are_refused(hub: Running, token: str | None) -> None:
    async with socket(hub) as one:
        assert (await one.init(token))["closed"] in (4401, 4403)


@pytest.mark.parametrize(
    "payload",
    [
        {"Authorization": "Bearer TOKEN"},
        {"authorization": "Token TOKEN"},
        {"headers": {"Authorization": "Bearer TOKEN"}},
        {"token": "TOKEN"},
    ],
)
async def test_a_token_may_be_where_other_servers_take_it(hub: Running, payload: Json) -> None:
    text = json.dumps({"type": "connection_init", "payload": payload}).replace("TOKEN", hub.token)
    async with socket(hub) as one:
        await one.raw.send_str(text)
        assert await one.next() == {"type": "connection_ack"}


@pytest.mark.parametrize(
    "payload",
    [
        {"Authorization": "Basic TOKEN"},
        {"Authorization": "TOKEN"},
        {"Authorization": ["Bearer TOKEN"]},
        {"headers": {"headers": {"token": "TOKEN"}}},
        {"headers": ["Authorization"]},
    ],
)
async def test_an_invalid_token_closes_the_subscription(hub: Running, payload: Json) -> None:
    text = json.dumps({"type": "connection_init", "payload": payload}).replace("TOKEN", hub.token)
    async with socket(hub) as one:
        await one.raw.send_str(text)
        assert (await one.next())["closed"] in (4401, 4403)


@pytest.mark.parametrize("origin", [None, "https://tool.example.org"])
async def test_a_token_in_the_header_of_the_upgrade(hub: Running, origin: str | None) -> None:
    """No page can make a browser send it, so its origin does not matter."""
    url = f"{hub.url}/gql".replace("http:", "ws:")
    headers = {"Authorization": f"Bearer {hub.token}"}
    async with hub.http.ws_connect(
        url, protocols=(PROTOCOL,), headers=headers, origin=origin
    ) as raw:
        assert await Socket(raw).init(None) == {"type": "connection_ack"}


CLIENT = """
import { createClient } from "graphql-ws";
const [url, token] = process.argv.slice(1);
const client = createClient({ url, connectionParams: { Authorization: `Bearer ${token}` } });
for await (const result of client.iterate({ query: "{ me { email } }" })) {
  console.log(JSON.stringify(result.data));
}
await client.dispose();
"""


async def test_the_usual_client_of_javascript_signs_in(hub: Running) -> None:
    console = Path(__file__).parents[3] / "console"
    if not (console / "node_modules" / "graphql-ws").exists() or shutil.which("node") is None:
        pytest.skip("no graphql-ws on this machine: `make console` installs it")
    url = f"{hub.url}/gql".replace("http:", "ws:")
    words = ("--experimental-websocket", "--input-type=module", "-e", CLIENT, url, hub.token)
    process = await asyncio.create_subprocess_exec(
        "node", *words, cwd=console, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    assert json.loads(out) == {"me": {"email": "admin"}}


async def test_nothing_is_answered_before_init(hub: Running) -> None:
    async with socket(hub) as one:
        await one.subscribe("{ clusters { edges { cursor } } }")
        assert await one.next() == {"closed": 4401}


async def test_another_protocol_is_refused(hub: Running) -> None:
    async with socket(hub, "graphql-ws") as one:
        assert await one.next() == {"closed": 4406}


async def test_another_sites_pages_are_refused(hub: Running) -> None:
    """A browser says where a page comes from."""
    url = f"{hub.url}/gql".replace("http:", "ws:")
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await hub.http.ws_connect(url, protocols=(PROTOCOL,), origin="https://evil.example.org")
    assert refused.value.status == 403


async def test_a_query_works_as_over_http(signed_in: Socket) -> None:
    await signed_in.subscribe("{ me { email } }")
    assert (await signed_in.next())["payload"] == {"data": {"me": {"email": "admin"}}}
    assert (await signed_in.next())["type"] == "complete"


async def test_events_of_clusters_services_and_pipelines_arrive(
    hub: Running, signed_in: Socket
) -> None:
    """Each on its own subscription, and on no other."""
    for id, document in (("c", CLUSTERS), ("s", SERVICES), ("p", PIPELINES)):
        await follow(hub, signed_in, document, id)
    cluster = await hub.cluster()
    event = await signed_in.next()
    assert event["id"] == "c"
    assert event["payload"]["data"]["clusterDelta"]["payload"]["handle"] == "dev"
    repository = await hub.repository("https://127.0.0.1:1/a.git")
    service = await hub.service(cluster["id"], repository, "web")
    event = await signed_in.next()
    assert event["id"] == "s"
    assert event["payload"]["data"]["serviceDeploymentDelta"]["payload"] == {"name": "web"}
    await hub.ask(
        """mutation ($id: ID!) { savePipeline(name: "p", attributes: {stages: [
          {name: "dev", services: [{serviceId: $id}]}], edges: []}) { id } }""",
        id=service,
    )
    # The service is sent once more when its repository turns out to be away.
    while (event := await signed_in.next())["id"] == "s":
        continue
    assert event["id"] == "p"
    assert event["payload"]["data"]["pipelineDelta"]["payload"] == {"name": "p"}


async def test_a_changed_cluster_has_what_a_query_returns(hub: Running, signed_in: Socket) -> None:
    project = await hub.ask('mutation { createProject(attributes: {name: "shop"}) { id } }')
    attributes = {"name": "dev", "projectId": project["createProject"]["id"]}
    cluster = (await hub.ask(MAKE, attributes=attributes))["createCluster"]["id"]
    await freeze(hub, cluster)
    selection = "handle project { name } freeze { by group } agentSettings { overruled }"
    sent = await sent_and_queried(hub, signed_in, ("clusterDelta", "cluster"), cluster, selection)
    assert sent["project"] == {"name": "shop"} and sent["freeze"]["group"] == "all"


async def test_a_changed_service_has_what_a_query_returns(hub: Running, signed_in: Socket) -> None:
    cluster = (await hub.cluster())["id"]
    repository = await hub.repository("https://127.0.0.1:1/a.git")
    service = await hub.service(cluster, repository, "web")
    await freeze(hub, cluster)
    fields = ("serviceDeploymentDelta", "serviceDeployment")
    selection = """name project { name } cluster { handle freeze { by } } freeze { group }
      repository { url } components { id } contexts { id }"""
    sent = await sent_and_queried(hub, signed_in, fields, service, selection)
    assert sent["freeze"] == {"group": "all"} and sent["cluster"]["freeze"]
    assert sent["repository"] == {"url": "https://127.0.0.1:1/a.git"}


async def freeze(hub: Running, cluster: str) -> None:
    """Freezes a cluster through a group."""
    made = """mutation ($ids: [ID!]) {
      createClusterGroup(attributes: {name: "all", clusterIds: $ids}) { id } }"""
    group = (await hub.ask(made, ids=[cluster]))["createClusterGroup"]["id"]
    await hub.ask("mutation ($id: ID!) { freezeClusterGroup(id: $id) { id } }", id=group)


async def sent_and_queried(
    hub: Running, one: Socket, fields: tuple[str, str], id: str, selection: str
) -> Json:
    """What a subscription sends of a resource, which is the same as a query's response."""
    delta, query = fields
    await one.subscribe(
        f"""subscription {{ {delta}(id: "{id}", since: "2020-01-01T00:00:00Z") {{
          payload {{ {selection} }} }} }}""",
    )
    sent = (await one.next())["payload"]["data"][delta]["payload"]
    document = f"query ($id: ID!) {{ {query}(id: $id) {{ {selection} }} }}"
    assert (await hub.ask(document, id=id))[query] == sent
    return sent


async def test_a_member_hears_of_their_own_project_only(hub: Running) -> None:
    """Changes and deletions in other projects are not sent."""
    projects = {}
    for name in ("mine", "other"):
        made = "mutation ($n: String!) { createProject(attributes: {name: $n}) { id } }"
        projects[name] = (await hub.ask(made, n=name))["createProject"]["id"]
    user = (await hub.ask(USER, email="ada@example.org"))["upsertUser"]["id"]
    scope = f"project:{projects['mine']}"
    await hub.ask(BIND, role="viewer", scope=scope, user=user)
    token = await hub.process.plane.operations[Users].create_token_for(
        SYSTEM, "ada@example.org", "watching"
    )
    async with socket(hub) as one:
        await one.init(token)
        await follow(hub, one, CLUSTERS)
        for project in ("other", "mine"):
            attributes = {"name": f"in-{project}", "projectId": projects[project]}
            cluster = (await hub.ask(MAKE, attributes=attributes))["createCluster"]["id"]
            if project == "other":
                await hub.ask("mutation ($id: ID!) { deleteCluster(id: $id) { id } }", id=cluster)
        delta = (await one.next())["payload"]["data"]["clusterDelta"]
        assert delta["payload"]["handle"] == "in-mine"


async def test_a_deleted_cluster_is_sent_without_payload(hub: Running, signed_in: Socket) -> None:
    cluster = await hub.cluster()
    await follow(hub, signed_in, CLUSTERS)
    await hub.ask("mutation ($id: ID!) { deleteCluster(id: $id) { id } }", id=cluster["id"])
    delta = (await signed_in.next())["payload"]["data"]["clusterDelta"]
    assert delta == {"id": cluster["id"], "payload": None}


async def test_a_deleted_pipeline_is_sent_without_payload(hub: Running, signed_in: Socket) -> None:
    cluster, repository = await hub.cluster(), await hub.repository("https://127.0.0.1:1/a.git")
    service = await hub.service(cluster["id"], repository, "web")
    saved = """mutation ($id: ID!) { savePipeline(name: "p", attributes: {stages: [
      {name: "dev", services: [{serviceId: $id}]}], edges: []}) { id } }"""
    made = (await hub.ask(saved, id=service))["savePipeline"]["id"]
    await follow(hub, signed_in, PIPELINES)
    await hub.ask("mutation ($id: ID!) { deletePipeline(id: $id) { id } }", id=made)
    while (delta := (await signed_in.next())["payload"]["data"]["pipelineDelta"])["payload"]:
        continue
    assert delta == {"id": made, "payload": None}


async def test_missed_changes_are_sent_after_a_reconnect(hub: Running) -> None:
    """With `since`: changes and deletions of all three kinds, of one thing as of all."""
    cluster, gone = await hub.cluster(), await hub.cluster("gone")
    repository = await hub.repository("https://127.0.0.1:1/a.git")
    service = await hub.service(cluster["id"], repository, "web")
    saved = """mutation ($id: ID!) { savePipeline(name: "kept", attributes: {stages: [
      {name: "dev", services: [{serviceId: $id}]}], edges: []}) { id } }"""
    kept = (await hub.ask(saved, id=service))["savePipeline"]["id"]
    for document, id in (
        ("mutation ($id: ID!) { deleteCluster(id: $id) { id } }", gone["id"]),
        ("mutation ($id: ID!) { deletePipeline(id: $id) { id } }", kept),
    ):
        await hub.ask(document, id=id)
    wanted = {
        "clusterDelta": {cluster["id"]: True, gone["id"]: False},
        "serviceDeploymentDelta": {service: True},
        "pipelineDelta": {kept: False},
    }
    for field, things in wanted.items():
        document = f"""subscription ($of: ID) {{
          {field}(since: "2026-01-01T00:00:00Z", id: $of) {{ id at payload {{ id }} }} }}"""
        async with socket(hub) as one:
            await one.init(hub.token)
            await one.subscribe(document, "all")
            deltas = [(await one.next())["payload"]["data"][field] for _ in things]
            assert {one["id"]: one["payload"] is not None for one in deltas} == things
            for id, is_there in things.items():
                await one.subscribe(document, id, of=id)
                alone = (await one.next())["payload"]["data"][field]
                assert (alone["id"], alone["payload"] is not None) == (id, is_there)


async def test_missed_changes_of_a_secret_are_sent(hub: Running, signed_in: Socket) -> None:
    """Also that it has gone."""
    saved = 'mutation { saveSecret(name: "s", attributes: {value: "canary-51ab-maple"}) { id } }'
    id = (await hub.ask(saved))["saveSecret"]["id"]
    document = """subscription ($of: ID!) {
      secretDelta(id: $of, since: "2026-01-01T00:00:00Z") { id at payload { name } } }"""
    for number, wanted in enumerate(({"name": "s"}, None)):
        await signed_in.subscribe(document, str(number), of=id)
        delta = (await signed_in.next())["payload"]["data"]["secretDelta"]
        assert (delta["id"], delta["payload"]) == (id, wanted)
        await signed_in.raw.send_json({"id": str(number), "type": "complete"})
        if wanted is not None:
            await hub.ask("mutation ($id: ID!) { deleteSecret(id: $id) { id } }", id=id)


async def test_a_thing_that_never_was_is_not_resumed(signed_in: Socket) -> None:
    """Neither is one that the caller may not see: both read alike."""
    document = 'subscription { clusterDelta(id: "x", since: "2026-01-01T00:00:00Z") { id } }'
    await signed_in.subscribe(document)
    refused = await signed_in.next()
    assert "NOT_FOUND" in str(refused["payload"])


async def test_a_revoked_token_ends_its_connection(hub: Running) -> None:
    """Also when there is no event to send."""
    token = await robot(hub)
    async with socket(hub) as one:
        assert (await one.init(token["token"]))["type"] == "connection_ack"
        await follow(hub, one, CLUSTERS)
        await revoke(hub, token)
        assert (await one.next()).get("closed") == 4401


async def test_a_revoked_token_sees_no_later_event(hub: Running) -> None:
    """An event right after the revocation is not delivered any more."""
    token = await robot(hub)
    async with socket(hub) as one:
        await one.init(token["token"])
        await follow(hub, one, CLUSTERS)
        await revoke(hub, token)
        await hub.cluster("unseen")
        seen = []
        while "closed" not in (message := await one.next()):
            seen.append(message)
        assert "unseen" not in str(seen)


async def test_others_go_on_when_one_token_is_revoked(hub: Running, signed_in: Socket) -> None:
    await follow(hub, signed_in, CLUSTERS)
    token = await robot(hub)
    async with socket(hub) as other:
        await other.init(token["token"])
        await revoke(hub, token)
        assert "closed" in await other.next()
    await hub.cluster()
    assert "payload" in await signed_in.next()


async def test_many_subscriptions_leave_nothing_behind(hub: Running) -> None:
    """Whether they are completed, cut by the client, or ended with the connection."""
    before = {task.get_name() for task in asyncio.all_tasks()}
    for round in range(5):
        async with socket(hub) as one:
            await one.init(hub.token)
            for number in range(20):
                await one.subscribe(SERVICES, str(number))
            for number in range(10):
                await one.raw.send_json({"id": str(number), "type": "complete"})
            if round % 2:
                await one.raw.close()
    async with asyncio.timeout(60):
        while left := subscriptions(before):
            await asyncio.sleep(0.05)
    assert not left


def subscriptions(before: set[str]) -> list[str]:
    """Tasks of WebSockets that still run."""
    running = [task for task in asyncio.all_tasks() if not task.done()]
    return [
        str(task.get_coro())
        for task in running
        if task.get_name() not in before and "ws" in str(task.get_coro()).lower()
    ]


async def test_a_connection_has_a_limit_of_subscriptions(signed_in: Socket) -> None:
    for number in range(101):
        await signed_in.subscribe(SERVICES, str(number))
    refused = await signed_in.next()
    assert refused["type"] == "error"
    assert "limit" in str(refused["payload"]).lower()


@pytest.mark.parametrize("text", ["{", "[]", "null", '"x"', '{"type": 7}', '{"id": 1}'])
async def test_nonsense_ends_the_connection_only(
    hub: Running, signed_in: Socket, text: str
) -> None:
    """Nothing that arrives is an error of ours."""
    await signed_in.raw.send_str(text)
    assert (await signed_in.next())["closed"] in (4400, 1011)
    assert (await hub.ask("{ me { email } }"))["me"]["email"] == "admin"
