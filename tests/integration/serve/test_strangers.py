"""A walk over every field, path and call without a token: nothing answers but a login hint."""

import hashlib
import io
import tarfile
from pathlib import Path
from typing import IO, Any, cast

import grpc
import pytest
from graphql import (
    GraphQLEnumType,
    GraphQLField,
    GraphQLInputObjectType,
    GraphQLInputType,
    get_named_type,
    is_leaf_type,
    is_list_type,
    is_non_null_type,
)
from graphql.pyutils import snake_to_camel

from controlplane.api.schema import schema
from core.wire.v1 import agent_pb2
from tests.integration.serve.conftest import Running

pytestmark = pytest.mark.asyncio(loop_scope="module")
CORE = schema._schema
CHART = "/ext/v1/agent/chart"
PUBLIC = {"/", "/healthz", "/readyz", "/version"}
VALUES = {"Int": "1", "Float": "1.0", "Boolean": "true", "Json": '"{}"'}


@pytest.fixture
def hub(hub_of_module: Running) -> Running:
    return hub_of_module


def literal(kind: GraphQLInputType) -> str:
    """A value of a type, as small as it can be."""
    if is_non_null_type(kind):
        return literal(kind.of_type)
    if is_list_type(kind):
        return f"[{literal(kind.of_type)}]"
    if isinstance(kind, GraphQLEnumType):
        return next(iter(kind.values))
    if isinstance(kind, GraphQLInputObjectType):
        needed = {n: f.type for n, f in kind.fields.items() if is_non_null_type(f.type)}
        return "{" + ", ".join(f"{name}: {literal(one)}" for name, one in needed.items()) + "}"
    return VALUES.get(getattr(kind, "name", ""), '"x"')


def call(name: str, field: GraphQLField) -> str:
    """A call of a root field with whatever it demands."""
    needed = {n: a.type for n, a in field.args.items() if is_non_null_type(a.type)}
    given = ", ".join(f"{name}: {literal(kind)}" for name, kind in needed.items())
    inner = "" if is_leaf_type(get_named_type(field.type)) else " { __typename }"
    return name + (f"({given})" if given else "") + inner


def fields(kind: str) -> list[tuple[str, str]]:
    """(operation, call) of each root field."""
    root = CORE.get_type(snake_to_camel(kind))
    return [(kind, call(name, field)) for name, field in getattr(root, "fields", {}).items()]


async def ask(hub: Running, document: str, token: str = "") -> Any:
    headers = {"authorization": f"Bearer {token}"} if token else {}
    async with hub.http.post(f"{hub.url}/gql", json={"query": document}, headers=headers) as answer:
        return await answer.json()


async def test_every_field_asks_strangers_to_sign_in(hub: Running) -> None:
    """Queries and mutations alike, in the same words, which name no field; an agent likewise."""
    agents = (await hub.cluster())["deployToken"]
    walked = [*fields("query"), *fields("mutation"), ("query", "noSuchField")]
    assert len(walked) > 30
    said = set()
    for number, (operation, field) in enumerate(walked):
        # An agent is refused at the same place: every tenth field shows it.
        for token in ("", agents) if number % 10 == 0 else ("",):
            answer = await ask(hub, f"{operation} {{ {field} }}", token)
            codes = [error["extensions"]["code"] for error in answer["errors"]]
            assert codes == ["UNAUTHENTICATED"], (field, answer)
            assert not any((answer.get("data") or {}).values()), field
            said.add((token, *(error["message"] for error in answer["errors"])))
    assert len(said) == 2


@pytest.mark.parametrize(
    "document",
    [
        "{ __schema { types { name } } }",
        '{ __type(name: "Query") { name } }',
        "{ ...A } fragment A on Query { __schema { queryType { name } } }",
        "{ ... on Query { hidden: __schema { queryType { name } } } }",
        "mutation { __schema { queryType { name } } }",
    ],
)
async def test_the_schema_is_not_shown_to_strangers(hub: Running, document: str) -> None:
    answer = await ask(hub, document)
    assert answer["errors"][0]["extensions"]["code"] in ("UNAUTHENTICATED", "INVALID")
    assert answer["data"] is None


