"""GraphQL types that are derived from dataclasses: outputs from models, inputs from drafts.

A field is declared once, in the dataclass; the string below it there is its published description.
The class of the API declares only what differs.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import MISSING, Field, fields
from datetime import date, datetime, time
from enum import Enum
from functools import partial
from itertools import chain
from operator import attrgetter
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Generic,
    NamedTuple,
    Self,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import strawberry
from strawberry.types.base import has_object_definition
from strawberry.types.field import StrawberryField
from strawberry.utils.str_converters import to_camel_case

from controlplane.platform.graphql.inputs import json_object, json_strings, values_by_name
from controlplane.platform.graphql.scalars import Json, Map
from controlplane.platform.parts import column_names, default_of, part_fields, row_of

M = TypeVar("M")
T = TypeVar("T")
Convert = Callable[[Any], Any]
FieldValues = dict[str, Any]
"""Values of the fields of a dataclass, by name."""
Sources = Mapping[str, tuple[type, str]]
"""Dataclass and name of the field that describes a published field, by its published name."""

_PLAIN = (str, int, float, bool, datetime, date, time)
_LISTS = (tuple, list, frozenset, Sequence, Collection, Set)
_MAPPINGS = (dict, Mapping)
_ROW = "__row__"
D = TypeVar("D")


class _DerivedTypes(Generic[D]):
    """The types that are derived from each model.

    Fields of a model with several types must declare theirs, so that no import decides.
    """

    def __init__(self) -> None:
        self._types: dict[type, list[type[D]]] = {}
        self._published: set[type] = set()

    def add(self, model: type, derived: type[D]) -> None:
        """Adds a type. TypeError: a field has taken the only one so far."""
        types = self._types.setdefault(model, [])
        types.append(derived)
        if model in self._published:
            raise _ambiguous(model, types)

    def find(self, model: type) -> type[D] | None:
        """Returns the type of a model; None without one. TypeError: it has several."""
        types = self._types.get(model)
        if types is None:
            return None
        if len(types) > 1:
            raise _ambiguous(model, types)
        self._published.add(model)
        return types[0]


def _ambiguous(model: type, types: Sequence[type]) -> TypeError:
    names = " and ".join(derived.__name__ for derived in types)
    return TypeError(f"{model.__name__} has the types {names}: declare that of each field")


_OUTPUTS: _DerivedTypes["Output[Any]"] = _DerivedTypes()
_INPUTS: _DerivedTypes["Draft[Any]"] = _DerivedTypes()


class Output(Generic[M]):
    """Base class of output types that are derived from the model `M`.

    An output converts or computes a value when somebody first reads it, since most requests select
    few of the fields.
    """

    __model__: ClassVar[type]
    __sources__: ClassVar[Sources]
    __copied__: ClassVar[Convert]
    """Reads the fields that are published as they are, by name."""
    __converted__: ClassVar[Mapping[str, Convert]]
    """Conversions of a row to the other fields."""
    __missing__: ClassVar[Set[str]]
    """Fields that no row contains and that have no default."""
    if TYPE_CHECKING:
        id: strawberry.ID

        def __getattr__(self, name: str) -> object: ...

    @classmethod
    def of(cls, row: M, **related: object) -> Self:
        """Returns the output for a row; `related` has the declared fields that no row contains.

        TypeError: one of these is missing.
        """
        if not cls.__missing__ <= related.keys():
            raise TypeError(f"{cls.__name__} needs {', '.join(cls.__missing__ - related.keys())}")
        instance = cls.__new__(cls)
        values = instance.__dict__
        values.update(cls.__copied__(row))
        values.update(related)
        values[_ROW] = row
        return instance

    @classmethod
    def of_each(cls, rows: Iterable[M]) -> list[Self]:
        """Returns the outputs for rows."""
        return [cls.of(row) for row in rows]

    @classmethod
    def of_optional(cls, row: M | None, **related: object) -> Self | None:
        """Returns the output for a row, and None without one."""
        return None if row is None else cls.of(row, **related)


class _ConvertedField:
    """A field of an output that is converted on its first read.

    Python then finds the value in the instance, and calls nothing of this class for it. A method
    `__getattr__` of outputs would instead slow down each read of each field.
    """

    def __init__(self, name: str, convert: Convert) -> None:
        self._name = name
        self._convert = convert

    def __get__(self, instance: Output[Any] | None, owner: type) -> object:
        if instance is None:
            raise AttributeError(f"{owner.__name__} has no {self._name}", name=self._name)
        values = instance.__dict__
        value = values[self._name] = self._convert(values[_ROW])
        return value


class Draft(Generic[M]):
    """Base class of input types that are derived from the dataclass `M`."""

    __sources__: ClassVar[Sources]
    __changes__: ClassVar[Mapping[str, "_Assignment"]]
    __model__: ClassVar[type[Any]]

    def change(self) -> M:
        """Returns the values as `M`; an absent or null field has its default there."""
        return row_of(self.__model__, self.field_values())

    def field_values(self) -> FieldValues:
        """Returns the given values by field of `M`; a class extends it for the fields that differ
        in more than their name.
        """
        given: FieldValues = {}
        for name, (target, convert, takes_null) in self.__changes__.items():
            value = getattr(self, name)
            if value is not None or takes_null:
                given[target] = convert(value) if convert else value
        return given


class _Computed(NamedTuple):
    read: Convert


def computed(read: Callable[[Any], T]) -> T:
    """Declares a field of an output that is computed from the row."""
    value: Any = _Computed(read)
    return value


def output(
    model: type[M],
    *,
    rename: Mapping[str, str] | None = None,
    hide: Collection[str] = (),
    only: Collection[str] = (),
    nullable: Collection[str] = (),
    name: str | None = None,
) -> Callable[[type[T]], type[T]]:
    """Derives an output type from the dataclass `model`.

    Publishes all fields but those of `hide`, or those of `only` if given. `rename` maps published
    names to fields. Empty values of `nullable` fields are published as null. A field that the class
    declares has the declared type. A class that extends another output adds the fields that its
    model adds. TypeError: a field has no published form.
    """

    def decorate(kind: type[T]) -> type[T]:
        base: Any = next((base for base in kind.__bases__ if hasattr(base, "__sources__")), None)
        inherited = column_names(base.__model__) if base else ()
        sources_by_name = _shown_fields(model, rename or {}, {*hide, *inherited}, only)
        declared, reads, resolved = _own_annotations(kind), _take_computed(kind), _resolvers(kind)
        paths: dict[str, str] = {}
        annotations: dict[str, object] = {}
        for published, source in sources_by_name.items():
            if published in reads or published in resolved:
                continue
            hint = declared.pop(published, None)
            form = _Published(hint, None)
            if hint is None or _is_of_output(hint):
                form = _published_form(published, hint or source.hint, is_input=False)
            if published in nullable:
                form = _Published(form.annotation | None, _null_if_empty(form.convert))
            annotations[published] = form.annotation
            if form.convert is None:
                paths[published] = source.path
            else:
                reads[published] = _read_path(source.path, form.convert)
        kind.__annotations__ = annotations | declared
        derived: Any = strawberry.type(kind, name=name)
        own = [
            member for member in fields(derived) if member.name in declared.keys() - reads.keys()
        ]
        missing = {m.name for m in own if m.init and default_of(m) is MISSING}
        reads |= {m.name: _new_default(m) for m in own if m.default_factory is not MISSING}
        copy = _field_reader(paths)
        sources = {key: source.origin for key, source in sources_by_name.items()}
        if base:
            copy, reads = _concatenated(base.__copied__, copy), base.__converted__ | reads
            missing, sources = missing | base.__missing__, base.__sources__ | sources
        derived.__model__, derived.__sources__ = model, sources
        derived.__copied__, derived.__converted__ = staticmethod(copy), reads
        derived.__missing__ = frozenset(missing - {*paths, *reads})
        for field, convert in reads.items():
            setattr(derived, field, _ConvertedField(field, convert))
        _OUTPUTS.add(model, derived)
        return derived

    return decorate


def draft(
    model: type[M],
    *,
    rename: Mapping[str, str] | None = None,
    hide: Collection[str] = (),
    only: Collection[str] = (),
    publish_defaults: bool = False,
) -> Callable[[type[T]], type[T]]:
    """Derives an input type from the dataclass `model`; other arguments are those of `output`.

    A field with a default is optional, and null stands for the default; `publish_defaults`
    publishes other defaults than None, instead of null. A field that the class declares has the
    declared type and default.
    """

    def decorate(kind: type[T]) -> type[T]:
        sources_by_name = _shown_fields(model, rename or {}, hide, only)
        declared = _own_annotations(kind)
        annotations: dict[str, object] = {}
        changes: dict[str, _Assignment] = {}
        for published, source in sources_by_name.items():
            declared_hint = declared.pop(published, None)
            # A declared text is a text, not an ID: it has no name here.
            form = _published_form(
                "" if declared_hint else published, declared_hint or source.hint, is_input=True
            )
            if declared_hint is not None and _is_generic(source.hint, _MAPPINGS):
                convert = _to_mapping(published, declared_hint, source.hint) or form.convert
                form = _Published(form.annotation, convert)
            elif (
                form.convert
                and _is_generic(source.hint, (tuple,))
                and _is_generic(declared_hint, (list,))
            ):
                form = _Published(form.annotation, partial(_as_tuple, form.convert))
            has_default = source.default is not MISSING
            if declared_hint is None and has_default:
                default = source.default if publish_defaults else None
                if default is None:
                    form = _Published(form.annotation | None, form.convert)
                setattr(kind, published, _input_default(default))
            annotations[published] = form.annotation
            takes_null = not has_default and (
                _is_optional(source.hint) or not _is_optional(form.annotation)
            )
            changes[published] = _Assignment(source.member.name, form.convert, takes_null)
        kind.__annotations__ = annotations | declared
        derived: Any = strawberry.input(kind)
        derived.__changes__, derived.__model__ = changes, model
        derived.__sources__ = {key: source.origin for key, source in sources_by_name.items()}
        _INPUTS.add(model, derived)
        return derived

    return decorate


def argument_type(name: str, hint: object) -> object:
    """Returns the published type of an operation's argument. TypeError: it would need a conversion,
    or has no published form.
    """
    form = _published_form(name, hint, is_input=True)
    if form.convert is not None:
        raise TypeError(f"{name}: {hint} has another published form; write the resolver")
    return form.annotation


class _Source(NamedTuple):
    """The field of a dataclass behind a published field."""

    path: str
    owner: type
    member: Field[Any]
    hint: object

    @property
    def origin(self) -> tuple[type, str]:
        return self.owner, self.member.name

    @property
    def default(self) -> object:
        """Default of the field; MISSING without one."""
        return default_of(self.member)


class _Assignment(NamedTuple):
    """The field of a dataclass that gets the value of an input's field."""

    target: str
    convert: Convert | None
    takes_null: bool
    """True if null is a value; otherwise it is an absent one."""


