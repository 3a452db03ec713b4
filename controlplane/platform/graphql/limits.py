"""Limits on documents and values, checked before validation and execution.

Each fragment is weighed once, regardless of its spreads. So the work grows with the length of the
document, not with its expanded size.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from graphql import (
    ASTValidationRule,
    DocumentNode,
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    GraphQLError,
    GraphQLList,
    GraphQLNamedType,
    GraphQLObjectType,
    GraphQLOutputType,
    GraphQLSchema,
    OperationDefinitionNode,
    SelectionNode,
    SelectionSetNode,
    StringValueNode,
    Undefined,
    get_named_type,
    get_nullable_type,
    value_from_ast_untyped,
)

from controlplane.platform.ports import MAX_PAGE_ROWS
from core.errors import Invalid, LimitExceeded
from core.json_object import JsonMapping, JsonObject, JsonValue

MAX_TOKENS = 5_000
MAX_ALIASES = 30
MAX_FIELDS = 500
MAX_FRAGMENTS = 50
MAX_DEPTH = 15
MAX_VALUES = 10_000
MAX_VALUE_DEPTH = 32

MAX_COST = 50_000

_ROWS_PER_PAGE = 50
_ROWS_PER_LIST = 5
# Cost of fields that read much, in plain fields: the fleet, a rendered bundle, or an API server.
_WEIGHTS = {
    "search": 200,
    "places": 100,
    "fleetMap": 500,
    "deliveryReport": 1_000,
    "deploymentHistory": 200,
    "fleet": 5_000,
    "fleetChanges": 5_000,
    "commitTrace": 2_000,
    "serviceDiff": 4_000,
    "serviceFence": 2_000,
    "serviceManifests": 2_000,
    "serviceProvenance": 2_000,
    "objectRelations": 2_000,
    "serviceGraph": 5_000,
    "componentLive": 2_000,
    "componentEvents": 2_000,
    "serviceEvents": 5_000,
    "fleetDiff": 10_000,
    "whoCan": 1_000,
    "componentBlame": 2_000,
    "content": 2_000,
    "manifests": 5_000,
    "pipelineWhatIf": 5_000,
    "manifestWhatIf": 5_000,
    "previewGlobalService": 5_000,
    "previewServiceSet": 5_000,
}
# Unlike MAX_DEPTH, this counts inline fragments and spreads.
_MAX_NESTING = 100
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class SelectionSize:
    """Size of selections with all fragments expanded: depth, fields and aliases."""

    depth: int = 0
    fields: int = 0
    aliases: int = 0

    def plus(self, other: "SelectionSize") -> "SelectionSize":
        """Returns the size of both in one selection set."""
        return SelectionSize(
            max(self.depth, other.depth), self.fields + other.fields, self.aliases + other.aliases
        )


_EMPTY = SelectionSize()


class DocumentSize:
    """Weighs the definitions of one document."""

    def __init__(self, document: DocumentNode) -> None:
        self._definitions = document.definitions
        self._fragments = _fragments(document)
        self._measured: dict[str, SelectionSize | None] = {}

    def check(self) -> None:
        """Raises Invalid for a definition that is too large or contains itself."""
        if len(self._fragments) > MAX_FRAGMENTS:
            raise Invalid(f"{len(self._fragments)} fragments, {MAX_FRAGMENTS} at most")
        for name in self._fragments:
            _check_size(self._of_fragment(name, 0))
        for definition in self._definitions:
            if isinstance(definition, OperationDefinitionNode):
                _check_size(self.measure(definition.selection_set, 0))

    def measure(self, selections: SelectionSetNode, nested: int) -> SelectionSize:
        """Returns the size of a selection set, `nested` levels below its definition."""
        if nested > _MAX_NESTING:
            raise Invalid(f"selections are nested deeper than {_MAX_NESTING} levels")
        size = _EMPTY
        for selection in selections.selections:
            size = size.plus(self._of_selection(selection, nested + 1))
        return size

    def _of_selection(self, node: SelectionNode, nested: int) -> SelectionSize:
        if isinstance(node, FragmentSpreadNode):
            return self._of_fragment(node.name.value, nested)
        selections = getattr(node, "selection_set", None)
        inner = self.measure(selections, nested) if selections else _EMPTY
        if not isinstance(node, FieldNode):
            return inner
        # MaxIntrospectionDepthRule limits the depth of introspection.
        depth = 0 if node.name.value.startswith("__") else inner.depth + 1
        return SelectionSize(depth, inner.fields + 1, inner.aliases + (node.alias is not None))

    def _of_fragment(self, name: str, nested: int) -> SelectionSize:
        """Returns the size of a fragment. Validation rejects unknown ones, which count as empty."""
        if name in self._measured:
            size = self._measured[name]
            if size is None:
                raise Invalid(f"fragment {name} contains itself")
            return size
        fragment = self._fragments.get(name)
        if fragment is None:
            return _EMPTY
        self._measured[name] = None
        size = self.measure(fragment.selection_set, nested + 1)
        self._measured[name] = size
        return size


class StorableStrings(ASTValidationRule):
    """Rejects strings that the store cannot save."""

    def enter_string_value(self, node: StringValueNode, *_: object) -> None:
        """Reports NUL characters."""
        if _UNSTORABLE.search(node.value):
            self.report_error(GraphQLError("strings must not contain NUL characters", node))


def check_values(value: JsonValue, field: str) -> None:
    """Raises Invalid for parsed JSON that is too large, too deep, or that the store cannot save."""
    level, depth, count = [value], 0, 0
    while level:
        depth, count = depth + 1, count + len(level)
        if depth > MAX_VALUE_DEPTH:
            raise Invalid(f"nested deeper than {MAX_VALUE_DEPTH} levels", field=field)
        if count > MAX_VALUES:
            raise Invalid(f"more than {MAX_VALUES:,} values", field=field)
        for item in level:
            _check_string(item, field)
        level = [inner for item in level for inner in _child_values(item)]


def _check_string(value: JsonValue, field: str) -> None:
    if isinstance(value, str) and _UNSTORABLE.search(value):
        raise Invalid("must not contain NUL characters or lone surrogates", field=field)


def _child_values(value: object) -> list[object]:
    if isinstance(value, dict):
        return [*value, *value.values()]
    return value if isinstance(value, list) else []


def _check_size(size: SelectionSize) -> None:
    if size.depth > MAX_DEPTH:
        raise Invalid(
            f"the depth of the query is {size.depth}, {MAX_DEPTH} at most; select fewer levels"
        )
    if size.aliases > MAX_ALIASES:
        raise Invalid(f"the query has {size.aliases} aliases, {MAX_ALIASES} at most")
    if size.fields > MAX_FIELDS:
        raise Invalid(f"the query has more than {MAX_FIELDS:,} fields; split it")


def check_cost(schema: GraphQLSchema, document: DocumentNode, variables: JsonMapping) -> None:
    """Raises LimitExceeded for a document with an operation that is too expensive. `DocumentSize`
    must have passed.
    """
    for definition in document.definitions:
        if isinstance(definition, OperationDefinitionNode):
            cost = OperationCost(schema, document, definition, variables).total()
            if cost > MAX_COST:
                raise LimitExceeded(
                    f"the cost of the query is {cost:,}, {MAX_COST:,} at most; "
                    "request smaller pages or fewer fields"
                )


class OperationCost:
    """Cost of an operation: its fields, multiplied by the rows of their lists.

    A field costs 1 or its value in `_WEIGHTS`. Selections on a page count once per row, those on
    other lists five times. Each fragment is computed once.
    """

    def __init__(
        self,
        schema: GraphQLSchema,
        document: DocumentNode,
        operation: OperationDefinitionNode,
        variables: JsonMapping,
    ) -> None:
        self._schema = schema
        self._operation = operation
        self._variables = _default_values(operation) | dict(variables)
        self._fragments = _fragments(document)
        self._computed: dict[str, int] = {}

    def total(self) -> int:
        """Returns the cost of the whole operation."""
        root = self._schema.get_root_type(self._operation.operation)
        return self.cost_of(self._operation.selection_set, root)

    def cost_of(self, selections: SelectionSetNode, parent: GraphQLNamedType | None) -> int:
        """Returns the cost of selections on one object."""
        return sum(self._of_selection(selection, parent) for selection in selections.selections)

    def _of_selection(self, node: SelectionNode, parent: GraphQLNamedType | None) -> int:
        if isinstance(node, FragmentSpreadNode):
            return self._of_fragment(node.name.value)
        if isinstance(node, FieldNode):
            return self._of_field(node, parent)
        selections = getattr(node, "selection_set", None)
        return self.cost_of(selections, parent) if selections else 0

    def _of_field(self, node: FieldNode, parent: GraphQLNamedType | None) -> int:
        fields = parent.fields if isinstance(parent, GraphQLObjectType) else {}
        field = fields.get(node.name.value)
        weight = _WEIGHTS.get(node.name.value, 1)
        if node.selection_set is None or field is None:
            return weight
        kind = get_named_type(field.type)
        return weight + self._row_count(node, field.type) * self.cost_of(node.selection_set, kind)

    def _row_count(self, node: FieldNode, kind: GraphQLOutputType) -> int:
        """Returns the number of objects that a selection counts for."""
        if get_named_type(kind).name.endswith("Connection"):
            return self._page_size(node)
        is_list = isinstance(get_nullable_type(kind), GraphQLList)
        return _ROWS_PER_LIST if is_list and node.name.value != "edges" else 1

    def _page_size(self, node: FieldNode) -> int:
        for argument in node.arguments or ():
            if argument.name.value in ("first", "last"):
                value = value_from_ast_untyped(argument.value, self._variables)
                if value is not None and value is not Undefined:
                    is_number = isinstance(value, int)
                    return max(1, min(value, MAX_PAGE_ROWS)) if is_number else MAX_PAGE_ROWS
        return _ROWS_PER_PAGE

    def _of_fragment(self, name: str) -> int:
        fragment = self._fragments.get(name)
        if fragment is None:
            return 0
        if name not in self._computed:
            kind = self._schema.get_type(fragment.type_condition.name.value)
            self._computed[name] = self.cost_of(fragment.selection_set, kind)
        return self._computed[name]


def _fragments(document: DocumentNode) -> dict[str, FragmentDefinitionNode]:
    return {
        definition.name.value: definition
        for definition in document.definitions
        if isinstance(definition, FragmentDefinitionNode)
    }


def _default_values(operation: OperationDefinitionNode) -> JsonObject:
    """Returns the defaults of an operation's variables."""
    return {
        definition.variable.name.value: value_from_ast_untyped(definition.default_value)
        for definition in operation.variable_definitions or ()
        if definition.default_value is not None
    }


def has_introspection(document: DocumentNode) -> bool:
    """Returns true for a document with introspection fields."""
    return any(
        isinstance(node, FieldNode) and node.name.value in ("__schema", "__type")
        for definition in document.definitions
        if isinstance(definition, OperationDefinitionNode | FragmentDefinitionNode)
        for node in _all_selections(definition.selection_set)
    )


def _all_selections(selections: SelectionSetNode) -> Iterator[SelectionNode]:
    for selection in selections.selections:
        yield selection
        inner = getattr(selection, "selection_set", None)
        if inner is not None:
            yield from _all_selections(inner)
