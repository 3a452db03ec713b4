"""Fields of the API that call one operation with the usual arguments."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
import strawberry
from graphql import GraphQLField, GraphQLObjectType

from controlplane.authorization import Actor
from controlplane.platform.graphql.context import ApiBackend, Context, Info
from controlplane.platform.graphql.derive import Draft, Output, draft, output
from controlplane.platform.graphql.descriptions import describe
from controlplane.platform.graphql.resource_fields import ResourceFields, each
from controlplane.platform.ports import Page, PageQuery
from tests.fakes.actors import ADMIN


@dataclass(frozen=True, slots=True)
class Boat:
    id: str
    """Unique ID."""
    name: str
    """Name of the boat."""


@dataclass(frozen=True, slots=True)
class BoatChange:
    name: str | None = None
    """Name of the boat."""


class Boats:
    """Operations that remember their calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []

    async def get(self, actor: Actor, id: str | None, name: str | None = None) -> Boat:
        self.calls.append((actor, id, name))
        return Boat(id or "1", name or "Fram")

    async def page(self, actor: Actor, query: PageQuery) -> Page[Boat]:
        self.calls.append((actor, query.first, query.text))
        return Page((Boat("1", "Fram"), Boat("2", "Gjøa")), more=True)

    async def create(self, actor: Actor, change: BoatChange) -> Boat:
        return Boat("3", change.name or "")

    async def update(self, actor: Actor, id: str, change: BoatChange) -> Boat:
        return replace(Boat(id, "Fram"), name=change.name or "Fram")

    async def sink(self, actor: Actor, id: str) -> Boat:
        self.calls.append((actor, id))
        return Boat(id, "Fram")

    async def sail(
        self, actor: Actor, boat_id: str, port_id: str, *, slow: bool = False, by: str | None = None
    ) -> Boat:
        self.calls.append((actor, boat_id, port_id, slow, by))
        return Boat(boat_id, "Fram")

    async def rename(
        self, actor: Actor, boat_id: str, change: BoatChange, *, quietly: bool = False
    ) -> Boat:
        self.calls.append((actor, boat_id, change, quietly))
        return Boat(boat_id, change.name or "")

    async def named(self, actor: Actor, name: str) -> Boat:
        return Boat("4", name)

    async def built_by(self, actor: Actor, builder: str | None = None) -> list[Boat]:
        self.calls.append((actor, builder))
        return [Boat("1", "Fram"), Boat("2", "Gjøa")]

    async def paint(self, actor: Actor, id: str, colors: tuple[str, ...]) -> Boat:
        return Boat(id, ", ".join(colors))

    async def fleet(self, actor: Actor, id: str) -> Sequence[Boat]:
        return [Boat(id, "Fram"), Boat("2", "Gjøa")]


@output(Boat)
class BoatType(Output[Boat]):
    """A boat."""


@draft(BoatChange)
class BoatAttributes(Draft[BoatChange]):
    """Fields of a boat."""


async def load(info: Info, rows: Sequence[Boat]) -> list[BoatType]:
    return [BoatType.of(replace(row, name=f"{row.name}!")) for row in rows]


_BOATS = ResourceFields("boat", Boats, BoatType, load, is_nullable=False)


@strawberry.type
class Query:
    boat = _BOATS.get(Boats.get)
    """A boat, by ID or name."""
    boat_by_id = _BOATS.by_id(Boats.sink)
    """A boat."""
    boats = _BOATS.page(Boats.page)
    """Boats.

    Args:
        q: Text in names.
    """
    boat_by_name = _BOATS.lookup(Boats.named)
    """A boat.

    Args:
        name: Exact name.
    """
    boats_of = _BOATS.all(Boats.built_by, builder="yard")
    """Boats of a builder."""
    fleet = _BOATS.related(Boats.fleet, BoatType, each(BoatType.of))
    """Boats that sail together."""


@strawberry.type
class Mutation:
    create_boat = _BOATS.create(Boats.create, BoatAttributes)
    """Builds a boat."""
    update_boat = _BOATS.update(Boats.update, BoatAttributes)
    """Changes a boat."""
    sink_boat = _BOATS.action(Boats.sink)
    """Sinks a boat."""
    rename_boat = _BOATS.call(Boats.rename, BoatAttributes, boat_id="id")
    """Renames a boat."""
    sail_boat = _BOATS.call(Boats.sail, boat_id="id")
    """Sails a boat to a port.

    Args:
        by: Name of the captain.
    """


SCHEMA = strawberry.Schema(Query, Mutation)


class Nobody:
    async def authenticate(self, token: str, source: str = "") -> Actor:
        return ADMIN

    async def actor_of(self, user_id: str, token_id: str | None) -> Actor:
        return ADMIN


async def run(document: str) -> tuple[object, Boats]:
    boats = Boats()
    context = Context(ApiBackend({Boats: boats}, Nobody(), 0), caller=ADMIN)
    result = await SCHEMA.execute(document, context_value=context)
    assert result.errors is None
    return result.data, boats


