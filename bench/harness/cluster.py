"""Measures the overhead for a real API server with a real agent."""

import asyncio
import ssl
import time
from base64 import b64decode
from urllib.parse import urlsplit

import yaml

from bench.harness.load_generator import END_OF_HEAD, percentile
from bench.harness.programs import resident_bytes
from bench.harness.tunnel_harness import PREFIX, TunnelHarness
from bench.report import BenchReport
from towline.demo.environment import DemoCluster, wait_until

ROUNDS, REQUESTS = 4, 400
EXEC_BYTES = 1_000_000_000
OBJECTS, OBJECT_BYTES, LISTS = 60, 500_000, 5
OBJECT = "/api/v1/namespaces/default/configmaps/small"
POD = """
apiVersion: v1
kind: Pod
metadata: {name: box, namespace: default}
spec: {containers: [{name: main, image: "box:1"}]}
"""

# The agent impersonates too: the API server's second authorization is no cost of the tunnel.
IMPERSONATING = "Impersonate-User: bench\r\nImpersonate-Group: system:masters\r\n"

Address = tuple[str, int, ssl.SSLContext]


async def measure(harness: TunnelHarness, report: BenchReport) -> None:
    """Measures a small GET and an exec, through the Kubernetes proxy and directly."""
    member = harness.stage.members["dev"]
    wait_until(
        "the agent of dev", lambda: "kube-system" in _kubectl_through_proxy(harness, "get", "ns")
    )
    await _measure_get(harness, member, report)
    await _measure_lists(harness, member, report)
    await _measure_exec(harness, member, report)


async def _measure_get(harness: TunnelHarness, member: DemoCluster, report: BenchReport) -> None:
    member.kubectl("create", "configmap", "small", "-n", "default", "--from-literal=a=b")
    member.kubectl(
        "create",
        "clusterrolebinding",
        "bench",
        "--clusterrole=cluster-admin",
        "--serviceaccount=default:default",
    )
    token = member.kubectl("create", "token", "default", "-n", "default").strip()
    server = _api_server(member)
    trusting = ssl.create_default_context(cafile=str(harness.stage.authority))
    proxy = ("127.0.0.1", harness.https_port, trusting)
    past: list[float] = []
    impersonated: list[float] = []
    through: list[float] = []
    for _ in range(ROUNDS):
        past += await _latencies(server, OBJECT, token)
        impersonated += await _latencies(server, OBJECT, token, IMPERSONATING)
        through += await _latencies(proxy, f"{PREFIX}/dev{OBJECT}", harness.token)
    for part, goal in ((0.5, 1.5), (0.99, 6.0)):
        name = f"API server: GET p{part * 100:.0f} added"
        quick = percentile(past, part)
        report.add(name, [(percentile(through, part) - quick) * 1000], "ms", goal=goal)
        itself = (percentile(impersonated, part) - quick) * 1000
        report.add(f"{name} by impersonation alone", [itself], "ms")


async def _latencies(address: Address, path: str, token: str, fields: str = "") -> list[float]:
    host, port, tls = address
    reader, writer = await asyncio.open_connection(host, port, ssl=tls)
    request = f"GET {path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {token}\r\n"
    request += f"{fields}\r\n"
    found = []
    for _ in range(REQUESTS):
        began = time.perf_counter()
        writer.write(request.encode())
        head = (await reader.readuntil(END_OF_HEAD)).lower()
        if not head.startswith(b"http/1.1 200"):
            raise RuntimeError(f"unexpected response {head[:80]!r}")
        length = head.split(b"content-length:")[1].split(b"\r\n")[0]
        await reader.readexactly(int(length))
        found.append(time.perf_counter() - began)
    writer.close()
    return found


