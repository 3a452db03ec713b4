"""Columns of rows, also of those that consist of parts."""

from dataclasses import dataclass

import pytest

from controlplane.platform.parts import (
    Given,
    column_names,
    column_values,
    given,
    given_columns,
    given_part,
    part,
    row_of,
)


@dataclass(frozen=True, slots=True)
class Hull:
    length: int = 1


@dataclass(frozen=True, slots=True)
class Boat:
    name: str
    hull: Hull = part(Hull)
    crew: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BoatChange:
    name: str | None = None
    crew: tuple[str, ...] | None = None
    hull: Given[Hull] = given_part(Hull)


def test_parts_are_columns_of_their_row() -> None:
    boat = Boat("Fram", Hull(39), ("Otto",))
    columns = {"name": "Fram", "length": 39, "crew": ("Otto",)}
    assert column_values(boat) == columns
    assert row_of(Boat, columns) == boat


def test_a_row_can_have_one_column() -> None:
    assert column_values(Hull(39)) == {"length": 39}


def test_given_fields_replace_those_of_a_row() -> None:
    assert given(Hull, length=39).applied(Hull()) == Hull(39)
    assert given(Hull).applied(Hull(39)) == Hull(39)


def test_given_fields_have_names() -> None:
    with pytest.raises(TypeError, match="name the fields"):
        given(Hull, 39)


def test_a_change_is_made_from_the_columns_that_it_changes() -> None:
    assert column_names(BoatChange) == ("name", "crew", "length")
    assert row_of(BoatChange, {"length": 39}) == BoatChange(hull=given(Hull, length=39))
    assert row_of(BoatChange, {"name": "Fram"}).hull.applied(Hull(39)) == Hull(39)


def test_the_given_columns_of_a_change_are_not_none() -> None:
    @dataclass(frozen=True)
    class Change:
        name: str | None = None
        crew: tuple[str, ...] | None = None

    assert given_columns(Change(crew=())) == {"crew": ()}
    assert given_columns(Change("Fram", ("Otto",)), "name") == {"crew": ("Otto",)}
