"""Sealed values in the secret fields of specs: `{sealed: TEXT}` instead of a text.

A spec of a resource shows a sealed value as long as the resource has the value that it opens to.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple, get_args

from controlplane.manifests.model.codec import (
    Hint,
    SpecCodec,
    SpecField,
    is_sealed,
    is_secret_map,
    settings_key,
    unwrapped,
)
from controlplane.manifests.model.ownership import SEPARATOR
from core.json_object import JsonMapping, JsonObject, JsonValue
from core.sealed_places import SEALED, destination_of, item_name

ABSENT = object()
"""Stands for a secret that is left out."""


class SecretField(NamedTuple):
    """A secret text of a spec."""

    path: tuple[str, ...]
    """Fields that lead to the text, and names of items of lists."""
    destination: Mapping[str, str]
    value: JsonValue
    is_destination: bool = False
    """True if the text tells who receives the other secrets beside it."""

    @property
    def key(self) -> str:
        """Returns the path as one text."""
        return SEPARATOR.join(self.path)


Change = Callable[[SecretField], JsonValue]
"""Returns the new value of a secret text; `ABSENT` leaves it out."""


@dataclass(frozen=True)
class SecretFields:
    """Finds and replaces the secret texts in the specs of a kind."""

    codec: SpecCodec

    def sealed(self, spec: JsonMapping) -> dict[str, str]:
        """Returns the sealed texts of a spec by their paths."""
        texts: dict[str, str] = {}
        if not self.codec.secret_names or not _has_sealed(spec):
            return texts

        def collect(secret: SecretField) -> JsonValue:
            if is_sealed(secret.value):
                texts[secret.key] = secret.value[SEALED]
            return secret.value

        self.replaced(spec, collect)
        return texts

    @property
    def secret_destinations(self) -> Collection[str]:
        """Returns the fields of the spec that are secret, and tell who receives other secrets."""
        fields = self.codec.by_name.values()
        return [f.published for f in fields if f.is_destination and f.is_sensitive]

    def replaced(
        self, spec: JsonMapping, change: Change, other_fields: JsonMapping = MappingProxyType({})
    ) -> JsonObject:
        """Returns a spec in which `change` has replaced each secret text.

        `other_fields` has the fields of the resource that the spec does not name, with plain
        secrets: they can be destinations as well.
        """
        return self._replace_in_fields(self.codec.by_name, spec, (), change, other_fields)

    def _replace_in_fields(
        self,
        fields: Mapping[str, SpecField],
        values: JsonMapping,
        path: tuple[str, ...],
        change: Change,
        other_fields: JsonMapping = MappingProxyType({}),
    ) -> JsonObject:
        all_values = {**other_fields, **values}
        destinations = [field for field in fields.values() if field.is_destination]
        destination = destination_of((field.published for field in destinations), all_values)
        open_names = (field.published for field in destinations if not field.is_sensitive)
        # A secret destination cannot belong to itself.
        own = SecretField(path, destination_of(open_names, all_values), None, is_destination=True)
        result: JsonObject = {}
        for name, value in values.items():
            field, inner = fields.get(name), (*path, name)
            if field is None:
                result[name] = value
                continue
            if not field.is_sensitive:
                result[name] = self._replace_in_value(field.hint, value, inner, change)
                continue
            secret = own if field.is_destination else SecretField(path, destination, None)
            after = _replace_secret(field.hint, value, secret._replace(path=inner), change)
            if after is not ABSENT:
                result[name] = after
        return result

    def _replace_in_value(
        self, hint: Hint, value: JsonValue, path: tuple[str, ...], change: Change
    ) -> JsonValue:
        inner = unwrapped(hint)
        if isinstance(value, list):
            item = next(iter(get_args(inner)), object)
            return [self._replace_in_value(item, v, (*path, item_name(v)), change) for v in value]
        if not isinstance(value, dict):
            return value
        if inner in self.codec.kind.plugins:
            return self._replace_in_plugin(inner, value, path, change)
        return self._replace_in_fields(self.codec.inner_fields(inner), value, path, change)

    def _replace_in_plugin(
        self, base: type, value: JsonObject, path: tuple[str, ...], change: Change
    ) -> JsonObject:
        plugin = self.codec.kind.plugins[base][value["kind"]]
        key, fields = settings_key(plugin), self.codec.inner_fields(plugin)
        if not key:
            return self._replace_in_fields(fields, value, path, change)
        return {
            **value,
            key: self._replace_in_fields(fields, value.get(key) or {}, (*path, key), change),
        }


def _has_sealed(value: JsonValue) -> bool:
    """Returns whether a value contains sealed texts: most specs have none, and need no search."""
    if isinstance(value, dict):
        return SEALED in value or any(map(_has_sealed, value.values()))
    return isinstance(value, list) and any(map(_has_sealed, value))


def _replace_secret(hint: Hint, value: JsonValue, secret: SecretField, change: Change) -> JsonValue:
    """Changes a secret text, or a mapping of them: all are left out if one is."""
    if not (is_secret_map(hint) and isinstance(value, dict)):
        return change(secret._replace(value=value)) if value else value
    texts = {
        key: change(secret._replace(path=(*secret.path, key), value=text))
        for key, text in value.items()
    }
    return ABSENT if ABSENT in texts.values() else texts
