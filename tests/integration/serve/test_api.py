"""GraphQL over HTTP, as clients from outside meet it."""

import asyncio
from asyncio.subprocess import PIPE
from io import BytesIO
from pathlib import Path
from typing import Any

import orjson
import pytest
from graphql import get_introspection_query

from controlplane.access.operations.identity import CredentialAuthenticator
from controlplane.access.operations.users import Users
from controlplane.authorization import SYSTEM
from tests.integration.serve.conftest import Running

pytestmark = pytest.mark.asyncio(loop_scope="module")
ME = "{ me { email } }"
ABSENT = "00000000-0000-7000-8000-000000000000"
MODULES = Path(__file__).parents[3] / "console" / "node_modules"
AUDIT = """
import { serverAudits } from 'graphql-http'

const [url, token] = process.argv.slice(2)
const fetchFn = (url, init = {}) =>
  fetch(url, { ...init, headers: { ...init.headers, authorization: `Bearer ${token}` } })
for (const audit of serverAudits({ url, fetchFn })) {
  const { status } = await audit.fn()
  console.log(status, audit.name)
}
"""


@pytest.fixture
def hub(hub_of_module: Running) -> Running:
    return hub_of_module


async def send(hub: Running, body: Any, **headers: str) -> tuple[int, bytes]:
    """Status and body of what answers to a raw POST."""
    data = body if isinstance(body, bytes) else orjson.dumps(body)
    head = {"content-type": "application/json", "authorization": f"Bearer {hub.token}"} | headers
    async with hub.http.post(f"{hub.url}/gql", data=data, headers=head) as answer:
        return answer.status, await answer.read()


def error_of(body: bytes) -> tuple[str, str]:
    """Code and message of the first error."""
    first = orjson.loads(body)["errors"][0]
    return first["extensions"]["code"], first["message"]


@pytest.mark.parametrize("scheme", ["Bearer", "Token", "bearer"])
async def test_a_good_token_is_taken(hub: Running, scheme: str) -> None:
    """And an answer without errors has no such key."""
    status, body = await send(hub, {"query": ME}, authorization=f"{scheme} {hub.token}")
    assert status == 200
    assert orjson.loads(body) == {"data": {"me": {"email": "admin"}}}


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("", "sign in first"),
        ("Basic YTpi", "sign in first"),
        ("Bearer twu_nonsense", "invalid token"),
        ("Bearer " + "x" * 5000, "invalid token"),
        ("Bearer twa_" + "x" * 48, "invalid token"),
    ],
)
async def test_another_token_is_refused_with_the_reason(
    hub: Running, header: str, said: str
) -> None:
    status, body = await send(hub, {"query": ME}, authorization=header)
    code, message = error_of(body)
    assert (status, code) == (200, "UNAUTHENTICATED")
    assert said in message


async def test_a_deploy_token_is_no_users_token(hub: Running) -> None:
    made = await hub.cluster()
    answer = await hub.post(ME, token=made["deployToken"])
    assert answer["errors"][0]["extensions"]["code"] == "UNAUTHENTICATED"


async def test_a_revoked_token_is_refused_by_the_next_request(hub: Running) -> None:
    """Its cached verdict goes with it."""
    made = await hub.ask('mutation { createAccessToken(attributes: {name: "robot"}) { id token } }')
    robot = made["createAccessToken"]
    assert "errors" not in await hub.post(ME, token=robot["token"])
    await hub.ask("mutation ($id: ID!) { deleteAccessToken(id: $id) { id } }", id=robot["id"])
    answer = await hub.post(ME, token=robot["token"])
    assert "'robot' was revoked" in answer["errors"][0]["message"]


async def test_a_token_read_while_it_is_revoked_is_not_remembered(hub: Running) -> None:
    """However the two are interleaved, the token ends with its revocation."""
    identity = hub.process.plane.operations[CredentialAuthenticator]
    admin = await identity.authenticate(hub.token)
    for _ in range(8):
        row, secret = await identity.create_token(admin, "racing")
        reading = [asyncio.ensure_future(hub.post(ME, token=secret)) for _ in range(3)]
        await identity.revoke_token(admin, row.id)
        await asyncio.gather(*reading)
        assert "errors" in await hub.post(ME, token=secret)


async def test_a_missing_resource_is_the_error_that_clients_know(hub: Running) -> None:
    """Status 200, the exact words, and null where the thing would be."""
    document = "query ($id: ID!) { cluster(id: $id) { id } }"
    answer = await hub.post(document, {"id": ABSENT})
    assert answer["data"] == {"cluster": None}
    (error,) = answer["errors"]
    assert error["message"] == "could not find resource"
    assert error["extensions"]["code"] == "NOT_FOUND"


