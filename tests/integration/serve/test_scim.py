"""SCIM as directories speak it: what Okta and Entra send, and what strangers get."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from controlplane.access.operations.role_bindings import BindingDraft, RoleBindings
from controlplane.access.operations.roles import RoleChange, Roles
from controlplane.access.operations.service_accounts import ServiceAccounts
from controlplane.access.operations.users import Users
from controlplane.authorization import INSTALLATION, SYSTEM, ResourceKind, Rule, Verb
from tests.integration.serve.conftest import Json, Running, running
from tests.integration.serve.test_cluster import agent
from tests.integration.serve.test_streams import WATCH
from tests.integration.serve.test_subscriptions import CLUSTERS, socket
from tests.integration.serve.waiting import until
from towline.demo.clusters.cluster import LocalCluster

ISSUER = "https://idp.example.org"
PATCH = ["urn:ietf:params:scim:api:messages:2.0:PatchOp"]
AUTH = {
    "oidc": [
        {
            "name": "corp",
            "issuer": ISSUER,
            "client_id": "towline",
            "scim_account": "okta@service-accounts",
        }
    ]
}


@dataclass
class Client:
    """A directory's client, with the token that it was given."""

    hub: Running
    token: str

    async def send(self, method: str, path: str, body: Any = None, **asked: str) -> tuple[int, Any]:
        """(status, answer) of a request; SCIM's own type, and no cache may keep it."""
        headers = {"authorization": f"Bearer {self.token}", "content-type": "application/scim+json"}
        url = f"{self.hub.url}/scim/v2{path}"
        async with self.hub.http.request(
            method, url, json=body, params=asked, headers=headers
        ) as answer:
            if answer.status == 204:
                return 204, None
            assert answer.content_type == "application/scim+json", await answer.text()
            assert answer.headers["cache-control"] == "no-store"
            return answer.status, await answer.json(content_type=None)

    async def patch(self, path: str, *operations: Json) -> Json:
        status, response = await self.send(
            "PATCH", path, {"schemas": PATCH, "Operations": list(operations)}
        )
        assert status == 200, response
        return response

    async def add(self, kind: str, **attributes: Any) -> Json:
        status, response = await self.send("POST", kind, attributes)
        assert status == 201, response
        return response


async def pusher(hub: Running, name: str = "okta") -> str:
    """The token of a service account that may push."""
    verbs = hub.process.plane.operations
    user = await verbs[ServiceAccounts].create(SYSTEM, name)
    rules = (Rule((Verb.WRITE,), (ResourceKind.USER, ResourceKind.GROUP)),)
    role = await verbs[Roles].create(SYSTEM, RoleChange(f"directory-{name}", rules=rules))
    await verbs[RoleBindings].create(SYSTEM, BindingDraft(role.name, INSTALLATION, user=user.id))
    return (await verbs[ServiceAccounts].create_token(SYSTEM, user.id, "scim"))[1]


@pytest.fixture
async def okta(tmp_path: Path) -> AsyncIterator[Client]:
    async with running(tmp_path / "data", auth=AUTH) as hub:
        yield Client(hub, await pusher(hub))


async def test_a_directory_keeps_people_and_groups(okta: Client) -> None:
    """Users are found by name, created, read back, and changed as Okta and Entra do."""
    asked = {"filter": 'userName eq "ada@example.org"', "startIndex": "1", "count": "100"}
    _, none = await okta.send("GET", "/Users", **asked)
    assert (none["totalResults"], none["Resources"]) == (0, [])
    ada = await okta.add("/Users", userName="ada@example.org", externalId="00u1", active=True,
                         name={"givenName": "Ada", "familyName": "Lovelace"})  # fmt: skip
    assert (ada["displayName"], ada["externalId"], ada["active"]) == ("Ada Lovelace", "00u1", True)
    assert ada["meta"]["location"].endswith(f"/scim/v2/Users/{ada['id']}")
    _, found = await okta.send("GET", "/Users", **asked)
    assert found["Resources"] == [ada]
    status, response = await okta.send("POST", "/Users", {"userName": "ada@example.org"})
    assert (status, response["scimType"], response["status"]) == (409, "uniqueness", "409")
    bo = await okta.add("/Users", userName="bo@example.org")
    crew = await okta.add("/Groups", displayName="crew", members=[{"value": ada["id"]}])
    path = f"/Groups/{crew['id']}"
    people = [{"value": bo["id"]}]
    await okta.patch(path, {"op": "Add", "path": "members", "value": people})
    left = await okta.patch(
        path, {"op": "remove", "path": f'members[value eq "{ada["id"]}"]'},
        {"op": "replace", "value": {"id": crew["id"], "displayName": "crew of two"}},
    )  # fmt: skip
    assert (left["displayName"], left["members"]) == (
        "crew of two",
        [{"value": bo["id"], "type": "User"}],
    )
    _, short = await okta.send("GET", path, excludedAttributes="members")
    assert "members" not in short
    gone = await okta.patch(
        f"/Users/{bo['id']}", {"op": "Replace", "path": "active", "value": "False"}
    )
    assert gone["active"] is False
    _, page = await okta.send("GET", "/Users", startIndex="2", count="1")
    assert (page["totalResults"], [one["id"] for one in page["Resources"]]) == (2, [bo["id"]])
    for one in (path, f"/Users/{bo['id']}"):
        assert (await okta.send("DELETE", one))[0] == 204
        assert (await okta.send("GET", one))[0] == 404


