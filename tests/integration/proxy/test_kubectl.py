"""Real kubectl through the proxy on a real API server, compared with kubectl past it."""

import asyncio
import hashlib
import json
import random
import re
from pathlib import Path

import pytest

from proxy.domain.audit import EndReason
from proxy.gateway.forward.open_request import OpenRequest
from tests.fakes.local_server import LocalServer, copy
from tests.integration.proxy.conftest import Kubectl, stop
from tests.integration.proxy.stack import Stack, eventually


async def test_version_and_whoami_answer_as_the_user(through: Kubectl, direct: Kubectl) -> None:
    """The API server sees the user, not the agent."""
    version = await through("version", "-o", "json")
    assert version == await direct("version", "-o", "json")
    whoami = json.loads((await through("auth", "whoami", "-o", "json")).out)
    user = whoami["status"]["userInfo"]
    assert user["username"] == "ann"
    assert set(user["groups"]) == {"devs", "system:authenticated"}


async def test_reads_are_byte_identical(
    through: Kubectl, direct: Kubectl, box: tuple[str, ...]
) -> None:
    """Tables, lists, raw answers and errors come as if asked directly."""
    _, namespace, _ = box
    for args in (
        ("get", "nodes", "-o", "yaml"),
        ("get", "pods", "-n", namespace, "-o", "json"),
        ("get", "--raw", "/apis"),
        ("get", "--raw", f"/api/v1/namespaces/{namespace}/pods?limit=1"),
        ("get", "pod", "nothing", "-n", namespace),
        ("api-resources", "--no-headers"),
        ("explain", "pod.spec"),
        ("auth", "can-i", "create", "pods"),
    ):
        before, ours, after = [await one(*args) for one in (direct, through, direct)]
        while before != after:
            # Somebody wrote meanwhile: a list tells the revision of all that is stored.
            before, ours, after = after, await through(*args), await direct(*args)
        assert ours == before, args


async def test_watch_shows_changes_as_they_happen(
    through: Kubectl, direct: Kubectl, namespace: str
) -> None:
    """Events of a watch arrive while it goes on."""
    watch = await through.start("get", "configmaps", "-n", namespace, "-w", "-o", "name")
    assert watch.stdout is not None
    seen = []
    for number in range(5):
        await direct("create", "configmap", f"m{number}", "-n", namespace)
        async with asyncio.timeout(10):
            while (
                line := (await watch.stdout.readline()).decode().strip()
            ) != f"configmap/m{number}":
                assert line, seen
                seen.append(line)
    await stop(watch)


async def test_server_side_apply_writes_and_is_audited(
    stack: Stack, through: Kubectl, direct: Kubectl, namespace: str
) -> None:
    """The object carries the change, and its row was there before the request went out."""
    manifest = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {a: b}\n"
    done = await through("apply", "--server-side", "-n", namespace, "-f", "-", stdin=manifest)
    assert done.code == 0, done.err
    assert b"serverside-applied" in done.out
    shown = await direct("get", "configmap", "m", "-n", namespace, "-o", "jsonpath={.data.a}")
    assert shown.out == b"b"
    rows = [row for row in stack.installation.opened_rows if row.attributes.verb == "patch"]
    assert [row.status for row in rows] == [201]
    assert rows[0].attributes.name == "m"


async def test_logs_follow(through: Kubectl, box: tuple[str, ...]) -> None:
    """Lines of a followed log arrive one by one."""
    follow = await through.start("logs", "-f", *box)
    assert follow.stdout is not None
    async with asyncio.timeout(20):
        lines = [await follow.stdout.readline() for _ in range(102)]
    assert all(line.endswith(b"\n") for line in lines)
    await stop(follow)


@pytest.mark.parametrize("code", [0, 3])
async def test_exec_passes_streams_and_exit_code(
    through: Kubectl, direct: Kubectl, box: tuple[str, ...], transport: dict[str, str], code: int
) -> None:
    """Standard input to its end, both outputs, and the exit code are those of a direct exec."""
    script = f"cat; echo to stderr >&2; exit {code}"
    args = ("exec", "-i", *box, "--", "sh", "-c", script)
    data = random.Random(code).randbytes(300_000)
    result = await through(*args, stdin=data, env=transport)
    assert result == await direct(*args, stdin=data, env=transport)
    assert (result.out, result.code) == (data, code)


async def test_a_command_may_be_long(
    through: Kubectl, box: tuple[str, ...], transport: dict[str, str]
) -> None:
    """Kubernetes' own specs run a command of 20,000 characters, which is part of the path."""
    result = await through("exec", *box, "--", "echo", "a" * 20_000, env=transport)
    assert (result.code, result.out.strip()) == (0, b"a" * 20_000), result.err[:200]


