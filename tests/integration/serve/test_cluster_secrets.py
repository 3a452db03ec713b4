"""A secret whose value is in a Secret of a real cluster, read by its agent's tunnel, and used."""

import asyncio
import base64
from collections.abc import Awaitable, Callable

import orjson
import pytest

from tests.integration.serve.conftest import Json
from tests.integration.serve.test_cluster import Fleet, fleet
from tests.integration.serve.waiting import until

__all__ = ["fleet"]

ACCOUNT = 'mutation { createServiceAccount(attributes: {name: "reader"}) { id email } }'
BIND = """mutation ($user: String!, $scope: String!) {
  createRoleBinding(attributes: {role: "editor", scope: $scope, user: $user}) { id } }"""
SAVE = """mutation ($source: SecretSourceAttributes!) {
  saveSecret(name: "db", attributes: {source: $source, refreshSeconds: 60}) { id } }"""
REFRESH = "mutation ($id: ID!) { refreshSecret(id: $id) { id newestVersion problem } }"
SECRET = '{ secret(name: "db") { id newestVersion problem } }'
USE = """mutation ($service: ID!, $secret: ID!) { useSecrets(serviceId: $service,
  uses: [{name: "password", secretId: $secret}]) { name version } }"""
CLUSTER = '{ cluster(handle: "dev") { id } }'
APPLIED = orjson.dumps(
    {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "applied"},
        "stringData": {"url": "pg://${towline.secret:password}@db"},
    }
).decode()


def asking(fleet: Fleet, document: str, root: str) -> Callable[[], Awaitable[Json]]:
    async def ask() -> Json:
        return (await fleet.hub.ask(document))[root]

    return ask


async def kubectl(fleet: Fleet, *words: str) -> str:
    return await asyncio.to_thread(fleet.cluster.kubectl, *words, "-n", fleet.namespace)


@pytest.mark.usefixtures("bound_groups")
async def test_a_value_of_a_cluster_reaches_another_service(fleet: Fleet) -> None:
    """As the account that is named, and no further: another one's right is not enough.

    On no disk of hub and agent, and in no answer.
    """
    value = "canary-77c1-of-a-cluster"
    await kubectl(fleet, "create", "secret", "generic", "db", f"--from-literal=password={value}")
    hub = fleet.hub
    account = (await hub.ask(ACCOUNT))["createServiceAccount"]
    source = {
        "kind": "KUBERNETES",
        "store": "dev",
        "path": f"{fleet.namespace}/db",
        "key": "password",
        "readerId": account["id"],
    }
    id = (await hub.ask(SAVE, source=source))["saveSecret"]["id"]
    look = asking(fleet, SECRET, "secret")
    without = await until(look, lambda seen: seen["problem"], 60)
    assert not without["newestVersion"] and "dev" in without["problem"]
    scope = f"cluster:{(await hub.ask(CLUSTER))['cluster']['id']}"
    await hub.ask(BIND, user=account["email"], scope=scope)
    await hub.ask(REFRESH, id=id)
    await until(look, lambda seen: seen["newestVersion"] == 1 and not seen["problem"], 60)
    await hub.ask(USE, service=fleet.shop, secret=id)
    fleet.repository.commit({"shop/secret.yaml": APPLIED})

    async def applied() -> str:
        words = ("get", "secret", "applied", "--ignore-not-found", "-o", "jsonpath={.data.url}")
        return base64.b64decode(await kubectl(fleet, *words)).decode()

    await until(applied, lambda seen: seen == f"pg://{value}@db", 60)
