"""The printed command with which a cluster joins, as a shell runs it."""

import base64
import os
import subprocess
from pathlib import Path

import pytest
import yaml

from controlplane.clusters.model.agent_settings import AgentSpec
from core.errors import Invalid, Unavailable
from core.json_object import JsonObject
from gitcache.render.charts import merge_values
from towline.agent_manifests import agent_values, fetch_chart, render_manifests
from towline.cli.clusters.join_command import helm_command, kubectl_command
from towline.contexts import ControlPlaneTarget
from towline.serve.agent_chart import package

CHART = Path(__file__).parents[3] / "charts" / "towline-agent"
URL = "https://towline.example.org"
CA = "-----BEGIN CERTIFICATE-----\nMIIB+w==\n-----END CERTIFICATE-----\n"
VALUES: JsonObject = {
    "secrets": {"bootstrapToken": "twb_x"},
    "clusterName": "edge",
    "hub": {"address": "towline.example.org:8444", "signingKey": f"sha256:{'0' * 64}"},
    "people": {"clusterRoles": {"towline:admins": "view"}},
}


def with_ca(values: JsonObject) -> JsonObject:
    return {**values, "hub": {**values["hub"], "ca": CA}}


def run_in_shell(command: str, folder: Path, program: str, script: str) -> str:
    """Output of a command in a shell whose `program` is a script."""
    file = folder / "bin" / program
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    path = f"{file.parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-c", command], cwd=folder, env={"PATH": path}, capture_output=True, check=True
    )
    return done.stdout.decode()


def test_helm_gets_every_value_as_text(tmp_path: Path) -> None:
    values = {**VALUES, "clusterName": "7, \\ 'x'"}
    command = helm_command(f"{URL}/chart", values)
    said = run_in_shell(command, tmp_path, "helm", 'printf "%s\\n" "$@"').splitlines()
    assert said[:3] == ["upgrade", "--install", "towline-agent"]
    assert said[3] == f"{URL}/chart"
    given = [text for flag, text in zip(said, said[1:], strict=False) if flag == "--set-string"]
    assert given == [
        "secrets.bootstrapToken=twb_x",
        "clusterName=7\\, \\\\ 'x'",
        "hub.address=towline.example.org:8444",
        f"hub.signingKey=sha256:{'0' * 64}",
        "people.clusterRoles.towline:admins=view",
    ]
    assert "--ca-file" not in said and "\n" not in command


def test_helm_trusts_a_private_ca_for_the_chart_and_for_the_agent(tmp_path: Path) -> None:
    command = helm_command(f"{URL}/chart", with_ca(VALUES))
    said = run_in_shell(command, tmp_path, "helm", 'printf "%s\\n" "$@"; cat towline-ca.crt')
    assert said.endswith(f"--ca-file\ntowline-ca.crt\n--set-file\nhub.ca=towline-ca.crt\n{CA}")


def test_helm_gets_declared_values_below_those_of_the_command(tmp_path: Path) -> None:
    declared: JsonObject = {"upgrade": {"enabled": True}, "tolerations": [{"key": "x'y"}]}
    command = helm_command(f"{URL}/chart", with_ca(VALUES), declared)
    said = run_in_shell(command, tmp_path, "helm", 'for a; do last="$a"; done; echo "$last"; cat')
    last, _, values = said.partition("\n")
    assert (last, yaml.safe_load(values)) == ("-", declared)


def test_settings_of_agents_are_values_of_the_chart() -> None:
    """Texts of the settings win over size and image; the chart accepts the result."""
    base = AgentSpec(image="towline:1.2.0").chart_values
    text = "resources: {limits: {memory: 3Gi}}\nupgrade: {enabled: {{ cluster.tags.up }}}\n"
    values = agent_values(base, text, {"tags": {"up": "true"}}, templated=True)
    assert values == {
        "resources": {
            "requests": {"cpu": "50m", "memory": "128Mi"},
            "limits": {"memory": "3Gi"},
        },
        "image": {"repository": "towline", "tag": "1.2.0"},
        "upgrade": {"enabled": True},
    }
    manifests = render_manifests(package(CHART), merge_values(values, VALUES), "towline-agent")
    assert 'image: "towline:1.2.0"' in manifests and "memory: 3Gi" in manifests
    assert "TOWLINE_AGENT_UPGRADE_IMAGES" in manifests


@pytest.mark.parametrize(
    ("text", "templated", "problem"),
    [
        ("- a\n", False, "not a map"),
        ("a: [\n", False, "not YAML"),
        ("a: {{ cluster.nope }}\n", True, "nope"),
    ],
)
def test_malformed_values_of_settings_are_named(text: str, templated: bool, problem: str) -> None:
    with pytest.raises(Invalid, match=problem):
        agent_values({}, text, {"tags": {}}, templated=templated)


def test_kubectl_gets_the_manifests_of_the_chart(tmp_path: Path) -> None:
    manifests = render_manifests(package(CHART), with_ca(VALUES), "towline-agent")
    assert run_in_shell(kubectl_command(manifests), tmp_path, "kubectl", "cat") == manifests
    objects = list(yaml.safe_load_all(manifests))
    assert objects[0] == {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "towline-agent"},
    }
    assert None not in objects
    data = {(one["kind"], one["metadata"]["name"]): one.get("data") for one in objects}
    token = base64.b64encode(b"twb_x").decode()
    assert data["Secret", "towline-agent"] == {"bootstrapToken": token}
    assert data["ConfigMap", "towline-agent-ca"] == {"ca.crt": CA}
    assert "managed-by" not in manifests and "helm.sh" not in manifests


def test_values_that_the_chart_refuses_are_named() -> None:
    with pytest.raises(Invalid, match="cannot be rendered.*deployToken"):
        render_manifests(package(CHART), {**VALUES, "secrets": {}}, "towline-agent")


def test_a_chart_that_cannot_be_read_is_named() -> None:
    with pytest.raises(Unavailable, match=r"chart from http://127\.0\.0\.1:1: "):
        fetch_chart(ControlPlaneTarget("http://127.0.0.1:1"))
