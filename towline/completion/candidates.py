"""Candidates for the word at the cursor: `towline __complete WORD…`, called by the shell's script.

Imports little, because a shell calls it at each press of the tab key. Names of resources come from
the control plane; an error or a slow answer completes nothing.
"""

import json
import os
import sys
from collections.abc import Iterable, Sequence

from core.errors import TowlineError
from core.json_object import JsonObject
from towline.completion.names import QUERIES, kinds, names
from towline.contexts import GlobalFlags, config_path, read, resolve

FILES = "files"
KINDS = "kinds"
_COMPLETE_FILES = 3
# ShellCompDirectiveNoFileComp of cobra, which kubectl completes with.
_NO_FILES = ":4"
_FILES_ALLOWED = ":0"
_GLOBAL_FLAGS = ("--url", "--context", "--ca-file", "--config")
_COMMANDS = os.path.join(os.path.dirname(__file__), "commands.json")


def main(words: Sequence[str]) -> None:
    """Prints a candidate per line; exit code 3 lets the shell complete files.

    `words`: the words after `towline`, the last one up to the cursor.
    """
    try:
        found = candidates(words or [""])
    except (TowlineError, OSError, ValueError, LookupError, TypeError):
        return
    if found is None:
        sys.exit(_COMPLETE_FILES)
    print(*found, sep="\n", end="\n" if found else "")


def complete_for_kubectl() -> None:
    """Prints candidates for `kubectl towline …`, and a directive for kubectl's completion."""
    try:
        main(sys.argv[1:])
    except SystemExit:
        print(_FILES_ALLOWED)
    else:
        print(_NO_FILES)


def known_commands() -> JsonObject:
    """Returns the generated tree of all commands, without importing any of them."""
    with open(_COMMANDS, encoding="utf-8") as file:
        return json.load(file)


def candidates(words: Sequence[str]) -> list[str] | None:
    """Words that can stand at the cursor; None for files."""
    node = known_commands()
    *before, typed = words
    expected: object = None
    position = 0
    flags: JsonObject = {}
    for word in before:
        if expected is not None:
            flags[str(expected)], expected = word, None
        elif word.startswith("-"):
            expected = word if node["options"].get(word) is not None else None
        elif word in node["commands"]:
            node, position = node["commands"][word], 0
        else:
            position += 1
    if expected is not None:
        return _of_kind(node["options"][expected], typed, flags)
    if typed.startswith("-"):
        return _starting(node["options"], typed)
    if node["commands"] and not position:
        return _starting(node["commands"], typed)
    arguments = node["arguments"]
    return _of_kind(arguments[min(position, len(arguments) - 1)], typed, flags) if arguments else []


def _of_kind(kind: object, typed: str, flags: JsonObject) -> list[str] | None:
    if isinstance(kind, list):
        return _starting(kind, typed)
    if kind == FILES:
        return None
    wish = GlobalFlags(*map(flags.get, _GLOBAL_FLAGS))
    if kind == "contexts":
        return _starting(read(config_path(wish)).targets, typed)
    if kind == KINDS:
        cluster = flags.get("-c") or flags.get("--cluster")
        known = kinds(str(cluster), resolve(wish), config_path(wish)) if cluster else ()
        return _starting(known, typed)
    if kind not in QUERIES:
        return []
    return _starting(names(str(kind), typed, resolve(wish), config_path(wish)), typed)


def _starting(words: Iterable[str], typed: str) -> list[str]:
    return sorted({word for word in words if word.startswith(typed)})
