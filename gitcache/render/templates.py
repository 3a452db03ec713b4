"""Liquid templates over a folder: strict about names, bounded in what they may use."""

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from fleet.errors import Invalid
from gitcache.render.manifests import MANIFEST_SUFFIXES, MAX_FILE_BYTES
from gitcache.render.parameters import names_of

if TYPE_CHECKING:
    from liquid import Environment
    from liquid.exceptions import LiquidError

TEMPLATE_SUFFIX = ".liquid"


@cache
def _environment() -> "Environment":
    """Loaded at the first template: the library is two thirds of a worker's start.

    No loader, so no `include` and `render`; no way to attributes of Python objects.
    """
    from liquid import Environment, StrictUndefined

    class Limited(Environment):
        context_depth_limit = 20
        loop_iteration_limit = 100_000
        local_namespace_limit = 16 << 20
        output_stream_limit = MAX_FILE_BYTES

    return Limited(undefined=StrictUndefined)


def expand(
    files: Mapping[str, bytes],
    parameters: Mapping[str, Any],
    suffixes: tuple[str, ...] = MANIFEST_SUFFIXES,
) -> dict[str, bytes]:
    """The files with templates rendered: `*.liquid`, which lose that suffix, and `suffixes`.

    Invalid: names file, line and what is wrong, for example an undefined name.
    """
    result = {}
    for path, data in files.items():
        target = path.removesuffix(TEMPLATE_SUFFIX)
        if target != path and target in files:
            raise Invalid(f"{path}: there is a file {target} too; which one is meant?")
        is_template = target != path or path.endswith(suffixes)
        result[target] = expand_text(path, data, parameters) if is_template else data
    return result


def expand_text(path: str, data: bytes, parameters: Mapping[str, Any]) -> bytes:
    """One template rendered; `path` is how errors call it."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Invalid(f"{path}: not UTF-8 text") from error
    if "{{" not in text and "{%" not in text:
        return data
    return _render(path, text, parameters).encode()


def _render(path: str, text: str, parameters: Mapping[str, Any]) -> str:
    environment = _environment()
    from liquid.exceptions import LiquidError, TemplateNotFoundError

    try:
        return environment.from_string(text).render(**names_of(parameters))
    except TemplateNotFoundError as error:
        raise Invalid(f"{path}{_line(error)}: templates cannot include other files") from error
    except LiquidError as error:
        raise Invalid(f"{path}{_line(error)}: {error.message}") from error


def _line(error: "LiquidError") -> str:
    try:
        context = error.context()
    except ValueError:
        return ""
    return f", line {context[0]}" if context else ""
