"""The media types of GraphQL over HTTP."""

from typing import Any

import pytest

from controlplane.http.media_types import GRAPHQL_RESPONSE, JSON, media_type_for, refusal_status


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("", JSON),
        ("*/*", JSON),
        ("application/json; charset=utf-8", JSON),
        ("text/html, application/xhtml+xml", JSON),
        ("application/graphql-response+json", GRAPHQL_RESPONSE),
        ("Application/GraphQL-Response+JSON; charset=utf-8", GRAPHQL_RESPONSE),
        ("application/graphql-response+json, application/json", GRAPHQL_RESPONSE),
        ("application/json, application/graphql-response+json;q=0.9", JSON),
        ("application/json;q=0.9, application/graphql-response+json", GRAPHQL_RESPONSE),
        ("application/graphql-response+json;q=0", JSON),
        ("application/graphql-response+json;q=x", JSON),
    ],
)
def test_the_preferred_media_type_is_used(accept: str, kind: str) -> None:
    assert media_type_for(accept) == kind


def error(code: str, **more: Any) -> dict[str, Any]:
    return {"message": "x", "extensions": {"code": code}, **more}


@pytest.mark.parametrize(
    ("response", "status"),
    [
        ({"data": {"me": None}}, None),
        ({"data": None, "errors": [error("NOT_FOUND", path=["me"])]}, None),
        ({"data": {"me": None}, "errors": [error("FORBIDDEN", path=["me"])]}, None),
        ({"data": None, "errors": [error("INVALID")]}, 400),
        ({"data": None, "errors": [error("UNAUTHENTICATED")]}, 401),
        ({"data": None, "errors": [error("LIMIT")]}, 429),
        ({"data": None, "errors": [error("INTERNAL")]}, 500),
        ({"data": None, "errors": [error("PERSISTED_QUERY_NOT_FOUND")]}, 400),
        ({"data": None, "errors": [{"message": "x"}]}, 400),
        ({"data": {"me": None}, "errors": [error("INTERNAL")]}, None),
        ({"data": None, "errors": [error("NOT_FOUND", path=["me"]), error("INVALID")]}, None),
        ({"data": None}, None),
    ],
)
def test_only_a_refused_request_has_the_status_of_its_error(
    response: dict[str, Any], status: int | None
) -> None:
    assert refusal_status(response) == status
