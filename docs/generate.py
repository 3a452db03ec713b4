"""Writes docs/reference/cli.md from the program: run `.venv/bin/python docs/generate.py`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

from towline.cli.program import app

PAGE = Path(__file__).parent / "reference" / "cli.md"
_WIDTH = 88
_HEAD = """# Commands

Written by `docs/generate.py` from the program; do not edit.

| exit code | means |
|---|---|
| 0 | done |
| 1 | failed |
| 2 | wrong use |
| 3 | not found |
| 4 | refused: not signed in, or without the right |
| 5 | unreachable |
| 6 | waited in vain |
| 7 | something differs (`towline services diff`) |

Signing in with `towline login` is remembered in `~/.config/towline/config.toml` (0600). Instead,
`TOWLINE_URL` with `TOWLINE_TOKEN` (or `TOWLINE_TOKEN_FILE`) and `TOWLINE_CA_FILE` may be set;
`TOWLINE_CONFIG` names another file. `towline contexts` lists where one is signed in, and chooses.
A login plugin for kubectl, `towline-kubectl-login`, comes with the program and is called by
kubeconfigs that `towline kubeconfig` makes.
"""


def page() -> str:
    """The whole page."""
    return "\n".join((_HEAD, *_sections(get_command(app), "towline", None)))


def commands() -> frozenset[str]:
    """Every command as typed: `towline`, `towline clusters`, `towline clusters list`, …"""
    return frozenset(_names(get_command(app), "towline"))


def _sections(command: Any, name: str, parent: Any) -> Iterator[str]:
    context = command.context_class(
        command, info_name=name, parent=parent, terminal_width=_WIDTH, max_content_width=_WIDTH
    )
    lines = (line.rstrip() for line in command.get_help(context).splitlines())
    yield f"## `{context.command_path}`\n\n```text\n" + "\n".join(lines).strip() + "\n```\n"
    for word, child in getattr(command, "commands", {}).items():
        yield from _sections(child, word, context)


def _names(command: Any, path: str) -> Iterator[str]:
    yield path
    for word, child in getattr(command, "commands", {}).items():
        yield from _names(child, f"{path} {word}")


if __name__ == "__main__":
    PAGE.write_text(page())
