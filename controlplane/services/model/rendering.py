"""Checks of render options that users give."""

from controlplane.platform.limits import check_count, check_length
from core.spec.renderers import RenderOptions

_MAX_ITEMS = {"include": 64, "exclude": 64, "libraries": 64, "variables": 100, "arguments": 100}
_MAX_TEXT = 1024
_MAX_VALUE = 64 * 1024


def check_render_options(options: RenderOptions) -> RenderOptions:
    """Returns the options. Raises Invalid, naming the field, for options beyond the limits."""
    for name, max_items in _MAX_ITEMS.items():
        check_count(len(getattr(options, name)), f"rendering.{name}", max_items)
    texts = [*options.include, *options.exclude, *options.libraries, options.entry or ""]
    named_values = [*options.variables, *options.arguments]
    for text in [*texts, *(value.name for value in named_values)]:
        check_length(text, "rendering", _MAX_TEXT)
    for value in named_values:
        check_length(value.value, "rendering", _MAX_VALUE)
    return options
