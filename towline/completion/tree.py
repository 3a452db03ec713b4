"""Generates `commands.json`, all commands and options: `.venv/bin/python docs/generate.py`."""

import json
from enum import Enum
from pathlib import Path
from typing import Any, get_args

from core.json_object import JsonObject

COMMANDS = Path(__file__).with_name("commands.json")
# Kinds of the values of parameters, by their names; `name` depends on the group.
_KINDS = {
    "cluster": "clusters",
    "via": "clusters",
    "handles": "clusters",
    "service": "services",
    "repo": "repos",
    "repository": "repos",
    "pipeline": "pipelines",
    "project": "projects",
    "secret": "secrets",
}
_SUMMARY = 200
_GROUPS_WITH_NAMES = ("globals", "namespaces", "projects", "secrets", "sets", "contexts")


def command_tree(command: Any, group: str = "") -> JsonObject:
    """Describes a command: subcommands, options with the kind of their value, and arguments.

    A kind is a list of words, `files`, the name of a group of commands, or an empty text. None is
    the kind of an option without a value.
    """
    options: JsonObject = {}
    arguments = []
    for param in command.params:
        kind = _kind(param, group)
        if param.param_type_name == "argument":
            arguments.append(kind)
        elif not param.hidden:
            for flag in (*param.opts, *param.secondary_opts):
                options[flag] = None if param.is_flag else kind
    children = getattr(command, "commands", {})
    return {
        "commands": {
            name: command_tree(child, name if not group else group)
            for name, child in children.items()
            if not child.hidden
        },
        "options": {**options, "-h": None, "--help": None},
        "arguments": arguments,
        "summary": command.get_short_help_str(_SUMMARY),
    }


def text(command: Any) -> str:
    """Content of `commands.json`."""
    return json.dumps(command_tree(command), separators=(",", ":"), sort_keys=True) + "\n"


def _kind(param: Any, group: str) -> list[str] | str:
    annotation = param.type_descriptor.annotation
    (inner,) = get_args(annotation) or (annotation,)
    if isinstance(inner, type) and issubclass(inner, Enum):
        return [str(word.value) for word in inner]
    if inner is Path:
        return "files"
    if param.name == "name":
        return (group if group in _GROUPS_WITH_NAMES else "") if group else "contexts"
    return _KINDS.get(param.name, "")
