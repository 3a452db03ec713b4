"""The whole way by commands alone: a commit becomes an object, an approval takes it further."""

import json
import os
import signal
import subprocess
import urllib.request
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.fakes.metrics_server import metrics_server
from tests.integration.cli.conftest import TOWLINE, Installation
from towline.cli.shell.polling import poll_until
from towline.demo.clusters.agent_access import agent_kubeconfig
from towline.demo.clusters.cluster import LocalCluster
from towline.demo.git_server import GitServer, ServedRepository

FLEET = """
apiVersion: towline.io/v1
kind: GitRepository
metadata: {{name: {url}}}
---
apiVersion: towline.io/v1
kind: Service
metadata: {{name: dev, cluster: journey}}
spec:
  namespace: {namespace}
  repository: {url}
  ref: main
  folder: dev
---
apiVersion: towline.io/v1
kind: Service
metadata: {{name: prod, cluster: journey}}
spec:
  namespace: {namespace}
  repository: {url}
  ref: main
  folder: prod
---
apiVersion: towline.io/v1
kind: Pipeline
metadata: {{name: journey}}
spec:
  stages:
    - {{name: dev, services: [journey/dev]}}
    - {{name: prod, services: [journey/prod]}}
  edges:
    - {{source: dev, target: prod, gates: [{{name: release, rule: {{kind: APPROVAL}}}}]}}
"""


_LABELS = {"app": "box"}
BOX = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "box"},
    "spec": {
        "selector": {"matchLabels": _LABELS},
        "template": {
            "metadata": {"labels": _LABELS},
            "spec": {"containers": [{"name": "box", "image": "box"}]},
        },
    },
}
_USAGE = ["13m", "25Mi"]


def commit(repository: ServedRepository, greeting: str) -> str:
    """Both folders say the greeting."""
    config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {}}}\ndata: {{greeting: {}}}\n"
    files = {f"{one}/config.yaml": config.format(one, greeting) for one in ("dev", "prod")}
    return repository.commit(files, f"Say {greeting}")


@pytest.fixture
def agent(
    installation: Installation, cluster: LocalCluster, bound_groups: None, tmp_path: Path
) -> Iterator[None]:
    """A cluster registered by the command line, with an agent started by it."""
    installation.run("clusters", "create", "journey", "--token-file", str(tmp_path / "token"))
    kubeconfig = agent_kubeconfig(cluster.access, tmp_path / "kubeconfig")
    argv = [TOWLINE, "agent", "--url", f"127.0.0.1:{installation.ports[1]}"]
    argv += ["--ca-file", str(installation.ca), "--token-file", str(tmp_path / "token")]
    argv += ["--kubeconfig", str(kubeconfig), "--data", str(tmp_path / "agent")]
    log = installation.folder / "agent.log"
    program = installation.group.spawn(argv, log=log, env=installation.environment)
    yield
    program.terminate()
    assert program.wait(20) == 0, log.read_text()


def waits_for_approval(installation: Installation, sha: str) -> str:
    """The release with this commit, once its digests are known at the gate."""

    def look() -> dict:
        shown = installation.run("pipelines", "get", "journey", "-o", "json").stdout
        return json.loads(shown)["edges"][0]

    edge = poll_until(look, lambda one: [d["sha"] for d in one["digests"]] == [sha], 60)
    return edge["release"]["id"]


