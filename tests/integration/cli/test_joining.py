"""A cluster joins by one command, with the kubeconfig of its administrator."""

import base64
import json
import re
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from core.errors import Forbidden
from tests.integration.cli.conftest import TOWLINE, Installation
from tests.integration.cli.installed_agent import pod_program
from towline.cli.cockpit.source import ControlPlaneFleet
from towline.cli.services.object_names import ObjectName
from towline.cli.shell.polling import poll_until
from towline.client import GraphQLClient
from towline.contexts import ControlPlaneTarget
from towline.demo.clusters.cluster import LocalCluster
from towline.demo.ports import free_ports


@pytest.fixture
def cluster(kubernetes: Path) -> Iterator[LocalCluster]:
    """A cluster of the test's own, which no other agent has joined."""
    with LocalCluster("joining", kubernetes) as cluster:
        yield cluster


def objects(cluster: LocalCluster) -> list[str]:
    """Objects of Towline in the cluster."""
    kinds = "clusterrolebindings,namespaces,serviceaccounts"
    found = cluster.kubectl("get", kinds, "-A", "-o", "name").split()
    return [name for name in found if "towline" in name]


def handles(installation: Installation) -> list[str]:
    return installation.run("clusters", "list", "-o", "name").stdout.split()


def test_a_cluster_joins_by_one_command(
    installation: Installation, cluster: LocalCluster, kubernetes: Path, tmp_path: Path
) -> None:
    """It says what it did, is safe to repeat, and kubectl works with a client certificate."""
    assert "client-certificate" in cluster.kubeconfig.read_text()
    words = ["clusters", "join", "joined", "--kubeconfig", str(cluster.kubeconfig)]
    words += ["--data", str(tmp_path / "agent"), "--tag", "env=dev"]
    said = installation.run(*words, "--no-start").stdout
    assert "found: Kubernetes v1." in said and f"at {cluster.server} (context" in said
    assert f"registered: cluster joined\nsaved: its deploy token in {tmp_path}/agent/token" in said
    assert "created: ClusterRoleBinding towline-joined-admins (admin)" in said
    (key,) = re.findall(r"pinned: signing key (sha256:[0-9a-f]{64})", said)
    assert f"--signing-key {key} --cluster-id " in said
    assert f"start it with: towline agent --url 127.0.0.1:{installation.ports[1]} " in said
    token = (tmp_path / "agent" / "token").read_text().strip()
    assert token.startswith("twa_") and token not in said
    assert (tmp_path / "agent" / "token").stat().st_mode & 0o777 == 0o600

    again = installation.run(*words, "--no-start").stdout
    assert "kept: cluster joined" in again and "created" not in again
    other = installation.run(*words, "--admin-role", "cluster-admin", "--no-start").stdout
    assert "kept: ClusterRoleBinding towline-joined-admins (admin); delete it first" in other

    log = tmp_path / "agent.log"
    program = installation.group.spawn([TOWLINE, *words], log=log, env=installation.environment)
    config = tmp_path / "user.kubeconfig"
    config.write_text(installation.run("kubeconfig", "joined", "--embed-token").stdout)

    def whoami() -> str:
        words = (kubernetes / "kubectl", f"--kubeconfig={config}", "auth", "whoami", "-o", "json")
        home = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
        return subprocess.run(words, capture_output=True, text=True, check=False, env=home).stdout

    try:
        groups = json.loads(poll_until(whoami, bool, 60))["status"]["userInfo"]["groups"]
        assert "towline:admins" in groups
        check_objects(installation)
        check_actions(installation, cluster)
    finally:
        program.terminate()
        assert program.wait(20) == 0, log.read_text()
    assert "starting: towline agent --url" in log.read_text()
    assert "serviceaccount" not in "".join(objects(cluster))


def check_objects(installation: Installation) -> None:
    """`towline get` reads objects of the cluster as oneself, and names clusters that are mute."""
    run = installation.run
    table = run("get", "ns", "-c", "joined").stdout.splitlines()
    assert table[0].split() == ["CLUSTER", "NAME", "STATUS", "AGE"]
    assert any(line.split()[:3] == ["joined", "kube-system", "Active"] for line in table)
    one = ("get", "namespace", "kube-system", "-c", "joined", "-o")
    assert run(*one, "jsonpath={.kind} {.metadata.name}").stdout == "Namespace kube-system\n"
    assert "could not find ns x" in run("get", "ns", "x", "-c", "joined", code=3).stderr
    run("clusters", "create", "mute", "--show-token")
    partial = run("get", "namespaces", "--all-clusters", code=8)
    assert "joined" in partial.stdout and "1 of 2 clusters answered" in partial.stderr
    assert 'mute: cluster "mute" is not connected' in partial.stderr
    assert "has no kind" in run("get", "unicorns", "-c", "joined", code=3).stderr
    # The role `admin` of a cluster does not include metrics of all namespaces.
    assert "metrics.k8s.io is forbidden" in run("top", "pods", "-c", "joined", code=4).stderr
    run("clusters", "delete", "mute", "--yes")