@pytest.mark.parametrize(
    ("document", "data"),
    [
        ('{boat(name: "Maud") {id name}}', {"boat": {"id": "1", "name": "Maud!"}}),
        ("{boatById(id: 7) {id}}", {"boatById": {"id": "7"}}),
        (
            "{fleet(id: 7) {id name}}",
            {"fleet": [{"id": "7", "name": "Fram"}, {"id": "2", "name": "Gjøa"}]},
        ),
        (
            'mutation {createBoat(attributes: {name: "Maud"}) {name}}',
            {"createBoat": {"name": "Maud!"}},
        ),
        (
            '{boatByName(name: "Maud") {id name}}',
            {"boatByName": {"id": "4", "name": "Maud!"}},
        ),
        (
            "mutation {updateBoat(id: 7, attributes: {}) {id name}}",
            {"updateBoat": {"id": "7", "name": "Fram!"}},
        ),
    ],
)
async def test_a_field_calls_its_operation_and_loads_the_row(document: str, data: object) -> None:
    assert (await run(document))[0] == data


async def test_a_list_is_a_page_of_loaded_rows() -> None:
    data, boats = await run(
        '{boats(first: 2, q: "a") {edges {node {name}} pageInfo {hasNextPage}}}'
    )
    edges = [{"node": {"name": "Fram!"}}, {"node": {"name": "Gjøa!"}}]
    assert data == {"boats": {"edges": edges, "pageInfo": {"hasNextPage": True}}}
    assert boats.calls == [(ADMIN, 2, "a")]


async def test_the_operation_gets_the_caller_and_the_id() -> None:
    _, boats = await run("mutation {sinkBoat(id: 7) {id}}")
    assert boats.calls == [(ADMIN, "7")]


@pytest.mark.parametrize(
    ("arguments", "given"),
    [
        ('id: 7, portId: "o"', ("7", "o", False, None)),
        ('id: 7, portId: "o", slow: true, by: "Nansen"', ("7", "o", True, "Nansen")),
        ('id: 7, portId: "o", by: null', ("7", "o", False, None)),
    ],
)
async def test_the_arguments_of_a_call_are_those_of_its_operation(
    arguments: str, given: tuple[object, ...]
) -> None:
    data, boats = await run(f"mutation {{sailBoat({arguments}) {{id name}}}}")
    assert data == {"sailBoat": {"id": "7", "name": "Fram!"}}
    assert boats.calls == [(ADMIN, *given)]


async def test_a_call_passes_attributes_as_the_change_that_they_make() -> None:
    data, boats = await run(
        'mutation {renameBoat(id: 7, attributes: {name: "Maud"}, quietly: true) {name}}'
    )
    assert data == {"renameBoat": {"name": "Maud!"}}
    assert boats.calls == [(ADMIN, "7", BoatChange("Maud"), True)]


@pytest.mark.parametrize(("arguments", "yard"), [("", None), ('(yard: "Archer")', "Archer")])
async def test_several_rows_are_a_list_of_loaded_rows(arguments: str, yard: str | None) -> None:
    data, boats = await run(f"{{boatsOf{arguments} {{name}}}}")
    assert data == {"boatsOf": [{"name": "Fram!"}, {"name": "Gjøa!"}]}
    assert boats.calls == [(ADMIN, yard)]


def test_an_argument_that_needs_a_conversion_needs_a_resolver() -> None:
    with pytest.raises(TypeError, match="colors: .* write the resolver"):
        _BOATS.call(Boats.paint)


def published(kind: str, name: str) -> GraphQLField:
    describe(SCHEMA._schema)
    found = SCHEMA._schema.type_map[kind]
    assert isinstance(found, GraphQLObjectType)
    return found.fields[name]


def test_the_noun_describes_arguments_unless_the_docstring_does() -> None:
    boats, update = published("Query", "boats"), published("Mutation", "updateBoat")
    assert (boats.description, boats.args["q"].description) == ("Boats.", "Text in names.")
    assert {name: given.description for name, given in update.args.items()} == {
        "id": "ID of the boat.",
        "attributes": "Fields to change.",
    }
    create = published("Mutation", "createBoat")
    assert create.args["attributes"].description == "Fields of the boat."


def test_the_arguments_of_a_call_have_published_types() -> None:
    sail = published("Mutation", "sailBoat")
    assert {name: str(given.type) for name, given in sail.args.items()} == {
        "id": "ID!",
        "portId": "ID!",
        "slow": "Boolean!",
        "by": "String",
    }
    assert sail.args["id"].description == "ID of the boat."
    rename = published("Mutation", "renameBoat")
    assert {name: str(given.type) for name, given in rename.args.items()} == {
        "id": "ID!",
        "attributes": "BoatAttributes!",
        "quietly": "Boolean!",
    }
    assert rename.args["attributes"].description == "Fields of the boat."
    assert sail.args["by"].description == "Name of the captain."


def test_queries_are_nullable_and_mutations_as_declared() -> None:
    assert str(published("Query", "boat").type) == "BoatType"
    assert str(published("Mutation", "sinkBoat").type) == "BoatType!"
    assert str(published("Query", "boatByName").type) == "BoatType"
    assert str(published("Query", "boatsOf").type) == "[BoatType!]!"
    assert str(published("Query", "fleet").type) == "[BoatType!]!"
