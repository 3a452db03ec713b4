"""The provider of `terraform/`, run by Terraform or OpenTofu against a control plane.

The configuration is that of the examples, which have a resource of each kind.
"""

import re
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.integration.serve.conftest import Running
from tests.integration.serve.terraform_workspace import (
    MODULE,
    TerraformError,
    TerraformWorkspace,
    program,
)

EXAMPLES = sorted((MODULE / "examples" / "resources").iterdir())
KINDS = sorted(path.stem for path in (MODULE / "internal" / "manifest" / "schemas").iterdir())
SECRETS = {
    "git_password": "canary-31c7-otter",
    "database_password": "canary-31c8-otter",
    "hook_url": "https://hooks.example.org/x",
    "hook_secret": "whsec_Y2FuYXJ5LTMxY2Etb3R0ZXItb2YtdGhlLWhvb2s=",
}
DRIFT: dict[str, dict[str, Any]] = {
    "AgentSettings": {"priority": 5},
    "Cluster": {"tags": {"env": "test"}},
    "ClusterGroup": {"description": "Changed"},
    "ClusterSource": {"selector": "env=prod"},
    "ConfigurationSource": {"deletionBudget": 4},
    "Context": {"values": {"domain": "example.com", "replicas": 3}},
    "GitRepository": {"submodules": False},
    "GlobalService": {"deletionBudget": 4},
    "Group": {"description": "Changed"},
    "HelmRepository": {"httpsPath": "https://charts.example.com"},
    "ManagedNamespace": {"namespaceLabels": {"team": "other"}},
    "NotificationRule": {"severity": "WARNING"},
    "NotificationSink": {"audit": []},
    "OCIRepository": {"httpsPath": "https://git.example.com"},
    "Pipeline": {"edges": [{"source": "staging", "target": "production", "gates": []}]},
    "Project": {"description": "Changed"},
    "Role": {"description": "Changed"},
    "RoleBinding": {"reason": "Changed"},
    "Secret": {"description": "Changed"},
    "Service": {"ref": "other"},
    "ServiceAccount": {"displayName": "Changed"},
    "ServiceSet": {"selector": {"tags": {"env": "test"}}},
    "User": {"displayName": "Changed"},
    "TrustedIssuer": {"subject": "repo:acme/other:*"},
}
"""A change of each kind that somebody makes outside of Terraform."""

pytestmark = [
    pytest.mark.skipif(
        program() is None, reason="external: neither tofu nor terraform; run `make opentofu`"
    ),
    pytest.mark.timeout(600),
]


