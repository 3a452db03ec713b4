"""YAML files that users name on the command line."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from core.errors import Invalid
from core.json_object import JsonObject
from towline.cli.lazy_import import load
from towline.input_files import read_text


def read_map(path: Path, option: str, subject: str) -> JsonObject:
    """Reads a YAML file with one map; `subject` names its content. Invalid, with the option."""
    yaml = load("yaml")
    try:
        content = yaml.safe_load(read_text(path, option))
    except yaml.YAMLError as error:
        raise Invalid(f"{path} is not YAML: {error}", field=option) from None
    if not isinstance(content, dict):
        raise Invalid(f"{path}: {subject} is a map of its fields", field=option)
    if "apiVersion" in content:
        raise Invalid(
            f"{path} is a manifest, and this option takes {subject}: run `towline apply -f {path}`",
            field=option,
        )
    return content


@contextmanager
def errors_of(path: Path, variable: str) -> Generator[None]:
    """Names the file in the API's errors about its content, which was sent in `variable`."""
    try:
        yield
    except Invalid as error:
        place, colon, rest = error.message.partition(": ")
        if not colon or not place.startswith(variable):
            raise
        inner = place.removeprefix(variable).removeprefix(".")
        raise Invalid(f"{path}: {inner}: {rest}" if inner else f"{path}: {rest}") from None