def check_actions(installation: Installation, cluster: LocalCluster) -> None:
    """The actions of the cockpit reach the API server, as oneself."""
    cluster.kubectl("create", "deployment", "web", "--image=web:1", "-n", "default")
    target = ControlPlaneTarget(installation.url, installation.token, installation.ca.read_text())
    fleet = ControlPlaneFleet(GraphQLClient(target), target)
    component: ObjectName = {
        "group": "apps",
        "kind": "Deployment",
        "namespace": "default",
        "name": "web",
    }
    table = fleet.objects("joined", "deploy", "")
    assert table.columns == ("Name", "Ready", "Up-to-date", "Available", "Age")
    assert component in [row.name for row in table.rows] and table.left_out == 0
    state = fleet.object_state("joined", component)
    actions = {offered.action.id: offered for offered in state.offered}
    assert {id: offered.denial_reason for id, offered in actions.items()} == {
        "restart": "",
        "scale": "",
        "pause": "",
    }
    for id in ("restart", "scale", "pause"):
        fleet.run_action("joined", state, actions[id].action, 2)
    live = json.loads(cluster.kubectl("get", "deployment", "web", "-n", "default", "-o", "json"))
    assert (live["spec"]["replicas"], live["spec"]["paused"]) == (2, True)
    annotations = live["spec"]["template"]["metadata"]["annotations"]
    assert set(annotations) == {"kubectl.kubernetes.io/restartedAt"}
    after = fleet.object_state("joined", component).offered
    assert "unpause" in [offered.action.id for offered in after]
    # The role `admin` does not include nodes.
    node: ObjectName = {"group": "", "kind": "Node", "namespace": None, "name": "none"}
    with pytest.raises(Forbidden, match="nodes"):
        fleet.object_state("joined", node)


def test_an_agent_gets_an_account_on_request(
    installation: Installation, cluster: LocalCluster, tmp_path: Path
) -> None:
    """Repeating renews its token; the doctor tells the end; leaving removes only what it made."""
    cluster.kubectl("create", "clusterrolebinding", "towline-account-viewers", "--clusterrole=view")
    folder = ("--data", str(tmp_path / "agent"))
    words = ["clusters", "join", "account", *folder, "--service-account", "--no-start"]
    kubeconfig = ("--kubeconfig", str(cluster.kubeconfig))
    assert "--agent-role" in installation.run(*words, *kubeconfig, code=2).stderr
    refused = installation.run(*words, *kubeconfig, "--agent-role", "missing", code=2)
    assert "no ClusterRole missing; `kubectl get clusterroles`" in refused.stderr
    assert "registered" not in refused.stdout
    assert installation.run("clusters", "get", "account", code=3).stderr
    words += ["--agent-role", "cluster-admin", "--admin-role", "cluster-admin"]
    said = installation.run(*words, *kubeconfig).stdout
    assert "created: ClusterRoleBinding towline-account-admins (cluster-admin)" in said
    assert (
        "created: ServiceAccount towline-agent-account" in said and "its token expires at" in said
    )
    assert "created: ClusterRoleBinding towline-agent-account (cluster-admin)" in said
    assert "towline-account-viewers" not in said
    account = "--as=system:serviceaccount:towline-agent:towline-agent-account"
    renew = ("create", "serviceaccounts/towline-agent-account", "--subresource=token")
    assert "created: Role towline-agent-account" in said
    assert cluster.kubectl("auth", "can-i", *renew, account, "-n", "towline-agent").strip() == "yes"
    own = tmp_path / "agent" / "kubeconfig"
    assert f"--kubeconfig {own}" in said and own.stat().st_mode & 0o777 == 0o600
    before = yaml.safe_load(own.read_text())["users"]
    # Without options, the command uses the context that joined, not kubectl's current one.
    assert "created" not in installation.run(*words).stdout
    assert yaml.safe_load(own.read_text())["users"] != before
    doctor = ["agent", "doctor", "--url", "127.0.0.1:1"]
    doctor += ["--token-file", str(tmp_path / "agent" / "token"), "--kubeconfig"]
    assert "ok    credentials: the token" in installation.run(*doctor, str(own), code=1).stdout
    own_certificate = installation.run(*doctor, str(cluster.kubeconfig), code=1).stdout
    assert "credentials" not in own_certificate

    installation.run("clusters", "leave", "account", *folder, "--yes", code=2)
    installation.run("clusters", "detach", "account", "--yes")
    refused = installation.run(*words, code=2).stderr
    assert "towline clusters leave account" in refused
    installation.run("clusters", "leave", "account", *folder, "--yes")
    assert not (tmp_path / "agent").exists()
    kept = "clusterrolebinding.rbac.authorization.k8s.io/towline-account-viewers"
    poll_until(lambda: objects(cluster), lambda found: found == [kept], 60)


