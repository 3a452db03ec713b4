"""A proxy, an agent and a cluster's API server in one process, and kubectl through and past it."""

import asyncio
import base64
import contextlib
import json
import os
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from core.spec.bundle import KubeObject
from syncagent.tunnel.upstream import Upstream
from tests.fakes.tls import TestAuthority
from tests.integration.proxy.recording import RecordingUpstream, recording_upstream
from tests.integration.proxy.stack import Stack, run_stack
from tests.integration.proxy.user import User
from tests.planes import choose_plane, run_over_planes
from towline.cli.shell.polling import poll_until
from towline.demo.clusters.cluster import LocalCluster

ACCOUNT = "towline-proxy-test"
GROUP = "rbac.authorization.k8s.io"
KUBECTL_SECONDS = 60.0
TRANSPORTS = {
    "websocket": {
        "KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "true",
        "KUBECTL_PORT_FORWARD_WEBSOCKETS": "true",
    },
    "spdy": {
        "KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "false",
        "KUBECTL_PORT_FORWARD_WEBSOCKETS": "false",
    },
}
# The modules that also run over the native data plane; `DATA_PLANE=native` runs all of them.
BOTH_PLANES = {
    "test_canaries", "test_changing_rights", "test_cluster_hosts", "test_conformance", "test_edge",
    "test_edge_limits", "test_failures", "test_identity_proof", "test_kubectl",
    "test_malicious_agent", "test_other_clients", "test_paths", "test_recordings",
    "test_revoked_agents", "test_soak", "test_splices", "test_unread_answers",
}  # fmt: skip
POD = """
apiVersion: v1
kind: Pod
metadata: {name: box}
spec: {containers: [{name: main, image: "box:1"}]}
"""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs the tests of some modules once for each data plane."""
    run_over_planes(metafunc, BOTH_PLANES)


@pytest.fixture(autouse=True)
def plane(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets the data plane of a test's proxy."""
    choose_plane(request, monkeypatch)


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> TestAuthority:
    """Certificates for 127.0.0.1."""
    return TestAuthority(tmp_path_factory.mktemp("tls"))


@pytest.fixture
async def stack(authority: TestAuthority) -> AsyncIterator[Stack]:
    """The proxy with no agent yet."""
    async with run_stack(authority) as running:
        yield running


@pytest.fixture(scope="session")
def upstream(cluster: LocalCluster) -> Upstream:
    """The cluster's API server, with a service account that may impersonate what tests need."""
    cluster.kubectl(
        "apply", "-f", "-", stdin=json.dumps({"kind": "List", "apiVersion": "v1", "items": _rbac()})
    )
    token = cluster.kubectl("create", "token", ACCOUNT, "-n", "default")
    url = urlsplit(cluster.server)
    assert url.hostname and url.port

    async def current() -> str:
        return token

    tls = _trusting(cluster)
    return Upstream(url.hostname, url.port, lambda: tls, current)


def _trusting(cluster: LocalCluster) -> ssl.SSLContext:
    view = cluster.kubectl("config", "view", "--minify", "--flatten", "--raw", "-o", "json")
    data = json.loads(view)["clusters"][0]["cluster"]["certificate-authority-data"]
    return ssl.create_default_context(cadata=base64.b64decode(data).decode())


def _rbac() -> list[dict[str, object]]:
    role = "ClusterRole"
    impersonate = [
        {"apiGroups": [""], "resources": ["users", "groups"], "verbs": ["impersonate"]},
        {
            "apiGroups": ["authentication.k8s.io"],
            "resources": ["userextras/towline/token", "uids"],
            "verbs": ["impersonate"],
        },
    ]
    return [
        _object("v1", "ServiceAccount", ACCOUNT, namespace="default"),
        _object(f"{GROUP}/v1", role, ACCOUNT) | {"rules": impersonate},
        _binding(
            ACCOUNT, ACCOUNT, {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": "default"}
        ),
        _binding(
            "proxy-devs", "cluster-admin", {"kind": "Group", "name": "devs", "apiGroup": GROUP}
        ),
    ]


def _object(version: str, kind: str, name: str, **metadata: str) -> dict[str, object]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, **metadata}}