async def test_cp_both_ways(
    through: Kubectl, box: tuple[str, ...], transport: dict[str, str], tmp_path: Path
) -> None:
    """A file goes into the pod and comes back unchanged."""
    _, namespace, name = box
    here, back = tmp_path / "here", tmp_path / "back"
    here.write_bytes(random.Random(1).randbytes(3_000_000))
    there = f"{namespace}/{name}:file"
    for source, target in ((str(here), there), (there, str(back))):
        done = await through("cp", source, target, env=transport)
        assert done.code == 0, done.err
    assert digest(back) == digest(here)


async def test_port_forward_carries_many_connections(
    through: Kubectl, box: tuple[str, ...], transport: dict[str, str]
) -> None:
    """Several connections through one port-forward, each with its own bytes."""
    _, namespace, name = box
    async with LocalServer(copy) as echo:
        forward = await through.start(
            "port-forward", "-n", namespace, f"pod/{name}", f":{echo.port}", env=transport
        )
        local = await forwarded_port(forward)
        sizes = (1, 1000, 200_000, 3_000_000)
        async with asyncio.timeout(30):
            await asyncio.gather(*(exchange_bytes(local, size) for size in sizes))
        await stop(forward)


async def test_refusals_are_printed_well(
    stack: Stack, through: Kubectl, direct: Kubectl, namespace: str
) -> None:
    """kubectl shows the proxy's sentence, with the reason that fits."""
    stack.installation.forbidden.add("ann")
    done = await through("get", "pods", "-n", namespace)
    assert done.code == 1
    assert 'user "ann" may not' in done.err
    stack.installation.forbidden.clear()
    stack.installation.users.clear()
    stack.proxy.gateway.revoke(user="u1")
    done = await through("get", "pods", "-n", namespace)
    assert "run towline login" in done.err or "must be logged in" in done.err


async def test_kubectl_reports_an_absent_agent_at_once(stack: Stack, through: Kubectl) -> None:
    """Without an agent kubectl ends within seconds, with the age of the last contact."""
    stack.proxy.tunnels.stop()
    async with asyncio.timeout(5):
        done = await through("get", "pods")
    assert done.code == 1
    assert 'cluster "dev" is not connected: agent never seen yet' in done.err


async def test_killing_kubectl_ends_the_exec_upstream(
    stack: Stack, through: Kubectl, box: tuple[str, ...], transport: dict[str, str]
) -> None:
    """A user who leaves takes the stream along, and the row says so."""
    shell = await through.start("exec", "-i", *box, "--", "cat", env=transport)
    assert shell.stdin is not None and shell.stdout is not None
    shell.stdin.write(b"hello\n")
    async with asyncio.timeout(10):
        assert await shell.stdout.readline() == b"hello\n"
    shell.kill()
    await shell.communicate()
    await eventually(lambda: not stack.proxy.gateway.open_requests, 5)
    rows = [row for row in stack.installation.closed_rows if row.upgrade]
    assert [row.reason for row in rows] == [EndReason.USER_LEFT]


async def test_revocation_ends_an_exec_and_a_watch(
    stack: Stack, through: Kubectl, box: tuple[str, ...], transport: dict[str, str]
) -> None:
    """A revoked token ends what runs under it within seconds."""
    _, namespace, _ = box
    shell = await through.start("exec", "-i", *box, "--", "cat", env=transport)
    watch = await through.start("get", "pods", "-n", namespace, "-w")
    assert shell.stdin is not None and shell.stdout is not None and watch.stdout is not None
    shell.stdin.write(b"hello\n")
    async with asyncio.timeout(20):
        await shell.stdout.readline()
        await watch.stdout.readline()
        await watch.stdout.readline()
    # What was printed is of the list before the watch, which may still be open.
    await eventually(lambda: sum(map(lasts, stack.proxy.gateway.open_requests)) == 2, 20)
    stack.installation.users.clear()
    assert stack.proxy.gateway.revoke(token="t1") == 2
    async with asyncio.timeout(5):
        await asyncio.gather(shell.communicate(), watch.communicate())
    reasons = [row.reason for row in stack.installation.closed_rows if row.upgrade]
    assert reasons == [EndReason.REVOKED]


def lasts(request: OpenRequest) -> bool:
    """The agent has the request, and it is a watch or an exec."""
    attributes = request.record.attributes
    return request.ready and (request.record.upgrade or attributes.verb == "watch")


async def forwarded_port(forward: asyncio.subprocess.Process) -> int:
    """The local port that kubectl says it listens on."""
    assert forward.stdout is not None
    async with asyncio.timeout(20):
        line = (await forward.stdout.readline()).decode()
    match = re.search(r"127\.0\.0\.1:(\d+)", line)
    assert match, line
    return int(match[1])


async def exchange_bytes(port: int, size: int) -> None:
    """Send bytes to an echo and get the same back."""
    data = random.Random(size).randbytes(size)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    assert await reader.readexactly(size) == data
    writer.close()
    await writer.wait_closed()


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
