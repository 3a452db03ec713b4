"""SCIM over HTTP: resources as directories read them, pages, and refusals."""

from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

import pytest

from controlplane.access.http.browser import Cookies
from controlplane.access.http.scim import MAX_BYTES, MAX_PAGE_SIZE, ScimRoutes
from controlplane.access.model.users import UserKind
from controlplane.access.operations.identity import CredentialAuthenticator
from controlplane.access.operations.scim import ScimDirectory
from controlplane.access.ports import GroupStore, UserStore
from core.identity import TokenKind
from tests.fakes.access import FakeDeployTokens, bind, join, make_group, make_token, make_user
from tests.fakes.asgi import AsgiClient, Response, client_of
from tests.fakes.clock import START
from tests.fakes.operations import MemoryOperations, operations_over_memory

IDP = "https://idp"
CORE = "urn:ietf:params:scim:schemas:core:2.0"
MESSAGES = "urn:ietf:params:scim:api:messages:2.0"
LOCATION = "http://towline.example.org/scim/v2"
ACCOUNT = replace(make_user("dir", kind=UserKind.SERVICE_ACCOUNT), email="dir@service-accounts")
ADA = make_user("ada", issuer=IDP, external_id="x1")
BOB = make_user("bob", issuer=IDP, external_id="", disabled_at=START)
CREW = make_group("crew", issuer=IDP, external_id="g1")
WHEN = "2026-01-01T00:00:00Z"
ADA_JSON = {
    "schemas": [f"{CORE}:User"],
    "id": "ada",
    "externalId": "x1",
    "userName": "ada@example.org",
    "displayName": "ada",
    "name": {"formatted": "ada"},
    "emails": [{"value": "ada@example.org", "type": "work", "primary": True}],
    "active": True,
    "meta": {
        "resourceType": "User",
        "location": f"{LOCATION}/Users/ada",
        "created": WHEN,
        "lastModified": WHEN,
    },
}


@dataclass
class Directory:
    """A directory that sends requests with the token of its service account."""

    world: MemoryOperations
    client: AsgiClient

    async def get(self, path: str, **parameters: object) -> Response:
        query = "&".join(f"{name}={quote(str(value))}" for name, value in parameters.items())
        return await self.client.get(f"/scim/v2{path}?{query}")

    async def send(self, method: str, path: str, body: object = None) -> Response:
        return await self.client.send_json(method, f"/scim/v2{path}", body)

    async def patch(self, path: str, *operations: Any) -> Response:
        return await self.send("PATCH", path, {"Operations": operations})


@pytest.fixture
async def directory() -> Directory:
    world = operations_over_memory()
    token, secret = make_token(ACCOUNT, TokenKind.SERVICE_ACCOUNT)
    await world.given(ACCOUNT, token, bind("admin", ACCOUNT))
    identity = CredentialAuthenticator(world.context, FakeDeployTokens({}))
    scim = ScimDirectory(world.context, {ACCOUNT.email: IDP})
    routes = ScimRoutes(scim, identity, Cookies()).routes
    return Directory(world, client_of(routes, headers={"authorization": f"Bearer {secret}"}))


def refusal(response: Response) -> tuple[int, str]:
    """Status and `scimType` of an error, whose format is that of RFC 7644."""
    body = response.json()
    assert body["schemas"] == [f"{MESSAGES}:Error"] and body["detail"]
    assert body["status"] == str(response.status)
    return response.status, body.get("scimType", "")


async def test_a_user_is_read_with_all_its_attributes(directory: Directory) -> None:
    await directory.world.given(ADA, BOB)
    response = await directory.get("/Users/ada")
    assert (response.status, response.json()) == (200, ADA_JSON)
    assert response.headers["content-type"] == "application/scim+json"
    assert response.headers["cache-control"] == "no-store"
    assert "www-authenticate" not in response.headers
    bob = (await directory.get("/Users/bob")).json()
    assert bob["active"] is False and "externalId" not in bob


