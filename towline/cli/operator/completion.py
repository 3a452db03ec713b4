"""`towline completion`: prints the script that completes words in a shell."""

from enum import StrEnum
from typing import Annotated

import typer

from towline.completion import scripts


class Shell(StrEnum):
    """Shell."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(shell: Annotated[Shell, typer.Argument(help="Shell.")]) -> None:
    """Print a script that completes commands, options and names of resources.

    \b
    Example:
      towline completion bash
      source <(towline completion zsh)
      towline completion fish | source
    """
    print({"bash": scripts.BASH, "zsh": scripts.ZSH, "fish": scripts.FISH}[shell], end="")
