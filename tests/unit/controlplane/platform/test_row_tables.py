"""Tables that follow from the fields of dataclasses."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NewType

import pytest
from sqlalchemy import BigInteger, Column, Index, Table
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateTable

from controlplane.platform.parts import NamedRow, part
from controlplane.platform.store import row_tables
from controlplane.platform.store.columns import EnumColumn, JsonColumn
from controlplane.platform.store.schema import metadata

Handle = NewType("Handle", str)


class Colour(StrEnum):
    RED = "red"


@dataclass(frozen=True, slots=True)
class Wheel:
    width: int = 0
    mounted_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Car:
    id: str
    owner_id: str | None
    plate: str
    handle: Handle
    doors: int
    electric: bool
    mass: float
    key: bytes
    colour: Colour | None
    labels: Mapping[str, str] = field(default_factory=dict)
    wheel: Wheel = part(Wheel)


@dataclass(frozen=True, slots=True)
class Garage(NamedRow):
    note: str = ""


@pytest.fixture
def row_table() -> Iterator[Callable[..., Table]]:
    """Declares tables that the schema does not keep."""
    made: list[Table] = []

    def declare(*args: object, **options: object) -> Table:
        made.append(row_tables.row_table(*args, **options))  # ty: ignore[invalid-argument-type]
        return made[-1]

    yield declare
    for table in made:
        metadata.remove(table)


def columns(table: Table) -> list[str]:
    """Returns the columns as PostgreSQL declares them."""
    ddl = str(CreateTable(table).compile(dialect=postgresql.dialect()))
    return [line.strip().rstrip(",") for line in ddl.splitlines() if line.startswith("\t")]


def test_each_field_of_a_row_and_of_its_parts_has_its_column(row_table) -> None:
    table = row_table("cars", Car, lengths={"handle": 63})

    assert columns(table) == [
        "id VARCHAR(36) NOT NULL",
        "owner_id VARCHAR(36)",
        "plate TEXT NOT NULL",
        "handle VARCHAR(63) NOT NULL",
        "doors INTEGER NOT NULL",
        "electric BOOLEAN NOT NULL",
        "mass FLOAT NOT NULL",
        "key BYTEA NOT NULL",
        "colour VARCHAR(32)",
        "labels JSONB NOT NULL",
        "width INTEGER NOT NULL",
        "mounted_at TIMESTAMP WITH TIME ZONE",
        "CONSTRAINT pk_cars PRIMARY KEY (id)",
    ]


def test_columns_decode_the_values_of_their_fields(row_table) -> None:
    table = row_table("cars", Car)

    colour, labels = table.c.colour.type, table.c.labels.type
    assert isinstance(colour, EnumColumn) and colour.enum_class is Colour
    assert isinstance(labels, JsonColumn) and labels.shape == dict[str, str]


def test_keys_and_indexes_are_declared_by_field(row_table) -> None:
    row_table("owners", Garage)
    table = row_table(
        "cars",
        Car,
        Index(None, "doors", "mass"),
        indexed={"owner_id"},
        unique={"plate"},
        references={"owner_id": "owners.id"},
    )

    assert {index.name for index in table.indexes} == {"ix_cars_owner_id", "ix_cars_doors_mass"}
    assert "CONSTRAINT uq_cars_plate UNIQUE (plate)" in columns(table)
    assert [key.target_fullname for key in table.c.owner_id.foreign_keys] == ["owners.id"]


def test_the_name_of_a_named_row_is_unique(row_table) -> None:
    table = row_table("garages", Garage)

    assert "name VARCHAR(255) NOT NULL" in columns(table)
    assert "CONSTRAINT uq_garages_name UNIQUE (name)" in columns(table)


def test_an_own_column_replaces_the_derived_one_or_adds_to_them(row_table) -> None:
    own = (Column("mass", BigInteger, nullable=False), Column("rank", BigInteger))
    table = row_table("cars", Car, *own)

    declared = columns(table)
    assert "mass BIGINT NOT NULL" in declared and "rank BIGINT" in declared
    assert len(table.c) == 13


@pytest.mark.parametrize("option", ["lengths", "indexed", "unique", "references"])
def test_a_field_that_does_not_exist_is_refused(row_table, option: str) -> None:
    with pytest.raises(TypeError, match="Car has no fields colur"):
        row_table("cars", Car, **{option: {"colur": 1}})
