"""`/gql`: GraphQL over HTTP and over graphql-transport-ws."""

import math
from datetime import timedelta
from typing import Any, cast

import orjson
from cross_web import HTTPException
from graphql import GraphQLError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.websockets import WebSocket
from strawberry.asgi import GraphQL
from strawberry.exceptions import ConnectionRejectionError
from strawberry.http import GraphQLHTTPResponse, GraphQLRequestData
from strawberry.http.async_base_view import AsyncHTTPRequestAdapter
from strawberry.schema.base import BaseSchema
from strawberry.subscriptions import GRAPHQL_TRANSPORT_WS_PROTOCOL
from strawberry.subscriptions.protocols.graphql_transport_ws.handlers import (
    BaseGraphQLTransportWSHandler,
)
from strawberry.subscriptions.protocols.graphql_transport_ws.types import SubscribeMessage
from strawberry.types import ExecutionResult
from strawberry.types.unset import UNSET, UnsetType

from controlplane.access.http.browser import Cookies, check_session_request
from controlplane.authorization import require_member
from controlplane.http.media_types import GRAPHQL_RESPONSE, JSON, media_type_for, refusal_status
from controlplane.http.metrics import ApiMetrics
from controlplane.platform.graphql.context import ApiBackend, Context
from controlplane.platform.graphql.persisted import PersistedQueries, UnknownQueryHash
from controlplane.platform.http.tokens import bearer_token, client_address, token_in_payload
from controlplane.platform.rate_limits import ADDRESS, RequestLimiter
from core.errors import Code, TowlineError, Unauthenticated
from core.identity import TokenKind, token_kind
from core.json_object import JsonObject
from core.runtime.clock import Clock
from core.runtime.tasks import Tasks

MAX_REQUEST_BYTES = 1 << 20

_MAX_SUBSCRIPTIONS = 100
_INIT_SECONDS = 10
_TOKEN_CHECK_SECONDS = 2.0
_UNAUTHORIZED = 4401
_BODY_HINT = (
    'the body must be one JSON object such as {"query": "{ me { email } }"}; '
    "batches are not supported"
)
_REASONS = {
    "Unable to parse request body as JSON": _BODY_HINT,
    "No GraphQL query found in the request": _BODY_HINT,
    "Unsupported content type": "unsupported content type: send Content-Type: application/json",
}


class _Connection(BaseGraphQLTransportWSHandler[Context, None]):
    """One WebSocket; it ends when its caller's token expires or is revoked."""

    view: "GraphQLEndpoint"

    async def handle(self) -> None:
        watch = Tasks("websocket")
        watch.spawn("watch token", self._watch_token())
        try:
            with self.view.meters.track_socket():
                await super().handle()
        finally:
            await watch.stop()

    async def handle_subscribe(self, message: SubscribeMessage) -> None:
        """Starts an operation, unless the caller has sent too many requests."""
        refusal = self.view.rate_refusal(self.context) if self.connection_acknowledged else None
        if refusal is None:
            await super().handle_subscribe(message)
        else:
            payload = [refusal.formatted]
            await self.send_message({"id": message["id"], "type": "error", "payload": payload})

    async def _watch_token(self) -> None:
        while not isinstance(self.context.refused, Unauthenticated):
            await self.view.clock.sleep(_TOKEN_CHECK_SECONDS)
            await self.context.renew()
        await self.websocket.close(_UNAUTHORIZED, "the token has expired or was revoked")


