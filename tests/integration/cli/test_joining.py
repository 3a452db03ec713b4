"""A cluster joins by one command, with the kubeconfig of its administrator."""

import json
import subprocess
from pathlib import Path

from tests.integration.cli.conftest import TOWLINE, Installation
from towline.cli.shell.polling import poll_until
from towline.demo.clusters.cluster import LocalCluster


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
    assert "created: ClusterRoleBinding towline-admins (cluster-admin)" in said
    assert f"start it with: towline agent --url 127.0.0.1:{installation.ports[1]} " in said
    token = (tmp_path / "agent" / "token").read_text().strip()
    assert token.startswith("twa_") and token not in said
    assert (tmp_path / "agent" / "token").stat().st_mode & 0o777 == 0o600

    again = installation.run(*words, "--no-start").stdout
    assert "kept: cluster joined" in again and "created" not in again

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
    finally:
        program.terminate()
        assert program.wait(20) == 0, log.read_text()
    assert "starting: towline agent --url" in log.read_text()


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
    assert "gone" not in handles(installation)
