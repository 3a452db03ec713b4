"""Generates `commands.json`, all commands and options: `.venv/bin/python docs/generate.py`."""

import inspect
import json
from enum import Enum
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, get_args, get_origin

from core.json_object import JsonObject

COMMANDS = Path(__file__).with_name("commands.json")
# Kinds of the values of parameters, by their names; those of a group overrule these.
_KINDS = {
    "cluster": "clusters",
    "via": "clusters",
    "handle": "clusters",
    "handles": "clusters",
    "service": "services",
    "repo": "repos",
    "repository": "repos",
    "pipeline": "pipelines",
    "project": "projects",
    "secret": "secrets",
    "group": "groups",
    "role": "roles",
    "user": "users",
    "email": "users",
}
# Kinds of the parameter `name` of commands, by the start of their words.
_NAMES = {
    "cluster-groups": "cluster-groups",
    "cluster-sources": "cluster-sources",
    "config-sources": "config-sources",
    "contexts": "contexts",
    "globals": "globals",
    "groups": "groups",
    "helm-repos": "helm-repos",
    "logout": "contexts",
    "namespaces": "namespaces",
    "notifications delete-router": "routers",
    "notifications delete-sink": "sinks",
    "notifications set-router": "routers",
    "notifications set-sink": "sinks",
    "notifications test-sink": "sinks",
    "oci-repos": "oci-repos",
    "projects": "projects",
    "roles": "roles",
    "secrets": "secrets",
    "sets": "sets",
}
_PERMISSIONS = ["administer", "approve", "connect", "read", "write"]
_SUMMARY = 200


def command_tree(command: Any, words: str = "") -> JsonObject:
    """Describes a command: subcommands, options with the kind of their value, and arguments.

    A kind is a list of words, `files`, the name of a group of commands, or an empty text. None is
    the kind of an option without a value.
    """
    options: JsonObject = {}
    arguments, types = [], types_of_parameters(command)
    for param in command.params:
        kind = _value_kind(param.name, types.get(param.name), words)
        if param.param_type_name == "argument":
            arguments.append(kind)
        elif not param.hidden:
            for flag in (*param.opts, *param.secondary_opts):
                options[flag] = None if param.is_flag else kind
    children = getattr(command, "commands", {})
    return {
        "commands": {
            name: command_tree(child, f"{words} {name}".strip())
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


def types_of_parameters(command: Any) -> dict[str, object]:
    """Returns the type of each parameter of a command; that of an element for lists."""
    if command.callback is None:
        return {}
    declared = inspect.signature(command.callback, eval_str=True).parameters
    return {name: _element_type(parameter.annotation) for name, parameter in declared.items()}


def _element_type(hint: object) -> object:
    if get_origin(hint) is Annotated:
        return _element_type(get_args(hint)[0])
    inner = [part for part in get_args(hint) if part is not NoneType]
    return _element_type(inner[0]) if inner else hint


def _value_kind(name: str, type_: object, words: str) -> list[str] | str:
    if words_of_type := getattr(type_, "WORDS", None):
        return list(words_of_type)
    if isinstance(type_, type) and issubclass(type_, Enum):
        return [str(word.value) for word in type_]
    if type_ is Path:
        return "files"
    if name == "name":
        return _kind_of_name(words)
    if name == "kind" and words == "get":
        return "kinds"
    if name == "verb" and words.startswith("access"):
        return _PERMISSIONS
    return _KINDS.get(name, "")


def _kind_of_name(words: str) -> str:
    """Kind of a parameter `name`; the name of a new resource has none."""
    if words.rpartition(" ")[2].startswith("create"):
        return ""
    if not words:
        return "contexts"
    return next((kind for start, kind in _NAMES.items() if words.startswith(start)), "")
