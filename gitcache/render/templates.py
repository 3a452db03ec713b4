"""Liquid templates over a folder: strict about names, bounded in what they may use."""

from collections.abc import Mapping
from typing import Any

from liquid import Environment, StrictUndefined
from liquid.exceptions import LiquidError

from fleet.errors import Invalid
from gitcache.render.manifests import MANIFEST_SUFFIXES, MAX_FILE_BYTES

TEMPLATE_SUFFIX = ".liquid"


class _Limited(Environment):
    """No loader, so no `include` and `render`; no way to attributes of Python objects."""

    context_depth_limit = 20
    loop_iteration_limit = 100_000
    local_namespace_limit = 16 << 20
    output_stream_limit = MAX_FILE_BYTES


_ENVIRONMENT = _Limited(undefined=StrictUndefined)


def expand(files: Mapping[str, bytes], parameters: Mapping[str, Any]) -> dict[str, bytes]:
    """The files with templates rendered: manifests, and `*.liquid`, which lose that suffix.

    Invalid: names file, line and what is wrong, for example an undefined name.
    """
    result = {}
    for path, data in files.items():
        target = path.removesuffix(TEMPLATE_SUFFIX)
        if target != path and target in files:
            raise Invalid(f"{path}: there is a file {target} too; which one is meant?")
        is_template = target != path or path.endswith(MANIFEST_SUFFIXES)
        result[target] = _expand(path, data, parameters) if is_template else data
    return result


def _expand(path: str, data: bytes, parameters: Mapping[str, Any]) -> bytes:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Invalid(f"{path}: not UTF-8 text") from error
    if "{{" not in text and "{%" not in text:
        return data
    try:
        return _ENVIRONMENT.from_string(text).render(**parameters).encode()
    except LiquidError as error:
        raise Invalid(f"{path}{_line(error)}: {error.message}") from error


def _line(error: LiquidError) -> str:
    try:
        context = error.context()
    except ValueError:
        return ""
    return f", line {context[0]}" if context else ""
