"""Reading much through the API: the map, search, reports, pages, and what they refuse."""

import hashlib
import json

from tests.integration.serve.conftest import Json, Running
from tests.integration.serve.test_subscriptions import Socket, signed_in

__all__ = ["signed_in"]

MAP = "{ fleetMap { rows { id handle name projectId tags { name value } pingedAt services } } }"
DELTA = "subscription { fleetDelta { rows { handle services } gone } }"
LIST = """query ($first: Int, $last: Int, $before: String, $after: String) {
  clusters(first: $first, last: $last, before: $before, after: $after) {
    totalCount totalCountKind edges { node { handle } }
    pageInfo { hasNextPage hasPreviousPage startCursor endCursor } } }"""
REPORT = """query ($then: DateTime!, $now: DateTime!) {
  deliveryReport(since: $then, until: $now, by: WEEK) {
    deploymentsPerDay leadP50 total { begun failureRate } parts { begun } }
  fleet(at: $now) { clusters { cluster services { service } } }
  fleetChanges(then: $then, now: $now) { kind service }
  deploymentHistory { service stage } }"""


async def filled(hub: Running) -> Json:
    """A cluster with two services of a repository that is away."""
    cluster = await hub.cluster("prod")
    repository = await hub.repository("https://127.0.0.1:1/x.git")
    for name in ("web", "api"):
        service = await hub.service(cluster["id"], repository, name)
        await hub.service_until(service, lambda one: one["status"] == "FAILED")
    return cluster


async def test_the_map_and_names(hub: Running) -> None:
    cluster = await filled(hub)
    (row,) = (await hub.ask(MAP))["fleetMap"]["rows"]
    assert (row["id"], row["services"]) == (cluster["id"], "FF")
    narrow = "{ fleetMap(filter: {status: [HEALTHY]}) { rows { id } } }"
    assert (await hub.ask(narrow))["fleetMap"]["rows"] == []
    found = await hub.ask('{ places(q: "PRO") { kind name within } }')
    assert found["places"] == [{"kind": "CLUSTER", "name": "prod", "within": None}]
    (service,) = (await hub.ask('{ places(q: "eb") { kind name within } }'))["places"]
    assert service == {"kind": "SERVICE", "name": "web", "within": "prod"}
    empty = '{ search(q: "kind:Pod image:nginx<2") { totalCount edges { node { id } } } }'
    assert (await hub.ask(empty))["search"] == {"totalCount": 0, "edges": []}
    assert (
        "not a search key" in (await hub.refusal('{ search(q: "a:b") { totalCount } }'))["message"]
    )


async def test_the_fleet_map_streams_its_changes(hub: Running, signed_in: Socket) -> None:
    """All of it first, then what has changed."""
    await filled(hub)
    await signed_in.subscribe(DELTA)
    first = (await signed_in.next())["payload"]["data"]["fleetDelta"]
    assert first == {"rows": [{"handle": "prod", "services": "FF"}], "gone": []}
    other = await hub.cluster("other")
    delta = (await signed_in.next())["payload"]["data"]["fleetDelta"]
    assert delta == {"rows": [{"handle": "other", "services": ""}], "gone": []}
    await hub.ask("mutation ($id: ID!) { detachCluster(id: $id) { id } }", id=other["id"])
    delta = (await signed_in.next())["payload"]["data"]["fleetDelta"]
    assert delta == {"rows": [], "gone": [other["id"]]}


async def test_a_list_is_in_the_order_of_names_if_one_wishes(hub: Running) -> None:
    for name in ("web", "api", "db"):
        await hub.cluster(name)
    asked = """query ($after: String) { clusters(first: 2, after: $after, order: NAME) {
      edges { node { handle } } pageInfo { endCursor hasNextPage } } }"""
    first = (await hub.ask(asked))["clusters"]
    rest = (await hub.ask(asked, after=first["pageInfo"]["endCursor"]))["clusters"]
    shown = [edge["node"]["handle"] for page in (first, rest) for edge in page["edges"]]
    assert shown == ["api", "db", "web"] and not rest["pageInfo"]["hasNextPage"]
    services = "{ serviceDeployments(order: NAME) { edges { node { name } } } }"
    await filled(hub)
    (one, two) = (await hub.ask(services))["serviceDeployments"]["edges"]
    assert (one["node"]["name"], two["node"]["name"]) == ("api", "web")


