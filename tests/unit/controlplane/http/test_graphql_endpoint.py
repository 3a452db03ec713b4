"""`/gql` over HTTP and WebSockets: credentials, persisted queries, limits and errors."""

import asyncio
import hashlib
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import orjson
import pytest
from prometheus_client import CollectorRegistry
from starlette.routing import Route, WebSocketRoute

from controlplane.access.http.browser import Cookies
from controlplane.access.model.users import Token
from controlplane.access.operations.identity import CredentialAuthenticator
from controlplane.access.ports import TokenStore
from controlplane.api.schema import schema
from controlplane.audit.operations.audit_log import AuditLogOperations
from controlplane.http.graphql import MAX_REQUEST_BYTES, GraphQLEndpoint
from controlplane.platform.git_ports import ManifestSource
from controlplane.platform.graphql.context import ApiBackend
from controlplane.platform.rate_limits import RequestLimiter
from core import __version__
from core.identity import TokenKind, new_token
from core.runtime.token_bucket import RatePolicy
from tests.fakes.access import FakeDeployTokens, bind, make_token, make_user
from tests.fakes.asgi import AsgiClient, Response, Socket, client_of
from tests.fakes.clock import START, settle
from tests.fakes.operations import MemoryOperations, operations_over_memory

ADA = make_user("ada")
QUERY = "{ installation { version } }"
DATA = {"installation": {"version": __version__}}
TRANSPORT = "graphql-transport-ws"
CSRF = {"x_towline_csrf": "1"}
HOUR = timedelta(hours=1)


@dataclass
class Api:
    """The endpoint, and a client without a credential."""

    world: MemoryOperations
    identity: CredentialAuthenticator
    endpoint: GraphQLEndpoint
    client: AsgiClient

    async def token(self, kind: TokenKind = TokenKind.USER, **columns: Any) -> tuple[Token, str]:
        token, secret = make_token(ADA, kind, last_used_at=START, **columns)
        await self.world.given(ADA, token, bind("viewer", ADA))
        return token, secret

    async def ask(self, body: Any = None, **headers: str) -> Response:
        """Sends a query, or another JSON body."""
        return await self.client.send_json("POST", "/gql", body or {"query": QUERY}, **headers)

    async def signed_in(self) -> None:
        """Authenticates all further requests."""
        self.client.headers = {"authorization": f"Bearer {(await self.token())[1]}"}


def api_of(public_url: str = "", policy: RatePolicy | None = None) -> Api:
    world = operations_over_memory()
    identity = CredentialAuthenticator(world.context, FakeDeployTokens({}))
    audit_log = AuditLogOperations(world.context)
    parts = {AuditLogOperations: audit_log, ManifestSource: world.manifests}
    backend = ApiBackend(parts, identity, 0)
    limiter = RequestLimiter(policy)
    endpoint = GraphQLEndpoint(schema, backend, world.clock, limiter, Cookies(public_url))
    routes = [Route("/gql", endpoint), WebSocketRoute("/gql", endpoint)]
    return Api(world, identity, endpoint, client_of(routes))


@pytest.fixture
def api() -> Api:
    return api_of()


def code(response: Response) -> str:
    """The code of the only error, `OK` without one."""
    assert response.headers["cache-control"] == "no-store"
    errors = response.json().get("errors", [])
    return errors[0]["extensions"]["code"] if errors else "OK"


async def test_a_token_is_answered(api: Api) -> None:
    await api.signed_in()
    response = await api.ask()
    assert (response.status, response.json()) == (200, {"data": DATA})
    assert response.headers["content-type"] == "application/json; charset=utf-8"


async def test_others_learn_only_that_they_must_sign_in(api: Api) -> None:
    for authorization in ("", "Bearer nonsense", f"Bearer {new_token(TokenKind.USER)}"):
        for query in (QUERY, "{ nonsense }", "{ __schema { types { name } } }"):
            response = await api.ask({"query": query}, authorization=authorization)
            assert (response.status, code(response)) == (200, "UNAUTHENTICATED")


async def test_a_session_counts_only_with_the_header_of_our_own_page(api: Api) -> None:
    secret = (await api.token(TokenKind.SESSION))[1]
    api.client.cookies["towline_session"] = secret
    assert code(await api.ask(**CSRF)) == "OK"
    assert code(await api.ask()) == "UNAUTHENTICATED"
    foreign = await api.ask(origin="https://evil.example.org", **CSRF)
    assert code(foreign) == "FORBIDDEN"
    api.client.cookies.clear()
    as_token = await api.ask(authorization=f"Bearer {secret}", **CSRF)
    assert code(as_token) == "UNAUTHENTICATED"
    assert "in its cookie" in as_token.json()["errors"][0]["message"]


async def test_a_token_counts_before_the_session_of_a_browser(api: Api) -> None:
    """Programs that share the cookies of a browser send no header of our pages."""
    api.client.cookies["towline_session"] = "expired"
    await api.signed_in()
    assert code(await api.ask()) == "OK"


