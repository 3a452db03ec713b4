"""Reads the present state of resources as specs."""

from collections.abc import Sequence

from controlplane.authorization import Actor
from controlplane.manifests.model.codec import SpecCodec
from controlplane.manifests.operations.names import ResourceNames
from controlplane.manifests.operations.reading import DocumentReader
from controlplane.platform.kinds import AnyKind, DeclaredRow
from controlplane.platform.ports import Transaction
from core.json_object import JsonObject, JsonValue

_EMPTY: tuple[JsonValue, ...] = (None, "", [], {})


class SpecReader:
    """Reads specs of many resources, with one query for each kind."""

    def __init__(
        self, tx: Transaction, actor: Actor, names: ResourceNames, reader: DocumentReader
    ) -> None:
        self._tx = tx
        self._actor = actor
        self._names = names
        self._reader = reader

    async def specs(self, kind: AnyKind, rows: Sequence[DeclaredRow]) -> list[JsonObject]:
        """Returns the present spec of each row."""
        if not rows:
            return []
        codec = self._reader.codecs[kind.name]
        columns = [
            {name: value for name, value in values.items() if name not in concealed}
            for row, values in zip(rows, await kind.values(self._tx, rows), strict=True)
            for concealed in (kind.concealed(self._actor, row),)
        ]
        ids = {reference for values in columns for reference in codec.ids(values)}
        if kind.has_project:
            ids |= {("Project", id) for row in rows if (id := kind.project_of(row))}
        await self._names.name_all(ids)
        return [codec.encode(values, self._names.name_of) for values in columns]

    async def exported(self, kind: AnyKind) -> list[tuple[DeclaredRow, JsonObject]]:
        """Returns all readable resources of a kind by name, without fields at their defaults."""
        rows = [
            row
            for row in await kind.all(self._tx)
            if kind.is_declared(row) and kind.may_read(self._actor, row)
        ]
        keys = await self._names.add_rows(kind, rows)
        codec = self._reader.codecs[kind.name]
        specs = await self.specs(kind, rows)
        ordered = sorted(zip(keys, rows, specs, strict=True), key=lambda found: found[0])
        return [(row, without_defaults(codec, spec)) for _, row, spec in ordered]


def without_defaults(codec: SpecCodec, spec: JsonObject) -> JsonObject:
    """Returns a spec without the fields that have their defaults."""
    return {
        name: _different(value, codec.defaults.get(name))
        for name, value in spec.items()
        if not _is_default(value, codec.defaults.get(name))
    }


def _is_default(value: JsonValue, default: JsonValue) -> bool:
    return value == default or (value in _EMPTY and default in _EMPTY)


def _different(value: JsonValue, default: JsonValue) -> JsonValue:
    """Returns the parts of an object that differ from its default."""
    if isinstance(value, dict) and isinstance(default, dict):
        return {
            name: _different(inner, default.get(name))
            for name, inner in value.items()
            if name not in default or inner != default[name]
        }
    return value
