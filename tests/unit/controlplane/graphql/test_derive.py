"""Types of the API that are derived from dataclasses."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import pytest
import strawberry
from graphql import GraphQLInputObjectType, GraphQLObjectType, GraphQLSchema, print_type
from strawberry.schema.config import StrawberryConfig

from controlplane.platform.graphql.derive import Draft, Output, computed, draft, output
from controlplane.platform.graphql.descriptions import describe
from controlplane.platform.graphql.scalars import SCALARS, Json
from controlplane.platform.parts import part
from core.errors import Invalid

NOW = datetime(2026, 1, 2, tzinfo=UTC)


@strawberry.enum
class Colour(StrEnum):
    """A colour."""

    RED = "RED"
    """Red."""
    BLUE = "BLUE"
    """Blue."""


@dataclass(frozen=True)
class Wheel:
    """A wheel."""

    size: int
    """Diameter in inches."""


@dataclass(frozen=True)
class Paint:
    """A part of a car."""

    colour: Colour = Colour.RED
    """Colour of the car."""


@dataclass(frozen=True)
class Car:
    """A car."""

    id: str
    name: str
    """Display name."""
    owner_id: str | None = None
    """ID of the owner."""
    note: str = ""
    """Free text."""
    wheels: tuple[Wheel, ...] = ()
    """All wheels."""
    spare: Wheel | None = None
    """Spare wheel."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels."""
    key: bytes = b""
    length: int = 0
    paint: Paint = part(Paint)
    built_at: datetime = NOW


@output(Wheel)
class WheelType(Output[Wheel]):
    """A wheel in the API."""


@output(Car, rename={"title": "name"}, hide={"key"}, nullable={"note", "spare", "length"})
class CarType(Output[Car]):
    """A car in the API."""

    length: float
    """Length in metres."""
    labels: list[str] = computed(lambda car: sorted(car.labels))
    """Names of the labels."""
    garage: str | None
    """Name of the garage."""


@dataclass(frozen=True)
class Van(Car):
    """A car with a hold."""

    volume: int = 0
    """Volume of the hold."""


@output(Van)
class VanType(CarType):
    """A van in the API."""


@strawberry.input
class LabelAttributes:
    """A label."""

    name: str
    value: str | None = None


@dataclass(frozen=True)
class WheelDraft:
    """Values of a wheel."""

    size: int = 17
    """Diameter in inches. Default: 17."""


@dataclass(frozen=True)
class CarDraft:
    """Values of a car."""

    name: str
    """Display name."""
    owner_id: str | None = None
    """ID of the owner."""
    wheels: Sequence[WheelDraft] = ()
    """All wheels."""
    labels: Mapping[str, str] | None = None
    """Labels."""
    extras: Mapping[str, Any] | None = None
    """Further facts."""
    maker_id: str | None = None
    """Text that identifies the maker."""
    seats: int = 4
    """Number of seats. Default: 4."""
    paint: Paint = part(Paint)


@draft(WheelDraft)
class WheelAttributes(Draft[WheelDraft]):
    """Fields of a wheel."""


@draft(CarDraft, rename={"extra_facts": "extras"})
class CarAttributes(Draft[CarDraft]):
    """Fields of a car."""

    labels: list[LabelAttributes] | None = None
    extra_facts: Json | None = None
    maker_id: str | None = None


@dataclass(frozen=True)
class TyreDraft:
    """Values of a tyre."""

    grooves: tuple[WheelDraft, ...] = ()
    """Grooves."""
    sizes: tuple[int, ...] = (15, 16)
    """Sizes."""
    colours: tuple[str, ...] = ()
    """Colours."""
    studded: bool = False
    """True if it has studs."""
    name: str | None = None
    """Display name."""
    maker: str | None = None
    """Maker."""
    is_global: bool | None = None
    """True if it is sold everywhere."""


@output(TyreDraft, hide={"grooves", "sizes", "colours", "name"}, rename={"global_": "is_global"})
class TyreType(Output[TyreDraft]):
    """A tyre in the API."""

    global_: bool | None = strawberry.field(name="global")
    cars: list[CarType] = strawberry.field(default_factory=list)
    """Cars."""