async def test_a_mistake_in_the_input_names_the_field(hub: Running) -> None:
    document = "mutation ($name: String!) { createCluster(attributes: {name: $name}) { id } }"
    refused = await hub.refusal(document, name="")
    assert refused["extensions"]["code"] == "INVALID"
    assert "name" in refused["message"]


@pytest.mark.parametrize("id", ["", "x" * 100_000, "' or 1=1 --", "\u0000", "💥"])
async def test_any_text_is_an_id_that_is_absent(hub: Running, id: str) -> None:
    """No text brings the store to its knees."""
    document = "query ($id: ID!) { serviceDeployment(id: $id) { id } }"
    assert (await hub.refusal(document, id=id))["extensions"]["code"] in ("NOT_FOUND", "INVALID")


@pytest.mark.parametrize(
    ("method", "status"), [("get", 400), ("put", 405), ("delete", 405), ("patch", 405)]
)
async def test_only_post_reaches_the_api(hub: Running, method: str, status: int) -> None:
    """Least of all a GET, which other sites could cause."""
    query = {"query": "mutation { x }" if method == "get" else ME}
    headers = {"authorization": f"Bearer {hub.token}"}
    async with hub.http.request(method, f"{hub.url}/gql", params=query, headers=headers) as answer:
        assert answer.status in (status, 405)


@pytest.mark.parametrize(
    ("body", "status", "keys"),
    [
        ({"query": ME}, 200, {"data"}),
        ({"query": '{ cluster(handle: "absent") { id } }'}, 200, {"data", "errors"}),
        ({"query": "{"}, 400, {"errors"}),
        ({"query": "{ nothing }"}, 400, {"errors"}),
        ({"query": "query ($x: ID!) { cluster(id: $x) { id } }"}, 400, {"errors"}),
        ({}, 400, {"errors"}),
        (b"{", 400, {"errors"}),
    ],
)
async def test_a_client_of_graphql_over_http_gets_its_media_type(
    hub: Running, body: Any, status: int, keys: set[str]
) -> None:
    """With the status that belongs to it; all other clients get 200 for what could be read."""
    data = body if isinstance(body, bytes) else orjson.dumps(body)
    kind = "application/graphql-response+json"
    for accept, expected in ((f"{kind}, application/json", kind), ("*/*", "application/json")):
        headers = {"content-type": "application/json", "accept": accept}
        headers["authorization"] = f"Bearer {hub.token}"
        async with hub.http.post(f"{hub.url}/gql", data=data, headers=headers) as answer:
            assert (answer.content_type, answer.charset) == (expected, "utf-8")
            if expected == kind:
                assert answer.status == status
                assert orjson.loads(await answer.read()).keys() == keys


async def test_the_audits_of_graphql_over_http_pass(hub: Running, tmp_path: Path) -> None:
    """Those of the package graphql-http; only what servers MAY support is left out."""
    (tmp_path / "node_modules").symlink_to(MODULES)
    (tmp_path / "audit.mjs").write_text(AUDIT)
    process = await asyncio.create_subprocess_exec(
        "node", "audit.mjs", f"{hub.url}/gql", hub.token, cwd=tmp_path, stdout=PIPE
    )
    output, _ = await process.communicate()
    assert process.returncode == 0
    audits = [line.split(" ", 1) for line in output.decode().splitlines()]
    assert len(audits) > 50
    assert [name for status, name in audits if status not in ("ok", "notice")] == []


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]
)
async def test_forms_that_other_sites_can_send_are_refused(hub: Running, kind: str) -> None:
    status, _ = await send(hub, {"query": ME}, **{"content-type": kind})
    assert status in (400, 415)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"x"',
        b"[1]",
        b"\xff\xfe",
        b"{}",
        b'{"query": 5}',
        b'{"query": "{"}',
        b'{"query": "{ me { email } }", "variables": "x"}',
        b'{"query": "{ me { email } }", "variables": [1]}',
        b'{"query": "{ me { email } }", "operationName": 5}',
        b'{"query": "{ me { email } }", "operationName": "absent"}',
        b'{"query": "{ me { email } }", "extensions": "x"}',
        b'{"query": "subscription { clusterDelta { id } }"}',
        b"[" * 100_000,
    ],
)
async def test_malformed_requests_are_refused(hub: Running, body: bytes) -> None:
    """Nothing that arrives is an error of ours."""
    status, answer = await send(hub, body)
    assert status in (200, 400), answer
    assert b"INTERNAL" not in answer


async def test_a_deep_query_is_refused(hub: Running) -> None:
    inner = "{ serviceDeployments { edges { node { cluster { id } } } } }"
    assert "errors" not in await hub.post(inner)
    deep = "{ " * 17 + "a" + " }" * 17
    answer = await hub.post(deep.replace("{ {", "{ a {").replace("{ {", "{ a {"))
    assert any("depth" in error["message"] for error in answer["errors"])