def _binding(name: str, role: str, subject: Mapping[str, str]) -> dict[str, object]:
    return _object(f"{GROUP}/v1", "ClusterRoleBinding", name) | {
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": role},
        "subjects": [subject],
    }


@dataclass(frozen=True)
class Result:
    """What a program left behind."""

    code: int
    out: bytes
    err: str


@dataclass(frozen=True)
class Kubectl:
    """kubectl with one kubeconfig."""

    program: Path
    kubeconfig: Path

    async def start(
        self, *args: str, env: Mapping[str, str] | None = None
    ) -> asyncio.subprocess.Process:
        """Start it with all three streams as pipes."""
        cache = f"--cache-dir={self.kubeconfig}.cache"
        return await asyncio.create_subprocess_exec(
            self.program,
            f"--kubeconfig={self.kubeconfig}",
            cache,
            *args,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={"HOME": str(self.kubeconfig.parent), "PATH": "/usr/bin:/bin", **(env or {})},
        )

    async def __call__(
        self, *args: str, stdin: bytes = b"", env: Mapping[str, str] | None = None
    ) -> Result:
        """Run it to its end."""
        process = await self.start(*args, env=env)
        async with asyncio.timeout(KUBECTL_SECONDS):
            out, err = await process.communicate(stdin)
        assert process.returncode is not None
        return Result(process.returncode, out, err.decode())


@pytest.fixture
def kubectl_program(kubernetes: Path) -> Path:
    """The program; KUBECTL_BINARY names one of another version than the cluster's."""
    return Path(os.environ.get("KUBECTL_BINARY") or kubernetes / "kubectl")


@pytest.fixture
async def through(
    stack: Stack, upstream: Upstream, kubectl_program: Path, tmp_path: Path
) -> AsyncIterator[Kubectl]:
    """kubectl as the user ann, through the proxy."""
    await stack.connect(upstream)
    yield proxied_kubectl(stack, kubectl_program, tmp_path / "proxy.kubeconfig")


@pytest.fixture
def direct(cluster: LocalCluster, kubectl_program: Path) -> Kubectl:
    """kubectl as administrator, straight to the API server."""
    return Kubectl(kubectl_program, cluster.kubeconfig)


def proxied_kubectl(stack: Stack, program: Path, path: Path, token: str = "ann-token") -> Kubectl:
    """kubectl through the proxy with a token."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "dev",
                "cluster": {
                    "server": f"https://127.0.0.1:{stack.port}/k8s/clusters/dev",
                    "certificate-authority": str(stack.authority.ca),
                },
            }
        ],
        "users": [{"name": "ann", "user": {"token": token}}],
        "contexts": [{"name": "dev", "context": {"cluster": "dev", "user": "ann"}}],
        "current-context": "dev",
    }
    path.write_text(json.dumps(config))
    return Kubectl(program, path)


@pytest.fixture
async def recorder(stack: Stack) -> AsyncIterator[RecordingUpstream]:
    """A recording stand-in for the API server, connected to the proxy by an agent."""
    async with recording_upstream() as server:
        await stack.connect(server.upstream)
        yield server


@pytest.fixture
async def user(stack: Stack) -> AsyncIterator[User]:
    """A plain connection of a user to the proxy."""
    reader, writer = await asyncio.open_connection("127.0.0.1", stack.plain_port)
    yield User(reader, writer)
    writer.close()


@pytest.fixture(params=sorted(TRANSPORTS))
def transport(request: pytest.FixtureRequest) -> dict[str, str]:
    """Environment that makes kubectl speak WebSocket or SPDY."""
    return TRANSPORTS[request.param]


@pytest.fixture
def box(cluster: LocalCluster, namespace: str) -> tuple[str, ...]:
    """A pod; the arguments that name it."""
    pods = f"/api/v1/namespaces/{namespace}/pods"
    cluster.admin.create(pods, yaml.safe_load(POD))
    poll_until(lambda: cluster.admin.read(f"{pods}/box"), _is_ready, 30, every=0.05)
    return ("-n", namespace, "box")


def _is_ready(pod: KubeObject | None) -> bool:
    conditions = pod["status"].get("conditions", ()) if pod else ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


async def stop(process: asyncio.subprocess.Process) -> Result:
    """End a program of the test's own."""
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    out, err = await process.communicate()
    return Result(process.returncode or 0, out, err.decode())
