"""Checks of render options that users give."""

from core.errors import Invalid
from core.spec.renderers import RenderOptions

_MAX_ITEMS = {"include": 64, "exclude": 64, "libraries": 64, "variables": 100, "arguments": 100}
_MAX_TEXT = 1024
_MAX_VALUE = 64 * 1024


def check_render_options(options: RenderOptions) -> RenderOptions:
    """Returns the options. Raises Invalid, naming the field, for options beyond the limits."""
    for name, most in _MAX_ITEMS.items():
        if len(items := getattr(options, name)) > most:
            raise Invalid(f"{len(items)} entries, {most} at most", field=f"rendering.{name}")
    texts = [*options.include, *options.exclude, *options.libraries, options.entry or ""]
    values = [*options.variables, *options.arguments]
    if any(len(text) > _MAX_TEXT for text in [*texts, *(given.name for given in values)]):
        raise Invalid(f"a text has more than {_MAX_TEXT:,} characters", field="rendering")
    if any(len(given.value) > _MAX_VALUE for given in values):
        raise Invalid(f"a value has more than {_MAX_VALUE:,} characters", field="rendering")
    return options
