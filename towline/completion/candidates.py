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
        matching = candidates(words or [""])
    except (TowlineError, OSError, ValueError, LookupError, TypeError):
        return
    if matching is None:
        sys.exit(_COMPLETE_FILES)
    print(*matching, sep="\n", end="\n" if matching else "")


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
        return _candidates_of_kind(node["options"][expected], typed, flags)
    if typed.startswith("-"):
        return _matching_prefix(node["options"], typed)
    if node["commands"] and not position:
        return _matching_prefix(node["commands"], typed)
    arguments = node["arguments"]
    return (
        _candidates_of_kind(arguments[min(position, len(arguments) - 1)], typed, flags)
        if arguments
        else []
    )


def _candidates_of_kind(kind: object, typed: str, flags: JsonObject) -> list[str] | None:
    if isinstance(kind, list):
        return _matching_prefix(kind, typed)
    if kind == FILES:
        return None
    global_flags = GlobalFlags(*map(flags.get, _GLOBAL_FLAGS))
    if kind == "contexts":
        return _matching_prefix(read(config_path(global_flags)).targets, typed)
    if kind == KINDS:
        cluster = flags.get("-c") or flags.get("--cluster")
        plural_names = (
            kinds(str(cluster), resolve(global_flags), config_path(global_flags)) if cluster else ()
        )
        return _matching_prefix(plural_names, typed)
    if kind not in QUERIES:
        return []
    return _matching_prefix(
        names(str(kind), typed, resolve(global_flags), config_path(global_flags)), typed
    )


def _matching_prefix(words: Iterable[str], typed: str) -> list[str]:
    return sorted({word for word in words if word.startswith(typed)})
