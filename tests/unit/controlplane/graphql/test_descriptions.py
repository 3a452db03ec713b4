"""Published descriptions: complete, plain, and taken from docstrings."""

import re
from collections.abc import Iterator
from enum import Enum

import pytest
import strawberry
from graphql import (
    GraphQLEnumType,
    GraphQLInputObjectType,
    GraphQLInterfaceType,
    GraphQLObjectType,
    build_schema,
    is_specified_scalar_type,
)

from controlplane.api.schema import schema
from controlplane.platform.graphql.descriptions import describe, split

RELATIVE_CLAUSE = re.compile(
    r"(?:What|Who|Whoever|Whose|Whom|Which|Where|When|Whether|How|All that|As|Of|One that|Those"
    r"|That which)\b"
)
MAX_WORDS = 25


@pytest.fixture(scope="module")
def descriptions() -> dict[str, str]:
    """The description of each published type, field, argument and enum value, by its name."""
    return {name: text or "" for name, text in published()}


def published() -> Iterator[tuple[str, str | None]]:
    """Names and descriptions of the printed schema."""
    for name, kind in build_schema(schema.as_str()).type_map.items():
        if name.startswith("__") or is_specified_scalar_type(kind):
            continue
        yield name, kind.description
        if isinstance(kind, GraphQLEnumType):
            yield from ((f"{name}.{key}", value.description) for key, value in kind.values.items())
        if isinstance(kind, GraphQLObjectType | GraphQLInterfaceType | GraphQLInputObjectType):
            for key, field in kind.fields.items():
                yield f"{name}.{key}", field.description
                for argument, given in getattr(field, "args", {}).items():
                    yield f"{name}.{key}({argument})", given.description


def test_everything_published_has_a_description(descriptions: dict[str, str]) -> None:
    """Types, inputs, enums, fields, arguments and enum values."""
    assert len(descriptions) > 2_500
    assert [name for name, text in descriptions.items() if not text.strip()] == []


def test_no_description_opens_with_a_relative_clause(descriptions: dict[str, str]) -> None:
    """The first word is the noun or verb that a reader looks for."""
    opened = {name: text for name, text in descriptions.items() if RELATIVE_CLAUSE.match(text)}
    assert opened == {}


def test_descriptions_are_sentences(descriptions: dict[str, str]) -> None:
    """A capital letter or code first, a full stop last, and at most 25 words between stops."""
    open_ended = [name for name, text in descriptions.items() if not text.rstrip().endswith(".")]
    lower = [name for name, text in descriptions.items() if text[:1].islower()]
    long = [
        name
        for name, text in descriptions.items()
        if any(len(sentence.split()) > MAX_WORDS for sentence in re.split(r"[.;:]\s", text))
    ]
    assert (open_ended, lower, long) == ([], [], [])


@strawberry.enum
class Colour(Enum):
    """Colour of a box."""

    RED = "red"
    """Signal red."""


@strawberry.type
class Base:
    """A thing with a size."""

    size: int
    """Size in
    bytes."""


@strawberry.type
class Box(Base):
    """A box.

    Second
    paragraph.
    """

    id: strawberry.ID
    colour: Colour = Colour.RED
    label: str = strawberry.field(default="", description="Given with the field.")
    """Ignored."""
    bare: str = ""


@strawberry.type
class Reader:
    @strawberry.field
    def box(self, name: str, depth_limit: int = 1, bare: int = 0) -> Box | None:
        """A box, by name.

        Args:
            name: Exact
                name.
            depth_limit: Maximum depth. Default: 1.
        """


def test_docstrings_become_descriptions() -> None:
    """Covers classes, strings below fields (inherited ones too), and resolvers."""
    built = strawberry.Schema(Reader)._schema
    describe(built)
    box, reader, colour = (built.type_map[name] for name in ("Box", "Reader", "Colour"))
    assert isinstance(box, GraphQLObjectType)
    assert isinstance(reader, GraphQLObjectType)
    assert isinstance(colour, GraphQLEnumType)
    assert box.description == "A box.\n\nSecond paragraph."
    assert {name: field.description for name, field in box.fields.items()} == {
        "size": "Size in bytes.",
        "id": "Unique ID.",
        "colour": None,
        "label": "Given with the field.",
        "bare": None,
    }
    assert (colour.description, colour.values["RED"].description) == (
        "Colour of a box.",
        "Signal red.",
    )
    field = reader.fields["box"]
    assert field.description == "A box, by name."
    assert {name: argument.description for name, argument in field.args.items()} == {
        "name": "Exact name.",
        "depthLimit": "Maximum depth. Default: 1.",
        "bare": None,
    }


def test_a_docstring_without_arguments_is_all_description() -> None:
    assert split("A box.\n\nMore.") == ("A box.\n\nMore.", {})
    assert split("") == ("", {})
