"""A cluster of ours is a real one, and nothing of it outlives its owner."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from core.errors import Unavailable
from tests.fakes.local_server import LocalServer
from towline.cluster_join import AGENT
from towline.demo.clusters.agent_access import agent_kubeconfig
from towline.demo.clusters.cluster import LocalCluster, start_all
from towline.demo.ports import free_ports


@pytest.fixture
def pod(cluster: LocalCluster, namespace: str) -> str:
    """The name of a pod that is Ready."""
    cluster.kubectl("-n", namespace, "create", "deployment", "web", "--image=web:1")
    cluster.kubectl("-n", namespace, "rollout", "status", "deployment/web", "--timeout=30s")
    return cluster.kubectl("-n", namespace, "get", "pod", "-o=jsonpath={.items[0].metadata.name}")


def test_its_nodes_are_ready(cluster: LocalCluster) -> None:
    """A started cluster has a Ready node of the pinned version."""
    nodes = json.loads(cluster.kubectl("get", "nodes", "-o", "json"))["items"]
    assert [node["status"]["nodeInfo"]["kubeletVersion"] for node in nodes] == ["v1.36.3"]


def test_logs(cluster: LocalCluster, namespace: str, pod: str) -> None:
    """The last lines of a container can be read."""
    lines = cluster.kubectl("-n", namespace, "logs", pod, "--tail=2").splitlines()
    assert lines == [f"line 99 of {pod}/web", f"line 100 of {pod}/web"]


@pytest.mark.parametrize("websocket", ["true", "false"])
def test_exec_passes_streams_and_exit_code(
    cluster: LocalCluster, namespace: str, pod: str, websocket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command reads its standard input to the end and its exit code arrives."""
    monkeypatch.setenv("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", websocket)
    run = ("-n", namespace, "exec", "-i", pod, "--", "sh", "-c")
    assert cluster.kubectl(*run, "cat; echo $HOSTNAME", stdin="in ") == f"in {pod}\n"
    with pytest.raises(Unavailable, match="exit code 7"):
        cluster.kubectl(*run, "exit 7")


def test_exec_sees_nothing_of_the_developers_environment(
    cluster: LocalCluster, namespace: str, pod: str
) -> None:
    """Only the variables of a simulated container are there."""
    text = cluster.kubectl("-n", namespace, "exec", pod, "--", "env")
    names = {line.partition("=")[0] for line in text.splitlines()}
    assert names <= {
        "PATH", "TERM", "HOME", "HOSTNAME", "PWD", "POD_NAME", "POD_NAMESPACE", "CONTAINER_NAME",
    }  # fmt: skip


def test_copy_in_and_out(cluster: LocalCluster, namespace: str, pod: str, tmp_path: Path) -> None:
    """A file survives the way into a pod and back."""
    original, copy = tmp_path / "in", tmp_path / "out"
    original.write_bytes(os.urandom(300_000))
    cluster.kubectl("cp", str(original), f"{namespace}/{pod}:data")
    cluster.kubectl("cp", f"{namespace}/{pod}:data", str(copy))
    assert copy.read_bytes() == original.read_bytes()


@pytest.mark.parametrize("websocket", ["true", "false"])
def test_port_forward_answers_with_a_page(
    kubernetes: Path, cluster: LocalCluster, namespace: str, pod: str, websocket: str
) -> None:
    """A port on which this machine does not listen is served by the simulation."""
    (local,) = free_ports(1)
    with _forward(kubernetes, cluster, namespace, pod, f"{local}:81", websocket):
        with urllib.request.urlopen(f"http://127.0.0.1:{local}/", timeout=10) as answer:
            assert answer.read().decode() == f"port 81 of {namespace}/{pod}\n"


async def test_port_forward_reaches_a_port_of_this_machine(
    kubernetes: Path, cluster: LocalCluster, namespace: str, pod: str
) -> None:
    """With local ports, bytes go to whoever listens on the pod's port here, half-close included."""

    async def shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.read()).upper())

    (local,) = free_ports(1)
    async with LocalServer(shout) as server:
        with _forward(kubernetes, cluster, namespace, pod, f"{local}:{server.port}", "false"):
            reader, writer = await asyncio.open_connection("127.0.0.1", local)
            writer.write(b"hello")
            writer.write_eof()
            assert await asyncio.wait_for(reader.read(), 20) == b"HELLO"
            writer.close()
            await writer.wait_closed()


@pytest.mark.parametrize(
    ("outcome", "reason"), [("fail", "CrashLoopBackOff"), ("pull", "ImagePullBackOff")]
)
def test_an_annotation_chooses_how_a_pod_fails(
    cluster: LocalCluster, namespace: str, outcome: str, reason: str
) -> None:
    """Containers wait for the reason that the annotation asks for."""
    _run_pod(cluster, namespace, {"outcome": outcome})
    waiting = "-o=jsonpath={.status.containerStatuses[0].state.waiting.reason}"
    _eventually(lambda: cluster.kubectl("-n", namespace, "get", "pod", "one", waiting) == reason)


def test_a_hanging_pod_stays_pending(cluster: LocalCluster, namespace: str) -> None:
    """Beside one that starts normally, a hanging pod does not move."""
    _run_pod(cluster, namespace, {"outcome": "hang"})
    _run_pod(cluster, namespace, {}, name="other")
    phase = "-o=jsonpath={.status.phase}"
    _eventually(lambda: cluster.kubectl("-n", namespace, "get", "pod", "other", phase) == "Running")
    assert cluster.kubectl("-n", namespace, "get", "pod", "one", phase) == "Pending"


