"""Fast execution of queries for plain attributes.

graphql-core spends microseconds on each value: a path, a resolve info, a call of a resolver. A
selection of attributes only is planned once and completed by a loop over getters. graphql-core
completes all other selections (a resolver, an error, a wrong type), so responses are identical to
the byte and only graphql-core reports errors.
"""

from collections.abc import AsyncIterable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from math import isfinite
from operator import attrgetter
from typing import Any, cast

from graphql import (
    GraphQLEnumType,
    GraphQLField,
    GraphQLList,
    GraphQLNonNull,
    GraphQLObjectType,
    GraphQLResolveInfo,
    GraphQLScalarType,
)
from graphql.execution.collect_fields import FieldDetails
from graphql.pyutils import Path
from strawberry.schema.schema import StrawberryGraphQLCoreExecutionContext
from strawberry.schema.schema_converter import CustomGraphQLEnumType
from strawberry.types.field import StrawberryField

from core.json_object import JsonObject

Complete = Callable[[object], Any]
"""Converts the value of an attribute for the response. Raises for unusual values."""
Fields = dict[str, list[FieldDetails]]
"""Selection on an object: the nodes of each response key."""

_MAX_INT = 2**31 - 1


class _Unusual(Exception):
    """graphql-core must complete this selection."""


@dataclass(frozen=True, slots=True)
class SelectionPlan:
    """Execution plan of a selection: quick keys here, other keys by graphql-core.

    The plan keeps a reference to `fields`, so that no other object gets its `id()`.
    """

    fields: Fields
    quick: Complete | None
    others: Fields


class FastExecution(StrawberryGraphQLCoreExecutionContext):
    """Completes plain attributes without the per-field cost of graphql-core."""

    def execute_fields(
        self,
        parent_type: GraphQLObjectType,
        source_value: object,
        path: Path | None,
        grouped_field_set: Fields,
        position_context: Any,
    ) -> Any:
        """Returns the completed fields of an object, or an awaitable of them."""
        plan = self._cached_plan(parent_type, grouped_field_set)
        complete = super().execute_fields
        if plan.quick is None or position_context is not None:
            return complete(parent_type, source_value, path, grouped_field_set, position_context)
        try:
            done = plan.quick(source_value)
        except Exception:
            return complete(parent_type, source_value, path, grouped_field_set, position_context)
        if not plan.others:
            return done
        rest = complete(parent_type, source_value, path, plan.others, position_context)
        if self.is_awaitable(rest):
            return _merge_when_complete(rest, done, grouped_field_set)
        return _merge_in_order(cast("JsonObject", rest), done, grouped_field_set)

    def complete_list_value(
        self,
        return_type: GraphQLList[Any],
        field_details_list: list[FieldDetails],
        info: GraphQLResolveInfo,
        path: Path,
        result: AsyncIterable[object] | Iterable[object],
        position_context: Any,
    ) -> Any:
        """Returns the completed items of a list, or an awaitable of them."""
        if position_context is None:
            with suppress(Exception):
                return self._value_completion(return_type, field_details_list)(result)
        return super().complete_list_value(
            return_type, field_details_list, info, path, result, position_context
        )

    def _cached_plan(self, parent: GraphQLObjectType, fields: Fields) -> SelectionPlan:
        plans: dict[int, SelectionPlan] = self.__dict__.setdefault("_plans", {})
        plan = plans.get(id(fields))
        if plan is None:
            plan = plans[id(fields)] = self._make_plan(parent, fields)
        return plan

    def _make_plan(self, parent: GraphQLObjectType, fields: Fields) -> SelectionPlan:
        if self.middleware_manager is not None and self.middleware_manager.middlewares:
            return SelectionPlan(fields, None, fields)
        quick: list[tuple[str, str, Complete]] = []
        others: Fields = {}
        for key, details in fields.items():
            try:
                quick.append((key, *self._attribute_and_completion(parent, details)))
            except _Unusual:
                others[key] = details
        return SelectionPlan(fields, _object_completion(quick) if quick else None, others)

    def _attribute_and_completion(
        self, parent: GraphQLObjectType, details: list[FieldDetails]
    ) -> Any:
        """Returns the attribute of a field and the completion of its values."""
        name = details[0].node.name.value
        if name == "__typename":
            # Clients with a cache select it on every object.
            return "__class__", _constant_completion(parent.name)
        field = self.schema.get_field(parent, name)
        attribute = _plain_attribute(field)
        if field is None or attribute is None:
            raise _Unusual
        return attribute, self._completion(field.type, details)

    def _completion(self, kind: Any, details: list[FieldDetails]) -> Complete:
        if isinstance(kind, GraphQLNonNull):
            return self._value_completion(kind.of_type, details)
        return _nullable_completion(self._value_completion(kind, details))

    def _value_completion(self, kind: Any, details: list[FieldDetails]) -> Complete:
        if isinstance(kind, CustomGraphQLEnumType):
            return _enum_completion(kind)
        if isinstance(kind, (GraphQLScalarType, GraphQLEnumType)):
            return _leaf_completion(kind)
        if isinstance(kind, GraphQLList):
            return _list_completion(self._completion(kind.of_type, details))
        if isinstance(kind, GraphQLObjectType) and kind.is_type_of is None:
            return self._nested_completion(kind, details)
        raise _Unusual

    def _nested_completion(self, kind: GraphQLObjectType, details: list[FieldDetails]) -> Complete:
        collected = self.collect_subfields(kind, details)
        plan = self._cached_plan(kind, collected.grouped_field_set)
        if plan.others or plan.quick is None:
            raise _Unusual
        return plan.quick


