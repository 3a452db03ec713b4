"""Reads the present state of resources as specs."""

from collections.abc import Mapping, Sequence

from controlplane.authorization import Actor
from controlplane.manifests.model.codec import SpecCodec
from controlplane.manifests.model.ownership import DeclaredResource
from controlplane.manifests.operations.names import ResourceNames
from controlplane.manifests.operations.reading import DocumentReader
from controlplane.manifests.operations.sealed_fields import FieldSeals
from controlplane.manifests.ports import DeclaredResourceStore
from controlplane.platform.kinds import AnyKind, DeclaredRow
from controlplane.platform.parts import Columns
from controlplane.platform.ports import Transaction
from controlplane.platform.sealing import Sealer
from core.errors import TowlineError
from core.json_object import JsonObject, JsonValue

Sealed = Mapping[str, Mapping[str, str]]
"""Sealed values by ID of the resource and path."""
_EMPTY: tuple[JsonValue, ...] = (None, "", [], {})


class SpecReader:
    """Reads specs of many resources, with one query for each kind.

    `names` and `seals` are those of its transaction.
    """

    def __init__(
        self,
        tx: Transaction,
        actor: Actor,
        reader: DocumentReader,
        sealer: Sealer,
    ) -> None:
        self.names = ResourceNames(tx, actor, list(reader.kinds.values()))
        self.seals = FieldSeals(sealer, tx)
        self._tx = tx
        self._actor = actor
        self._reader = reader

    async def specs(
        self, kind: AnyKind, rows: Sequence[DeclaredRow], sealed: Sealed
    ) -> list[JsonObject]:
        """Returns the present spec of each row, with those sealed values that it still has."""
        if not rows:
            return []
        codec = self._reader.codecs[kind.name]
        columns = [
            await self._readable_columns(kind, row, values, with_secrets=bool(sealed.get(row.id)))
            for row, values in zip(rows, await kind.values(self._tx, rows), strict=True)
        ]
        ids = {reference for values in columns for reference in codec.ids(values)}
        if kind.has_project:
            ids |= {("Project", id) for row in rows if (id := kind.project_of(row))}
        await self.names.name_all(ids)
        return [
            await self._encode_spec(kind, row, values, sealed.get(row.id, {}))
            for row, values in zip(rows, columns, strict=True)
        ]

    async def _readable_columns(
        self, kind: AnyKind, row: DeclaredRow, values: Columns, *, with_secrets: bool
    ) -> Columns:
        """Returns the columns that the actor may read."""
        concealed = kind.hidden_fields(self._actor, row)
        all_columns = {**values, **(await self._secret_columns(kind, row) if with_secrets else {})}
        return {name: value for name, value in all_columns.items() if name not in concealed}

    async def _secret_columns(self, kind: AnyKind, row: DeclaredRow) -> Columns:
        try:
            return await kind.secrets(self._tx, row)
        except TowlineError:
            # A secret that cannot be decrypted is repaired by setting it again.
            return {}

    async def _encode_spec(
        self, kind: AnyKind, row: DeclaredRow, columns: Columns, sealed: Mapping[str, str]
    ) -> JsonObject:
        codec = self._reader.codecs[kind.name]
        if not sealed:
            return codec.encode(columns, self.names.name_of)
        plain = codec.revealing.encode(columns, self.names.name_of)
        place = kind.name_of(row), kind.project_of(row)
        return await self.seals.shown(codec, plain, sealed, place)

    async def exported(
        self, kind: AnyKind
    ) -> list[tuple[DeclaredRow, JsonObject, DeclaredResource | None]]:
        """Returns all readable resources of a kind by name, without fields at their defaults."""
        rows = [
            row
            for row in await kind.all(self._tx)
            if kind.is_declared(row) and kind.may_read(self._actor, row)
        ]
        keys = await self.names.add_rows(kind, rows)
        codec = self._reader.codecs[kind.name]
        declared = await self.declared(rows)
        sealed = {id: resource.sealed for id, resource in declared.items()}
        specs = await self.specs(kind, rows, sealed)
        ordered = sorted(zip(keys, rows, specs, strict=True), key=lambda entry: entry[0])
        return [
            (row, without_defaults(codec, spec), declared.get(row.id)) for _, row, spec in ordered
        ]

    async def declared(self, rows: Sequence[DeclaredRow]) -> dict[str, DeclaredResource]:
        """Returns by ID those of the resources that a manifest describes."""
        rows_of_manifests = await self._tx[DeclaredResourceStore].by_ids([row.id for row in rows])
        return {row.id: row for row in rows_of_manifests}


def without_defaults(codec: SpecCodec, spec: JsonObject) -> JsonObject:
    """Returns a spec without the fields that have their defaults."""
    return {
        name: _differences_from_default(value, codec.defaults.get(name))
        for name, value in spec.items()
        if not _is_default(value, codec.defaults.get(name))
    }


def _is_default(value: JsonValue, default: JsonValue) -> bool:
    return value == default or (value in _EMPTY and default in _EMPTY)


def _differences_from_default(value: JsonValue, default: JsonValue) -> JsonValue:
    """Returns the parts of an object that differ from its default."""
    if isinstance(value, dict) and isinstance(default, dict):
        return {
            name: _differences_from_default(inner, default.get(name))
            for name, inner in value.items()
            if name not in default or inner != default[name]
        }
    return value
