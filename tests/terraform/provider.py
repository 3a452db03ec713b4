"""A client that is as strict, and as careless, as the Terraform provider that it stands for.

It knows the API only by its documents. It refuses what that provider's decoder refuses: a key
`errors` where there is none, fields that were not asked for, values of another kind; a null where
text must be reads as "". Values that are not known yet go out as "", unset arguments as null,
unset attributes not at all.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import aiohttp
import orjson
from graphql import (
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    GraphQLEnumType,
    GraphQLList,
    GraphQLNonNull,
    GraphQLObjectType,
    GraphQLSchema,
    OperationDefinitionNode,
    SelectionSetNode,
    build_schema,
    get_named_type,
    parse,
    print_ast,
)

HERE = Path(__file__).parent
DOCUMENTS = sorted((HERE / "documents").glob("*.graphql"))
CONTRACT = HERE / "contract.graphql"
NOT_FOUND = "could not find resource"
PARALLEL = 10

Json = dict[str, Any]


class Failed(Exception):
    """An answer with errors; the run stops."""


class Gone(Failed):
    """One of the errors has exactly the words for a thing that is not there."""


class Undecodable(Exception):
    """An answer that the decoder takes for broken."""


@cache
def definitions() -> tuple[dict[str, OperationDefinitionNode], dict[str, FragmentDefinitionNode]]:
    """Operations and fragments of all documents, by name."""
    nodes = [node for path in DOCUMENTS for node in parse(path.read_text()).definitions]
    operations = {
        n.name.value: n for n in nodes if isinstance(n, OperationDefinitionNode) and n.name
    }
    fragments = {n.name.value: n for n in nodes if isinstance(n, FragmentDefinitionNode)}
    return operations, fragments


@cache
def contract() -> GraphQLSchema:
    """The schema that the provider was built against: names, kinds and closed enums."""
    return build_schema(CONTRACT.read_text())


@cache
def document(name: str) -> str:
    """An operation with the fragments that it uses, and no others."""
    operations, fragments = definitions()
    used: dict[str, FragmentDefinitionNode] = {}
    ahead: list[Any] = [operations[name].selection_set]
    while ahead:
        for node in ahead.pop().selections:
            if isinstance(node, FragmentSpreadNode) and node.name.value not in used:
                used[node.name.value] = fragments[node.name.value]
                ahead.append(fragments[node.name.value].selection_set)
            elif isinstance(node, FieldNode) and node.selection_set:
                ahead.append(node.selection_set)
    return "\n\n".join(print_ast(node) for node in (operations[name], *used.values()))


class Provider:
    """One run of Terraform: at most ten calls under way, each made once."""

    def __init__(self, http: aiohttp.ClientSession, url: str, token: str) -> None:
        self._http = http
        self._url = f"{url}/gql"
        self._headers = {
            "authorization": f"Token {token}",
            "content-type": "application/json; charset=utf-8",
            "accept": "application/json; charset=utf-8",
            "user-agent": "Go-http-client/1.1",
        }
        self._slots = asyncio.Semaphore(PARALLEL)
        self.called: set[str] = set()

    async def call(self, name: str, /, **given: Any) -> Any:
        """Result of an operation: an object, or a plain value. Gone, Failed, Undecodable."""
        operation = definitions()[0][name]
        self.called.add(name)
        names = [one.variable.name.value for one in operation.variable_definitions or ()]
        body = {
            "operationName": name,
            "query": document(name),
            "variables": {one: given.pop(one, None) for one in names},
        }
        assert not given, given
        async with (
            self._slots,
            self._http.post(self._url, data=orjson.dumps(body), headers=self._headers) as answer,
        ):
            response = orjson.loads(await answer.read())
        return decoded(operation, response)

    async def gone(self, name: str, /, **given: Any) -> bool:
        """Whether an operation answers that there is no such thing."""
        try:
            await self.call(name, **given)
        except Gone:
            return True
        return False

    async def wait_gone(self, name: str, id: str, tries: int = 400) -> None:
        """The loop after a deletion: any other failure ends it."""
        for _ in range(tries):
            if await self.gone(name, id=id):
                return
            await asyncio.sleep(0.25)
        raise TimeoutError(name)

    async def side_by_side(self, *steps: Callable[[], Awaitable[Any]]) -> list[Any]:
        """Carry out independent steps of an apply."""
        return await asyncio.gather(*(step() for step in steps))


def decoded(operation: OperationDefinitionNode, response: Json) -> Any:
    """The one root value of an answer."""
    if "errors" in response:
        errors = response["errors"]
        if not isinstance(errors, list) or not errors:
            raise Undecodable("errors must be absent, or hold some")
        if any(one["message"] == NOT_FOUND for one in errors):
            raise Gone(NOT_FOUND)
        raise Failed("; ".join(one["message"] for one in errors))
    if response.keys() - {"data", "extensions"}:
        raise Undecodable(f"unknown keys {sorted(response)}")
    schema = contract()
    is_query = operation.operation.value == "query"
    root = schema.query_type if is_query else schema.mutation_type
    assert root is not None
    data = _object(root, operation.selection_set, response["data"], operation.operation.value)
    (value,) = data.values()
    if value is None:
        raise Undecodable("null where a thing must be: the provider would panic")
    return value


def _object(kind: GraphQLObjectType, chosen: SelectionSetNode, value: Any, where: str) -> Json:
    if not isinstance(value, dict):
        raise Undecodable(f"{where} is no object")
    fields = _fields(chosen)
    if value.keys() != fields.keys():
        raise Undecodable(f"{where} has {sorted(value.keys() ^ fields.keys())} too many or too few")
    return {
        name: _value(kind.fields[name].type, nodes, value[name], f"{where}.{name}")
        for name, nodes in fields.items()
    }


def _fields(chosen: SelectionSetNode) -> dict[str, list[FieldNode]]:
    """The fields that are selected, through fragments; the same one may be selected often."""
    found: dict[str, list[FieldNode]] = {}
    for node in chosen.selections:
        if isinstance(node, FieldNode):
            found.setdefault(node.name.value, []).append(node)
        elif isinstance(node, FragmentSpreadNode):
            fragment = definitions()[1][node.name.value]
            for name, nodes in _fields(fragment.selection_set).items():
                found.setdefault(name, []).extend(nodes)
    return found


def _value(kind: Any, nodes: list[FieldNode], value: Any, where: str) -> Any:
    is_needed = isinstance(kind, GraphQLNonNull)
    inner = kind.of_type if is_needed else kind
    if value is None:
        return "" if is_needed and get_named_type(inner).name in _TEXTS else None
    if isinstance(inner, GraphQLList):
        if not isinstance(value, list):
            raise Undecodable(f"{where} is no list")
        return [_value(inner.of_type, nodes, one, where) for one in value]
    if isinstance(inner, GraphQLObjectType):
        sets = [node.selection_set for node in nodes if node.selection_set]
        merged = SelectionSetNode(selections=tuple(s for one in sets for s in one.selections))
        return _object(inner, merged, value, where)
    _check_leaf(inner, value, where)
    return value


_TEXTS = ("ID", "String", "DateTime")
_KINDS: Mapping[str, type] = {
    "ID": str,
    "String": str,
    "DateTime": str,
    "Boolean": bool,
    "Int": int,
    "Map": dict,
}


def _check_leaf(kind: Any, value: Any, where: str) -> None:
    if isinstance(kind, GraphQLEnumType):
        if value not in kind.values:
            raise Undecodable(f"{where}: {value!r} is no {kind.name}")
    elif type(value) is not _KINDS[kind.name]:
        raise Undecodable(f"{where}: {value!r} is no {kind.name}")
