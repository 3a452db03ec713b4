"""Formats the man page `towline(1)` from the commands, with their options and examples."""

from collections.abc import Iterator
from typing import Any


def man_page(command: Any, version: str) -> str:
    """Returns the page in the language of man(7)."""
    return "\n".join((*_head(command, version), *_commands(command, "towline"), *_FILES)) + "\n"


_FILES = (
    ".SH FILES",
    ".TP",
    r"\fI~/.config/towline/config.toml\fR",
    "Control planes and tokens (mode 0600).",
    ".SH SEE ALSO",
    r"\fBkubectl\fR(1)",
)


def _head(command: Any, version: str) -> Iterator[str]:
    yield f'.TH TOWLINE 1 "" "towline {version}" "User Commands"'
    yield ".SH NAME\ntowline \\- " + _escaped(command.help.split("\n")[0])
    yield ".SH SYNOPSIS\n.B towline\n[\\fIOPTIONS\\fR] \\fICOMMAND\\fR [\\fIARGS\\fR]..."
    yield ".SH OPTIONS"
    yield from _options(command)
    yield ".SH COMMANDS"


def _commands(command: Any, words: str) -> Iterator[str]:
    for name, child in command.commands.items():
        if child.hidden:
            continue
        path = f"{words} {name}"
        yield f".SS {_escaped(path)}"
        yield from _paragraphs(child.help or "")
        yield from _options(child)
        if hasattr(child, "commands"):
            yield from _commands(child, path)


def _paragraphs(text: str) -> Iterator[str]:
    """Yields the text of a help; paragraphs after a backspace keep their lines."""
    for paragraph in text.split("\n\n"):
        if paragraph.startswith("\b\n"):
            yield ".PP\n.nf"
            yield from map(_escaped, paragraph.removeprefix("\b\n").split("\n"))
            yield ".fi"
        else:
            yield ".PP"
            yield _escaped(" ".join(paragraph.split()))


def _options(command: Any) -> Iterator[str]:
    for param in command.params:
        if param.param_type_name == "option" and not param.hidden:
            yield ".TP"
            yield "\\fB" + _escaped(", ".join((*param.opts, *param.secondary_opts))) + "\\fR"
            yield _escaped(" ".join((param.help or "").split()))


def _escaped(line: str) -> str:
    """Escapes the characters that mean something to man."""
    text = line.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{text}" if text.startswith((".", "'")) else text
