"""Differences of specs, field by field, without values of secrets."""

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from controlplane.manifests.model.ownership import SEPARATOR
from controlplane.manifests.model.plan import SpecDifference
from core.json_object import JsonObject, JsonValue

_STARS = "********"
_MASK = f'"{_STARS}"'
_ABSENT = object()


def differences(
    before: JsonObject, after: JsonObject, secrets: Collection[str]
) -> list[SpecDifference]:
    """Returns the fields that differ, also those of items of lists. Secrets are masked."""
    masks = _SecretMask(frozenset(secrets))
    before, after = _without_filled(before, after), _without_filled(after, before)
    return [
        difference
        for path in sorted(before.keys() | after.keys())
        for difference in masks.differences(
            shown_path(path),
            before.get(path, _ABSENT),
            after.get(path, _ABSENT),
            is_secret=not masks.secrets.isdisjoint(path.split(SEPARATOR)),
        )
    ]


def _without_filled(fields: JsonObject, other: JsonObject) -> JsonObject:
    """Returns the fields without empty objects in which the other side has fields."""
    outer = {path[:end] for path in other for end in range(len(path)) if path[end] == SEPARATOR}
    return {path: value for path, value in fields.items() if value != {} or path not in outer}


def metadata_differences(
    name: str, before: Mapping[str, str], after: Mapping[str, str]
) -> list[SpecDifference]:
    """Returns the labels or annotations that differ; `name` is one of both words."""
    return [
        SpecDifference(
            f"metadata.{name}.{key}", *map(_text_json, (before.get(key), after.get(key)))
        )
        for key in sorted(before.keys() | after.keys())
        if before.get(key) != after.get(key)
    ]


def _text_json(value: str | None) -> str | None:
    return None if value is None else json.dumps(value)


@dataclass(frozen=True)
class _SecretMask:
    """Compares values, and shows them without secrets; `secrets` are the names of their fields."""

    secrets: frozenset[str]

    def differences(
        self, path: str, before: JsonValue, after: JsonValue, *, is_secret: bool
    ) -> Iterator[SpecDifference]:
        """Yields the differences of a field; lists of different lengths differ as a whole."""
        if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
            for number, (old, new) in enumerate(zip(before, after, strict=True)):
                yield from self.differences(f"{path}[{number}]", old, new, is_secret=is_secret)
        elif isinstance(before, dict) and isinstance(after, dict):
            for key in sorted(before.keys() | after.keys()):
                old, new = (values.get(key, _ABSENT) for values in (before, after))
                hidden = is_secret or key in self.secrets
                yield from self.differences(f"{path}.{key}", old, new, is_secret=hidden)
        elif before != after:
            texts = [self._shown_json(value, is_secret=is_secret) for value in (before, after)]
            yield SpecDifference(path, *texts)

    def _shown_json(self, value: JsonValue, *, is_secret: bool) -> str | None:
        if value is _ABSENT:
            return None
        return _MASK if is_secret else json.dumps(self._mask_secrets(value), ensure_ascii=False)

    def _mask_secrets(self, value: JsonValue) -> JsonValue:
        if isinstance(value, list):
            return [self._mask_secrets(item) for item in value]
        if isinstance(value, dict):
            return {
                key: _STARS if key in self.secrets else self._mask_secrets(inner)
                for key, inner in value.items()
            }
        return value


def shown_path(path: str) -> str:
    """Returns a path as users write it, such as `spec.helm.chart`."""
    keys = [key.replace("~1", "/").replace("~0", "~") for key in path.split(SEPARATOR)[1:]]
    return "spec." + ".".join(keys)
