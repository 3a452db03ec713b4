"""The documents of commands fit the schema, and their Python form fits them."""

import importlib
import pkgutil
import re
from collections.abc import Iterator
from typing import get_args, get_type_hints

import pytest
from graphql import GraphQLSchema, OperationDefinitionNode, Source, build_schema, parse

import towline.cli
from towline.cli.generate import ROOT, InvalidDocuments, generate, sources
from towline.cli.shell.output import Column

SCHEMA = """
type Query { cat(name: String): Cat  cats(first: Int, after: String): CatConnection! }
type Cat { name: String!  age: Int @deprecated(reason: "old")  friends: [Cat!]! }
type CatConnection { edges: [CatEdge!]!  pageInfo: PageInfo! }
type CatEdge { node: Cat! }
type PageInfo { hasNextPage: Boolean!  endCursor: String }
"""
PAGE = "edges { node { name } } pageInfo { hasNextPage endCursor }"


@pytest.fixture
def schema() -> GraphQLSchema:
    return build_schema(SCHEMA)


def module_of(schema: GraphQLSchema, text: str) -> str:
    """The module that is generated from one file."""
    return generate(schema, [Source(text, "towline/cats/cats.graphql")])[
        "towline/cats/generated.py"
    ]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("query Cat {\n  cat { colour }\n}", ":2: Cannot query field 'colour'"),
        ("query Cat($n: Int) {\n  cat(name: $n) { name }\n}", ":1: Variable '$n' of type 'Int'"),
        ("query Cat {\n  cat { age }\n}", ":2: The field Cat.age is deprecated"),
        (
            "query Cat { cat { name } }\nfragment F on Cat { name }",
            ":2: Fragment 'F' is never used",
        ),
        ("query Cat($n: String) { cat { name } }", ":1: Variable '$n' is never used"),
        ("query Cat {\n  cat { name }", ":2: Syntax Error"),
    ],
)
def test_a_wrong_document_is_refused_with_its_file_and_line(
    schema: GraphQLSchema, text: str, sentence: str
) -> None:
    with pytest.raises(InvalidDocuments) as refused:
        module_of(schema, text)
    assert f"towline/cats/cats.graphql{sentence}" in str(refused.value)


def test_two_selections_do_not_share_a_name(schema: GraphQLSchema) -> None:
    text = "query Cat { cat { friends { name } } } fragment CatFriends on Cat { friends { name } }"
    with pytest.raises(InvalidDocuments, match="two selections need the name CatFriends"):
        module_of(schema, text + "query Cats { cat { ...CatFriends } }")


def test_a_fragment_is_a_class_and_an_operation_is_a_function(schema: GraphQLSchema) -> None:
    text = "query Cat($name: String) { cat(name: $name) { ...Pet } } fragment Pet on Cat { name }"
    module = module_of(schema, text)
    assert "class Pet(TypedDict):\n    name: str\n" in module
    assert "def cat(api: GraphQLApi, *, name: str | None = None) -> Pet:" in module


def test_a_connection_is_read_to_its_end_if_the_document_has_a_cursor(
    schema: GraphQLSchema,
) -> None:
    cats = f"cats(first: $first, after: $after) {{ {PAGE} }}"
    every = f"query Every($first: Int, $after: String) {{ {cats} }}"
    assert "def every(api: GraphQLApi) -> Iterator[EveryNode]:" in module_of(schema, every)
    some = f"query Some($first: Int) {{ cats(first: $first) {{ {PAGE} }} }}"
    assert "first: int | None = None) -> list[SomeNode]:" in module_of(schema, some)


def test_every_document_is_valid_against_the_schema() -> None:
    """The generated modules are what the documents and the schema generate."""
    schema = build_schema((ROOT / "schema.graphql").read_text())
    for name, text in generate(schema, sources(ROOT / "towline")).items():
        assert (ROOT / name).read_text() == text, f"{name} is out of date: run make operations"


def test_every_operation_has_a_name_of_its_own() -> None:
    found = [
        node.name.value
        for source in sources(ROOT / "towline")
        for node in parse(source).definitions
        if isinstance(node, OperationDefinitionNode) and node.name
    ]
    assert len(set(found)) == len(found) > 100


def typed_columns() -> Iterator[tuple[str, type, Column]]:
    """The columns of each table of the commands, with the type of a row."""
    for info in pkgutil.walk_packages(towline.cli.__path__, "towline.cli."):
        module = importlib.import_module(info.name)
        for name in vars(module).get("__annotations__", {}):
            columns = getattr(module, name, None)
            if isinstance(columns, tuple) and columns and isinstance(columns[0], Column):
                (row,) = get_args(get_args(get_type_hints(module)[name])[0])
                for kind in get_args(row) or (row,):
                    yield from ((f"{info.name}.{name}", kind, column) for column in columns)


def field_at(kind: type, path: tuple[str, ...]) -> bool:
    """Whether rows of a type have a value at a path of keys."""
    fields = get_type_hints(kind)
    if path[0] not in fields:
        return False
    kinds = [part for part in get_args(fields[path[0]]) or (fields[path[0]],)]
    return len(path) == 1 or any(
        field_at(part, path[1:]) for part in kinds if hasattr(part, "__required_keys__")
    )


def test_every_column_shows_a_field_that_the_document_selects() -> None:
    columns = list(typed_columns())
    assert len(columns) > 150
    wrong = [
        (where, column.title)
        for where, kind, column in columns
        if column.path and not field_at(kind, column.path)
    ]
    assert wrong == []


def test_commands_call_every_operation() -> None:
    """An operation that nothing calls also keeps the types of its inputs."""
    modules = list((ROOT / "towline").rglob("*.py"))
    texts = {path: path.read_text() for path in modules if "generated" not in path.name}
    for path in modules:
        if path.name != "generated.py":
            continue
        package = ".".join(path.relative_to(ROOT).parent.parts)
        callers = [
            text
            for caller, text in texts.items()
            if package in text or caller.is_relative_to(path.parent)
        ]
        words = set(re.findall(r"\w+", "\n".join(callers)))
        functions = re.findall(r"^def (\w+)\(", path.read_text(), re.MULTILINE)
        unused = [name for name in functions if not {name, name.upper()} & words]
        assert (package, unused) == (package, [])
