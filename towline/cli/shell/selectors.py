"""Selectors of lists, as in kubectl: `-l NAME=VALUE` and `--field-selector`."""

from collections.abc import Collection
from typing import TYPE_CHECKING, Annotated

import typer

from core.errors import Invalid
from towline.cli.shell.session import name_value_pairs, parse_pairs

if TYPE_CHECKING:
    from towline.generated_inputs import TagAttributes

Selector = Annotated[
    str | None,
    typer.Option(
        "-l",
        "--selector",
        help="Label selector of kubectl: 'env in (a,b),tier!=web,!old'. Tags are labels.",
    ),
]


def tags_of(selector: str | None) -> "list[TagAttributes] | None":
    """Parses tags of clusters. Invalid: a part without `=`."""
    if selector is None:
        return None
    return name_value_pairs(parse_pairs(selector.split(","), "--selector"))


def fields_of(selector: str | None, allowed: Collection[str]) -> dict[str, list[str]]:
    """Parses a selector of fields; a field with several values has one of them.

    Invalid: a part without `=`, or an unknown field.
    """
    fields: dict[str, list[str]] = {}
    for part in selector.split(",") if selector else ():
        ((field, value),) = parse_pairs([part], "--field-selector").items()
        if field not in allowed:
            raise Invalid(
                f"unknown field {field!r}; known: {', '.join(sorted(allowed))}",
                field="--field-selector",
            )
        fields.setdefault(field, []).append(value)
    return fields
