"""The example of docs/how-to/plural-provider.md, applied by Terraform with the real provider.

Skipped unless PLURAL_PROVIDER_BINARY names a build of the provider.
"""

import asyncio
import functools
import os
import re
from asyncio.subprocess import PIPE, STDOUT
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.integration.serve.conftest import Running, running
from tests.integration.serve.terraform_workspace import program

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "plural-provider.md"
CLI_CONFIG = """
provider_installation {
  dev_overrides { "pluralsh/plural" = "%s" }
  direct {}
}
"""


class Terraform:
    """A folder with a configuration, and the program."""

    def __init__(self, folder: Path, hub: Running) -> None:
        found = program()
        assert found, "neither Terraform nor OpenTofu is here: run `make opentofu`"
        self._program = found
        self.folder = folder
        binary = folder / "bin" / "terraform-provider-plural"
        binary.parent.mkdir()
        binary.symlink_to(Path(os.environ["PLURAL_PROVIDER_BINARY"]).resolve())
        (folder / "cli.tfrc").write_text(CLI_CONFIG % binary.parent)
        self._environment = {
            **os.environ,
            "TF_CLI_CONFIG_FILE": str(folder / "cli.tfrc"),
            "TF_IN_AUTOMATION": "1",
            "PLURAL_CONSOLE_URL": hub.url,
            "PLURAL_ACCESS_TOKEN": hub.token,
        }

    async def run(self, *words: str) -> str:
        """Output of the program; it must end well."""
        process = await asyncio.create_subprocess_exec(
            self._program,
            *words,
            cwd=self.folder,
            env=self._environment,
            stdout=PIPE,
            stderr=STDOUT,
        )
        said, _ = await process.communicate()
        assert process.returncode == 0, said.decode()
        return said.decode()

    async def changes(self) -> dict[str, list[str]]:
        """Changes of a plan, by resource; unchanged ones are left out."""
        await self.run("plan", "-input=false", "-no-color", "-out=plan")
        plan: dict[str, Any] = orjson.loads(await self.run("show", "-json", "plan"))
        every = {one["address"]: one["change"] for one in plan["resource_changes"]}
        return {
            address: sorted(k for k, unknown in change["after_unknown"].items() if unknown)
            if change["actions"] == ["update"]
            and {k: v for k, v in change["after"].items() if k != "agent_deployed"}
            == {k: v for k, v in change["before"].items() if k != "agent_deployed"}
            else change["actions"]
            for address, change in every.items()
            if change["actions"] != ["no-op"]
        }


# No agent is installed without a kubeconfig; the provider shows this in each plan.
SETTLED = {"plural_cluster.prod": ["agent_deployed"]}


@pytest.mark.skipif(
    "PLURAL_PROVIDER_BINARY" not in os.environ,
    reason="external: PLURAL_PROVIDER_BINARY names no build of the provider",
)
@pytest.mark.timeout(600)
async def test_the_example_is_applied_changed_and_destroyed(tmp_path: Path) -> None:
    """After each apply a plan has nothing to do; what others change is put back."""
    # The provider knows no fences, which its new projects would need.
    async with running(tmp_path / "data", auth={"open_projects": True}) as hub:
        await _apply_change_and_destroy(Terraform(tmp_path, hub), hub, tmp_path)


async def _apply_change_and_destroy(terraform: Terraform, hub: Running, tmp_path: Path) -> None:
    (example,) = re.findall(r"^```hcl\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    main = tmp_path / "main.tf"
    main.write_text(example)
    await terraform.run("apply", "-auto-approve", "-input=false", "-no-color")
    assert await terraform.changes() == SETTLED
    changed = {'replicas = "2"': 'replicas = "3"', "eu-1": "eu-2", '= "ci"': '= "builds"'}
    main.write_text(
        functools.reduce(lambda text, new: text.replace(*new), changed.items(), example)
    )
    await terraform.run("apply", "-auto-approve", "-input=false", "-no-color")
    assert await terraform.changes() == SETTLED
    found = await hub.ask('{ serviceDeployment(cluster: "prod-eu", name: "shop") { id } }')
    await hub.ask(
        """mutation ($id: ID!) { updateServiceDeployment(id: $id, attributes:
          {configuration: [{name: "replicas", value: "9"}]}) { id } }""",
        id=found["serviceDeployment"]["id"],
    )
    drifted = await terraform.changes()
    assert drifted["plural_service_deployment.shop"] == ["update"]
    await terraform.run("apply", "-auto-approve", "-input=false", "-no-color")
    assert await terraform.changes() == SETTLED
    await terraform.run("destroy", "-auto-approve", "-no-color")
    left = await hub.ask("{ clusters { edges { node { id } } } }")
    assert left == {"clusters": {"edges": []}}
