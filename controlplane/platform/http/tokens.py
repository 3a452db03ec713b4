"""Bearer tokens of requests, and the addresses of their clients."""

from collections.abc import Mapping

from starlette.requests import HTTPConnection


def client_address(request: HTTPConnection) -> str:
    """Returns the network address of the client; empty if it is unknown."""
    return request.client.host if request.client else ""


def bearer_token(authorization: str) -> str:
    """Returns the token of an `Authorization: Bearer …` or `Token …` header; empty if there is
    none.
    """
    scheme, _, token = authorization.partition(" ")
    return token.strip() if scheme.lower() in ("bearer", "token") else ""


def token_in_payload(payload: object) -> str:
    """Returns the token in the payload of `connection_init`; empty if there is none.

    Clients of GraphQL servers send `token`, `Authorization`, or that in `headers`.
    """
    fields = _lowercase_fields(payload)
    fields = _lowercase_fields(fields.get("headers")) | fields
    token, authorization = fields.get("token"), fields.get("authorization")
    if isinstance(token, str) and token:
        return token
    return bearer_token(authorization) if isinstance(authorization, str) else ""


def _lowercase_fields(value: object) -> dict[str, object]:
    if not isinstance(value, Mapping):
        return {}
    return {str(name).lower(): item for name, item in value.items()}
