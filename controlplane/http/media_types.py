"""The media types of GraphQL over HTTP, and the status that belongs to a response."""

from core.errors import HTTP_STATUS, Code
from core.json_object import JsonMapping

JSON = "application/json"
"""Every response has status 200, as older clients expect."""
GRAPHQL_RESPONSE = "application/graphql-response+json"
"""A response to a refused request has the status of its error, and no `data`."""

_STATUS_OF = {code.value: status for code, status in HTTP_STATUS.items()}


def media_type_for(accept: str) -> str:
    """Returns the media type for the header `Accept`; without a preference, it is JSON."""
    weights = dict(map(_media_type_and_weight, accept.split(",")))
    weight = weights.get(GRAPHQL_RESPONSE, 0.0)
    return GRAPHQL_RESPONSE if weight and weight >= weights.get(JSON, 0.0) else JSON


def refusal_status(response: JsonMapping) -> int | None:
    """Returns the status of a request that was refused before its execution, else None.

    Errors of an execution have the path of a field.
    """
    errors = response.get("errors") or ()
    if response.get("data") is not None or not errors or any("path" in error for error in errors):
        return None
    code = errors[0].get("extensions", {}).get("code", "")
    return _STATUS_OF.get(code, HTTP_STATUS[Code.INVALID])


def _media_type_and_weight(entry: str) -> tuple[str, float]:
    kind, *parameters = (part.strip().lower() for part in entry.split(";"))
    weight = next((text[2:] for text in parameters if text.startswith("q=")), "1")
    try:
        return kind, float(weight)
    except ValueError:
        return kind, 0.0
