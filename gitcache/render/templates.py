"""Liquid templates: undefined names are errors, and resources are limited."""

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

from core.errors import Invalid
from gitcache.render.manifests import MANIFEST_SUFFIXES, MAX_FILE_BYTES
from gitcache.render.parameters import names_of

if TYPE_CHECKING:
    from liquid import Environment
    from liquid.exceptions import LiquidError

TEMPLATE_SUFFIX = ".liquid"


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


def expand(
    files: Mapping[str, bytes],
    parameters: Mapping[str, object],
    suffixes: tuple[str, ...] = MANIFEST_SUFFIXES,
) -> dict[str, bytes]:
    """Renders the templates among files: `*.liquid`, which lose that suffix, and `suffixes`.

    Raises Invalid, naming file, line and error, for example an undefined name.
    """
    result = {}
    for path, data in files.items():
        target = path.removesuffix(TEMPLATE_SUFFIX)
        if target != path and target in files:
            raise Invalid(f"{path}: conflicts with the file {target}; remove one of them")
        is_template = target != path or path.endswith(suffixes)
        result[target] = expand_text(path, data, parameters) if is_template else data
    return result


def expand_text(path: str, data: bytes, parameters: Mapping[str, object]) -> bytes:
    """Renders one template; errors use `path`."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Invalid(f"{path}: not UTF-8 text") from error
    if "{{" not in text and "{%" not in text:
        return data
    return _render(path, text, parameters).encode()


def _render(path: str, text: str, parameters: Mapping[str, object]) -> str:
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