async def test_pages_go_both_ways_and_are_counted(hub: Running) -> None:
    for number in range(5):
        await hub.cluster(f"c{number}")
    first = (await hub.ask(LIST, first=2))["clusters"]
    assert (first["totalCount"], first["totalCountKind"]) == (5, "EXACT")
    last = (await hub.ask(LIST, last=2, before=None))["clusters"]
    assert [one["node"]["handle"] for one in last["edges"]] == ["c3", "c4"]
    assert last["pageInfo"]["hasPreviousPage"] and not last["pageInfo"]["hasNextPage"]
    before = last["pageInfo"]["startCursor"]
    middle = (await hub.ask(LIST, last=2, before=before))["clusters"]
    assert [one["node"]["handle"] for one in middle["edges"]] == ["c1", "c2"]
    assert middle["pageInfo"]["hasNextPage"] and middle["pageInfo"]["hasPreviousPage"]
    assert "either first and after" in (await hub.refusal(LIST, last=2, first=2))["message"]


async def test_introspection_returns_descriptions(hub: Running) -> None:
    found = (await hub.ask('{ __type(name: "Tag") { description fields { description } } }'))[
        "__type"
    ]
    assert found == {
        "description": "A name and a value.",
        "fields": [{"description": "Name of the tag."}, {"description": "Value of the tag."}],
    }


async def test_reports_of_an_empty_ledger(hub: Running) -> None:
    await filled(hub)
    window = {"then": "2026-01-01T00:00:00Z", "now": "2026-02-01T00:00:00Z"}
    response = await hub.ask(REPORT, **window)
    assert response["deliveryReport"]["total"] == {"begun": 0, "failureRate": None}
    assert response["fleet"] == {"clusters": []} and response["fleetChanges"] == []
    refused = await hub.refusal(REPORT, then=window["now"], now=window["then"])
    assert refused["extensions"]["code"] == "INVALID"
    trace = '{ commitTrace(sha: "abcdef0") { live } }'
    assert (await hub.refusal(trace))["extensions"]["code"] == "NOT_FOUND"


async def test_errors_suggest_the_correction(hub: Running) -> None:
    """A wrong word, a name that is taken, a query that asks for too much."""
    wrong = "{ serviceDeployments(status: [ILL]) { totalCount } }"
    assert "use STALE, OUT_OF_SYNC, SYNCED, HEALTHY" in (await hub.refusal(wrong))["message"]
    first = await hub.cluster("dev")
    taken = await hub.refusal('mutation { createCluster(attributes: {name: "dev"}) { id } }')
    assert taken["extensions"]["code"] == "CONFLICT"
    assert taken["extensions"]["current"]["id"] == first["id"]
    assert "Did you mean 'email'" in (await hub.refusal("{ me { emial } }"))["message"]
    nowhere = 'mutation { createServiceDeployment(attributes: {name: "x", namespace: "x"}) { id } }'
    assert "by id or handle" in (await hub.refusal(nowhere))["message"]
    aliases = " ".join(f'a{n}: fleetDiff(repositoryId: "x", ref: "x") {{ __typename }}'
                       for n in range(6))  # fmt: skip
    assert (await hub.refusal(f"{{ {aliases} }}"))["extensions"]["code"] == "LIMIT"


