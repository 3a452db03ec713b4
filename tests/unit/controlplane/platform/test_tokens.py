"""Bearer tokens of HTTP requests and of WebSockets."""

import pytest

from controlplane.platform.http.tokens import bearer_token, token_in_payload


@pytest.mark.parametrize(
    ("header", "token"),
    [
        ("Bearer twu_1", "twu_1"),
        ("bearer  twu_1 ", "twu_1"),
        ("Token twu_1", "twu_1"),
        ("Basic twu_1", ""),
        ("twu_1", ""),
        ("Bearer", ""),
        ("", ""),
    ],
)
def test_a_header_has_a_token(header: str, token: str) -> None:
    assert bearer_token(header) == token


@pytest.mark.parametrize(
    ("payload", "token"),
    [
        ({"token": "twu_1"}, "twu_1"),
        ({"Authorization": "Bearer twu_1"}, "twu_1"),
        ({"headers": {"authorization": "Token twu_1"}}, "twu_1"),
        ({"headers": {"Authorization": "Bearer twu_2"}, "authorization": "Bearer twu_1"}, "twu_1"),
        ({"token": "", "authorization": "Bearer twu_1"}, "twu_1"),
        ({"token": 5, "Authorization": 5}, ""),
        ({"headers": ["authorization"]}, ""),
        ({"authorization": "Basic x"}, ""),
        (None, ""),
        ("twu_1", ""),
    ],
)
def test_a_websocket_has_a_token_where_clients_put_it(payload: object, token: str) -> None:
    assert token_in_payload(payload) == token
