"""Every operation of the API, given whatever fits its types or does not: no fault, no leak."""

import json
from pathlib import Path
from typing import Any

import orjson
import pytest
from graphql import (
    GraphQLEnumType,
    GraphQLField,
    GraphQLInputObjectType,
    GraphQLList,
    GraphQLNonNull,
    GraphQLObjectType,
    GraphQLScalarType,
    get_named_type,
    is_leaf_type,
)
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from controlplane.api.schema import schema
from core.errors import Code
from tests.integration.serve.conftest import Running, running

TYPES = schema._schema.type_map
KINDS = {"query": "Query", "mutation": "Mutation"}
# It ends what the test itself runs by.
LEFT_OUT = {"deleteAccessToken"}
TEXTS = st.sampled_from(
    ["", "x", "web", "main", "../../etc/passwd", "a\x00b", "'; DROP TABLE services; --", "%", "\\",
     "ünï\u202e", "\ud800", "https://git.example.org/x.git", "{{ 7 }}", "x" * 5_000, "-1", "1e309",
     "kind:Pod image:nginx<2", "2026-01-01T00:00:00Z", "0001-01-01T00:00:00Z",
     "9999-12-31T23:59:59+14:00", "installation", "project:x", '{"a": [1]}', "[" * 600]
)  # fmt: skip
NUMBERS = st.sampled_from([-(2**31), -1, 0, 1, 7, 100, 101, 2**31 - 1, 2**31, 10**400])
ODD = st.one_of(st.none(), TEXTS, NUMBERS, st.just([]), st.just({}), st.booleans(), st.just(1e300))
KNOWN: dict[str, list[str]] = {}
LEAKS = (b"Traceback", b"sqlalchemy", b"sqlite3", b"asyncpg", b"site-packages", b"object at 0x")


@st.composite
def a_value(draw: st.DrawFn, kind: Any, ids: list[str], depth: int = 0) -> Any:
    """A value for an input: mostly of its type, now and then anything."""
    if draw(st.integers(0, 25)) == 0:
        return draw(ODD)
    if isinstance(kind, GraphQLNonNull):
        return draw(a_value(kind.of_type, ids, depth))
    if isinstance(kind, GraphQLList):
        return draw(st.lists(a_value(kind.of_type, ids, depth + 1), max_size=2))
    if isinstance(kind, GraphQLInputObjectType):
        return draw(an_object(kind, ids, depth))
    return draw(a_leaf(kind, ids))


@st.composite
def an_object(draw: st.DrawFn, kind: GraphQLInputObjectType, ids: list[str], depth: int) -> Any:
    fields = {
        name: field.type
        for name, field in kind.fields.items()
        if isinstance(field.type, GraphQLNonNull) or (depth < 3 and draw(st.booleans()))
    }
    return {name: draw(a_value(of, ids, depth + 1)) for name, of in fields.items()}


def a_leaf(kind: GraphQLScalarType | GraphQLEnumType, ids: list[str]) -> st.SearchStrategy[Any]:
    if isinstance(kind, GraphQLEnumType):
        return st.sampled_from([*kind.values, *kind.values, "WRONG"])
    return {
        "Int": NUMBERS,
        "Float": st.one_of(NUMBERS, st.floats(allow_nan=False, allow_infinity=False)),
        "Boolean": st.booleans(),
        "ID": st.one_of(st.sampled_from(ids), TEXTS),
    }.get(kind.name, st.one_of(TEXTS, st.sampled_from(ids)))


def selection(field: GraphQLField, depth: int = 2) -> str:
    """Everything below a field that takes no arguments, two levels deep."""
    kind = get_named_type(field.type)
    if not isinstance(kind, GraphQLObjectType):
        return ""
    parts = [
        f"{name} {selection(one, depth - 1)}"
        for name, one in kind.fields.items()
        if not one.args and (is_leaf_type(get_named_type(one.type)) or depth > 0)
    ]
    return f"{{ __typename {' '.join(parts)} }}"


def operations() -> list[tuple[str, str, GraphQLField]]:
    """All of the schema, but what would end the test."""
    return [
        (kind, name, field)
        for kind, root in KINDS.items()
        for name, field in sorted(TYPES[root].fields.items())  # ty: ignore
        if name not in LEFT_OUT
    ]


def document(kind: str, name: str, field: GraphQLField) -> str:
    declared = ", ".join(f"${one}: {argument.type}" for one, argument in field.args.items())
    given = ", ".join(f"{one}: ${one}" for one in field.args)
    head = f"{kind} ({declared})" if declared else kind
    return f"{head} {{ {name}{f'({given})' if given else ''} {selection(field)} }}"


async def check(server: Running, name: str, query: str, variables: dict[str, Any]) -> None:
    headers = {"authorization": f"Bearer {server.token}", "content-type": "application/json"}
    data = json.dumps({"query": query, "variables": variables}).encode()
    async with server.http.post(f"{server.url}/gql", data=data, headers=headers) as answer:
        text = await answer.read()
        request = f"{name} {variables!r}"[:600]
        assert answer.status in (200, 400), (request, text[:500])
    assert not [one for one in LEAKS if one in text], (request, text[:800])
    if answer.status == 200:
        for error in orjson.loads(text).get("errors", ()):
            code = error["extensions"]["code"]
            assert code in set(Code) and code != Code.INTERNAL, (request, error)


@pytest.fixture
async def server(tmp_path: Path):
    async with running(tmp_path) as one:
        yield one


async def known_ids(server: Running) -> list[str]:
    if server.url not in KNOWN:
        cluster = await server.cluster()
        repository = await server.repository("https://127.0.0.1:1/fleet.git")
        service = await server.service(cluster["id"], repository, "web")
        KNOWN[server.url] = [cluster["id"], "dev", repository, service, "absent"]
    return KNOWN[server.url]


@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck),
          phases=[Phase.generate], derandomize=True)  # fmt: skip
@given(st.data())
async def test_no_operation_fails_or_leaks(server: Running, data: st.DataObject) -> None:
    """Each error has a code that people can act on."""
    ids = await known_ids(server)
    for kind, name, field in operations():
        variables = {one: data.draw(a_value(argument.type, ids))
                     for one, argument in field.args.items()}  # fmt: skip
        await check(server, name, document(kind, name, field), variables)
    me = await server.post("{ me { id } }")
    assert "errors" not in me, "the test has ended its own token"