@pytest.mark.parametrize(
    ("body", "kind", "status", "text"),
    [
        (b"{", "application/json", 400, "one JSON object"),
        (b"[]", "application/json", 400, "batches are not supported"),
        (b"{}", "application/json", 400, "one JSON object"),
        (
            b'{"query": "{ a }"}' + b" " * MAX_REQUEST_BYTES,
            "application/json",
            400,
            "one JSON object",
        ),
        (b"query", "text/plain", 400, "Content-Type: application/json"),
    ],
)
async def test_an_unreadable_request_has_an_error_in_the_common_format(
    api: Api, body: bytes, kind: str, status: int, text: str
) -> None:
    await api.signed_in()
    response = await api.client.send("POST", "/gql", body, {"content_type": kind})
    assert (response.status, code(response)) == (status, "INVALID")
    assert response.json()["data"] is None
    assert text in response.json()["errors"][0]["message"]


async def test_a_client_may_ask_for_statuses_of_errors(api: Api) -> None:
    """`application/graphql-response+json`, as in GraphQL over HTTP."""
    accept = {"accept": "application/graphql-response+json"}
    refused = await api.ask(**accept)
    assert (refused.status, "data" in refused.json()) == (401, False)
    assert refused.headers["content-type"].startswith("application/graphql-response+json")
    await api.signed_in()
    answered = await api.ask(**accept)
    assert (answered.status, answered.json()) == (200, {"data": DATA})
    assert (await api.ask({"query": "{ nonsense }"}, **accept)).status == 400
    unreadable = await api.client.send("POST", "/gql", b"{", {**accept, "content_type": "x/json"})
    assert "data" not in unreadable.json()
    assert unreadable.headers["content-type"].startswith("application/graphql-response+json")


def persisted(query: str) -> dict[str, Any]:
    hash = hashlib.sha256(query.encode()).hexdigest()
    return {"persistedQuery": {"version": 1, "sha256Hash": hash}}


async def test_a_query_of_a_member_is_sent_once_and_then_by_its_hash(api: Api) -> None:
    extensions = persisted(QUERY)
    await api.ask({"query": QUERY, "extensions": extensions})
    await api.signed_in()
    unknown = await api.ask({"extensions": extensions})
    assert code(unknown) == "PERSISTED_QUERY_NOT_FOUND"
    assert code(await api.ask({"query": QUERY, "extensions": extensions})) == "OK"
    assert (await api.ask({"extensions": extensions})).json() == {"data": DATA}
    link = f"/gql?extensions={quote(orjson.dumps(extensions).decode())}"
    assert (await api.client.get(link)).json() == {"data": DATA}
    wrong = await api.ask({"query": "{ __typename }", "extensions": extensions})
    assert code(wrong) == "INVALID"
    api.client.headers = {}
    assert code(await api.ask({"extensions": extensions})) == "UNAUTHENTICATED"


async def test_a_link_runs_no_query_of_its_own(api: Api) -> None:
    await api.signed_in()
    extensions = quote(orjson.dumps(persisted(QUERY)).decode())
    for link in (f"/gql?query={quote(QUERY)}", "/gql", f"/gql?query=x&extensions={extensions}"):
        response = await api.client.get(link, accept="text/html")
        assert (response.status, code(response)) == (405, "INVALID")


async def test_a_caller_with_too_many_requests_waits_and_others_do_not() -> None:
    api = api_of(policy=RatePolicy(0.2, 2))
    for _ in range(2):
        assert code(await api.ask()) == "UNAUTHENTICATED"
    refused = await api.ask(accept="application/graphql-response+json")
    assert (refused.status, code(refused)) == (429, "LIMIT")
    assert "try again in 10 s" in refused.json()["errors"][0]["message"]
    api.client.source = "192.0.2.2"
    assert code(await api.ask()) == "UNAUTHENTICATED"
    api.client.source = "192.0.2.1"
    await api.signed_in()
    assert code(await api.ask()) == "OK"


async def test_requests_are_counted_by_their_result(api: Api) -> None:
    registry = CollectorRegistry()
    registry.register(api.endpoint.meters)
    await api.ask()
    await api.signed_in()
    await api.ask()
    await api.ask({"query": "mutation { nonsense }"})
    for kind, result in (("query", "UNAUTHENTICATED"), ("query", "OK"), ("mutation", "INVALID")):
        labels = {"kind": kind, "code": result}
        assert registry.get_sample_value("towline_api_requests_total", labels) == 1
    assert registry.get_sample_value("towline_api_seconds_sum", {"kind": "query"}) == 0


async def init(socket: Socket, payload: dict[str, Any] | None = None) -> Any:
    """The answer to the first message of a client."""
    accepted = await socket.receive()
    assert (accepted["type"], accepted["subprotocol"]) == ("websocket.accept", TRANSPORT)
    message = {"type": "connection_init"}
    await socket.send_json({**message, "payload": payload} if payload else message)
    return await socket.receive()


async def result(socket: Socket, query: str = QUERY) -> Any:
    """The first message of an operation."""
    await socket.send_json({"id": "1", "type": "subscribe", "payload": {"query": query}})
    return await socket.receive_json()


