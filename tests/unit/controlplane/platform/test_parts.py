"""Columns of rows, also of those that consist of parts."""

from dataclasses import dataclass

from controlplane.platform.parts import column_values, part, row_of


@dataclass(frozen=True, slots=True)
class Hull:
    length: int = 1


@dataclass(frozen=True, slots=True)
class Boat:
    name: str
    hull: Hull = part(Hull)
    crew: tuple[str, ...] = ()


def test_parts_are_columns_of_their_row() -> None:
    boat = Boat("Fram", Hull(39), ("Otto",))
    columns = {"name": "Fram", "length": 39, "crew": ("Otto",)}
    assert column_values(boat) == columns
    assert row_of(Boat, columns) == boat


def test_a_row_can_have_one_column() -> None:
    assert column_values(Hull(39)) == {"length": 39}
