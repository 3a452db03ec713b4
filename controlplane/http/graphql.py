"""`/gql`: GraphQL over HTTP and over graphql-transport-ws."""

from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.websockets import WebSocket
from strawberry.asgi import GraphQL
from strawberry.exceptions import ConnectionRejectionError
from strawberry.http import GraphQLHTTPResponse
from strawberry.schema.base import BaseSchema
from strawberry.subscriptions import GRAPHQL_TRANSPORT_WS_PROTOCOL

from controlplane.graphql.context import Context, Verbs

_MOST_SUBSCRIPTIONS = 100


class GraphQLEndpoint(GraphQL[Context, None]):
    """Puts the caller and the verbs into each request's context."""

    def __init__(self, schema: BaseSchema, verbs: Verbs) -> None:
        super().__init__(
            schema,
            graphql_ide=None,
            allow_queries_via_get=False,
            subscription_protocols=(GRAPHQL_TRANSPORT_WS_PROTOCOL,),
            max_subscriptions_per_connection=_MOST_SUBSCRIPTIONS,
        )
        self._verbs = verbs

    async def get_context(
        self, request: Request | WebSocket, response: Response | WebSocket
    ) -> Context:
        source = request.client.host if request.client else ""
        context = Context(self._verbs, request, response, source=source)
        await context.sign_in(token_of(request.headers.get("authorization", "")))
        return context

    async def on_ws_connect(self, context: Context) -> None:
        """Take the token from `connection_init`, where browsers can put it; refuse strangers."""
        params = context.connection_params
        given = params.get("token") if isinstance(params, dict) else None
        if isinstance(given, str) and given:
            await context.sign_in(given)
        if context.refused is not None or not context.token:
            raise ConnectionRejectionError({"code": "UNAUTHENTICATED"})

    def encode_json(self, data: Any) -> str:
        return orjson.dumps(data).decode()

    def create_response(
        self,
        response_data: GraphQLHTTPResponse | list[GraphQLHTTPResponse],
        sub_response: Response,
    ) -> Response:
        response = super().create_response(response_data, sub_response)
        response.headers["cache-control"] = "no-store"
        return response


def token_of(authorization: str) -> str:
    """The token of an `Authorization: Bearer …` or `Token …` header; empty if there is none."""
    scheme, _, token = authorization.partition(" ")
    return token.strip() if scheme.lower() in ("bearer", "token") else ""
