"""The proxy and a real API server read the same request out of a path, however it is spelled."""

import asyncio
import html
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.client import HTTPSConnection

import orjson
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from kubernetes import client

from core.errors import Invalid
from proxy.domain.attributes import RequestAttributes, read_attributes
from syncagent.tunnel.upstream import Upstream
from tests.integration.proxy.conftest import Kubectl
from tests.integration.proxy.stack import Stack

NOBODY = "nobody"
_RESOURCE = re.compile(
    rf'User "{NOBODY}" cannot (?P<verb>\S+) resource "(?P<resource>[^"]*)" in API group '
    r'"(?P<group>[^"]*)" (?:in the namespace "(?P<namespace>[^"]*)"|at the cluster scope)'
)
_PATH = re.compile(rf'User "{NOBODY}" cannot (\S+) path "(.*)"')


@dataclass(frozen=True)
class ApiServerReading:
    """Asks the API server about its reading of a request: its refusals spell it out."""

    connection: HTTPSConnection
    token: str = field(repr=False)

    def __call__(self, method: str, target: str) -> RequestAttributes | None:
        """The attributes that it refused; None: everybody may do this.
        A request that it cannot even read is no example.
        """
        self.connection.request(
            method,
            target,
            headers={"Authorization": f"Bearer {self.token}", "Impersonate-User": NOBODY},
        )
        response = self.connection.getresponse()
        body = response.read()
        if response.status != 403:
            assume(response.status < 400)
            return None
        status = orjson.loads(body)
        message = html.unescape(status["message"])
        path = target.partition("?")[0]
        if found := _RESOURCE.search(message):
            resource, _, subresource = found["resource"].partition("/")
            return RequestAttributes(
                found["verb"],
                path,
                found["group"],
                namespace=found["namespace"] or "",
                resource=resource,
                subresource=subresource,
                name=status["details"].get("name", ""),
            )
        said = _PATH.search(message)
        assert said, message
        return RequestAttributes(said[1], orjson.loads(f'"{said[2]}"'))


@pytest.fixture(scope="module")
def api_server(upstream: Upstream) -> Iterator[ApiServerReading]:
    connection = HTTPSConnection(
        upstream.host, upstream.port, context=upstream.tls() if upstream.tls else None
    )
    yield ApiServerReading(connection, asyncio.run(_token(upstream)))
    connection.close()


async def _token(upstream: Upstream) -> str:
    return await upstream.token()


def _same(ours: RequestAttributes, theirs: RequestAttributes) -> bool:
    parts = (
        (read.verb, read.group, read.namespace, read.resource, read.subresource, read.name)
        for read in (ours, theirs)
    )
    mine, its = parts
    return mine == its and (bool(ours.resource) or ours.path == theirs.path)


WORDS = st.sampled_from([
    "api", "apis", "v1", "apps", "namespaces", "default", "watch", "proxy", "pods", "services",
    "nodes", "secrets", "status", "finalize", "exec", "log", "system:node", "a-b", "a b",
    "r\u00f4le", ".a", "a;b", "?", "#", "+", "*", "=", "a&b", "%", "/", "\\", "..", ".", "",
    "a/b", "\x00",
])  # fmt: skip
STARTS = st.sampled_from(["", "/api/v1", "/apis/apps/v1", "/api/v1/namespaces/default"])
METHODS = st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE"])
# Bytes that a client must encode, so that the path arrives as one.
NEEDED = frozenset(b" ?#%\\/\x00") | frozenset(range(0x80, 0x100))


@st.composite
def targets(draw: st.DrawFn) -> str:
    """Paths of any words, each byte spelled plainly or encoded."""
    spelled = [
        "".join(
            f"%{byte:02X}" if byte in NEEDED or draw(st.integers(0, 4)) == 0 else chr(byte)
            for byte in word.encode()
        )
        for word in draw(st.lists(WORDS, min_size=1, max_size=6))
    ]
    query = draw(st.sampled_from(["", "?watch=1", "?watch=0", "?w%61tch=true"]))
    return draw(STARTS) + "/" + "/".join(spelled) + draw(st.sampled_from(["", "/"])) + query


@settings(max_examples=600, deadline=None)
@given(METHODS, targets())
def test_the_api_server_authorizes_the_request_that_the_proxy_authorizes(
    api_server: ApiServerReading, method: str, target: str
) -> None:
    try:
        ours = read_attributes(method, target)
    except Invalid:
        return
    theirs = api_server(method, target)
    if theirs is None:
        assert not ours.resource, f"{method} {target} is not authorized as {ours}"
    else:
        assert _same(ours, theirs), f"{method} {target}: {ours} is not {theirs}"


async def test_the_official_python_client_reads_names_with_a_colon(
    through: Kubectl, stack: Stack
) -> None:
    """It encodes every name, so that `system:node` arrives as `system%3Anode`."""

    def read() -> list[str | None]:
        configuration = client.Configuration()
        configuration.host = f"https://127.0.0.1:{stack.port}/k8s/clusters/dev"
        configuration.ssl_ca_cert = str(stack.authority.ca)
        configuration.api_key = {"authorization": "Bearer ann-token"}
        with client.ApiClient(configuration) as api:
            rbac, core = client.RbacAuthorizationV1Api(api), client.CoreV1Api(api)
            return [
                rbac.read_cluster_role("system:node").metadata.name,
                rbac.read_cluster_role_binding("system:basic-user").metadata.name,
                core.read_namespace("kube-system").metadata.name,
            ]

    assert await asyncio.to_thread(read) == ["system:node", "system:basic-user", "kube-system"]
    authorized = [attributes.name for attributes in stack.installation.checked]
    assert authorized == ["system:node", "system:basic-user", "kube-system"]
