"""Tables whose columns follow from the fields of a row's dataclass."""

from collections.abc import Collection, Mapping
from datetime import datetime
from enum import StrEnum
from types import GenericAlias, NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from sqlalchemy import Boolean, Column, Float, ForeignKey, Integer, LargeBinary, String, Table, Text
from sqlalchemy.schema import SchemaItem
from sqlalchemy.types import TypeEngine

from controlplane.platform.parts import NamedRow, part_fields
from controlplane.platform.store.columns import AttestationColumn, EnumColumn, JsonColumn, UtcColumn
from controlplane.platform.store.schema import metadata
from core.spec.bundle import Attestation

_ID_LENGTH = 36
_NAME_LENGTH = 255
_TYPES: Mapping[object, type[TypeEngine]] = {
    bool: Boolean,
    int: Integer,
    float: Float,
    bytes: LargeBinary,
    datetime: UtcColumn,
    Attestation: AttestationColumn,
}


def row_table(
    name: str,
    kind: type[object],
    *own: SchemaItem,
    lengths: Mapping[str, int] | None = None,
    indexed: Collection[str] = (),
    unique: Collection[str] = (),
    references: Mapping[str, str] | None = None,
) -> Table:
    """Declares the table of a dataclass, with a column for each field of it and of its parts.

    A field that can be None is nullable. `lengths` limits texts; an ID has 36 characters, and other
    texts have no limit. `references` maps fields to the columns of their foreign keys. A column in
    `own` replaces the derived one, or adds to them. TypeError: a field does not exist.
    """
    lengths, references = dict(lengths or {}), references or {}
    if issubclass(kind, NamedRow):
        lengths.setdefault("name", _NAME_LENGTH)
        unique = {"name", *unique}
    fields = {member.name: owner for _, owner, member in part_fields(kind)}
    if unknown := {*lengths, *indexed, *unique, *references} - fields.keys():
        raise TypeError(f"{kind.__name__} has no fields {', '.join(sorted(unknown))}")
    replaced = {item.name for item in own if isinstance(item, Column)}
    columns = [
        _column(
            field,
            get_type_hints(owner)[field],
            lengths.get(field),
            references.get(field),
            index=field in indexed,
            unique=field in unique,
        )
        for field, owner in fields.items()
        if field not in replaced
    ]
    return Table(name, metadata, *columns, *own)


def _column(
    name: str, hint: object, length: int | None, target: str | None, *, index: bool, unique: bool
) -> Column[Any]:
    return Column(
        name,
        _type_of(name, hint, length),
        *([ForeignKey(target)] if target else []),
        primary_key=name == "id",
        nullable=NoneType in get_args(hint),
        index=index or None,
        unique=unique or None,
    )


def _type_of(name: str, hint: object, length: int | None) -> TypeEngine:
    """Returns the type of a column. Values without a type of their own are stored as JSON."""
    if get_origin(hint) in (UnionType, Union):
        (hint,) = (alternative for alternative in get_args(hint) if alternative is not NoneType)
    plain = getattr(hint, "__supertype__", hint)
    if plain is str:
        is_id = name == "id" or name.endswith("_id")
        return String(length or _ID_LENGTH) if length or is_id else Text()
    if plain in _TYPES:
        return _TYPES[plain]()
    if isinstance(plain, type) and issubclass(plain, StrEnum):
        return EnumColumn(plain)
    is_mapping = get_origin(plain) is Mapping
    return JsonColumn(GenericAlias(dict, get_args(plain)) if is_mapping else plain)
