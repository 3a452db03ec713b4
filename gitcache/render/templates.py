"""Liquid templates: undefined names are errors, and resources are limited."""

import posixpath
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

from core.errors import Invalid
from gitcache.render.kubeyaml import MAX_FILE_BYTES
from gitcache.render.manifests import MANIFEST_SUFFIXES
from gitcache.render.parameters import top_level_values

if TYPE_CHECKING:
    from liquid import Environment
    from liquid.exceptions import LiquidError

TEMPLATE_SUFFIX = ".liquid"

_HOW_TO_ENABLE = (
    "to expand Liquid templates, set `templated: true` (`towline services update --templated`)"
)
_HOW_TO_DISABLE = (
    "if the file is not a Liquid template, set `templated: false` "
    "(`towline services update --no-templated`)"
)
_DELIMITERS = (b"{{", b"{%")


@cache
def _environment() -> "Environment":
    """Makes the environment at the first template: the import is slow.

    Without a loader, `include` and `render` do not work. Templates cannot access attributes of
    Python objects.
    """
    from liquid import Environment, StrictUndefined

    class Limited(Environment):
        context_depth_limit = 20
        loop_iteration_limit = 100_000
        local_namespace_limit = 16 << 20
        output_stream_limit = MAX_FILE_BYTES

    return Limited(undefined=StrictUndefined)


def expand(files: Mapping[str, bytes], parameters: Mapping[str, object]) -> dict[str, bytes]:
    """Renders the templates among files: `*.liquid`, which lose that suffix, and manifests.

    Raises Invalid, naming file, line and error, for example an undefined name.
    """
    result = {}
    for path, data in files.items():
        target = path.removesuffix(TEMPLATE_SUFFIX)
        if target != path and target in files:
            raise Invalid(f"{path}: conflicts with the file {target}; remove one of them")
        is_template = target != path or path.endswith(MANIFEST_SUFFIXES)
        result[target] = expand_text(path, data, parameters) if is_template else data
    return result


def check_untemplated(files: Mapping[str, bytes]) -> None:
    """Raises Invalid for a template among files that are not expanded."""
    for path in files:
        target = path.removesuffix(TEMPLATE_SUFFIX)
        if target != path and target.endswith(MANIFEST_SUFFIXES):
            raise Invalid(f"{path}: this service is not templated; {_HOW_TO_ENABLE}")


def untemplated_hint(message: str, files: Mapping[str, bytes]) -> str:
    """Returns how to expand templates, if an error names a file that looks like one."""
    for path, data in files.items():
        if posixpath.basename(path) in message and any(mark in data for mark in _DELIMITERS):
            return f"; {_HOW_TO_ENABLE}"
    return ""


def expand_text(path: str, data: bytes, parameters: Mapping[str, object]) -> bytes:
    """Renders one template; errors use `path`."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Invalid(f"{path}: not UTF-8 text") from error
    if not any(mark in data for mark in _DELIMITERS):
        return data
    return _render(path, text, parameters).encode()


def _render(path: str, text: str, parameters: Mapping[str, object]) -> str:
    environment = _environment()
    from liquid.exceptions import LiquidError, TemplateNotFoundError

    try:
        return environment.from_string(text).render(**top_level_values(parameters))
    except TemplateNotFoundError as error:
        raise Invalid(f"{path}{_line_of(error)}: templates cannot include other files") from error
    except LiquidError as error:
        raise Invalid(f"{path}{_line_of(error)}: {error.message}; {_HOW_TO_DISABLE}") from error


def _line_of(error: "LiquidError") -> str:
    try:
        context = error.context()
    except ValueError:
        return ""
    return f", line {context[0]}" if context else ""