def test_a_pod_can_take_its_time(cluster: LocalCluster, namespace: str) -> None:
    """Not Ready before the time that the annotation names, Ready afterwards."""
    started = time.monotonic()
    _run_pod(cluster, namespace, {"ready-after": "3s"})
    cluster.kubectl("-n", namespace, "wait", "--for=condition=Ready", "pod/one", "--timeout=30s")
    assert time.monotonic() - started > 2


def test_a_job_completes(cluster: LocalCluster, namespace: str) -> None:
    """A Job's pod runs and succeeds by itself."""
    cluster.kubectl("-n", namespace, "create", "job", "once", "--image=job:1")
    cluster.kubectl(
        "-n", namespace, "wait", "--for=condition=Complete", "job/once", "--timeout=30s"
    )


def test_the_agents_account_may_act_and_impersonate(cluster: LocalCluster, tmp_path: Path) -> None:
    """The kubeconfig that an agent gets carries its own identity and the right to be others."""
    path = agent_kubeconfig(cluster.access, tmp_path / "agent")
    assert path.stat().st_mode & 0o077 == 0
    cluster.kubectl("get", "namespace", AGENT)
    who = ("--kubeconfig", str(path), "--context", AGENT, "auth", "whoami", "-o", "json")
    assert AGENT in cluster.kubectl(*who)
    assert '"jane"' in cluster.kubectl(*who, "--as=jane", "--as-group=developers")


def test_a_killed_api_server_comes_back_with_its_state(
    cluster: LocalCluster, namespace: str
) -> None:
    """Connections are refused while it is down; afterwards everything is as it was."""
    cluster.kill_apiserver()
    try:
        with pytest.raises(Unavailable, match="refused"):
            cluster.kubectl("get", "namespace", namespace)
    finally:
        cluster.restart_apiserver()
    assert namespace in cluster.kubectl("get", "namespace", namespace)


def test_a_paused_api_server_does_not_answer(cluster: LocalCluster) -> None:
    """A request hangs while it is paused; the next one after the pause is answered."""
    cluster.pause_apiserver()
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            cluster.kubectl("get", "nodes", timeout=1)
    finally:
        cluster.resume_apiserver()
    assert "node" in cluster.kubectl("get", "nodes")


def test_a_cluster_that_cannot_start_leaves_nothing(kubernetes: Path, tmp_path: Path) -> None:
    """A broken API server is named with what it said, and nothing of the cluster runs on."""
    with pytest.raises(Unavailable, match="kube-apiserver exited with code 1.*unknown flag"):
        LocalCluster("bad", kubernetes, folder=tmp_path, apiserver_flags=["--no-such-flag"]).start()
    assert _processes_in(tmp_path) == []


def test_two_start_side_by_side_and_stop_without_a_trace(kubernetes: Path) -> None:
    """Both answer; after stop neither has a process or a file left."""
    pair = start_all(LocalCluster(name, kubernetes) for name in ("left", "right"))
    folders = [one.folder for one in pair]
    try:
        assert ["right-node-0" in one.kubectl("get", "nodes") for one in pair] == [False, True]
    finally:
        for one in pair:
            one.stop()
    assert [_processes_in(folder) for folder in folders] == [[], []]
    assert not any(folder.exists() for folder in folders)


def test_one_cluster_that_cannot_start_stops_both(kubernetes: Path, tmp_path: Path) -> None:
    """The failure is raised, and the good one is stopped."""
    good = LocalCluster("good", kubernetes, folder=tmp_path / "good")
    bad = LocalCluster(
        "bad", kubernetes, folder=tmp_path / "bad", apiserver_flags=["--no-such-flag"]
    )
    with pytest.raises(Unavailable, match="cluster bad: kube-apiserver exited"):
        start_all([good, bad])
    assert _processes_in(tmp_path) == []


def test_a_killed_owner_takes_its_cluster_along(kubernetes: Path, tmp_path: Path) -> None:
    """After SIGKILL of the process that started a cluster, all of its programs end."""
    script = (
        "import sys, time, pathlib; from towline.demo.clusters.cluster import LocalCluster\n"
        "program, folder = map(pathlib.Path, sys.argv[1:])\n"
        "LocalCluster('doomed', program, folder=folder).start()\n"
        "print('up', flush=True); time.sleep(600)"
    )
    command = [sys.executable, "-c", script, str(kubernetes), str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"up\n"
        assert len(_processes_in(tmp_path)) >= 6
        owner.send_signal(signal.SIGKILL)
    _eventually(lambda: _processes_in(tmp_path) == [])


def _run_pod(
    cluster: LocalCluster, namespace: str, annotations: dict[str, str], *, name: str = "one"
) -> None:
    metadata = {f"demo.towline.dev/{key}": value for key, value in annotations.items()}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "annotations": metadata},
        "spec": {"containers": [{"name": "one", "image": "one:1"}]},
    }
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(pod))


@contextmanager
def _forward(
    kubernetes: Path, cluster: LocalCluster, namespace: str, pod: str, ports: str, websocket: str
) -> Generator[None]:
    command = [str(kubernetes / "kubectl"), "--kubeconfig", str(cluster.kubeconfig)]
    with subprocess.Popen(
        [*command, "-n", namespace, "port-forward", f"pod/{pod}", ports],
        stdout=subprocess.PIPE,
        env=os.environ | {"KUBECTL_PORT_FORWARD_WEBSOCKETS": websocket},
    ) as forward:
        assert forward.stdout is not None
        assert forward.stdout.readline().startswith(b"Forwarding")
        yield
        forward.kill()


def _eventually(condition: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.1)


def _processes_in(folder: Path) -> list[str]:
    """Command lines of programs that were started with files of a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = process.read_bytes().decode(errors="replace").split("\0")
            if any(f"={folder}/" in word for word in words):
                found.append(words[0])
    return found
