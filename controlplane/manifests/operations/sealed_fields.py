"""Opens sealed values in specs, and tells which of them a resource still has."""

from collections.abc import Mapping
from types import MappingProxyType

from controlplane.access.operations.scopes import find_project
from controlplane.manifests.model.codec import SpecCodec, is_sealed
from controlplane.manifests.model.sealed import ABSENT, SecretField, SecretFields
from controlplane.platform.kinds import AnyKind, DeclaredRow
from controlplane.platform.ports import Transaction
from controlplane.platform.sealing import Sealer
from core.errors import Invalid
from core.json_object import JsonMapping, JsonObject, JsonValue
from core.sealed_places import SEALED, SealedPlace
from core.sealed_values import open_field


class FieldSeals:
    """Sealed values of the resources of one transaction."""

    def __init__(self, sealer: Sealer, tx: Transaction) -> None:
        self._sealer = sealer
        self._tx = tx
        self._projects: dict[str, str] = {}

    async def opened(
        self, codec: SpecCodec, spec: JsonObject, key: str, project_id: str | None,
        other_fields: JsonMapping = MappingProxyType({}),
    ) -> JsonObject:  # fmt: skip
        """Returns a spec with plain values. Invalid: one was sealed for another place.

        `other_fields` is meant as in `SecretFields.replaced`.
        """
        fields = SecretFields(codec)
        if not codec.secret_names or not fields.sealed(spec):
            return spec
        project = await self._project_name(project_id)

        def open_secret(secret: SecretField) -> JsonValue:
            if not is_sealed(secret.value):
                return secret.value
            try:
                return self._open_value(codec.kind, key, project, secret, secret.value[SEALED])
            except Invalid as error:
                raise Invalid(error.message, field=".".join(secret.path)) from None

        def open_destination(secret: SecretField) -> JsonValue:
            return open_secret(secret) if secret.is_destination else secret.value

        # Other secrets belong to plain destinations, also if those are sealed themselves.
        opened = fields.replaced(spec, open_destination, other_fields)
        return fields.replaced(opened, open_secret, other_fields)

    async def destinations(
        self, kind: AnyKind, codec: SpecCodec, row: DeclaredRow, spec: JsonMapping
    ) -> JsonObject:
        """Returns the secret fields of a row that tell who receives the sealed values of a spec."""
        fields = SecretFields(codec)
        names = fields.secret_destinations
        if not names or not fields.sealed(spec):
            return {}
        columns = await kind.secrets(self._tx, row)
        encoded = codec.revealing.encode(columns, lambda _, id: id)
        return {name: encoded[name] for name in names if name in encoded}

    async def shown(
        self, codec: SpecCodec, plain: JsonMapping, sealed: Mapping[str, str],
        place: tuple[str, str | None],
    ) -> JsonObject:  # fmt: skip
        """Returns a spec with sealed values instead of plain secrets; without any others.

        `place` has the name of the resource and the ID of its project.
        """
        key, project = place[0], await self._project_name(place[1])

        def shown_secret(secret: SecretField) -> JsonValue:
            text = sealed.get(secret.key)
            if text is None:
                return ABSENT
            try:
                is_same = self._open_value(codec.kind, key, project, secret, text) == secret.value
            except Invalid:
                return ABSENT
            return {SEALED: text} if is_same else ABSENT

        return SecretFields(codec).replaced(plain, shown_secret)

    def _open_value(
        self, kind: type[AnyKind], key: str, project: str, secret: SecretField, text: str
    ) -> str:
        place = SealedPlace(kind.name, key, project, secret.path, secret.destination)
        return open_field(self._sealer.manifest_key, text, place)

    async def _project_name(self, id: str | None) -> str:
        """Returns the name of a project; empty for the installation."""
        if not id:
            return ""
        if id not in self._projects:
            self._projects[id] = (await find_project(self._tx, id)).name
        return self._projects[id]
