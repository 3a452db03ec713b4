"""Finds kustomize, Helm and Jsonnet on this machine, and their versions.

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

from core.errors import Unavailable

_HELM_LIBRARY = "helm-python-sdk"
_JSONNET_LIBRARY = "rjsonnet"


@dataclass(frozen=True, slots=True)
class RenderTool:
    """A tool: its command, empty for a library, and its name with version."""

    command: tuple[str, ...]
    version: str


class RenderTools:
    """Finds and caches tools."""

    def __init__(self) -> None:
        self._found: dict[str, RenderTool] = {}

    async def find(self, renderer: str) -> RenderTool:
        """Finds the tool for `kustomize`, `helm` or `jsonnet`. Raises Unavailable if missing."""
        if renderer not in self._found:
            self._found[renderer] = await _FINDERS[renderer]()
        return self._found[renderer]


async def _kustomize() -> RenderTool:
    if (kustomize := shutil.which("kustomize")) is not None:
        return await _asked((kustomize, "build"), (kustomize, "version"))
    if (kubectl := shutil.which("kubectl")) is not None:
        return await _asked((kubectl, "kustomize"), (kubectl, "version", "--client"))
    raise Unavailable("this service needs kustomize: add `kustomize` or `kubectl` to the PATH")


async def _helm() -> RenderTool:
    if (library := _installed(_HELM_LIBRARY)) is not None:
        return RenderTool((), library)
    if (helm := shutil.which("helm")) is not None:
        return await _asked((helm,), (helm, "version", "--short"))
    raise Unavailable("this service needs Helm: install towline[helm], or add `helm` to the PATH")


async def _jsonnet() -> RenderTool:
    if (library := _installed(_JSONNET_LIBRARY)) is not None:
        return RenderTool((), library)
    raise Unavailable(f"this service needs Jsonnet: install {_JSONNET_LIBRARY}")


_FINDERS = {"kustomize": _kustomize, "helm": _helm, "jsonnet": _jsonnet}


def _installed(name: str) -> str | None:
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        return None


async def _asked(command: tuple[str, ...], question: tuple[str, ...]) -> RenderTool:
    """Runs a version command and returns the tool."""
    with tempfile.TemporaryDirectory(prefix="towline-tool-") as home:
        process = await asyncio.create_subprocess_exec(
            *question,
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=DEVNULL,
            # Without HOME, kubectl writes its cache to the working directory.
            env={"HOME": home, "PATH": os.environ.get("PATH", ""), "LC_ALL": "C.UTF-8"},
        )
        out, _ = await process.communicate()
    if process.returncode:
        raise Unavailable(f"`{' '.join(question)}` failed, so {command[0]} cannot be used")
    return RenderTool(command, f"{Path(command[0]).name} {out.decode(errors='replace')}")