class _Published(NamedTuple):
    """The type of a published field, and the conversion of its values; None copies them."""

    annotation: Any
    convert: Convert | None


def _own_annotations(kind: type) -> dict[str, object]:
    return dict(kind.__dict__.get("__annotations__", {}))


def _resolvers(kind: type) -> set[str]:
    """Returns the names of fields that the class declares with a resolver."""
    return {
        name
        for name, value in vars(kind).items()
        if isinstance(value, StrawberryField) and value.base_resolver
    }


def _take_computed(kind: type) -> dict[str, Convert]:
    """Removes the computed fields from a class and returns them by name."""
    computed_fields = {
        name: value for name, value in vars(kind).items() if isinstance(value, _Computed)
    }
    for name in computed_fields:
        delattr(kind, name)
    return {name: value.read for name, value in computed_fields.items()}


def _field_reader(paths: Mapping[str, str]) -> Convert:
    """Returns a function that reads the values at paths of a row by name."""
    if not paths:
        return lambda _row: ()
    # With one more attribute, `get` always returns a tuple.
    names, get = tuple(paths), attrgetter(*paths.values(), "__class__")
    return lambda row: zip(names, get(row), strict=False)


def _read_path(path: str, convert: Convert) -> Convert:
    get = attrgetter(path)
    return lambda row: convert(get(row))


