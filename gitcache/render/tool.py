"""Which kustomize there is on this machine."""

import shutil
from collections.abc import Sequence

from fleet.errors import Unavailable


def find_tool() -> list[str]:
    """The command that builds a kustomization. Unavailable: neither is on the PATH."""
    if (kustomize := shutil.which("kustomize")) is not None:
        return [kustomize, "build"]
    if (kubectl := shutil.which("kubectl")) is not None:
        return [kubectl, "kustomize"]
    raise Unavailable("this service needs kustomize: put `kustomize` or `kubectl` on the PATH")


def version_command(tool: Sequence[str]) -> list[str]:
    """The command that prints the tool's version."""
    if tool[-1] == "build":
        return [tool[0], "version"]
    return [tool[0], "version", "--client"]