async def test_no_other_path_answers_strangers(hub: Running) -> None:
    """Only health, version and the front page are public."""
    paths = ["/k8s", "/k8s/clusters/x/api", "/k8s/clusters/x/", "/metrics", "/gql", "//gql"]
    paths += ["/admin.token", "/../admin.token", "/%2e%2e/admin.token", "/static/", "/docs"]
    paths += ["/openapi.json", "/debug", "/webhooks/git/github/x", "/oauth"]
    paths += ["/scim/v2/Users", "/scim/v2/Groups/x", "/scim/v2/Schemas"]
    methods = ("GET", "POST", "PUT", "DELETE", "OPTIONS", "TRACE")
    calls = [(path, method) for path in paths for method in methods]
    calls += [(CHART, method) for method in methods if method != "GET"]
    for path, method in calls:
        async with hub.http.request(method, f"{hub.url}{path}") as answer:
            assert 400 <= answer.status < 500, (method, path, answer.status)
            assert "twu_" not in await answer.text()
    for path in PUBLIC:
        async with hub.http.get(f"{hub.url}{path}") as answer:
            assert answer.status == 200
            assert len(await answer.text()) < 1500


async def test_the_agents_chart_is_public_and_holds_nothing_secret(hub: Running) -> None:
    """The same file to everybody, of files that lie open in the repository; nobody's cookie."""
    async with hub.http.get(f"{hub.url}{CHART}") as answer:
        assert (answer.status, answer.content_type) == (200, "application/gzip")
        data, header_names = await answer.read(), {name.lower() for name in answer.headers}
        tag = answer.headers["etag"]
    # The tag is a digest of what everybody gets: it tells nothing more.
    assert tag == f'"{hashlib.sha256(data).hexdigest()[:32]}"'
    assert not header_names & {
        "set-cookie",
        "authorization",
        "www-authenticate",
        "server",
        "x-powered-by",
    }
    folder = Path(__file__).parents[3] / "charts" / "towline-agent"
    secrets = [path.read_bytes().strip() for path in hub.data.rglob("*.token")]
    assert secrets
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as archive:
        for member in archive.getmembers():
            content = cast("IO[bytes]", archive.extractfile(member)).read()
            assert content == (folder.parent / member.name).read_bytes(), member.name
            assert not any(secret in content for secret in secrets)
            assert (member.uid, member.gid, member.uname, member.gname) == (0, 0, "", "")
    async with hub.http.get(f"{hub.url}{CHART}", headers={"if-none-match": tag}) as answer:
        assert (answer.status, await answer.read()) == (304, b"")


@pytest.mark.parametrize("token", ["", "Bearer twa_nonsense", "Bearer <user>", "Basic YTpi"])
async def test_every_call_of_agents_needs_a_deploy_token(hub: Running, token: str) -> None:
    """A user's token is none, and the answer comes at once."""
    authority = (hub.data / "tls" / "ca.crt").read_bytes()
    text = token.replace("<user>", hub.token)
    metadata = [("authorization", text)] if text else []
    credentials = grpc.ssl_channel_credentials(authority)
    calls = [m.full_name for s in agent_pb2.DESCRIPTOR.services_by_name.values() for m in s.methods]
    assert len(calls) >= 3
    async with grpc.aio.secure_channel(hub.addresses.agents, credentials) as channel:
        for call in calls:
            assert await refusal(channel, call, metadata) is grpc.StatusCode.UNAUTHENTICATED, call


async def refusal(
    channel: grpc.aio.Channel, call: str, metadata: list[tuple[str, str]]
) -> grpc.StatusCode:
    """The error that ends a call."""
    service, _, method = call.rpartition(".")
    rpc = channel.stream_stream(f"/{service}/{method}")(metadata=metadata, timeout=60)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await rpc.read()
    return refused.value.code()


async def test_agents_are_served_over_tls_only(hub: Running) -> None:
    """A deploy token never travels in the clear."""
    async with grpc.aio.insecure_channel(hub.addresses.agents) as channel:
        rpc = channel.stream_stream("/towline.v1.Agent/Sync")(timeout=60)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await rpc.read()
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
