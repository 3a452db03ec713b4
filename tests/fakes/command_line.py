"""Runs commands in this process, and generates wrong input for each of them."""

import io
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pytest
from typer.main import get_command

from core.runtime import logs
from towline.cli import program
from towline.completion.tree import types_of_parameters

# They run until a signal arrives; their wrong settings have tests of their own.
_PROCESSES = (("serve",), ("demo",), ("simulate",), ("agent",))
# Arguments that allow only some words.
_WORDS = {"level": "info", "decision": "resume"}
DOCUMENTED_CODES = frozenset(range(8))


@dataclass(frozen=True)
class Finished:
    """A finished command; `escaped` is the exception that `main` did not handle."""

    code: int
    out: str
    err: str
    escaped: BaseException | None = None


@dataclass(frozen=True)
class Leaf:
    """A command without subcommands, and the words that call it."""

    words: tuple[str, ...]
    command: Any

    def called(self, **replaced: str) -> list[str]:
        """The command with a value for each required parameter, and for those that are given."""
        words, types = list(self.words), types_of_parameters(self.command)
        for param in self.command.params:
            if param.name not in replaced and not param.required:
                continue
            value = replaced.get(param.name, _filler(param.name, types.get(param.name)))
            words += [value] if param.param_type_name == "argument" else [param.opts[0], value]
        return words

    def parameters(self, kind: type) -> list[str]:
        """Names of the parameters of a type, or of lists of it."""
        return [name for name, own in types_of_parameters(self.command).items() if own is kind]


def leaves() -> list[Leaf]:
    """Every command that ends by itself."""
    return [one for one in _below(get_command(program.app), ()) if one.words not in _PROCESSES]


def run_in_process(
    words: Sequence[str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Finished:
    """Calls `main`, as the console script does; standard input is empty."""
    # Loggers would keep the captured standard error, which is closed after the test.
    monkeypatch.setattr(logs, "configure", lambda _: None)
    monkeypatch.setattr(sys, "argv", ["towline", *words])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
    code, escaped = 0, None
    try:
        program.main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
    except BaseException as error:
        escaped = error
    said = capfd.readouterr()
    return Finished(code, said.out, said.err, escaped)


def _below(command: Any, words: tuple[str, ...]) -> Iterator[Leaf]:
    children = getattr(command, "commands", None)
    if children is None:
        yield Leaf(words, command)
    for name, child in (children or {}).items():
        yield from _below(child, (*words, name))


def _filler(name: str, type_: object) -> str:
    if isinstance(type_, type) and issubclass(type_, Enum):
        return str(next(iter(type_)).value)
    return "1" if type_ in (int, float) else _WORDS.get(name, "absent")