def _constant_completion(value: str) -> Complete:
    return lambda _: value


def _plain_attribute(field: GraphQLField | None) -> str | None:
    """Returns the attribute that a field reads, if it does nothing else."""
    if field is None or field.args:
        return None
    definition = field.extensions.get("strawberry-definition")
    is_plain = isinstance(definition, StrawberryField) and definition.is_basic_field
    return definition.python_name if is_plain else None


def _object_completion(fields: Iterable[tuple[str, str, Complete]]) -> Complete:
    keys, attributes, completions = zip(*fields, strict=True)
    if len(keys) == 1:
        key, get, complete = keys[0], attrgetter(attributes[0]), completions[0]
        return lambda source: {key: complete(get(source))}
    get = attrgetter(*attributes)
    # Types whose values need no conversion: after one check, a whole object is one call into C.
    same = [getattr(completion, "same", frozenset()) for completion in completions]
    changed = [
        (key, completion)
        for key, completion, unchanged in zip(keys, completions, same, strict=True)
        if not unchanged
    ]
    verified_types: set[tuple[type, ...]] = set()

    def complete_all(values: tuple[Any, ...], types: tuple[type, ...]) -> JsonObject:
        done = {key: complete(value) for key, complete, value in zip(keys, completions, values)}  # noqa: B905
        if all(types[i] in unchanged for i, unchanged in enumerate(same) if unchanged):
            verified_types.add(types)
        return done

    def complete(source: Any) -> JsonObject:
        values = get(source)
        types = tuple(map(type, values))
        if types not in verified_types:
            return complete_all(values, types)
        done = dict(zip(keys, values))  # noqa: B905 - equal lengths by construction
        for key, change in changed:
            done[key] = change(done[key])
        return done

    return complete


def _list_completion(inner: Complete) -> Complete:
    def complete(value: Any) -> list[Any]:
        if type(value) is not list and type(value) is not tuple:
            raise _Unusual
        return [inner(item) for item in value]

    return complete


def _nullable_completion(inner: Complete) -> Complete:
    def complete(value: Any) -> object:
        return None if value is None else inner(value)

    same = getattr(inner, "same", None)
    if same:
        complete.same = same | {type(None)}  # ty: ignore[missing-attribute]
    return complete


def _leaf_completion(kind: GraphQLScalarType | GraphQLEnumType) -> Complete:
    """Coerces like the type; values of `same` types stay as they are."""
    coerce = kind.coerce_output_value
    same = _UNCHANGED_TYPES.get(kind.name, frozenset())

    def complete(value: Any) -> object:
        if type(value) in same:
            return value
        done = coerce(value)
        if done is None or value is None:
            raise _Unusual
        return done

    if same:
        complete.same = same  # ty: ignore[missing-attribute]
    elif kind.name in _CHECKED:
        return _checked_completion(*_CHECKED[kind.name])
    return complete


@cache
def _enum_completion(kind: CustomGraphQLEnumType) -> Complete:
    """Looks up the name of a member; another value raises KeyError or TypeError."""
    return {member: kind.coerce_output_value(member) for member in kind.wrapped_cls}.__getitem__


def _checked_completion(kind: type, is_valid: Callable[[Any], bool]) -> Complete:
    def complete(value: Any) -> Any:
        if type(value) is not kind or not is_valid(value):
            raise _Unusual
        return value

    return complete


def _is_int(value: int) -> bool:
    return -_MAX_INT - 1 <= value <= _MAX_INT


_UNCHANGED_TYPES = {
    "String": frozenset({str}),
    "ID": frozenset({str}),
    "Boolean": frozenset({bool}),
}
_CHECKED: dict[str, tuple[type, Callable[[Any], bool]]] = {
    "Int": (int, _is_int),
    "Float": (float, isfinite),
}


def _merge_in_order(others: JsonObject, quick: JsonObject, order: Iterable[str]) -> JsonObject:
    merged = {**others, **quick}
    return {key: merged[key] for key in order if key in merged}


async def _merge_when_complete(others: Any, quick: JsonObject, order: Iterable[str]) -> JsonObject:
    return _merge_in_order(await others, quick, order)
