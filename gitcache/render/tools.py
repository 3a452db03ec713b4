"""Finds the tools of renderers on this machine, and their versions.

The version is an input of a render, because another version may give another result.
"""

import asyncio
import os
import shutil
import tempfile
from asyncio.subprocess import DEVNULL, PIPE
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import structlog

from core.errors import Unavailable
from gitcache.render.renderer import RenderTool

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class FoundTool:
    """A tool: its command, empty for a library, and its name with version."""

    command: tuple[str, ...]
    version: str


class RenderTools:
    """Finds and caches tools."""

    def __init__(self) -> None:
        self._found: dict[str, FoundTool] = {}

    async def find(self, tool: RenderTool) -> FoundTool:
        """Finds a tool. Raises Unavailable if it is missing."""
        if tool.title not in self._found:
            found = self._found[tool.title] = await _find_tool(tool)
            log.info("renderer tool found", tool=tool.title, version=found.version)
        return self._found[tool.title]


async def _find_tool(tool: RenderTool) -> FoundTool:
    if tool.library is not None and (library := _installed_library(tool.library)) is not None:
        return FoundTool((), library)
    for command in tool.commands:
        if (path := shutil.which(command.program)) is not None:
            return await _query_version((path, *command.arguments), (path, *command.version))
    raise Unavailable(tool.missing)


def _installed_library(name: str) -> str | None:
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        return None


async def _query_version(command: tuple[str, ...], version_command: tuple[str, ...]) -> FoundTool:
    """Runs a version command and returns the tool."""
    with tempfile.TemporaryDirectory(prefix="towline-tool-") as home:
        process = await asyncio.create_subprocess_exec(
            *version_command,
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=DEVNULL,
            # Without HOME, kubectl writes its cache to the working directory.
            env={"HOME": home, "PATH": os.environ.get("PATH", ""), "LC_ALL": "C.UTF-8"},
        )
        out, _ = await process.communicate()
    if process.returncode:
        raise Unavailable(f"`{' '.join(version_command)}` failed, so {command[0]} cannot be used")
    return FoundTool(command, f"{Path(command[0]).name} {out.decode(errors='replace')}")
