"""A folder in which Terraform, or OpenTofu, runs with the provider of `terraform/`."""

import asyncio
import os
import platform
import shutil
import subprocess
from asyncio.subprocess import PIPE, STDOUT
from functools import cache
from pathlib import Path
from typing import Any

import orjson

from tests.integration.serve.conftest import Running
from towline.demo.clusters.go_toolchain import find_go

MODULE = Path(__file__).parents[3] / "terraform"
SOURCE = "towline.io/towline/towline"
VERSION = "0.1.0"
CLI_CONFIG = """
disable_checkpoint = true
provider_installation {
  filesystem_mirror { path = "%s" }
}
"""


def program() -> str | None:
    """OpenTofu or Terraform: TOFU_BINARY, else on the path, else as `make opentofu` built it."""
    on_path = shutil.which("tofu") or shutil.which("terraform")
    built = sorted((Path.home() / ".cache/towline/opentofu").glob("*/tofu"))
    return os.environ.get("TOFU_BINARY") or on_path or (str(built[-1]) if built else None)


@cache
def provider() -> Path:
    """A build of the provider; the cache of Go makes a second one quick."""
    binary = MODULE.parent / "dist" / "terraform" / "terraform-provider-towline"
    # Other processes use the same file: they must never see a part of it.
    built = binary.with_name(f"{binary.name}.{os.getpid()}")
    subprocess.run([find_go(), "build", "-o", built, "."], cwd=MODULE, check=True)
    return built.replace(binary)


class TerraformError(Exception):
    """A command of Terraform failed; the message is its output."""


class TerraformWorkspace:
    """A folder with a configuration, and the program."""

    def __init__(self, folder: Path, hub: Running, **variables: str) -> None:
        self.folder = folder
        self.folder.mkdir()
        machine = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
        mirror = folder.parent / "mirror"
        place = mirror / SOURCE / VERSION / f"{platform.system().lower()}_{machine}"
        place.mkdir(parents=True)
        (place / f"terraform-provider-towline_v{VERSION}").symlink_to(provider())
        configuration = folder.parent / "cli.tfrc"
        configuration.write_text(CLI_CONFIG % mirror)
        self.variables = variables
        self._environment = {
            **os.environ,
            "TF_CLI_CONFIG_FILE": str(configuration),
            "TF_IN_AUTOMATION": "1",
            "TOWLINE_URL": hub.url,
            "TOWLINE_TOKEN": hub.token,
        }
        self.write(
            "provider",
            f'terraform {{\n  required_providers {{ towline = {{ source = "{SOURCE}" }} }}\n}}\n',
        )

    def write(self, name: str, text: str) -> None:
        """Writes a file of the configuration."""
        (self.folder / f"{name}.tf").write_text(text)

    async def run(self, *words: str) -> str:
        """Output of a command. Raises TerraformError if it fails."""
        given = {f"TF_VAR_{name}": value for name, value in self.variables.items()}
        process = await asyncio.create_subprocess_exec(
            program() or "terraform",
            *words,
            cwd=self.folder,
            env=self._environment | given,
            stdout=PIPE,
            stderr=STDOUT,
        )
        output, _ = await process.communicate()
        if process.returncode != 0:
            raise TerraformError(_unwrapped(output.decode()))
        return output.decode()

    async def init(self) -> None:
        """Installs the provider."""
        await self.run("init", "-no-color", "-input=false")

    async def apply(self) -> None:
        """Carries out the configuration."""
        await self.run("apply", "-auto-approve", "-no-color", "-input=false")

    async def changes(self) -> dict[str, list[str]]:
        """Actions of a plan by resource type; unchanged resources are left out."""
        plan = await self.plan()
        return {
            resource["type"].removeprefix("towline_"): resource["change"]["actions"]
            for resource in plan.get("resource_changes", [])
            if resource["change"]["actions"] != ["no-op"]
        }

    async def plan(self) -> dict[str, Any]:
        """A plan as JSON."""
        await self.run("plan", "-no-color", "-input=false", "-out=plan")
        return orjson.loads(await self.run("show", "-json", "plan"))

    async def resources(self) -> list[str]:
        """Addresses of the managed resources in the state."""
        listed = (await self.run("state", "list")).split()
        return [address for address in listed if not address.startswith("data.")]


def _unwrapped(output: str) -> str:
    """Joins the lines of errors, which Terraform wraps at the width of a terminal."""
    text = " ".join(line.strip("│╷╵ ") for line in output.splitlines())
    return text[max(text.find("Error: "), 0) :]
