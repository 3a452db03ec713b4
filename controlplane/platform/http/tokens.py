"""Bearer tokens of requests."""

from collections.abc import Mapping


def token_of(authorization: str) -> str:
    """Returns the token of an `Authorization: Bearer …` or `Token …` header; empty if there is
    none.
    """
    scheme, _, token = authorization.partition(" ")
    return token.strip() if scheme.lower() in ("bearer", "token") else ""


def token_in_payload(payload: object) -> str:
    """Returns the token in the payload of `connection_init`; empty if there is none.

    Clients of GraphQL servers send `token`, `Authorization`, or that in `headers`.
    """
    fields = _fields(payload)
    fields = _fields(fields.get("headers")) | fields
    given, authorization = fields.get("token"), fields.get("authorization")
    if isinstance(given, str) and given:
        return given
    return token_of(authorization) if isinstance(authorization, str) else ""


def _fields(value: object) -> dict[str, object]:
    if not isinstance(value, Mapping):
        return {}
    return {str(name).lower(): held for name, held in value.items()}
