"""Pushes to a running demo: webhooks, and ledger rows of the result."""

import hashlib
import hmac
import json
import subprocess
import urllib.request
from datetime import datetime

from core.json_object import JsonObject
from towline.demo.environment import DemoCluster, DemoEnvironment

_SECRET = "bench"
_LEDGER = """query ($id: ID!) { ledger(serviceId: $id, first: 8)
  { edges { node { stage at sequence detail } } } }"""
_CONNECT = """mutation ($url: String!, $secret: String!) {
  createGitRepository(attributes: {url: $url, webhookSecret: $secret}) { id } }"""
_SERVICE = """mutation ($cluster: ID!, $attributes: ServiceDeploymentAttributes!) {
  createServiceDeployment(clusterId: $cluster, attributes: $attributes) { id } }"""


def connect(stage: DemoEnvironment) -> str:
    """Connects the demo's repository; returns its id."""
    url = stage.repository.url
    return stage.ask(_CONNECT, url=url, secret=_SECRET)["createGitRepository"]["id"]


def create_service(
    stage: DemoEnvironment,
    member: DemoCluster,
    repository_id: str,
    name: str,
    namespace: str,
    folder: str,
) -> str:
    """Creates a service of a folder of main in a cluster; returns its id."""
    attributes = {
        "name": name,
        "namespace": namespace,
        "repositoryId": repository_id,
        "git": {"ref": "main", "folder": folder},
    }
    made = stage.ask(_SERVICE, cluster=member.id, attributes=attributes)
    return made["createServiceDeployment"]["id"]


def send_webhook(stage: DemoEnvironment, repository_id: str) -> None:
    """Sends a webhook, as a Git server does after a push."""
    sha = stage.repository.resolve("refs/heads/main")
    body = json.dumps({"ref": "refs/heads/main", "after": sha}).encode()
    signature = hmac.new(_SECRET.encode(), body, hashlib.sha256).hexdigest()
    headers = {
        "Content-Type": "application/json",
        "X-GitHub-Event": "push",
        "X-Hub-Signature-256": f"sha256={signature}",
    }
    url = f"{stage.http_url}/webhooks/git/github/{repository_id}"
    urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=10).close()


def ledger_stages(stage: DemoEnvironment, service_id: str) -> JsonObject:
    """Ledger rows of a service's newest desired state by stage."""
    edges = stage.ask(_LEDGER, id=service_id)["ledger"]["edges"]
    newest = max(edge["node"]["sequence"] for edge in edges)
    nodes = [edge["node"] for edge in edges if edge["node"]["sequence"] == newest]
    return {node["stage"]: node for node in nodes}


def seconds(text: str) -> float:
    """Converts a time of the API to seconds since 1970."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def run(*command: str) -> None:
    """Runs a program of the baseline; raises if it fails."""
    subprocess.run(command, check=True, capture_output=True)