async def test_conflicts_carry_the_current_state(hub: Running) -> None:
    """A taken name, a thing that was changed after one has seen it: CONFLICT, with its state."""
    cluster, repository = (
        await hub.cluster("dev"),
        await hub.repository("https://127.0.0.1:1/x.git"),
    )
    await hub.service(cluster["id"], repository, "web")
    made = {
        "createProject": 'attributes: {name: "web"}',
        "createGroup": 'attributes: {name: "web"}',
        "createGitRepository": 'attributes: {url: "https://127.0.0.1:1/y.git"}',
        "createClusterGroup": 'attributes: {name: "web"}',
        "createServiceDeployment": 'cluster: "dev", attributes: {name: "api", namespace: "web"}',
    }
    for verb, given in made.items():
        mutation = f"mutation {{ {verb}({given}) {{ id }} }}"
        first = (await hub.ask(mutation))[verb]
        refused = (await hub.refusal(mutation))["extensions"]
        assert (refused["code"], refused["current"]["id"]) == ("CONFLICT", first["id"]), verb

    seen = (await hub.ask('{ cluster(handle: "dev") { id updatedAt } }'))["cluster"]
    rename = """mutation ($id: ID!, $name: String!, $since: DateTime) {
      updateCluster(id: $id, attributes: {name: $name}, unchangedSince: $since) { updatedAt } }"""
    given = {"id": seen["id"], "since": seen["updatedAt"]}
    await hub.ask(rename, name="mine", **given)
    late = await hub.refusal(rename, name="too late", **given)
    assert late["extensions"]["code"] == "CONFLICT"
    assert late["extensions"]["current"]["name"] == "mine" and "read it again" in late["message"]
    given["since"] = late["extensions"]["current"]["updatedAt"]
    await hub.ask(rename, name="in time", **given)
    change = """mutation ($id: ID!, $since: DateTime) { updateServiceDeployment(
      id: $id, attributes: {version: "2"}, unchangedSince: $since) { id } }"""
    service = await hub.ask('{ serviceDeployment(cluster: "dev", name: "web") { id } }')
    old = await hub.refusal(
        change, id=service["serviceDeployment"]["id"], since="2020-01-01T00:00:00Z"
    )
    assert old["extensions"]["current"]["name"] == "web"


async def test_persisted_queries(hub: Running) -> None:
    """Learned by POST from members, then asked for by GET; queries themselves never by GET."""
    query = "{ me { email } }"
    hash = hashlib.sha256(query.encode()).hexdigest()
    named = {"persistedQuery": {"version": 1, "sha256Hash": hash}}
    headers = {"authorization": f"Bearer {hub.token}"}

    async def get(**params: str) -> tuple[int, Json | None]:
        async with hub.http.get(f"{hub.url}/gql", params=params, headers=headers) as answer:
            return answer.status, await answer.json() if answer.status == 200 else None

    async def post(body: Json, token: str = hub.token) -> Json:
        headers = {"authorization": f"Bearer {token}"}
        async with hub.http.post(f"{hub.url}/gql", json=body, headers=headers) as answer:
            return await answer.json()

    strange = await post({"query": query, "extensions": named}, token="x")
    assert strange["errors"][0]["extensions"]["code"] == "UNAUTHENTICATED"
    unknown = await post({"extensions": named})
    assert unknown["errors"][0]["extensions"]["code"] == "PERSISTED_QUERY_NOT_FOUND"
    assert (await post({"query": query, "extensions": named}))["data"]["me"]
    assert (await post({"extensions": named}))["data"]["me"]
    status, response = await get(extensions=json.dumps(named))
    assert status == 200 and response is not None and response["data"]["me"]
    assert (await get(query=query))[0] == 405
    mutation = 'mutation { createCluster(attributes: {name: "x"}) { id } }'
    hash = hashlib.sha256(mutation.encode()).hexdigest()
    named = {"persistedQuery": {"version": 1, "sha256Hash": hash}}
    await post({"query": mutation, "extensions": named})
    assert (await get(extensions=json.dumps(named)))[0] != 200


async def test_missed_changes_are_sent_after_a_reconnect(hub: Running, signed_in: Socket) -> None:
    """With the time of the last event, what changed meanwhile comes first."""
    cluster = await filled(hub)
    listed = "query ($id: ID) { serviceDeployments(clusterId: $id) { edges { node { id } } } }"
    edges = (await hub.ask(listed, id=cluster["id"]))["serviceDeployments"]["edges"]
    ids = [edge["node"]["id"] for edge in edges]
    document = "subscription ($since: DateTime) { serviceDeploymentDelta(since: $since) { id at } }"
    pause = """mutation ($id: ID!) {
      updateServiceDeployment(id: $id, attributes: {paused: true}) { id } }"""
    await signed_in.subscribe(document)
    await hub.ask(pause, id=ids[0])
    first = (await signed_in.next())["payload"]["data"]["serviceDeploymentDelta"]
    assert first["id"] in ids
    await signed_in.raw.send_json({"id": "1", "type": "complete"})
    await hub.ask(pause, id=ids[1])
    await signed_in.subscribe(document, id="2", since=first["at"])
    received = set()
    while received != set(ids):
        message = await signed_in.next()
        if message.get("id") == "2":
            received.add(message["payload"]["data"]["serviceDeploymentDelta"]["id"])
