"""Test data for the console's screens in addition to the demo's story, created through the API."""

import json
from dataclasses import dataclass

from towline.demo.steps import DemoSteps


@dataclass(frozen=True, slots=True)
class Furnished:
    """IDs of the secret that a service uses, and of the pipeline's gate."""

    secret: str
    gate: str


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
    return Furnished(secret, gate["pipeline"]["edges"][0]["gates"][0]["id"])