async def test_the_schema_cannot_be_multiplied_by_itself(hub: Running) -> None:
    """Types of fields of types: each level would make the answer a hundred times longer."""
    query = "{ __schema { types { fields { type { fields { type { fields { name } } } } } } } }"
    answer = await hub.post(query)
    assert {error["extensions"]["code"] for error in answer["errors"]} == {"INVALID"}
    assert "data" not in answer or answer["data"] is None


async def test_members_see_the_schema(hub: Running) -> None:
    """Tools that read it work once they are signed in."""
    data = await hub.ask(get_introspection_query())
    assert "createCluster" in str(data)


async def test_many_aliases_are_refused(hub: Running) -> None:
    """One request is not a thousand."""
    fields = " ".join(f"a{n}: me {{ email }}" for n in range(31))
    code, message = error_of((await send(hub, {"query": f"{{ {fields} }}"}))[1])
    assert (code, "aliases" in message) == ("INVALID", True)


async def test_a_long_document_is_refused_before_it_is_validated(hub: Running) -> None:
    code, message = error_of((await send(hub, {"query": "{ " + "me " * 6000 + "}"}))[1])
    assert (code, "Tokens" in message or "token" in message) == ("INVALID", True)


async def test_circling_fragments_are_refused(hub: Running) -> None:
    query = "{ me { ...A } } fragment A on User { ...B } fragment B on User { ...A }"
    code, _ = error_of((await send(hub, {"query": query}))[1])
    assert code == "INVALID"


async def test_a_huge_body_is_refused_and_the_next_is_served(hub: Running) -> None:
    huge = orjson.dumps({"query": ME, "variables": {"x": "y" * (6 << 20)}})
    head = {"content-type": "application/json", "authorization": f"Bearer {hub.token}"}
    async with hub.http.post(f"{hub.url}/gql", data=BytesIO(huge), headers=head) as answer:
        assert answer.status == 413
    assert (await hub.ask(ME))["me"] == {"email": "admin"}


async def test_a_batch_is_refused(hub: Running) -> None:
    """Limits are per request; a batch would multiply them. It gets an error like any other."""
    status, body = await send(hub, [{"query": ME}] * 2)
    (error,) = orjson.loads(body)["errors"]
    assert (status, error["extensions"]["code"]) == (400, "INVALID")
    assert "batches are not supported" in error["message"]


async def test_the_place_of_an_unknown_enum_value_is_named(hub: Running) -> None:
    document = """mutation ($gates: [PipelineGateAttributes!]) { savePipeline(name: "p",
      attributes: {stages: [], edges: [{from: "a", to: "b", gates: $gates}]}) { id } }"""
    body = {"query": document, "variables": {"gates": [{"name": "g", "type": "PRAYER"}]}}
    code, message = error_of((await send(hub, body))[1])
    assert code == "INVALID"
    assert message.startswith(
        "gates[0].type: 'PRAYER' is not a value of GateType: use APPROVAL, SOAK,"
    )


async def test_a_page_is_limited(hub: Running) -> None:
    refused = await hub.refusal("{ clusters(first: 1001) { edges { cursor } } }")
    assert refused["extensions"]["code"] == "INVALID"
    assert "must be 1 to 1,000, not 1,001" in refused["message"]


async def test_errors_of_ours_are_masked_with_a_code(
    hub: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader learns that the log has more, and nothing of the inside."""

    async def broken(_: object) -> None:
        raise RuntimeError("secret inside")

    monkeypatch.setattr(hub.process.plane.operations[CredentialAuthenticator], "me", broken)
    refused = await hub.refusal(ME)
    assert refused["extensions"]["code"] == "INTERNAL"
    assert "secret" not in orjson.dumps(refused).decode()


@pytest.mark.parametrize("path", ["/", "/version", "/healthz", "/gql", "/absent"])
async def test_every_answer_has_the_headers_that_browsers_obey(hub: Running, path: str) -> None:
    async with hub.http.get(f"{hub.url}{path}") as answer:
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]


async def test_a_viewer_may_read_and_not_write(hub: Running) -> None:
    """Each change is refused with the right that is missing."""
    plane = hub.process.plane
    admin = await plane.operations[CredentialAuthenticator].authenticate(hub.token)
    user = await plane.operations[Users].upsert(admin, "v@example.org", "V", "viewer")
    token = await plane.operations[Users].create_token_for(SYSTEM, user.email, "viewing")
    document = 'mutation { createCluster(attributes: {name: "x"}) { id } }'
    answer = await hub.post(document, token=token)
    assert answer["errors"][0]["extensions"]["code"] == "FORBIDDEN"
    assert "needs role editor" in answer["errors"][0]["message"]
    assert "errors" not in await hub.post("{ clusters { edges { cursor } } }", token=token)