def test_two_handles_of_a_cluster_share_nothing_that_one_of_them_removes(
    installation: Installation, cluster: LocalCluster, tmp_path: Path
) -> None:
    """A cluster that is gone keeps its objects, and all else of it is removed."""
    for handle in ("one", "two"):
        words = ("--data", str(tmp_path / handle), "--service-account", "--no-start")
        words += ("--agent-role", "cluster-admin")
        joined = ("clusters", "join", handle, "--kubeconfig", str(cluster.kubeconfig), *words)
        said = installation.run(*joined).stdout
        assert f"created: ClusterRoleBinding towline-{handle}-admins" in said
        installation.run("clusters", "detach", handle, "--yes")
    installation.run("clusters", "leave", "one", "--data", str(tmp_path / "one"), "--yes")
    left = objects(cluster)
    assert not [name for name in left if "one" in name]
    assert "serviceaccount/towline-agent-two" in left and "namespace/towline-agent" in left

    config = tmp_path / "gone.yaml"
    config.write_text(cluster.kubeconfig.read_text().replace(cluster.server, "https://127.0.0.1:1"))
    source = tmp_path / "two" / "cluster.json"
    source.write_text(json.dumps(json.loads(source.read_text()) | {"kubeconfig": str(config)}))
    leave = ("clusters", "leave", "two", "--data", str(tmp_path / "two"), "--yes")
    said = installation.run(*leave).stderr
    assert "kept: objects in the cluster of two" in said and "https://127.0.0.1:1" in said
    assert not (tmp_path / "two").exists() and left == objects(cluster)


def test_a_cluster_that_does_not_answer_is_not_registered(
    installation: Installation, tmp_path: Path
) -> None:
    config = {
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"token": "secret"}}],
        "contexts": [{"name": "gone", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "gone",
    }
    file = tmp_path / "kubeconfig"
    file.write_text(json.dumps(config))
    words = ("clusters", "join", "gone", "--kubeconfig", str(file))
    refused = installation.run(*words, code=5)
    assert "cannot reach https://127.0.0.1:1" in refused.stderr
    for wrong in (str(tmp_path / "none"), "/dev/null", str(Path(__file__))):
        refused = installation.run("clusters", "join", "gone", "--kubeconfig", wrong, code=2)
        assert wrong in refused.stderr and "Traceback" not in refused.stderr
    words = ("clusters", "join", "gone", "--kubeconfig", str(file), "--context", "other")
    assert "other" in installation.run(*words, code=2).stderr
    config["clusters"] = [{"name": "c", "cluster": {"server": "http://192.0.2.1"}}]
    file.write_text(json.dumps(config))
    words = ("clusters", "join", "gone", "--kubeconfig", str(file))
    assert "has no TLS" in installation.run(*words, code=2).stderr
    assert "gone" not in handles(installation)


def test_a_cluster_joins_by_the_printed_command(
    installation: Installation, cluster: LocalCluster, kubernetes: Path, tmp_path: Path
) -> None:
    """The command contains the CA of the control plane; kubectl alone runs it."""
    log = tmp_path / "join.log"
    words = ["clusters", "join", "printed", "--print", "--kubectl", "--tag", "env=edge"]
    wait = installation.group.spawn([TOWLINE, *words], log=log, env=installation.environment)
    text = poll_until(log.read_text, lambda text: "waiting for the agent" in text, 30, every=0.1)
    command = "kubectl apply" + text.partition("kubectl apply")[2].rpartition("waiting for")[0]
    environment = {"PATH": f"{kubernetes}:/usr/bin:/bin", "HOME": str(tmp_path)}
    environment["KUBECONFIG"] = str(cluster.kubeconfig)
    applied = subprocess.run(["sh", "-c", command], env=environment, capture_output=True, text=True)
    assert applied.returncode == 0, applied.stderr
    assert "deployment.apps/towline-agent created" in applied.stdout

    (port,) = free_ports(1)
    argv, variables = pod_program(cluster, tmp_path, port)
    agent_log = tmp_path / "agent.log"
    environment = {"PATH": installation.environment["PATH"], **variables}
    program = installation.group.spawn([TOWLINE, *argv], log=agent_log, env=environment)
    try:
        assert wait.wait(60) == 0, agent_log.read_text()
        assert "registered: cluster printed\nconnected: cluster printed\n" in log.read_text()
        ready = f"http://127.0.0.1:{port}/readyz"
        with urllib.request.urlopen(ready, timeout=10) as answer:
            assert answer.read() == b"ok\n"
        secret = ("get", "secret", "towline-agent-credentials", "-n", "towline-agent")
        kept = cluster.kubectl(*secret, "-o", "jsonpath={.data.deployToken}")
        assert base64.b64decode(kept).startswith(b"twa_")
        described = json.loads(installation.run("clusters", "get", "printed", "-o", "json").stdout)
        assert described["tags"] == [{"name": "env", "value": "edge"}]
    finally:
        program.terminate()
        assert program.wait(20) == 0, agent_log.read_text()
    installation.run("clusters", "detach", "printed", "--yes")
