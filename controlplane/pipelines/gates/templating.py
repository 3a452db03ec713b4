"""Placeholders in the texts of a job's manifest.

Only `${release}`, `${commit}`, `${stage}`, `${pipeline}` and `${steps.NAME.OUTPUT}` are replaced;
all other text, for example shell variables, stays as it is.
"""

import re
from collections.abc import Mapping

from core.errors import Invalid
from core.json_object import JsonValue

_PLACEHOLDER = re.compile(r"\$\{(release|commit|stage|pipeline|steps\.[\w-]+\.[\w.-]+)\}")
_MAX_TEXT = 1 << 20


def fill_manifest(value: JsonValue, values: Mapping[str, str]) -> JsonValue:
    """Replaces the placeholders in all texts. Raises Invalid for an unknown output."""
    if isinstance(value, str):
        filled = _PLACEHOLDER.sub(lambda match: _placeholder_value(match[1], values), value)
        if len(filled) > _MAX_TEXT:
            raise Invalid("a text of the manifest is too long after placeholders are replaced")
        return filled
    if isinstance(value, Mapping):
        return {key: fill_manifest(item, values) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [fill_manifest(item, values) for item in value]
    return value


def parse_outputs(messages: Mapping[str, str]) -> dict[str, str]:
    """Returns the termination messages by container, and their lines `NAME=VALUE` by name."""
    outputs = dict(messages)
    for message in messages.values():
        for line in message.splitlines():
            name, separator, value = line.partition("=")
            if separator and re.fullmatch(r"[A-Za-z_][\w.-]{0,62}", name):
                outputs[name] = value
    return outputs


def _placeholder_value(name: str, values: Mapping[str, str]) -> str:
    if name not in values:
        raise Invalid(f"no value for ${{{name}}}", field="manifest")
    return values[name]