def _concatenated(first: Convert, second: Convert) -> Convert:
    return lambda row: chain(first(row), second(row))


def _new_default(member: Field[Any]) -> Convert:
    """Returns a function that makes the default of a field, independent of the row."""
    return lambda _row: default_of(member)


def _shown_fields(
    model: type, rename: Mapping[str, str], hide: Collection[str], only: Collection[str] = ()
) -> dict[str, _Source]:
    """Returns the sources of all published fields, in the order of the dataclass."""
    published = {target: name for name, target in rename.items()}
    unknown = {*hide, *only, *published} - set(column_names(model))
    if unknown:
        raise TypeError(f"{model.__name__} has no fields {', '.join(sorted(unknown))}")
    return {
        published.get(member.name, member.name): _Source(
            path, owner, member, get_type_hints(owner)[member.name]
        )
        for path, owner, member in part_fields(model)
        if member.name not in hide and (not only or member.name in only)
    }


def _published_form(name: str, hint: Any, *, is_input: bool) -> "_Published":
    """Returns the published form of a type hint. TypeError: it has none."""
    origin, inner = get_origin(hint), [of for of in get_args(hint) if of is not NoneType]
    if origin in (UnionType, Union) and len(inner) == 1:
        form = _published_form(name, inner[0], is_input=is_input)
        convert = None if form.convert is None else _unless_none(form.convert)
        return _Published(form.annotation | None, convert)
    if origin in _LISTS:
        form = _published_form(name.removesuffix("s"), inner[0], is_input=is_input)
        collect = origin if is_input and origin in (tuple, frozenset) else list
        return _Published(list[form.annotation], _convert_list(form.convert, collect))
    if form := _input_form(hint) if is_input else _output_form(hint):
        return form
    if origin in _MAPPINGS:
        read = partial(json_strings, field=to_camel_case(name)) if is_input else dict
        return _Published(Map, read)
    if hint in (Json, Map, strawberry.ID):
        return _Published(hint, None)
    plain = getattr(hint, "__supertype__", hint)
    if plain is str and (name == "id" or name.endswith("_id")):
        return _Published(strawberry.ID, None)
    if plain in _PLAIN or (isinstance(plain, type) and issubclass(plain, Enum)):
        return _Published(plain, None)
    raise TypeError(f"{name}: {hint} has no published form; hide the field, or declare its type")