@draft(TyreDraft, rename={"global_": "is_global"}, publish_defaults=True)
class TyreAttributes(Draft[TyreDraft]):
    """Fields of a tyre."""

    name: str
    colours: list[str] | None = None
    global_: bool | None = strawberry.field(name="global", default=None)


@strawberry.type
class Query:
    @strawberry.field
    def tyre(self, attributes: TyreAttributes) -> TyreType:
        """A tyre."""
        given = attributes.change()
        assert given.grooves == (WheelDraft(), WheelDraft(15)) and given.sizes == (15, 16)
        assert given.colours == ("red",)
        return TyreType.of(given)

    @strawberry.field
    def car(self, attributes: CarAttributes) -> CarType | None:
        """A car."""
        given = attributes.change()
        wheels = tuple(Wheel(wheel.size) for wheel in given.wheels)
        row = Car("1", given.name, given.owner_id, "", wheels, None, given.labels or {})
        row = replace(row, paint=given.paint, length=given.seats)
        return CarType.of(row, garage=f"for {given.seats}, {given.extras}")

    @strawberry.field
    def van(self) -> VanType | None:
        """A van."""
        return None


def schema() -> strawberry.Schema:
    return strawberry.Schema(Query, config=StrawberryConfig(scalar_map=SCALARS))


def printed(name: str) -> str:
    made: GraphQLSchema = schema()._schema
    describe(made)
    found = made.get_type(name)
    assert isinstance(found, GraphQLObjectType | GraphQLInputObjectType)
    return print_type(found)


def test_an_output_has_the_fields_of_its_model_and_of_its_parts() -> None:
    fields = printed("CarType")
    expected = {
        "id: ID!", "title: String!", "ownerId: ID", "note: String", "wheels: [WheelType!]!",
        "spare: WheelType", "labels: [String!]!", "colour: Colour!", "builtAt: DateTime!",
        "garage: String", "length: Float",
    }  # fmt: skip
    assert {line.strip() for line in fields.splitlines() if ":" in line} == expected


def test_an_output_that_extends_another_one_adds_the_fields_that_its_model_adds() -> None:
    car, van = printed("CarType"), printed("VanType")
    shared = {line.strip() for line in car.splitlines() if ":" in line}
    added = {line.strip() for line in van.splitlines() if ":" in line} - shared
    assert added == {"volume: Int!"} and "key" not in van
    assert '"""Names of the labels."""' in van and '"""Volume of the hold."""' in van
    made: Any = VanType.of(Van("1", "Bus", labels={"a": ""}, volume=9), garage="east")
    assert (made.title, made.labels, made.volume, made.garage) == ("Bus", ["a"], 9, "east")


def test_descriptions_come_from_the_model_unless_the_type_has_its_own() -> None:
    car = printed("CarType")
    assert '"""A car in the API."""' in car and '"""Colour of the car."""' in car
    assert '"""Names of the labels."""' in car and '"""Labels."""' not in car
    assert '"""Number of seats. Default: 4."""' in printed("CarAttributes")


def test_a_row_becomes_an_output_with_its_related_fields() -> None:
    row = Car("1", "Mini", wheels=(Wheel(15),), spare=Wheel(16), labels={"b": "", "a": ""})
    made: Any = CarType.of(row, garage="east")
    assert (made.id, made.title, made.note, made.garage) == ("1", "Mini", None, "east")
    assert [wheel.size for wheel in made.wheels] == [15] and made.spare.size == 16
    assert (made.labels, made.colour, made.built_at) == (["a", "b"], Colour.RED, NOW)
    assert made.length is None