async def test_a_user_is_created_replaced_patched_and_removed(directory: Directory) -> None:
    made = await directory.send("POST", "/Users", {"userName": "cy@example.org", "active": True})
    path = made.json()["meta"]["location"].removeprefix(LOCATION)
    assert (made.status, made.headers["location"]) == (201, f"{LOCATION}{path}")
    body = {"userName": "cy@example.org", "displayName": "Cy", "externalId": "x3"}
    replaced = (await directory.send("PUT", path, body)).json()
    assert (replaced["displayName"], replaced["externalId"]) == ("Cy", "x3")
    operation = {"op": "replace", "path": "active", "value": "False"}
    patched = (await directory.patch(path, operation)).json()
    assert (patched["displayName"], patched["active"]) == ("Cy", False)
    removed = await directory.send("DELETE", path)
    assert (removed.status, removed.body) == (204, b"")
    assert (await directory.get(path)).status == 404
    (user,) = [row for row in await directory.world.rows(UserStore) if row.id != "dir"]
    assert (user.external_id, user.disabled_at) == (None, START)


async def test_a_group_is_created_replaced_patched_and_removed(directory: Directory) -> None:
    await directory.world.given(ADA, BOB)
    members = [{"value": "bob"}, {"value": "ada"}]
    made = await directory.send("POST", "/Groups", {"displayName": "crew", "members": members})
    path = made.json()["meta"]["location"].removeprefix(LOCATION)
    assert made.status == 201 and made.json()["members"] == [
        {"value": "ada", "type": "User"},
        {"value": "bob", "type": "User"},
    ]
    patch = {"op": "remove", "path": 'members[value eq "bob"]'}
    assert (await directory.patch(path, patch)).json()["members"] == [
        {"value": "ada", "type": "User"}
    ]
    body = {"displayName": "team", "externalId": "g2", "members": []}
    replaced = (await directory.send("PUT", path, body)).json()
    assert (replaced["displayName"], replaced["externalId"]) == ("team", "g2")
    assert replaced["members"] == []
    assert (await directory.send("DELETE", path)).status == 204
    assert await directory.world.rows(GroupStore) == []


async def test_members_are_left_out_on_request(directory: Directory) -> None:
    """Directories exclude the members of large groups from lists."""
    await directory.world.given(ADA, CREW, join(ADA, CREW, issuer=IDP))
    (listed,) = (await directory.get("/Groups")).json()["Resources"]
    assert listed["members"] == [{"value": "ada", "type": "User"}]
    for path in ("/Groups", "/Groups/crew"):
        found = await directory.get(path, excludedAttributes="displayName,Members")
        (group,) = found.json().get("Resources", [found.json()])
        assert group["externalId"] == "g1" and "members" not in group


@pytest.mark.parametrize(
    ("path", "filter", "found"),
    [
        ("/Users", 'userName eq "ADA@example.org"', ["ada"]),
        ("/Users", 'externalId eq "x1"', ["ada"]),
        ("/Users", 'externalId eq "g1"', []),
        ("/Groups", 'displayName eq "crew"', ["crew"]),
        ("/Groups", 'externalId eq "g1"', ["crew"]),
        ("/Groups", 'displayName eq "other"', []),
    ],
)
async def test_a_filter_compares_one_attribute(
    directory: Directory, path: str, filter: str, found: list[str]
) -> None:
    await directory.world.given(ADA, BOB, CREW)
    answer = (await directory.get(path, filter=filter)).json()
    assert [resource["id"] for resource in answer["Resources"]] == found
    assert answer["totalResults"] == answer["itemsPerPage"] == len(found)


@pytest.mark.parametrize(
    ("start", "count", "first", "found"),
    [
        ("2", "1", 2, ["u001"]),
        ("-3", "2", 1, ["u000", "u001"]),
        ("1", "0", 1, []),
        ("1", "-1", 1, []),
        ("102", "5", 102, ["u101"]),
        ("103", "5", 103, []),
    ],
)
async def test_a_list_is_read_page_by_page(
    directory: Directory, start: str, count: str, first: int, found: list[str]
) -> None:
    """Out of range, a number counts as the nearest valid one (RFC 7644, section 3.4.2.4)."""
    users = [make_user(f"u{number:03}", issuer=IDP, external_id="") for number in range(102)]
    await directory.world.given(*users)
    page = (await directory.get("/Users", startIndex=start, count=count)).json()
    assert [user["id"] for user in page["Resources"]] == found
    assert (page["startIndex"], page["itemsPerPage"]) == (first, len(found))
    assert (page["totalResults"], page["schemas"]) == (102, [f"{MESSAGES}:ListResponse"])


@pytest.mark.parametrize("parameters", [{}, {"count": "1000"}])
async def test_a_page_has_a_limit(directory: Directory, parameters: dict[str, str]) -> None:
    users = [make_user(f"u{number:03}", issuer=IDP, external_id="") for number in range(102)]
    await directory.world.given(*users)
    page = (await directory.get("/Users", **parameters)).json()
    assert (page["itemsPerPage"], page["totalResults"]) == (MAX_PAGE_SIZE, 102)