def test_a_commit_is_promoted_by_commands(
    installation: Installation,
    agent: None,
    kubernetes: Path,
    cluster: LocalCluster,
    namespace: str,
    git_server: GitServer,
    tmp_path: Path,
) -> None:
    repository = git_server.create_repository("journey")
    first = commit(repository, "hello")
    (tmp_path / "fleet.yaml").write_text(FLEET.format(url=repository.url, namespace=namespace))
    installation.run("apply", "-f", str(tmp_path / "fleet.yaml"))
    installation.run("services", "wait", "journey/dev", "--sha", first, "--timeout", "90s")
    release = waits_for_approval(installation, first)
    installation.run("pipelines", "approve", "journey", "--release", "r0-other", code=1)
    words = ("pipelines", "approve", "journey", "--release", release, "-m", "fine")
    assert "for service journey/prod\n" in installation.run(*words).stderr
    installation.run("services", "wait", "journey/prod", "--sha", first, "--timeout", "90s")
    assert greeting(cluster, namespace, "prod") == "hello"

    second = commit(repository, "bye")
    sync = ("services", "sync", "journey/dev", "--wait", "--timeout", "90s")
    assert (
        f"waiting for journey/dev to be HEALTHY at {second[:10]}" in installation.run(*sync).stderr
    )
    assert greeting(cluster, namespace, "dev") == "bye"
    installation.run("services", "wait", "journey/dev", "--sha", second, "--timeout", "90s")
    installation.run(*sync)
    waits_for_approval(installation, second)
    why = installation.run("services", "why", "journey/prod").stdout
    assert "pipeline journey" in why and "waits before prod" in why
    installation.run("pipelines", "reject", "journey", "-m", "not polite")
    shown = installation.run("pipelines", "get", "journey").stdout
    assert "CLOSED" in shown and "not polite" in shown
    assert greeting(cluster, namespace, "prod") == "hello"
    check_proxy(installation, kubernetes, namespace)


def check_proxy(installation: Installation, kubernetes: Path, namespace: str) -> None:
    """kubectl goes through the control plane with the kubeconfig that the command line wrote."""
    installation.run("kubeconfig", "journey", "--merge")
    words = ["get", "configmap", "prod", "--namespace", namespace, "--output", "name"]
    done = subprocess.run(
        [str(kubernetes / "kubectl"), *words],
        capture_output=True,
        text=True,
        env=installation.environment,
        check=False,
        timeout=60,
    )
    assert done.stdout.strip() == "configmap/prod", done.stderr


def check_objects(
    installation: Installation, cluster: LocalCluster, repository: ServedRepository, programs: Path
) -> None:
    """Commands read the pods of a service as oneself, and run a program in one."""
    run = installation.run
    sha = repository.commit({"dev/box.json": json.dumps(BOX)}, "Add a box")
    run("services", "wait", "joined/web", "--sha", sha, "--timeout", "90s")
    seen = poll_until(
        lambda: json.loads(run("services", "get", "joined/web", "-o", "json").stdout),
        lambda found: "Pod" in {row["kind"] for row in found["components"]},
        60,
    )
    (pod,) = [row["name"] for row in seen["components"] if row["kind"] == "Pod"]
    expected = cluster.kubectl("logs", pod, "--tail=2").splitlines()
    assert expected and run("logs", "joined/web", "--tail", "2").stdout.splitlines() == expected
    assert "has no pod gone" in run("logs", "joined/web", "gone", code=3).stderr

    path = {"PATH": f"{programs}:{installation.environment['PATH']}"}
    echo = run(
        "exec", "joined/web", "--", "sh", "-c", "cat; exit 9", code=9, stdin="x", environ=path
    )
    assert echo.stdout == "x" and f"pod default/{pod} of joined" in echo.stderr
    assert (
        "could not find kubectl"
        in run(*("exec", "joined/web", "--", "true"), code=2, environ={"PATH": "/nowhere"}).stderr
    )

    check_forwarding(installation, path)

    events = poll_until(
        lambda: run("events", "joined/web", "-o", "json").stdout,
        lambda text: "Scheduled" in text,
        60,
    )
    assert pod in {row["name"] for row in json.loads(events)}
    assert run("events", "joined/web", "--warnings").stdout == ""

    folder = installation.folder / "metrics"
    folder.mkdir()
    with metrics_server(cluster, folder):
        check_metrics(installation, cluster, pod)

    again = ("login", installation.url, "--ca-file", str(installation.ca), "--token-stdin")
    assert "towline clusters list" in run(*again, stdin=f"{installation.token}\n").stderr

    opened = run("open", "service", "joined/web").stdout
    assert opened == f"{installation.url}/services/{seen['id']}\n"
    shown = json.loads(run("version", "-o", "json").stdout)
    assert shown["client"] == shown["server"] != ""
    help = run("help", "services", "list").stdout
    assert help.startswith("Usage: towline services list") and "--field-selector" in help
    assert "No such command 'x'" in run("help", "services", "x", code=2).stderr


