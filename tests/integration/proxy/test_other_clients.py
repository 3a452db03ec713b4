"""Clients that nobody here wrote, through the proxy."""

import asyncio
import base64
import json
import ssl
import sys
from http.client import HTTPSConnection
from pathlib import Path

import pytest
import websocket
from kubernetes import client
from kubernetes.client.exceptions import ApiException

from proxy.domain.access import ImpersonationRule
from syncagent.tunnel.guard import ImpersonationPolicy
from syncagent.tunnel.upstream import Upstream
from tests.fakes.kube_proxy import ANN
from tests.integration.proxy.conftest import Kubectl, proxied_kubectl
from tests.integration.proxy.stack import Stack
from tests.world.clients import operations
from tests.world.clients.matrix import compare

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


@pytest.mark.parametrize("protocol", ["binary.k8s.io", "base64.binary.k8s.io"])
async def test_logs_follow_over_a_websocket(
    through: Kubectl, stack: Stack, upstream: Upstream, box: tuple[str, ...], protocol: str
) -> None:
    """Browsers read logs so: the protocol and the bytes are those of the API server.

    Without `follow`, the API server loses what its kubelet sends together with the end.
    """
    _, namespace, pod = box
    path = f"/api/v1/namespaces/{namespace}/pods/{pod}/log?follow=true"
    written = b"".join(b"line %d of box/main\n" % number for number in range(1, 102))

    def read(base: str, fields: list[str], tls: ssl.SSLContext) -> tuple[str | None, bytes]:
        connection = websocket.create_connection(
            base + path,
            header=fields,
            origin="http://localhost",
            subprotocols=[protocol],
            sslopt={"context": tls},
            timeout=20,
        )
        seen = b""
        while len(seen) < len(written):
            piece = connection.recv()
            seen += piece if isinstance(piece, bytes) else base64.b64decode(piece)
        connection.close()
        return connection.getsubprotocol(), seen

    assert upstream.tls is not None
    token = [f"Authorization: Bearer {await upstream.token()}"]
    as_ann = [*token, "Impersonate-User: ann", "Impersonate-Group: devs"]
    server = f"wss://{upstream.host}:{upstream.port}"
    assert await asyncio.to_thread(read, server, as_ann, upstream.tls()) == (protocol, written)
    trusted = ssl.create_default_context(cafile=str(stack.authority.ca))
    proxy = f"wss://127.0.0.1:{stack.port}/k8s/clusters/dev"
    fields = ["Authorization: Bearer ann-token"]
    assert await asyncio.to_thread(read, proxy, fields, trusted) == (protocol, written)


async def test_a_client_may_name_the_group_that_every_user_has(
    through: Kubectl, stack: Stack
) -> None:
    """The API server adds it, once."""
    rule = ImpersonationRule.of(["user:bob", "group:devs"])
    assert rule is not None
    stack.installation.impersonation["ann"] = rule

    def whoami(group: str) -> tuple[str | None, list[str] | None]:
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


async def test_system_names_need_a_role_and_the_agent(
    stack: Stack, upstream: Upstream, kubectl_program: Path, tmp_path: Path
) -> None:
    """Each refusal names the missing setting; with both, the cluster sees the system's user."""
    kubectl = proxied_kubectl(stack, kubectl_program, tmp_path / "root.kubeconfig", "root-token")
    as_node = ("auth", "whoami", "--as=system:node:n1", "--as-group=system:nodes")
    agent = await stack.connect(upstream)
    assert "a role must list user:system:node:n1" in (await kubectl(*as_node)).err
    rule = ImpersonationRule.of(["*", "user:system:node:*", "group:system:nodes"])
    assert rule is not None
    stack.installation.impersonation["root"] = rule
    stack.proxy.gateway.revoke(user="u2")
    refused = await kubectl(*as_node)
    assert "list user:system:node:n1 in the agent's setting kubernetes.system_id" in refused.err
    agent.cancel()
    stack.policy = ImpersonationPolicy.parse("user:system:node:*,group:system:nodes")
    await stack.connect(upstream)
    allowed = await kubectl(*as_node)
    assert (allowed.code, b"system:node:n1" in allowed.out) == (0, True), allowed.err


async def test_heads_are_as_long_and_methods_as_known_as_at_the_api_server(
    through: Kubectl, stack: Stack, upstream: Upstream
) -> None:
    """A token with many groups has 40 kB; both ends answer a method that is none with 405."""
    stack.installation.users["t" * 40_000] = ANN
    trusted = ssl.create_default_context(cafile=str(stack.authority.ca))

    def ask(connection: HTTPSConnection, path: str, method: str, fields: dict[str, str]) -> int:
        connection.request(method, path, headers=fields)
        status = connection.getresponse().status
        connection.close()
        return status

    async def through_it(path: str, method: str, token: str) -> int:
        proxy = HTTPSConnection("127.0.0.1", stack.port, context=trusted)
        fields = {"Authorization": f"Bearer {token}"}
        return await asyncio.to_thread(ask, proxy, f"/k8s/clusters/dev{path}", method, fields)

    async def past_it(path: str, method: str) -> int:
        server = HTTPSConnection(
            upstream.host, upstream.port, context=upstream.tls() if upstream.tls else None
        )
        user = {"Impersonate-User": "ann", "Impersonate-Group": "devs"}
        fields = {"Authorization": f"Bearer {await upstream.token()}", **user}
        return await asyncio.to_thread(ask, server, path, method, fields)

    assert await through_it("/version", "GET", "t" * 40_000) == 200
    for method in ("BREW", "PROPFIND", "get"):
        for path in ("/api/v1", "/api/v1/namespaces/default/pods"):
            assert await past_it(path, method) == 405
            assert await through_it(path, method, "ann-token") == 405


async def test_the_python_client_gets_the_same_through_the_proxy(
    through: Kubectl, direct: Kubectl, box: tuple[str, ...]
) -> None:
    """The operations that `make world` runs with the libraries of other languages as well."""

    async def results(kubectl: Kubectl) -> dict[str, object]:
        program = [sys.executable, operations.__file__, kubectl.kubeconfig, box[1]]
        process = await asyncio.create_subprocess_exec(*program, stdout=asyncio.subprocess.PIPE)
        output, _ = await process.communicate()
        return json.loads(output)

    expected = await results(direct)
    assert expected["name with a colon"] == "system:node" and expected["exec"] == "hello\n"
    assert compare(expected, await results(through)) == {}