@pytest.mark.parametrize(
    ("parameters", "kind"),
    [
        ({"filter": 'title eq "x"'}, "invalidFilter"),
        ({"filter": "userName"}, "invalidFilter"),
        ({"startIndex": "--1"}, "invalidValue"),
        ({"startIndex": "1" * 10}, "invalidValue"),
        ({"count": "ten"}, "invalidValue"),
    ],
)
async def test_an_invalid_query_is_refused(
    directory: Directory, parameters: dict[str, str], kind: str
) -> None:
    assert refusal(await directory.get("/Users", **parameters)) == (400, kind)


@pytest.mark.parametrize(
    ("method", "path", "body", "expected"),
    [
        ("POST", "/Users", [], (400, "invalidSyntax")),
        ("POST", "/Users", {"userName": "nobody"}, (400, "invalidValue")),
        ("POST", "/Users", {"userName": "Ada@example.org"}, (409, "uniqueness")),
        ("PATCH", "/Users/ada", {"Operations": []}, (400, "invalidValue")),
        ("POST", "/Groups", {"displayName": "crew"}, (409, "uniqueness")),
        (
            "PUT",
            "/Groups/crew",
            {"displayName": "crew", "members": [{"value": "x"}]},
            (400, "invalidValue"),
        ),
        ("PUT", "/Users/none", {"userName": "a@example.org"}, (404, "")),
        ("DELETE", "/Users/%00", None, (404, "")),
        ("DELETE", f"/Groups/{'a' * 65}", None, (404, "")),
    ],
)
async def test_a_refused_change_names_its_cause_and_changes_nothing(
    directory: Directory, method: str, path: str, body: object, expected: tuple[int, str]
) -> None:
    await directory.world.given(ADA, CREW)
    assert refusal(await directory.send(method, path, body)) == expected
    assert await directory.world.rows(UserStore) == [ADA, ACCOUNT]
    assert await directory.world.rows(GroupStore) == [CREW]
    assert [action for _, action, _ in await directory.world.audited()] == ["useToken"]


async def test_a_body_that_is_no_json_is_refused(directory: Directory) -> None:
    response = await directory.client.send("POST", "/scim/v2/Users", b"{")
    assert refusal(response) == (400, "invalidSyntax")
    huge = await directory.client.send("POST", "/scim/v2/Users", b" " * (MAX_BYTES + 1))
    assert huge.status == 413


@pytest.mark.parametrize("token", ["", "Bearer ", "Bearer tws_unknown", "Basic ZGlyOng="])
async def test_a_request_without_a_valid_token_is_refused(directory: Directory, token: str) -> None:
    for path in ("/Users", "/Groups/crew", "/ServiceProviderConfig"):
        response = await directory.client.get(f"/scim/v2{path}", authorization=token)
        assert refusal(response) == (401, "")
        assert response.headers["www-authenticate"] == "Bearer"


async def test_only_tokens_of_service_accounts_authenticate(directory: Directory) -> None:
    """Not even an administrator's own token."""
    token, secret = make_token(ADA)
    await directory.world.given(ADA, token, bind("admin", ADA))
    response = await directory.client.get("/scim/v2/Users", authorization=f"Bearer {secret}")
    assert refusal(response) == (401, "")
    assert "tws_" in response.json()["detail"]


async def test_an_account_of_no_identity_provider_is_forbidden(directory: Directory) -> None:
    other = replace(ACCOUNT, id="other", email="other@service-accounts")
    token, secret = make_token(other, TokenKind.SERVICE_ACCOUNT)
    await directory.world.given(other, token, bind("admin", other))
    response = await directory.client.get("/scim/v2/Users", authorization=f"Bearer {secret}")
    assert refusal(response) == (403, "")


async def test_a_directory_reads_what_the_service_supports(directory: Directory) -> None:
    about = (await directory.get("/ServiceProviderConfig")).json()
    assert about["filter"] == {"supported": True, "maxResults": MAX_PAGE_SIZE}
    supported = [name for name, part in about.items() if part == {"supported": True}]
    assert supported == ["patch"] and about["bulk"]["supported"] is False
    kinds = (await directory.get("/ResourceTypes")).json()["Resources"]
    assert [(kind["endpoint"], kind["schema"]) for kind in kinds] == [
        ("/Users", f"{CORE}:User"),
        ("/Groups", f"{CORE}:Group"),
    ]