async def _measure_lists(harness: TunnelHarness, member: DemoCluster, report: BenchReport) -> None:
    """Measures kubectl's time for a large list, with a request head that nobody has sent before.
    Without compression, which needs more time than the transport.
    """
    for number in range(OBJECTS):
        data = f"number: {number}\n" * (OBJECT_BYTES // 11)
        member.kubectl("apply", "--server-side", "-f", "-", stdin=_config_map(number, data))
    past, through = _kubectl_past(member), _kubectl_through(harness, member)
    times: dict[str, list[float]] = {"through": [], "past": []}
    for turn in range(LISTS):
        path = f"/api/v1/namespaces/default/configmaps?timeoutSeconds={100 + turn}"
        for name, kubectl in (("through", through), ("past", past)):
            began = time.perf_counter()
            await _output_of(kubectl, ["get", "--raw", path, "--disable-compression"])
            times[name].append(time.perf_counter() - began)
    report.add(
        f"kubectl: list of {OBJECTS * OBJECT_BYTES / 1e6:.0f} MB vs direct",
        times["through"],
        "s",
        baseline="direct",
        baseline_values=times["past"],
    )


def _config_map(number: int, data: str) -> str:
    metadata = {"name": f"large-{number}", "namespace": "default"}
    content = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": data}}
    return yaml.safe_dump(content)


def _kubectl_past(member: DemoCluster) -> list[str]:
    """kubectl directly at the API server."""
    program = member.kubectl_program or "kubectl"
    access = member.access
    return [program, f"--kubeconfig={access.kubeconfig}", f"--context={access.context}"]


def _kubectl_through(harness: TunnelHarness, member: DemoCluster) -> list[str]:
    program = member.kubectl_program or "kubectl"
    return [program, f"--kubeconfig={harness.stage.member_kubeconfig()}"]


async def _measure_exec(harness: TunnelHarness, member: DemoCluster, report: BenchReport) -> None:
    member.kubectl("apply", "-f", "-", stdin=POD)
    member.kubectl("wait", "-n", "default", "--for=condition=Ready", "pod/box", "--timeout=30s")
    direct = await _exec(_kubectl_past(member))
    before = resident_bytes(harness.hub_pid)
    through = await _exec(_kubectl_through(harness, member))
    report.add(
        "1 GB through exec",
        [through],
        "MB/s",
        goal=100,
        at_most=False,
    )
    report.add(
        "1 GB through exec vs direct",
        [through],
        "MB/s",
        baseline="direct",
        baseline_values=[direct],
    )
    grown = (resident_bytes(harness.hub_pid) - before) / 1e6
    report.add("control plane's memory after 1 GB through exec", [grown], "MB", goal=16)


async def _exec(kubectl: list[str]) -> float:
    """Output rate of a program in a pod in MB/s."""
    command = ["exec", "-n", "default", "box", "--", "head", "-c", str(EXEC_BYTES), "/dev/zero"]
    began = time.perf_counter()
    received = await _output_of(kubectl, command)
    if received != EXEC_BYTES:
        raise RuntimeError(f"exec ended after {received} bytes")
    return received / (time.perf_counter() - began) / 1e6


async def _output_of(kubectl: list[str], arguments: list[str]) -> int:
    """Runs kubectl; returns the number of bytes that it wrote."""
    process = await asyncio.create_subprocess_exec(
        *kubectl, *arguments, stdout=asyncio.subprocess.PIPE, limit=1 << 20
    )
    assert process.stdout is not None
    received = 0
    while data := await process.stdout.read(1 << 20):
        received += len(data)
    if await process.wait():
        raise RuntimeError(f"kubectl {arguments[0]} failed after {received} bytes")
    return received


def _kubectl_through_proxy(harness: TunnelHarness, *args: str) -> str:
    """Runs kubectl through the Kubernetes proxy; returns its output."""
    member = harness.stage.members["dev"]
    access = type(member.access)(harness.stage.member_kubeconfig(), "")
    return access.kubectl(*args, program=member.kubectl_program)


def _api_server(member: DemoCluster) -> Address:
    view = member.kubectl("config", "view", "--minify", "--flatten", "--raw", "-o", "yaml")
    given = yaml.safe_load(view)["clusters"][0]["cluster"]
    url = urlsplit(given["server"])
    assert url.hostname and url.port
    authority = b64decode(given["certificate-authority-data"]).decode()
    return url.hostname, url.port, ssl.create_default_context(cadata=authority)