class GraphQLEndpoint(GraphQL[Context, None]):
    """Adds the caller and the operations to the context of each request."""

    graphql_transport_ws_handler_class = _Connection

    def __init__(
        self,
        schema: BaseSchema,
        backend: ApiBackend,
        clock: Clock,
        rates: RequestLimiter,
        cookies: Cookies,
    ) -> None:
        super().__init__(
            schema,
            graphql_ide=None,
            allow_queries_via_get=True,
            subscription_protocols=(GRAPHQL_TRANSPORT_WS_PROTOCOL,),
            max_subscriptions_per_connection=_MAX_SUBSCRIPTIONS,
            allowed_origins=cookies.origins,
            connection_init_wait_timeout=timedelta(seconds=_INIT_SECONDS),
        )
        self._backend = backend
        self._persisted = PersistedQueries()
        self.clock = clock
        self._rates = rates
        self.meters = ApiMetrics()
        self._cookies = cookies

    async def run(self, request: Request | WebSocket, *more: Any, **named: object) -> Any:
        """Answers unreadable requests with an error in the common format."""
        try:
            return await super().run(request, *more, **named)
        except HTTPException as error:
            reason = _REASONS.get(error.reason, error.reason)
            body = {"errors": [{"message": reason, "extensions": {"code": "INVALID"}}]}
            kind = media_type_for(request.headers.get("accept", ""))
            if kind == JSON:
                body = {"data": None, **body}
            headers = {"cache-control": "no-store"}
            return JSONResponse(body, error.status_code, headers, media_type=_with_charset(kind))

    async def get_context(
        self, request: Request | WebSocket, response: Response | WebSocket
    ) -> Context:
        context = Context(self._backend, request, response, source=client_address(request))
        token = bearer_token(request.headers.get("authorization", ""))
        if token_kind(token) is TokenKind.SESSION:
            context.refused = Unauthenticated("send a session in its cookie, not as a token")
        elif token or not self._cookies.session_secret(request) or isinstance(request, WebSocket):
            await context.sign_in(token)
        else:
            await self._sign_in_by_cookie(context, request)
        return context

    async def _sign_in_by_cookie(self, context: Context, request: Request) -> None:
        """Authenticates a browser's session, if our own page sent the request."""
        try:
            check_session_request(request, self._cookies.base_url(request))
        except TowlineError as error:
            context.refused = error
            return
        await context.sign_in(self._cookies.session_secret(request))

    async def on_ws_connect(self, context: Context) -> UnsetType:
        """Authenticates with the token from `connection_init`, where browsers can put it.

        The library has already rejected pages of other origins.
        """
        if token := token_in_payload(context.connection_params):
            await context.sign_in(token)
        if context.refused is not None or not context.token:
            raise ConnectionRejectionError({"code": "UNAUTHENTICATED"})
        return UNSET

    def is_websocket_origin_allowed(self, request: WebSocket, origin: str) -> bool:
        """Accepts our pages behind a reverse proxy, and pages of any origin that send a token:
        browsers add none on their own, and let no page set this header.
        """
        token = bearer_token(request.headers.get("authorization", ""))
        return bool(token) or super().is_websocket_origin_allowed(request, origin)

    def should_render_graphql_ide(self, request: object) -> bool:
        """Never, because GET is only for persisted queries."""
        return False

    async def parse_http_body(
        self, request: AsyncHTTPRequestAdapter
    ) -> GraphQLRequestData | list[GraphQLRequestData]:
        """Parses a request; GET accepts only the hash of a persisted query."""
        if request.method == "GET":
            params = request.query_params
            if params.get("query") or not params.get("extensions"):
                raise HTTPException(
                    405, "send queries with POST; GET accepts only hashes of persisted queries"
                )
        return await super().parse_http_body(request)

    async def execute_operation(
        self,
        request: Request,
        request_adapter: AsyncHTTPRequestAdapter,
        request_data: GraphQLRequestData | list[GraphQLRequestData],
        context: Context,
        root_value: None,
        sub_response: Response,
    ) -> Any:
        """Runs a query, or the persisted query of its hash, and counts it."""
        started = self.clock.monotonic()
        data = cast("GraphQLRequestData", request_data)  # `decode_json` accepts no batch
        result = self._load_or_refuse_query(data, context)
        if result is None:
            result = await super().execute_operation(
                request=request,
                request_adapter=request_adapter,
                request_data=data,
                context=context,
                root_value=root_value,
                sub_response=sub_response,
            )
        errors = getattr(result, "errors", None)
        self.meters.record_response(data.query, errors, self.clock.monotonic() - started)
        return result

    def rate_refusal(self, context: Context) -> GraphQLError | None:
        """Counts a request of the caller; returns an error if there were too many."""
        caller = context.caller.id or f"{ADDRESS}{context.source}"
        wait = self._rates.take(caller, self.clock.now().timestamp())
        if not wait:
            return None
        return _graphql_error(
            f"too many requests: try again in {math.ceil(wait)} s", Code.LIMIT.value
        )

    def _load_or_refuse_query(
        self, data: GraphQLRequestData, context: Context
    ) -> ExecutionResult | None:
        """Inserts the text of a persisted query; returns the response
        if execution is not needed.
        """
        if (error := self.rate_refusal(context)) is not None:
            return ExecutionResult(data=None, errors=[error])
        try:
            require_member(context.actor)
            data.query = self._persisted.resolve(data.query, data.extensions)
            self._persisted.store(data.query, data.extensions)
        except UnknownQueryHash:
            return _error_result("PersistedQueryNotFound", "PERSISTED_QUERY_NOT_FOUND")
        except Unauthenticated:
            data.query = data.query or "{ __typename }"
        except TowlineError as error:
            return _error_result(error.message, error.code.value)
        return None

    def decode_json(self, data: str | bytes) -> object:
        """Decodes a request or a message, which must be an object; batches are not supported."""
        if len(data) > MAX_REQUEST_BYTES:
            raise orjson.JSONDecodeError("too long", "", 0)
        value = orjson.loads(data)
        if not isinstance(value, dict):
            raise orjson.JSONDecodeError("expected an object", "", 0)
        return value

    def encode_json(self, data: object) -> str:
        return orjson.dumps(data).decode()

    async def get_sub_response(self, request: Request | WebSocket) -> Response:
        response = await super().get_sub_response(request)
        response.media_type = media_type_for(request.headers.get("accept", ""))
        return response

    def create_response(
        self, response_data: GraphQLHTTPResponse | list[GraphQLHTTPResponse], sub_response: Response
    ) -> Response:
        """Responds with the media type and the status that the client asked for."""
        kind = sub_response.media_type or JSON
        if kind == GRAPHQL_RESPONSE:
            body = cast("JsonObject", response_data)
            sub_response.status_code = status = refusal_status(body)  # ty: ignore
            if status:
                body.pop("data", None)
        response = super().create_response(response_data, sub_response)
        response.headers["content-type"] = _with_charset(kind)
        response.headers["cache-control"] = "no-store"
        return response


def _with_charset(media_type: str) -> str:
    return f"{media_type}; charset=utf-8"


def _error_result(message: str, code: str) -> ExecutionResult:
    return ExecutionResult(data=None, errors=[_graphql_error(message, code)])


def _graphql_error(message: str, code: str) -> GraphQLError:
    return GraphQLError(message, extensions={"code": code})