def check_metrics(installation: Installation, cluster: LocalCluster, pod: str) -> None:
    """Usages are those that kubectl shows; an API without tables can be listed, too."""
    top = installation.run("top", "pods", "-c", "joined", "-n", "default").stdout.splitlines()
    direct = cluster.kubectl("top", "pods", "-n", "default", "--no-headers").split()
    assert top[1].split() == ["joined", "default", *direct] == ["joined", "default", pod, *_USAGE]
    listed = installation.run("get", "podmetrics", "-c", "joined", "-n", "default").stdout
    assert listed.splitlines()[1].split()[:3] == ["joined", "default", pod]


def check_forwarding(installation: Installation, path: dict[str, str]) -> None:
    """A local port leads to a pod until Ctrl-C, which ends kubectl and the command."""
    program = subprocess.Popen(
        [TOWLINE, "port-forward", "joined/web", ":80"],
        stdout=subprocess.PIPE,
        text=True,
        env={**installation.environment, **path},
        start_new_session=True,
    )
    with program, ending_group(program.pid):
        assert program.stdout is not None
        # Forwarding from 127.0.0.1:40213 -> 80
        port = program.stdout.readline().split(" -> ")[0].rpartition(":")[2]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=20) as response:
            assert response.status == 200
        os.killpg(program.pid, signal.SIGINT)
        program.communicate(timeout=20)
    assert program.returncode == 0


@contextmanager
def ending_group(leader: int) -> Generator[None]:
    """Ends what is left of a process group."""
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            os.killpg(leader, signal.SIGKILL)


def greeting(cluster: LocalCluster, namespace: str, name: str) -> str:
    """What the live object says."""
    path = "jsonpath={.data.greeting}"
    return cluster.kubectl("get", "configmap", name, "-n", namespace, "-o", path)


def test_five_commands_lead_to_a_healthy_service_and_one_leaves(
    installation: Installation, kubernetes: Path, git_server: GitServer, tmp_path: Path
) -> None:
    """`serve` and `login` ran before; the cluster is of the test's own, because it is left."""
    repository = git_server.create_repository("first")
    commit(repository, "hello")
    with LocalCluster("joined", kubernetes) as cluster:
        agents = installation.folder / "home" / ".towline" / "agents"
        config = tmp_path / "config"
        config.write_text(cluster.access.kubeconfig.read_text())
        environ = {"KUBECONFIG": str(config)}
        log = installation.folder / "join.log"
        argv = [TOWLINE, "clusters", "join", "joined"]
        agent = installation.group.spawn(argv, log=log, env=installation.environment | environ)
        poll_until(lambda: agent.poll() is not None or "starting: " in log.read_text(), bool, 60)
        words = "--cluster joined --folder dev --namespace default --wait --repo".split()
        result = installation.run("services", "create", "web", *words, repository.url)
        assert "added repository" in result.stderr and "HEALTHY" in result.stdout
        check_objects(installation, cluster, repository, kubernetes)
        installation.run("kubeconfig", "joined", "--merge", environ=environ)
        assert "towline-joined" in config.read_text()
        refused = installation.run("clusters", "leave", "joined", "--yes", code=2)
        assert "is registered" in refused.stderr
        deletion = ("clusters", "delete", "joined", "--yes", "--wait", "--timeout", "60s")
        said = installation.run(*deletion).stderr.splitlines()
        assert said[0].startswith("joined is being deleted") and said[-1] == "deleted joined"
        assert "joined" not in installation.run("clusters", "list", "-o", "name").stdout.split()
        agent.terminate()
        agent.wait(20)
        result = installation.run("clusters", "leave", "joined", "--yes", environ=environ)
        assert result.stdout.count("deleted: ClusterRoleBinding") == 3, result.stdout
        assert not (agents / "joined").exists()
        assert "towline-joined" not in config.read_text()
        left = cluster.kubectl("get", "clusterrolebindings", "-o", "name")
        assert "towline" not in left
        again = installation.run("clusters", "leave", "joined", "--yes", code=3)
        assert "did not join" in again.stderr
