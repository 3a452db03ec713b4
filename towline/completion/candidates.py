"""Candidates for the word at the cursor: `towline __complete WORD…`, called by the shell's script.

Imports little, because a shell calls it at each press of the tab key. Names of resources come from
the control plane; an error or a slow answer completes nothing.
"""

import json
import os
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module

from core.errors import TowlineError
from core.json_object import JsonObject
from towline.contexts import GlobalFlags, config_path, read, resolve

FILES = "files"
_COMPLETE_FILES = 3
_TIMEOUT_SECONDS = 1.0
COMMANDS = os.path.join(os.path.dirname(__file__), "commands.json")
_PAGE = "(first: 100, q: $q) { edges { node {"
# Field and name of each kind; the API filters by the typed text.
QUERIES = {
    "clusters": ("clusters", "handle"),
    "services": ("serviceDeployments", "name cluster { handle }"),
    "repos": ("gitRepositories", "url"),
    "pipelines": ("pipelines", "name"),
    "projects": ("projects", "name"),
    "secrets": ("secrets", "name"),
    "globals": ("globalServices", "name"),
    "namespaces": ("managedNamespaces", "name"),
    "sets": ("serviceSets", "name"),
}


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


def candidates(words: Sequence[str]) -> list[str] | None:
    """Words that can stand at the cursor; None for files."""
    with open(COMMANDS, encoding="utf-8") as file:
        node: JsonObject = json.load(file)
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
    wish = GlobalFlags(flags.get("--url"), flags.get("--context"), flags.get("--ca-file"))
    if kind == "contexts":
        return _starting(read(config_path(wish)).targets, typed)
    return _starting(_names(str(kind), typed, wish), typed) if kind in QUERIES else []


def _names(kind: str, typed: str, wish: GlobalFlags) -> list[str]:
    root, fields = QUERIES[kind]
    client = import_module("towline.client").GraphQLClient(resolve(wish), _TIMEOUT_SECONDS)
    answer = client.ask(document(root, fields), q=typed.rpartition("/")[2] or None)
    nodes = [edge["node"] for edge in answer[root]["edges"]]
    if kind == "services":
        return [f"{node['cluster']['handle']}/{node['name']}" for node in nodes if node["cluster"]]
    return [str(node[fields]) for node in nodes]


def document(root: str, fields: str) -> str:
    """Query for fields of the resources that match a text."""
    return f"query($q: String) {{ {root}{_PAGE} {fields} }} }} }} }}"


def _starting(words: Iterable[str], typed: str) -> list[str]:
    return sorted(word for word in words if word.startswith(typed))
