"""Filling what a release brings into the texts of a job's manifest.

Only `${release}`, `${commit}`, `${stage}`, `${pipeline}` and `${steps.NAME.OUTPUT}` are filled;
all else, like the variables of a shell, stays as it is.
"""

import re
from collections.abc import Mapping
from typing import Any

from fleet.errors import Invalid

_NAMED = re.compile(r"\$\{(release|commit|stage|pipeline|steps\.[\w-]+\.[\w.-]+)\}")
_LONGEST = 1 << 20


def filled(value: Any, values: Mapping[str, str]) -> Any:
    """The same with all texts filled. Invalid: an output that no step has told."""
    if isinstance(value, str):
        text = _NAMED.sub(lambda found: _value(found[1], values), value)
        if len(text) > _LONGEST:
            raise Invalid("a filled text of the manifest is too long")
        return text
    if isinstance(value, Mapping):
        return {key: filled(one, values) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [filled(one, values) for one in value]
    return value


def outputs_of(told: Mapping[str, str]) -> dict[str, str]:
    """What containers wrote at their end, by container; lines `NAME=VALUE` by name as well."""
    outputs = dict(told)
    for text in told.values():
        for line in text.splitlines():
            name, mark, value = line.partition("=")
            if mark and re.fullmatch(r"[A-Za-z_][\w.-]{0,62}", name):
                outputs[name] = value
    return outputs


def _value(name: str, values: Mapping[str, str]) -> str:
    if name not in values:
        raise Invalid(f"nothing gives a value for ${{{name}}}", field="manifest")
    return values[name]
