"""Parameters that record which of them a render reads, and so depends on."""

from collections.abc import Iterator, Mapping
from typing import Any

from core.json_object import JsonMapping, JsonObject, JsonValue
from gitcache.domain.parameters import union

Path = tuple[str, ...]


class ParameterRecorder:
    """Gives parameters to templates and records the paths that they read."""

    def __init__(self, parameters: JsonMapping) -> None:
        self._reads: set[Path] = set()
        self.root = RecordedMapping(parameters, (), self._reads)

    @property
    def reads(self) -> list[list[str]]:
        """The read paths, sorted, without paths below other paths."""
        return union([self._reads])

    def value(self, *path: str) -> JsonValue:
        """Reads one value; None if it is missing."""
        current: JsonValue = self.root
        for name in path:
            current = current.get(name) if isinstance(current, dict) else None
        return current

    def record_all(self) -> None:
        """Records every parameter as read."""
        self._reads.add(())


class RecordedMapping(JsonObject):
    """A mapping that records reads: of a key by the key's path, of several by its own path."""

    def __init__(self, values: JsonMapping, path: Path, reads: set[Path]) -> None:
        super().__init__(
            (
                key,
                RecordedMapping(value, (*path, key), reads)
                if isinstance(value, Mapping)
                else value,
            )
            for key, value in values.items()
        )
        self._path = path
        self._reads = reads

    def __getitem__(self, key: str) -> object:
        if not isinstance(key, str):
            raise KeyError(key)
        value = self._child(key)
        if value is _ABSENT:
            raise KeyError(key)
        return value

    def get(self, key: object, default: JsonValue = None, /) -> object:
        value = self._child(key) if isinstance(key, str) else _ABSENT
        return default if value is _ABSENT else value

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self._child(key) is not _ABSENT

    def _child(self, key: str) -> object:
        value = super().get(key, _ABSENT)
        if not isinstance(value, RecordedMapping):
            self._reads.add((*self._path, key))
        return value

    def _record_mapping(self) -> None:
        self._reads.add(self._path)

    def __iter__(self) -> Iterator[str]:
        self._record_mapping()
        return super().__iter__()

    def __len__(self) -> int:
        self._record_mapping()
        return super().__len__()

    def keys(self) -> Any:
        self._record_mapping()
        return super().keys()

    def values(self) -> Any:
        self._record_mapping()
        return super().values()

    def items(self) -> Any:
        self._record_mapping()
        return super().items()

    def __eq__(self, other: object) -> bool:
        self._record_mapping()
        return super().__eq__(other)

    def __repr__(self) -> str:
        self._record_mapping()
        return super().__repr__()

    __hash__ = None


_ABSENT: object = object()


def top_level_values(values: Mapping[str, object]) -> dict[str, object]:
    """Returns the mapping's values by name, for libraries that need keyword arguments.

    Records only values that are not mappings; mappings record later reads themselves.
    """
    if not isinstance(values, RecordedMapping):
        return dict(values)
    return {name: values[name] for name in dict.keys(values)}


def copy_plain(value: object) -> object:
    """Copies to plain values; records everything as read."""
    if isinstance(value, Mapping):
        return {key: copy_plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [copy_plain(inner) for inner in value]
    return value