def _is_of_output(hint: object) -> bool:
    """Returns true for an output, and for lists of one and unions with None."""
    if inner := [of for of in get_args(hint) if of is not NoneType]:
        return _is_of_output(inner[0])
    return isinstance(hint, type) and issubclass(hint, Output)


def _output_form(hint: Any) -> "_Published | None":
    if isinstance(hint, type) and issubclass(hint, Output):
        return _Published(hint, hint.of)
    kind = _OUTPUTS.find(hint) if isinstance(hint, type) else None
    return _Published(kind, kind.of) if kind else None


def _input_form(hint: Any) -> "_Published | None":
    if isinstance(hint, type) and issubclass(hint, Draft):
        return _Published(hint, hint.change)
    if has_object_definition(hint):
        return _Published(hint, None)
    kind = _INPUTS.find(hint) if isinstance(hint, type) else None
    return _Published(kind, kind.change) if kind else None


def _unless_none(convert: Convert, *, empty: bool = False) -> Convert:
    return lambda value: None if value is None or (empty and not value) else convert(value)


def _null_if_empty(convert: Convert | None) -> Convert:
    if convert is None:
        return lambda value: value or None
    return _unless_none(convert, empty=True)


def _convert_list(convert: Convert | None, collect: Convert) -> Convert:
    return collect if convert is None else partial(_convert_each, convert, collect)


def _convert_each(convert: Convert, collect: Convert, values: Iterable[Any]) -> object:
    return collect([convert(value) for value in values])


def _as_tuple(convert: Convert, values: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(convert(values))


def _to_mapping(published: str, own: Any, hint: Any) -> Convert | None:
    """Returns the conversion of a JSON object, or of a list of names and values, to a mapping."""
    if Json in (own, *get_args(own)):
        is_text = Mapping[str, str] in (hint, *get_args(hint))
        return partial(json_strings if is_text else json_object, field=to_camel_case(published))
    return values_by_name if _is_generic(own, (list,)) else None


def _input_default(value: Any) -> object:
    """Returns the default of an input's field; each input gets its own list."""
    if isinstance(value, tuple | list | frozenset):
        return strawberry.field(default_factory=partial(list, value))
    return value


def _is_optional(hint: Any) -> bool:
    return NoneType in get_args(hint)


def _is_generic(hint: Any, origins: Collection[Any]) -> bool:
    """Tells whether a hint, or one of its alternatives, is of one of these generic types."""
    return any(get_origin(part) in origins for part in (hint, *get_args(hint)))
