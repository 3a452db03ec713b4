"""Descriptions of the published schema, read from the docstrings of the Python classes.

The docstring of a class describes its type, the string below a field (PEP 257) describes that
field, and the docstring of a resolver describes its field. An `Args:` section in it describes the
arguments. Names with the same meaning everywhere are described here once.
"""

import ast
import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from graphql import (
    GraphQLArgument,
    GraphQLEnumType,
    GraphQLField,
    GraphQLInputField,
    GraphQLInputObjectType,
    GraphQLInterfaceType,
    GraphQLNonNull,
    GraphQLObjectType,
    GraphQLSchema,
)

_DEFINITION = "strawberry-definition"
_ARGUMENTS = re.compile(r"^Args:\n", re.MULTILINE)
_NONE, _NONE_OR_EMPTY = re.compile(r"\bNone\b"), re.compile(r"\b(None|Empty)\b")
_ARGUMENT = re.compile(r"^    (\w+): ", re.MULTILINE)

FIELDS = {
    "id": "Unique ID.",
    "inserted_at": "Creation time.",
    "updated_at": "Time of the last change.",
    "deleted_at": "Deletion time. Null if it is not deleted.",
}
"""Descriptions of fields without a docstring, by their Python name."""

SCALARS = {
    "Date": "Calendar date, such as `2026-01-31`.",
    "Time": "Time of day, such as `09:30`.",
}
"""Descriptions of scalars that the GraphQL library brings along."""

ARGUMENTS = {
    "first": "Number of rows from the start of the list. Default: 50. Limit: 1,000.",
    "after": "Cursor of the row before the page: `endCursor` of the previous page.",
    "last": "Number of rows from the end of the list. Limit: 1,000.",
    "before": "Cursor of the row after the page: `startCursor` of the next page. Needs `last`.",
    "q": "Text to search for in names. Limit: 200 characters.",
    "name": "Exact name. Used without `id`.",
    "labels": "Label selector of Kubernetes: `team=a,env in (a,b),owner,!old`. Clusters have their "
    "tags as labels, and services those of their cluster. Limit: 10 labels.",
    "project_id": "Only rows of the project with this ID.",
    "cluster_id": "Only rows of the cluster with this ID.",
    "service_id": "Only rows of the service with this ID.",
    "repository_id": "Only rows of the repository with this ID.",
    "since": "`at` of the last message that the subscriber received. Default: no missed changes.",
    "unchanged_since": "`updatedAt` that the caller has seen. "
    "The update fails with CONFLICT if the resource has changed since.",
}
"""Descriptions of arguments that no `Args:` section describes, by their Python name."""


@dataclass(frozen=True, slots=True)
class Documented:
    """The docstrings of a class: its own, and by name those of its fields and methods."""

    docstring: str = ""
    members: Mapping[str, str] = field(default_factory=dict)


def describe(schema: GraphQLSchema) -> None:
    """Sets the description of each type, field, argument and enum value that has a docstring."""
    reader = DocstringReader()
    for kind in schema.type_map.values():
        definition = kind.extensions.get(_DEFINITION)
        if kind.name in SCALARS:
            kind.description = SCALARS[kind.name]
        elif isinstance(kind, GraphQLEnumType) and definition is not None:
            _describe_enum(kind, reader, definition.wrapped_cls)
        elif isinstance(kind, GraphQLObjectType | GraphQLInterfaceType | GraphQLInputObjectType):
            if definition is not None:
                _describe_fields(kind, reader, definition.origin)


def _describe_enum(kind: GraphQLEnumType, reader: "DocstringReader", origin: type) -> None:
    kind.description = kind.description or reader.of_class(origin) or None
    for name, value in kind.values.items():
        value.description = value.description or reader.of_member(origin, name) or None


def _describe_fields(
    kind: GraphQLObjectType | GraphQLInterfaceType | GraphQLInputObjectType,
    reader: "DocstringReader",
    origin: type,
) -> None:
    kind.description = kind.description or reader.of_class(origin) or None
    for published in kind.fields.values():
        definition = published.extensions.get(_DEFINITION)
        if definition is None:
            continue
        name = definition.python_name
        documented = reader.of_member(origin, name) or _source_docstring(
            reader, origin, name, published
        )
        docstring, arguments = split(documented)
        published.description = published.description or docstring or FIELDS.get(name)
        if isinstance(published, GraphQLField):
            _describe_arguments(published, arguments)