def test_values_are_computed_when_they_are_first_read() -> None:
    computed_names: list[str] = []

    @dataclass(frozen=True)
    class Horn:
        name: str

    @output(Horn)
    class HornType(Output[Horn]):
        tone: str = computed(lambda horn: computed_names.append(horn.name) or "low")
        notes: list[str] = strawberry.field(default_factory=list)

    made = HornType.of(Horn("bulb"))
    assert (made.name, computed_names, made.notes) == ("bulb", [], [])
    assert (made.tone, made.tone, computed_names) == ("low", "low", ["bulb"])
    assert made.notes is made.notes and HornType.of(Horn("bulb")).notes is not made.notes
    with pytest.raises(AttributeError, match="HornType has no tone"):
        getattr(HornType, "tone")  # noqa: B009


def test_an_output_may_consist_of_converted_values_only() -> None:
    @dataclass(frozen=True)
    class Garage:
        wheels: tuple[Wheel, ...]

    @output(Garage)
    class GarageType(Output[Garage]):
        """A garage in the API."""

    made: Any = GarageType.of(Garage((Wheel(15),)))
    assert [wheel.size for wheel in made.wheels] == [15]


def test_a_field_declares_its_type_if_its_model_has_several() -> None:
    @dataclass(frozen=True)
    class Seat:
        row: int

    @dataclass(frozen=True)
    class Bus:
        seats: tuple[Seat, ...]
        spare: Seat | None = None

    @output(Seat)
    class SeatType(Output[Seat]):
        """A seat in the API."""

    @output(Seat, rename={"number": "row"})
    class NumberedSeat(Output[Seat]):
        """A seat with its number."""

    for fields in ({}, {"seats": list[SeatType]}):
        with pytest.raises(TypeError, match="Seat has the types SeatType and NumberedSeat"):
            output(Bus)(type("BusType", (Output,), {"__annotations__": fields}))

    @output(Bus)
    class BusType(Output[Bus]):
        seats: list[NumberedSeat]
        spare: SeatType | None

    made: Any = BusType.of(Bus((Seat(7),), Seat(9)))
    assert ([seat.number for seat in made.seats], made.spare.row) == ([7], 9)


def test_a_model_whose_type_a_field_has_taken_gets_no_second_one() -> None:
    """Otherwise the order of imports would decide."""

    @dataclass(frozen=True)
    class Key:
        teeth: int

    @dataclass(frozen=True)
    class Ring:
        keys: tuple[Key, ...]

    @output(Key)
    class KeyType(Output[Key]):
        """A key in the API."""

    output(Ring)(type("RingType", (Output,), {}))
    with pytest.raises(TypeError, match="Key has the types KeyType and SpareType"):
        output(Key)(type("SpareType", (Output,), {}))


def test_a_related_field_that_is_not_given_is_an_error() -> None:
    with pytest.raises(TypeError, match="garage"):
        CarType.of(Car("1", "Mini"))


def test_fields_with_a_default_are_optional_inputs() -> None:
    fields = printed("CarAttributes")
    for line in ("name: String!", "ownerId: ID = null", "seats: Int = null"):
        assert line in fields
    assert "labels: [LabelAttributes!] = null" in fields
    assert "makerId: String = null" in fields


async def test_inputs_arrive_as_their_draft() -> None:
    query = """{ car(attributes: {name: "Mini", wheels: [{size: 15}, {}],
      labels: [{name: "a", value: "1"}], extraFacts: "{\\"a\\": 1}", colour: BLUE})
      { title wheels { size } labels garage colour length } }"""
    answer = await schema().execute(query)
    assert answer.errors is None
    car = {"title": "Mini", "wheels": [{"size": 15}, {"size": 17}], "labels": ["a"]}
    facts = {"garage": "for 4, {'a': 1}", "colour": "BLUE", "length": 4.0}
    assert answer.data == {"car": {**car, **facts}}


async def test_a_mapping_has_to_be_a_json_object() -> None:
    query = '{ car(attributes: {name: "Mini", extraFacts: "[1]"}) { id } }'
    answer = await schema().execute(query)
    assert answer.errors is not None
    assert [error.message for error in answer.errors] == ["extraFacts: must be a JSON object"]