async def test_a_websocket_answers_queries_of_its_caller(api: Api) -> None:
    secret = (await api.token())[1]
    async with api.client.websocket("/gql", TRANSPORT) as socket:
        assert "connection_ack" in (await init(socket, {"token": secret}))["text"]
        assert (await result(socket))["payload"] == {"data": DATA}


@pytest.mark.parametrize("payload", [None, {"token": "nonsense"}, {"token": ""}])
async def test_a_websocket_without_a_valid_token_is_closed(
    api: Api, payload: dict[str, Any] | None
) -> None:
    async with api.client.websocket("/gql", TRANSPORT) as socket:
        closed = await init(socket, payload)
        assert (closed["type"], closed["code"]) == ("websocket.close", 4403)


async def test_a_cookie_opens_no_websocket(api: Api) -> None:
    """Pages of other origins could open it, because WebSockets need no preflight request."""
    api.client.cookies["towline_session"] = (await api.token(TokenKind.SESSION))[1]
    async with api.client.websocket("/gql", TRANSPORT) as socket:
        assert (await init(socket))["type"] == "websocket.close"


@pytest.mark.parametrize(
    ("public_url", "origin", "has_token", "accepted"),
    [
        ("", "http://towline.example.org", False, True),
        ("", "https://evil.example.org", False, False),
        ("https://public.example.org/", "https://public.example.org", False, True),
        ("", "https://evil.example.org", True, True),
    ],
)
async def test_a_page_of_another_origin_needs_a_token_to_open_a_websocket(
    public_url: str, origin: str, has_token: bool, accepted: bool
) -> None:
    """Browsers send no token on their own."""
    api = api_of(public_url)
    headers = {"origin": origin}
    if has_token:
        headers["authorization"] = f"Bearer {(await api.token())[1]}"
    client = replace(api.client, headers=headers)
    async with client.websocket("/gql", TRANSPORT) as socket:
        assert ((await socket.receive())["type"] == "websocket.accept") is accepted


async def test_another_protocol_is_refused(api: Api) -> None:
    async with api.client.websocket("/gql", "graphql-ws") as socket:
        await socket.receive()
        closed = await socket.receive()
        assert (closed["type"], closed["code"]) == ("websocket.close", 4406)


@pytest.mark.parametrize("ends_by", ["expiry", "revocation"])
async def test_a_websocket_ends_with_its_token(api: Api, ends_by: str) -> None:
    token, secret = await api.token(expires_at=START + HOUR)
    async with api.client.websocket("/gql", TRANSPORT) as socket:
        await init(socket, {"token": secret})
        await api.world.clock.advance(60)
        assert (await result(socket))["type"] == "next"
        assert (await socket.receive_json())["type"] == "complete"
        if ends_by == "expiry":
            await api.world.clock.advance(HOUR.total_seconds())
        else:
            async with api.world.store.write() as tx:
                await tx[TokenStore].change(token.id, revoked_at=api.world.clock.now())
            api.identity.drop_token(token.id)
            await api.world.clock.advance(2)
        closed = await socket.receive()
        assert (closed["type"], closed["code"]) == ("websocket.close", 4401)


async def test_the_token_of_a_closed_websocket_is_no_longer_checked(api: Api) -> None:
    secret = (await api.token())[1]
    async with api.client.websocket("/gql", TRANSPORT) as socket:
        await init(socket, {"token": secret})
        await api.world.clock.advance(1)
        assert api.world.clock.sleepers == 1
    await settle()
    assert api.world.clock.sleepers == 0


async def test_operations_of_a_websocket_are_limited_too() -> None:
    api = api_of(policy=RatePolicy(0.1, 1))
    secret = (await api.token())[1]
    async with api.client.websocket("/gql", TRANSPORT) as socket:
        await init(socket, {"token": secret})
        assert [(await result(socket))["type"], (await socket.receive_json())["type"]] == [
            "next",
            "complete",
        ]
        refused = await result(socket)
        assert (refused["type"], refused["id"]) == ("error", "1")
        assert refused["payload"][0]["extensions"] == {"code": "LIMIT"}


async def test_an_operation_before_the_sign_in_closes_a_websocket() -> None:
    """It is no request, and leaves others from its address theirs."""
    api = api_of(policy=RatePolicy(0.1, 1))
    async with api.client.websocket("/gql", TRANSPORT) as socket:
        await socket.receive()
        await socket.send_json({"id": "1", "type": "subscribe", "payload": {"query": QUERY}})
        closed = await socket.receive()
        assert (closed["type"], closed["code"]) == ("websocket.close", 4401)
    assert code(await api.ask()) == "UNAUTHENTICATED"
    assert code(await api.ask()) == "LIMIT"


async def test_open_websockets_are_counted(api: Api) -> None:
    registry = CollectorRegistry()
    registry.register(api.endpoint.meters)
    secret = (await api.token())[1]
    async with AsyncExitStack() as stack:
        for _ in range(2):
            socket = await stack.enter_async_context(api.client.websocket("/gql", TRANSPORT))
            await init(socket, {"token": secret})
        assert registry.get_sample_value("towline_api_websockets") == 2
    await asyncio.sleep(0)
    assert registry.get_sample_value("towline_api_websockets") == 0
