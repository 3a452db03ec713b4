"""One service that Git, Terraform, the command line and the console change."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml

from core.json_object import JsonObject
from tests.integration.serve.conftest import Running
from tests.integration.serve.terraform_workspace import TerraformWorkspace, program
from tests.integration.serve.waiting import until
from towline.demo.git_server import GitServer, ServedRepository

pytestmark = [
    pytest.mark.skipif(
        program() is None, reason="external: neither tofu nor terraform; run `make opentofu`"
    ),
    pytest.mark.timeout(300),
]
HEAD = "apiVersion: towline.io/v1\nkind: Service\nmetadata: {name: web, cluster: eu-1}\nspec:\n"
GIT = f"""apiVersion: towline.io/v1
kind: Cluster
metadata: {{name: eu-1}}
---
{HEAD}  namespace: shop
  repository: URL
  folder: web
  configuration: {{color: blue}}
"""
TERRAFORM = """resource "towline_service" "web" {
  name          = "web"
  cluster       = "eu-1"
  configuration = { replicas = "3" }
}
import {
  to = towline_service.web
  id = "eu-1/web"
}
"""
CLI = f"{HEAD}  options: {{drift: REPORT}}\n"
CONSOLE = """mutation ($id: ID!) {
  updateServiceDeployment(id: $id, attributes: {protect: true}) { id protect } }"""


@pytest.fixture
async def repository() -> AsyncIterator[ServedRepository]:
    with GitServer() as server:
        repository = server.create_repository("fleet")
        repository.commit({"fleet/web.yaml": GIT.replace("URL", repository.url)})
        yield repository


async def towline(hub: Running, *words: str, stdin: str = "") -> tuple[int, str]:
    """Exit code and output of a command."""
    environment = {**os.environ, "TOWLINE_URL": hub.url, "TOWLINE_TOKEN": hub.token}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "from towline.cli import main; main()", *words,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT, env=environment,
    )  # fmt: skip
    output, _ = await process.communicate(stdin.encode())
    return process.returncode or 0, output.decode()


async def follow(hub: Running, repository: ServedRepository) -> None:
    """Lets a configuration source apply the repository, and waits for it."""
    words = ("--folder", "fleet", "--role", "admin", "--drift", "heal", "--interval", "30")
    create = ("config-sources", "create", "fleet", "--repository", repository.url)
    code, output = await towline(hub, *create, *words)
    assert code == 0, output
    await synced(hub)


async def synced(hub: Running) -> None:
    query = '{ configurationSource(name: "fleet") { result } }'
    await until(
        lambda: hub.ask(query), lambda row: row["configurationSource"]["result"] == "SYNCED", 60
    )


async def managed(hub: Running) -> tuple[JsonObject, dict[str, list[str]]]:
    """The spec of the service, and its fields by manager."""
    code, output = await towline(hub, "export", "Service", "--show-managed-fields")
    assert code == 0, output
    (document,) = yaml.safe_load_all(output)
    fields = document["metadata"]["managedFields"]
    return document["spec"], {entry["manager"]: entry["fields"] for entry in fields}


async def test_four_managers_change_one_service_and_each_keeps_its_fields(
    hub: Running, repository: ServedRepository, tmp_path: Path
) -> None:
    await follow(hub, repository)
    workspace = TerraformWorkspace(tmp_path / "work", hub)
    workspace.write("web", TERRAFORM)
    await workspace.init()
    await workspace.apply()
    assert await workspace.changes() == {}
    code, output = await towline(hub, "apply", "-f", "-", stdin=CLI)
    assert code == 0, output
    services = await hub.ask("{ serviceDeployments { edges { node { id } } } }")
    (edge,) = services["serviceDeployments"]["edges"]
    await hub.ask(CONSOLE, id=edge["node"]["id"])

    spec, managers = await managed(hub)
    assert managers == {
        "cli": ["spec.options.drift"],
        "git source fleet": [
            "spec.configuration.color",
            "spec.folder",
            "spec.namespace",
            "spec.repository",
        ],
        "terraform": ["spec.configuration.replicas"],
    }
    assert spec["configuration"] == {"color": "blue", "replicas": "3"}
    assert (spec["options"], spec["protect"]) == ({"drift": "REPORT"}, True)

    color = f"{HEAD}  configuration: {{color: red}}\n"
    code, output = await towline(hub, "apply", "-f", "-", stdin=color)
    assert code == 2 and "spec.configuration.color was set by git source fleet" in output
    assert await managed(hub) == (spec, managers)

    green = GIT.replace("URL", repository.url).replace("blue", "green")
    commit = repository.commit({"fleet/web.yaml": green})
    assert (await towline(hub, "config-sources", "sync", "fleet"))[0] == 0
    query = '{ configurationSource(name: "fleet") { appliedSha } }'
    await until(
        lambda: hub.ask(query),
        lambda row: row["configurationSource"]["appliedSha"] == commit,
        60,
    )
    after, fields = await managed(hub)
    assert fields == managers
    assert after == spec | {"configuration": {"color": "green", "replicas": "3"}}
    assert await workspace.changes() == {}