def snake(kind: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", kind).lower()


def import_of(example: Path) -> tuple[str, str]:
    """Address and name in the import command of an example."""
    *_, address, name = (example / "import.sh").read_text().split()
    return address, name


async def manifest(hub: Running, kind: str, name: str) -> Any:
    """A manifest without fields at their defaults, which the examples do not set."""
    document = """query ($kind: String!, $name: String!) {
      manifest(kind: $kind, name: $name, defaults: false) }"""
    return orjson.loads((await hub.ask(document, kind=kind, name=name))["manifest"])


async def apply_as(hub: Running, manager: str, document: Any) -> None:
    """Applies a manifest outside of Terraform."""
    mutation = """mutation ($sources: [ManifestSource!]!, $manager: String!) {
      applyManifests(sources: $sources, options: {manager: $manager, force: true}) {
        applied problems { message } } }"""
    sources = [{"file": "drift.yaml", "content": orjson.dumps(document).decode()}]
    answer = await hub.ask(mutation, sources=sources, manager=manager)
    assert answer["applyManifests"]["applied"], answer


async def exported(hub: Running) -> str:
    return (await hub.ask("{ manifests }"))["manifests"]


@pytest.fixture
async def workspace(tmp_path: Path, hub: Running) -> TerraformWorkspace:
    found = TerraformWorkspace(tmp_path / "work", hub, **SECRETS)
    await found.init()
    return found


def test_each_kind_has_an_example_and_a_drift() -> None:
    assert [path.name for path in EXAMPLES] == [f"towline_{name}" for name in map(snake, KINDS)]
    assert sorted(DRIFT) == KINDS


async def test_all_kinds_are_applied_repaired_imported_and_destroyed(
    workspace: TerraformWorkspace, hub: Running
) -> None:
    empty = await exported(hub)
    for example in EXAMPLES:
        workspace.write(example.name, (example / "resource.tf").read_text())
    await workspace.apply()
    assert await workspace.changes() == {}

    applied = await exported(hub)
    await _drift(hub)
    assert await workspace.changes() == {snake(kind): ["update"] for kind in KINDS}
    await workspace.apply()
    assert await workspace.changes() == {}
    assert await exported(hub) == applied

    _import_all(workspace)
    assert {tuple(actions) for actions in (await workspace.changes()).values()} <= {("update",)}
    await workspace.apply()
    assert await exported(hub) == applied
    assert await workspace.changes() == {}

    await _read_all(workspace)
    await workspace.run("destroy", "-auto-approve", "-no-color")
    assert await exported(hub) == empty
    assert await workspace.resources() == []


async def _drift(hub: Running) -> None:
    for example, kind in zip(EXAMPLES, KINDS, strict=True):
        document = await manifest(hub, kind, import_of(example)[1])
        # The control plane itself sets these two.
        ours = {"ManagedNamespace": ("namespace",), "Service": ("promoted",)}.get(kind, ())
        kept = {name: value for name, value in document["spec"].items() if name not in ours}
        document["spec"] = kept | DRIFT[kind]
        await apply_as(hub, "terraform", document)


def _import_all(workspace: TerraformWorkspace) -> None:
    """Forgets the state, so that the next apply takes each resource over by its name."""
    (workspace.folder / "terraform.tfstate").unlink()
    imports = [*map(import_of, EXAMPLES), ("towline_service.staging", "eu-1/web-staging")]
    blocks = [f'import {{\n  to = {address}\n  id = "{id}"\n}}\n' for address, id in imports]
    workspace.write("imports", "".join(blocks))


async def _read_all(workspace: TerraformWorkspace) -> None:
    """Reads each resource through the data source of its kind."""
    for address in map(lambda example: import_of(example)[0], EXAMPLES):
        kind, _, label = address.partition(".")
        place = f"\n  cluster = {address}.cluster" if kind == "towline_service" else ""
        workspace.write(
            f"data_{kind}",
            f'data "{kind}" "{label}" {{\n  name = {address}.name{place}\n}}\n'
            f'output "{kind}" {{ value = data.{address}.id == {address}.id }}\n',
        )
    await workspace.apply()
    outputs = orjson.loads(await workspace.run("output", "-json"))
    assert {output["value"] for output in outputs.values()} == {True}
    assert len(outputs) == len(KINDS)


async def test_problems_of_an_apply_are_problems_of_the_plan(
    workspace: TerraformWorkspace, hub: Running
) -> None:
    workspace.write("cluster", 'resource "towline_cluster" "eu" {\n  name = "eu-1"\n}\n')
    await workspace.apply()

    document = await manifest(hub, "Cluster", "eu-1")
    document["spec"] = {"tags": {"env": "prod"}}
    await apply_as(hub, "git", document)
    tags = '  name = "eu-1"\n  tags = { env = "test" }\n'
    workspace.write("cluster", f'resource "towline_cluster" "eu" {{\n{tags}}}\n')
    with pytest.raises(TerraformError, match=r'The manager "git" has set spec\.tags\.env'):
        await workspace.plan()
    forced = f"{tags}  force_conflicts = true\n"
    workspace.write("cluster", f'resource "towline_cluster" "eu" {{\n{forced}}}\n')
    assert await workspace.changes() == {"cluster": ["update"]}

    workspace.write(
        "group",
        'resource "towline_cluster_group" "all" {\n  name = "all"\n  clusters = ["us-1"]\n}\n',
    )
    with pytest.raises(TerraformError, match="Cluster 'us-1' does not exist"):
        await workspace.plan()
    workspace.write("group", 'resource "towline_cluster" "again" {\n  name = "eu-1"\n}\n')
    with pytest.raises(TerraformError, match="terraform import towline_cluster.NAME eu-1"):
        await workspace.plan()


async def test_a_changed_secret_is_sent_and_a_changed_place_replaces(
    workspace: TerraformWorkspace,
) -> None:
    """Only the control plane can tell that a write-only value has changed."""
    names = ("git_repository", "secret")
    for example in EXAMPLES:
        if example.name.removeprefix("towline_") in names:
            text = (example / "resource.tf").read_text()
            workspace.write(example.name, re.sub(r"\n  project .*", "", text))
    await workspace.apply()
    assert await workspace.changes() == {}
    workspace.variables["git_password"] = "canary-31cb-otter"
    (change,) = [
        resource["change"]
        for resource in (await workspace.plan())["resource_changes"]
        if resource["change"]["actions"] != ["no-op"]
    ]
    before, after = (change[side]["secrets_revision"] for side in ("before", "after"))
    assert (change["actions"], before, after) == (["update"], 1, 2)
    await workspace.apply()
    assert await workspace.changes() == {}

    path = workspace.folder / "towline_secret.tf"
    path.write_text(path.read_text().replace('= "database"', '= "other"'))
    assert await workspace.changes() == {"secret": ["delete", "create"]}
    await workspace.apply()
    assert await workspace.changes() == {}
