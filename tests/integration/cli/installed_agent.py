"""The agent that manifests installed in a local cluster, as a program of this machine."""

import base64
import json
import re
from pathlib import Path
from typing import Any

from towline.demo.clusters.cluster import LocalCluster


def pod_program(cluster: LocalCluster, folder: Path, port: int) -> tuple[list[str], dict[str, str]]:
    """Arguments and variables of the installed agent, for this machine.

    Files of the pod, and the account of the agent, are in a folder.
    """

    def read(*words: str) -> dict[str, Any]:
        return json.loads(cluster.kubectl(*words, "-n", "towline-agent", "-o", "json"))

    container = read("get", "deployment", "towline-agent")["spec"]["template"]["spec"]["containers"]
    token = read("get", "secret", "towline-agent")["data"]["bootstrapToken"]
    (folder / "token").write_bytes(base64.b64decode(token))
    (folder / "ca.crt").write_text(read("get", "configmap", "towline-agent-ca")["data"]["ca.crt"])
    config = read("config", "view", "--minify", "--raw", "--flatten")
    account = cluster.kubectl("create", "token", "towline-agent", "-n", "towline-agent").strip()
    config["users"][0]["user"] = {"token": account}
    (folder / "kubeconfig").write_text(json.dumps(config))
    places = {
        "/etc/towline/": f"{folder}/",
        "/var/lib/towline-agent": str(folder / "state"),
        "0.0.0.0:8081": f"127.0.0.1:{port}",
    }

    def replaced(text: str) -> str:
        return re.sub("|".join(map(re.escape, places)), lambda found: places[found[0]], text)

    (agent,) = container
    variables = {one["name"]: replaced(one["value"]) for one in agent["env"]}
    return [*map(replaced, agent["args"]), f"--kubeconfig={folder}/kubeconfig"], variables
