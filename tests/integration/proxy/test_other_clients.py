"""Clients that nobody here wrote, through the proxy."""

import asyncio

import pytest
import websocket
from kubernetes import client
from kubernetes.client.exceptions import ApiException

from proxy.domain.access import ImpersonationRule
from tests.integration.proxy.conftest import Kubectl
from tests.integration.proxy.stack import Stack

ERROR_CHANNEL = 3


@pytest.mark.parametrize("origin", ["http://localhost:3000", "null"])
async def test_a_websocket_with_a_bearer_token_may_have_any_origin(
    through: Kubectl, stack: Stack, box: tuple[str, ...], origin: str
) -> None:
    """Only a browser's own credentials need an origin; tools and gateways send any."""
    _, namespace, pod = box
    url = (
        f"wss://127.0.0.1:{stack.port}/k8s/clusters/dev/api/v1/namespaces/{namespace}/pods/{pod}"
        "/exec?command=echo&command=hi&stdout=1"
    )

    def run() -> list[bytes]:
        connection = websocket.create_connection(
            url,
            header=["Authorization: Bearer ann-token"],
            origin=origin,
            subprotocols=["v5.channel.k8s.io"],
            sslopt={"ca_certs": str(stack.authority.ca)},
        )
        pieces = []
        while piece := connection.recv():
            pieces.append(piece if isinstance(piece, bytes) else piece.encode())
            if pieces[-1][0] == ERROR_CHANNEL:
                break
        connection.close()
        return pieces

    assert b"\x01hi\n" in await asyncio.to_thread(run)


async def test_a_client_may_name_the_group_that_every_user_has(
    through: Kubectl, stack: Stack
) -> None:
    """The API server adds it, once."""
    rule = ImpersonationRule.of(["user:bob", "group:devs"])
    assert rule is not None
    stack.installation.impersonation["ann"] = rule

    def whoami(group: str) -> tuple[str, list[str]]:
        configuration = client.Configuration()
        configuration.host = f"https://127.0.0.1:{stack.port}/k8s/clusters/dev"
        configuration.ssl_ca_cert = str(stack.authority.ca)
        configuration.api_key = {"authorization": "Bearer ann-token"}
        with client.ApiClient(configuration) as api:
            api.set_default_header("Impersonate-User", "bob")
            api.set_default_header("Impersonate-Group", group)
            reviews = client.AuthenticationV1Api(api)
            user = reviews.create_self_subject_review(client.V1SelfSubjectReview()).status.user_info
            return user.username, user.groups

    assert await asyncio.to_thread(whoami, "system:authenticated") == (
        "bob",
        ["system:authenticated"],
    )
    with pytest.raises(ApiException, match="system:unauthenticated"):
        await asyncio.to_thread(whoami, "system:unauthenticated")
