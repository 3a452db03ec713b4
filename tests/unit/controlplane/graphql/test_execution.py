"""The quick execution answers as graphql-core does, byte for byte, whatever is asked."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import orjson
import strawberry
from graphql import (
    GraphQLEnumType,
    GraphQLList,
    GraphQLNonNull,
    GraphQLObjectType,
    GraphQLOutputType,
    get_named_type,
    is_leaf_type,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from strawberry.schema.config import StrawberryConfig
from strawberry.schema.schema import StrawberryGraphQLCoreExecutionContext
from strawberry.types import ExecutionResult

from controlplane.api.schema import schema
from controlplane.platform.graphql.execution import FastExecution
from controlplane.platform.graphql.scalars import SCALARS

CONFIG = StrawberryConfig(scalar_map=SCALARS)
NOW = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)
ROOTS = {"Query", "Mutation", "Subscription"}
TYPES = {
    name: kind
    for name, kind in schema._schema.type_map.items()
    if isinstance(kind, GraphQLObjectType) and name not in ROOTS and not name.startswith("__")
}
LEAVES: dict[str, Any] = {
    "String": st.sampled_from(["", "x", "ünï", "1"]),
    "ID": st.sampled_from(["a", "b-c"]),
    "Int": st.sampled_from([0, -1, 2**31 - 1]),
    "Float": st.sampled_from([0.0, 2.5, 7]),
    "Boolean": st.booleans(),
    "DateTime": st.just(NOW),
    "Json": st.sampled_from([{}, {"a": [1]}]),
    "Map": st.sampled_from([{}, {"a": {"b": None}}]),
}
WRONG = st.sampled_from([None, 2**40, float("nan"), object(), [], {}, "yes", True])


class Thing:
    """Has the attributes that were drawn for it."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.__dict__.update(values)


@st.composite
def a_value(draw: st.DrawFn, kind: GraphQLOutputType, depth: int, wrong: bool) -> Any:
    """A value of a type; now and then, if asked for, one that it cannot have."""
    if wrong and draw(st.integers(0, 40)) == 0:
        return draw(WRONG)
    if isinstance(kind, GraphQLNonNull):
        return draw(a_value(kind.of_type, depth, wrong))
    if draw(st.integers(0, 5)) == 0:
        return None
    if isinstance(kind, GraphQLList):
        size = draw(st.integers(0, 2)) if depth else 0
        return [draw(a_value(kind.of_type, depth, wrong)) for _ in range(size)]
    return draw(a_named(kind, depth, wrong))


@st.composite
def a_named(draw: st.DrawFn, kind: Any, depth: int, wrong: bool) -> Any:
    if isinstance(kind, GraphQLEnumType):
        values = [one.value for one in kind.values.values()]
        return draw(st.sampled_from([*values, *getattr(kind, "wrapped_cls", ())]))
    if is_leaf_type(kind):
        return draw(LEAVES[kind.name])
    if not depth:
        return None
    return Thing(
        {
            field.extensions["strawberry-definition"].python_name: draw(
                a_value(field.type, depth - 1, wrong)
            )
            for field in kind.fields.values()
        }
    )


@st.composite
def a_selection(draw: st.DrawFn, kind: GraphQLObjectType, depth: int) -> str:
    """Fields of a type, some twice, some by another name, some in fragments."""
    usable = [n for n, f in kind.fields.items() if depth or is_leaf_type(get_named_type(f.type))]
    names = draw(st.lists(st.sampled_from([*usable, "__typename"]), min_size=1, max_size=8))
    parts = [draw(a_field(kind, name, depth, i)) for i, name in enumerate(names)]
    return " ".join(parts)


@st.composite
def a_field(draw: st.DrawFn, kind: GraphQLObjectType, name: str, depth: int, place: int) -> str:
    below = get_named_type(kind.fields[name].type) if name != "__typename" else None
    inner = ""
    if isinstance(below, GraphQLObjectType):
        inner = f" {{ {draw(a_selection(below, depth - 1))} }}"
    text = draw(st.sampled_from(["{0}", "{0}", "a{1}: {0}", "{0} @include(if: $yes)",
                                 "{0} @skip(if: $yes)"])).format(name, place) + inner  # fmt: skip
    return f"... {{ {text} }}" if draw(st.integers(0, 6)) == 0 else text


@st.composite
def a_question(draw: st.DrawFn, wrong: bool) -> tuple[str, Thing, str]:
    name = draw(st.sampled_from(sorted(TYPES)))
    value = draw(a_named(TYPES[name], 2, wrong))
    return name, value, draw(a_selection(TYPES[name], 2))


def _root() -> type:
    """A query type with a field for each type, which gives the thing of the moment twice."""

    def lister(name: str) -> Any:
        def things(info: strawberry.Info) -> Any:
            return [info.context, info.context]

        origin: Any = schema.schema_converter.type_map[name].definition.origin
        things.__annotations__["return"] = list[origin]
        return strawberry.field(resolver=things, name=f"of{name}")

    return strawberry.type(type("Root", (), {f"of_{name}": lister(name) for name in TYPES}))


ROOT = _root()


def made(execution: Any) -> strawberry.Schema:
    return strawberry.Schema(ROOT, config=CONFIG, execution_context_class=execution)


PLAIN, FAST = made(StrawberryGraphQLCoreExecutionContext), made(FastExecution)


def answer(one: strawberry.Schema, query: str, thing: Thing) -> bytes:
    one.process_errors = lambda *_: None  # ty: ignore[invalid-assignment]
    result = asyncio.run(one.execute(query, {"yes": True}, context_value=thing))
    assert isinstance(result, ExecutionResult)
    shown = {"data": result.data, "errors": [e.formatted for e in result.errors or ()]}
    return orjson.dumps(shown, default=repr, option=orjson.OPT_NON_STR_KEYS)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.booleans().flatmap(a_question))
def test_answers_are_the_same_to_the_byte(question: tuple[str, Thing, str]) -> None:
    """Over every type of the schema, with nulls and wrong values in any place."""
    name, thing, selection = question
    query = (
        f"query ($yes: Boolean!) {{ of{name} {{ {selection} ...on {name} {{ t: __typename }} }} "
    )
    query += "w: __typename @skip(if: $yes) }"
    assert answer(FAST, query, thing) == answer(PLAIN, query, thing)


def test_plain_attributes_do_not_reach_graphql_core() -> None:
    """Otherwise it would be right and slow."""

    class Counting(FastExecution):
        fields = values = 0

        def build_resolve_info(self, *args: Any) -> Any:  # ty: ignore[incompatible-method-override]
            type(self).fields += 1
            return super().build_resolve_info(*args)

        def complete_value(self, *args: Any) -> Any:  # ty: ignore[incompatible-method-override]
            type(self).values += 1
            return super().complete_value(*args)

    thing = Thing({"ref": "main", "folder": "a"})
    query = "{ ofGitRef { ref folder __typename } }"
    result = made(Counting).execute_sync(query, context_value=thing)
    found = {"ref": "main", "folder": "a", "__typename": "GitRef"}
    assert result.data == {"ofGitRef": [found] * 2}
    assert (Counting.fields, Counting.values) == (1, 2)
