"""Checks of render options that users give."""

from controlplane.platform.limits import check_count, check_length
from core.spec.renderers import RenderOptions

_MAX_ITEMS = {"include": 64, "exclude": 64, "libraries": 64, "variables": 100, "arguments": 100}
_MAX_TEXT = 1024
_MAX_VALUE = 64 * 1024


def check_render_options(options: RenderOptions) -> RenderOptions:
    """Returns the options. Raises Invalid, naming the field, for options beyond the limits."""
    for name, most in _MAX_ITEMS.items():
        check_count(len(getattr(options, name)), f"rendering.{name}", most)
    texts = [*options.include, *options.exclude, *options.libraries, options.entry or ""]
    values = [*options.variables, *options.arguments]
    for text in [*texts, *(given.name for given in values)]:
        check_length(text, "rendering", _MAX_TEXT)
    for given in values:
        check_length(given.value, "rendering", _MAX_VALUE)
    return options