def _source_docstring(
    reader: "DocstringReader", origin: type, name: str, published: GraphQLField | GraphQLInputField
) -> str:
    """Returns the docstring of the field from which a published field is derived.

    The published word for None is null, and for empty text as well if the field is nullable.
    """
    source = getattr(origin, "__sources__", {}).get(name)
    docstring = reader.of_member(*source) if source else ""
    is_nullable = not isinstance(published.type, GraphQLNonNull)
    return (_NONE_OR_EMPTY if is_nullable else _NONE).sub("Null", docstring)


def _describe_arguments(published: GraphQLField, described: Mapping[str, str]) -> None:
    for argument in published.args.values():
        definition = argument.extensions.get(_DEFINITION)
        name = definition.python_name if definition is not None else ""
        description = described.get(name) or argument.description
        argument.description = description or _common_description(name, argument)


def _common_description(name: str, argument: GraphQLArgument) -> str | None:
    """Describes an argument by its name; a required `cluster_id` is that of one cluster."""
    if name.endswith("_id") and isinstance(argument.type, GraphQLNonNull):
        return f"ID of the {name.removesuffix('_id').replace('_', ' ')}."
    return ARGUMENTS.get(name)


def split(docstring: str) -> tuple[str, dict[str, str]]:
    """Splits a cleaned docstring into the description and its arguments' by name."""
    head, *sections = _ARGUMENTS.split(docstring, maxsplit=1)
    _, *parts = _ARGUMENT.split(sections[0]) if sections else ("",)
    arguments = {
        name: _join_lines(text) for name, text in zip(parts[::2], parts[1::2], strict=True)
    }
    return _join_lines(head), arguments


def _join_lines(text: str) -> str:
    """Joins the lines of each paragraph: clients wrap them to their own width."""
    paragraphs = re.split(r"\n\s*\n", text.strip())
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


class DocstringReader:
    """Reads the docstrings of classes, each module once."""

    def __init__(self) -> None:
        self._modules: dict[str, dict[str, Documented]] = {}

    def of_class(self, origin: type) -> str:
        """Returns the docstring of a class, or else of its nearest base class that has one."""
        docstrings = (split(self._find(base).docstring)[0] for base in origin.__mro__)
        return next((docstring for docstring in docstrings if docstring), "")

    def of_member(self, origin: type, name: str) -> str:
        """Returns the docstring of a field or method, of the nearest base class that has one."""
        docstrings = (self._find(base).members.get(name) for base in origin.__mro__)
        return next((docstring for docstring in docstrings if docstring), "")

    def _find(self, origin: type) -> Documented:
        module = origin.__module__
        if module not in self._modules:
            self._modules[module] = _read_classes(module)
        return self._modules[module].get(origin.__name__, Documented())


def _read_classes(module: str) -> dict[str, Documented]:
    """Reads the classes of a module. An installation without sources has no descriptions."""
    if module == "builtins":
        return {}
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except (KeyError, OSError, TypeError):
        return {}
    classes = (node for node in tree.body if isinstance(node, ast.ClassDef))
    return {
        node.name: Documented(ast.get_docstring(node) or "", dict(_member_docstrings(node)))
        for node in classes
    }


def _member_docstrings(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for statement, following in zip(node.body, [*node.body[1:], None], strict=True):
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            yield statement.name, ast.get_docstring(statement) or ""
        elif isinstance(statement, ast.AnnAssign | ast.Assign):
            targets: list[Any] = getattr(statement, "targets", [getattr(statement, "target", None)])
            if isinstance(targets[0], ast.Name) and (docstring := _string_literal(following)):
                yield targets[0].id, docstring


def _string_literal(statement: ast.stmt | None) -> str:
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        value = statement.value.value
        return inspect.cleandoc(value) if isinstance(value, str) else ""
    return ""
