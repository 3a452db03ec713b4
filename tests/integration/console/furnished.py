"""Test data for the console's screens in addition to the demo's story, created through the API."""

import json
from dataclasses import dataclass

from towline.demo.steps import DemoSteps


@dataclass(frozen=True, slots=True)
class Furnished:
    """IDs of the secret that a service uses, of the pipeline's gate, and of managed resources."""

    secret: str
    gate: str
    account: str
    group: str
    cluster_group: str
    rule: str
    global_service: str


def furnish(story: DemoSteps) -> Furnished:
    """Creates a secret, a context with an override, and exports from dev to prod. Idempotent."""
    ask, dev, prod = story.stage.ask, story.services["dev"], story.services["prod"]
    secret = ask(
        'mutation { saveSecret(name: "db-password", attributes: '
        '{value: "first", description: "the database of the shop"}) { id } }'
    )["saveSecret"]["id"]
    ask(
        "mutation ($s: ID!, $u: [SecretUseAttributes!]!) "
        "{ useSecrets(serviceId: $s, uses: $u) { id } }",
        s=dev,
        u=[{"name": "db", "secretId": secret}],
    )
    # Each change then has its own rows in the history of the service.
    story.wait_healthy("dev")
    context = ask(
        'mutation ($v: Json!) { saveServiceContext(name: "network", '
        "attributes: {configuration: $v}) { id } }",
        v=json.dumps({"region": "eu-west", "replicas": 2}),
    )["saveServiceContext"]["id"]
    ask(
        "mutation ($c: ID!, $p: ID!, $v: Json!) { overrideServiceContext("
        "id: $c, layer: CLUSTER, placeId: $p, configuration: $v) { id } }",
        c=context,
        p=story.stage.members["prod"].id,
        v=json.dumps({"replicas": 5}),
    )
    flow = (
        "mutation ($s: ID!, $a: ServiceFlowAttributes!) "
        "{ saveServiceFlow(serviceId: $s, attributes: $a) { problem } }"
    )
    exports = [
        {"name": "address", "type": "TEXT", "value": json.dumps("shop.example.org")},
        {"name": "port", "type": "NUMBER", "value": "8080"},
    ]
    imports = [{"alias": "upstream", "sourceId": dev, "export": "address"}]
    ask(flow, s=dev, a={"exports": exports})
    ask(flow, s=prod, a={"imports": imports})
    gate = ask('{ pipeline(name: "shop") { edges { gates { id } } } }')
    return Furnished(secret, gate["pipeline"]["edges"][0]["gates"][0]["id"], **_managed(story))


def _managed(story: DemoSteps) -> dict[str, str]:
    """Creates one resource of each kind that a list of the console manages. Idempotent."""
    made = story.stage.ask("""query {
      users(q: "deployer") { edges { node { id } } }
      groups(q: "on-call") { edges { node { id } } }
      clusterGroups(q: "europe") { edges { node { id } } }
      notificationRouters(q: "alerts") { edges { node { id } } }
      globalServices(q: "agents") { edges { node { id } } } }""")
    names = ("account", "group", "cluster_group", "rule", "global_service")
    rows = [found["edges"] for found in made.values()]
    if all(rows):
        return {name: row[0]["node"]["id"] for name, row in zip(names, rows, strict=True)}
    _create_managed(story)
    return _managed(story)


def _create_managed(story: DemoSteps) -> None:
    ask = story.stage.ask
    account = ask('mutation { createServiceAccount(attributes: {name: "deployer"}) { id } }')[
        "createServiceAccount"
    ]["id"]
    ask(
        "mutation ($id: ID!) { createTrustRule(attributes: {"
        'name: "shop-releases", serviceAccountId: $id, '
        'issuer: "https://ci.example.org", audience: "towline", subject: "repo:shop/*", '
        'keys: "{\\"keys\\": []}"}) { id } }',
        id=account,
    )
    me = ask("{ me { id } }")["me"]["id"]
    group = ask(
        'mutation { createGroup(attributes: {name: "on-call", description: "Platform"}) { id } }'
    )["createGroup"]["id"]
    member = "mutation ($g: ID!, $u: ID!) { createGroupMember(groupId: $g, userId: $u) { id } }"
    ask(member, g=group, u=me)
    ask(
        "mutation ($c: [ID!]!) { createClusterGroup(attributes: "
        '{name: "europe", clusterIds: $c, maxChanging: 1}) { id } }',
        c=[story.stage.members["dev"].id],
    )
    sink = ask(
        'mutation { upsertNotificationSink(attributes: {name: "chat", type: SLACK, '
        'configuration: {slack: {url: "https://chat.example.org/hook"}}}) { id } }'
    )["upsertNotificationSink"]["id"]
    ask(
        'mutation ($s: ID!) { upsertNotificationRouter(attributes: {name: "alerts", '
        'events: ["token.*"], severity: ERROR, routerSinks: [{sinkId: $s}]}) { id } }',
        s=sink,
    )
    repository = ask("{ gitRepositories { edges { node { id } } } }")
    ask(
        "mutation ($t: ServiceDeploymentAttributes!) { createGlobalService(attributes: "
        '{name: "agents", tags: [{name: "tier", value: "none"}], template: $t}) { id } }',
        t={
            "name": "agents",
            "namespace": "agents",
            "repositoryId": repository["gitRepositories"]["edges"][0]["node"]["id"],
            "git": {"ref": "main", "folder": "agents"},
        },
    )