async def test_requests_that_make_no_sense_get_a_sentence(okta: Client) -> None:
    """What, where and what instead, as section 3.12 of RFC 7644 wants it; nothing is changed."""
    ada = await okta.add("/Users", userName="ada@example.org")
    bad: list[tuple[str, str, Any, dict[str, str], int, str]] = [
        ("GET", "/Users", None, {"filter": 'name eq "x"'}, 400, "invalidFilter"),
        ("GET", "/Users", None, {"startIndex": "--1"}, 400, "invalidValue"),
        ("POST", "/Users", [], {}, 400, "invalidSyntax"),
        ("POST", "/Users", {"userName": "nobody"}, {}, 400, "invalidValue"),
        ("PUT", f"/Users/{ada['id']}", {"displayName": "x"}, {}, 400, "invalidValue"),
        ("PATCH", f"/Users/{ada['id']}", {"Operations": []}, {}, 400, "invalidValue"),
        ("POST", "/Groups", {"displayName": "a\x00"}, {}, 400, "invalidValue"),
        ("GET", "/Users/%00", None, {}, 404, ""),
        ("DELETE", "/Groups/none", None, {}, 404, ""),
    ]
    for method, path, body, asked, status, kind in bad:
        got, response = await okta.send(method, path, body, **asked)
        assert (got, response.get("scimType", "")) == (status, kind), (method, path, response)
        assert response["detail"] and response["schemas"] == [
            "urn:ietf:params:scim:api:messages:2.0:Error"
        ]
    headers = {"authorization": f"Bearer {okta.token}"}
    url = f"{okta.hub.url}/scim/v2/Users"
    async with okta.hub.http.post(url, data=BytesIO(b" " * (2 << 20)), headers=headers) as answer:
        assert answer.status in (400, 413)
    assert await okta.send("GET", f"/Users/{ada['id']}") == (200, ada)


async def test_nobody_else_is_answered(okta: Client) -> None:
    """Not a stranger, an administrator, an agent, nor an account that no provider names."""
    others = {"": 401, "twu_nonsense": 401, okta.hub.token: 401}
    others |= {(await okta.hub.cluster())["deployToken"]: 401, await pusher(okta.hub, "x"): 403}
    paths = ("/Users", "/Groups", "/Users/x", "/Groups/x")
    for token, status in others.items():
        for path in paths:
            for method in ("GET", "POST") if path.count("/") == 1 else ("GET", "PUT", "DELETE"):
                got, response = await Client(okta.hub, token).send(
                    method, path, {"userName": "a@b.c", "displayName": "x"}
                )
                assert (got, response["status"]) == (status, str(status)), (path, method)
    assert (await Client(okta.hub, "").send("GET", "/ServiceProviderConfig"))[0] == 401
    _, about = await okta.send("GET", "/ServiceProviderConfig")
    _, kinds = await okta.send("GET", "/ResourceTypes")
    assert (about["patch"], about["bulk"]["supported"]) == ({"supported": True}, False)
    assert [one["endpoint"] for one in kinds["Resources"]] == ["/Users", "/Groups"]


@pytest.mark.usefixtures("bound_groups")
async def test_a_deactivated_user_loses_every_open_connection(
    tmp_path: Path, cluster: LocalCluster
) -> None:
    """The API, a subscription and a watch of `kubectl`, by one word of the directory."""
    async with AsyncExitStack() as stack:
        hub = await stack.enter_async_context(running(tmp_path / "data", auth=AUTH))
        deploy = (await hub.cluster())["deployToken"]
        await stack.enter_async_context(agent(hub, deploy, cluster, tmp_path / "agent"))
        okta = Client(hub, await pusher(hub))
        verbs = hub.process.plane.operations
        ada = await okta.add("/Users", userName="ada@example.org", externalId="00u1")
        crew = await okta.add("/Groups", displayName="crew", members=[{"value": ada["id"]}])
        await verbs[RoleBindings].create(
            SYSTEM, BindingDraft("admin", INSTALLATION, group=crew["id"])
        )
        token = await verbs[Users].create_token_for(SYSTEM, "ada@example.org", "laptop")
        headers = {"authorization": f"Bearer {token}"}

        async def watch() -> aiohttp.ClientResponse:
            answer = await hub.http.get(hub.url + WATCH, headers=headers)
            stack.callback(answer.close)
            return answer

        opened = await until(watch, lambda answer: answer.status == 200, 30)
        assert await opened.content.readline()
        one = await stack.enter_async_context(socket(hub))
        assert await one.init(token) == {"type": "connection_ack"}
        await one.subscribe(CLUSTERS)
        await okta.patch(f"/Users/{ada['id']}", {"op": "replace", "value": {"active": False}})
        answer = await hub.post("{ me { email } }", token=token)
        assert answer["errors"][0]["extensions"]["code"] == "UNAUTHENTICATED"
        with pytest.raises(aiohttp.ClientError):
            await opened.content.read()
        while "closed" not in await one.next():
            continue