@pytest.mark.parametrize("wrong", [False, 0, "", [], [["a", "b"]], "ab"])
def test_texts_by_name_have_to_be_a_json_object(wrong: object) -> None:
    @dataclass(frozen=True)
    class Note:
        short_facts: Mapping[str, str] | None = None

    made: Any = draft(Note)(type("FactAttributes", (Draft,), {}))
    assert made(short_facts={"a": 1}).change() == Note({"a": "1"})
    with pytest.raises(Invalid, match="must be a JSON object") as refused:
        made(short_facts=wrong).change()
    assert refused.value.field == "shortFacts"


def test_json_null_is_a_value_where_there_is_no_default() -> None:
    @dataclass(frozen=True)
    class Note:
        text: Any
        facts: Mapping[str, Any]

    kind = type("NoteAttributes", (Draft,), {"__annotations__": {"text": Json, "facts": Json}})
    made: Any = draft(Note)(kind)
    assert made(text=None, facts={}).change() == Note(None, {})
    with pytest.raises(Invalid, match="must be a JSON object"):
        made(text="", facts=None).change()


def test_declared_json_becomes_texts_where_the_model_has_texts() -> None:
    @dataclass(frozen=True)
    class Note:
        facts: Mapping[str, Any]
        labels: Mapping[str, str] | None = None

    declared = {"facts": Json, "labels": Json | None}
    kind = type("NoteAttributes", (Draft,), {"__annotations__": declared, "labels": None})
    made: Any = draft(Note)(kind)
    assert made(facts={"a": 1}, labels={"b": 2}).change() == Note({"a": 1}, {"b": "2"})
    with pytest.raises(Invalid, match="must be a JSON object") as refused:
        made(facts={}, labels="b").change()
    assert refused.value.field == "labels"


def test_null_of_an_optional_field_is_no_value_for_a_field_without_none() -> None:
    """The class gives such a field its value."""

    @dataclass(frozen=True)
    class House:
        side: str
        window: str | None

    @draft(House)
    class WindowAttributes(Draft[House]):
        side: str | None = None

        def field_values(self) -> dict[str, Any]:
            return {"side": "left", **super().field_values()}

    made: Any = WindowAttributes
    assert made(window=None).change() == House("left", None)


def test_null_in_a_list_of_names_and_values_is_an_empty_text() -> None:
    made: Any = CarAttributes
    given = made(name="Mini", labels=[LabelAttributes(name="a")])
    assert given.change().labels == {"a": ""}


def test_defaults_are_published_on_request() -> None:
    fields = printed("TyreAttributes")
    for line in (
        "grooves: [WheelAttributes!]! = []",
        "sizes: [Int!]! = [15, 16]",
        "studded: Boolean! = false",
        "maker: String = null",
    ):
        assert line in fields


def test_a_declared_field_without_a_default_must_be_given() -> None:
    assert "name: String!\n" in printed("TyreAttributes")


async def test_collections_arrive_with_the_type_that_the_dataclass_declares() -> None:
    query = """{ tyre(attributes: {name: "All", global: true, grooves: [{}, {size: 15}],
      colours: ["red"]}) { studded global cars { id } } }"""
    answer = await schema().execute(query)
    assert answer.errors is None
    assert answer.data == {"tyre": {"studded": False, "global": True, "cars": []}}


def test_a_declared_field_keeps_the_description_of_its_model() -> None:
    for name in ("TyreType", "TyreAttributes"):
        assert '"""True if it is sold everywhere."""\n  global: Boolean' in printed(name)


def test_a_field_without_a_published_form_has_to_be_hidden_or_declared() -> None:
    with pytest.raises(TypeError, match=r"key: .*bytes.* has no published form"):
        output(Car)(type("Bare", (Output,), {}))


def test_only_a_known_field_can_be_hidden_renamed_or_nullable() -> None:
    with pytest.raises(TypeError, match="wheel"):
        output(Wheel, hide={"wheel"})(type("Bare", (Output,), {}))
    with pytest.raises(TypeError, match="wheel"):
        output(Wheel, rename={"diameter": "wheel"})(type("Bare", (Output,), {}))
