"""Parameters that record which of them a render reads, and so depends on."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from core.json_object import JsonMapping, JsonObject, JsonValue

Path = tuple[str, ...]


class ParameterRecorder:
    """Gives parameters to templates and records the paths that they read."""

    def __init__(self, parameters: JsonMapping) -> None:
        self._found: set[Path] = set()
        self.root = RecordedMapping(parameters, (), self._found)

    @property
    def reads(self) -> list[Path]:
        """The read paths, sorted, without paths below other paths."""
        kept: list[Path] = []
        for path in sorted(self._found):
            if not kept or path[: len(kept[-1])] != kept[-1]:
                kept.append(path)
        return kept

    def value(self, *path: str) -> JsonValue:
        """Reads one value; None if it is missing."""
        here: JsonValue = self.root
        for name in path:
            here = here.get(name) if isinstance(here, dict) else None
        return here

    def note_all(self) -> None:
        """Records every parameter as read."""
        self._found.add(())


class RecordedMapping(JsonObject):
    """A mapping that records reads: of a key by the key's path, of several by its own path."""

    def __init__(self, values: JsonMapping, path: Path, found: set[Path]) -> None:
        super().__init__(
            (
                key,
                RecordedMapping(value, (*path, key), found)
                if isinstance(value, Mapping)
                else value,
            )
            for key, value in values.items()
        )
        self._path = path
        self._found = found

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
            self._found.add((*self._path, key))
        return value

    def _whole(self) -> None:
        self._found.add(self._path)

    def __iter__(self) -> Iterator[str]:
        self._whole()
        return super().__iter__()

    def __len__(self) -> int:
        self._whole()
        return super().__len__()

    def keys(self) -> Any:
        self._whole()
        return super().keys()

    def values(self) -> Any:
        self._whole()
        return super().values()

    def items(self) -> Any:
        self._whole()
        return super().items()

    def __eq__(self, other: object) -> bool:
        self._whole()
        return super().__eq__(other)

    def __repr__(self) -> str:
        self._whole()
        return super().__repr__()

    __hash__ = None


_ABSENT: object = object()


def names_of(values: Mapping[str, object]) -> dict[str, object]:
    """Returns the mapping's values by name, for libraries that need keyword arguments.

    Records only values that are not mappings; mappings record later reads themselves.
    """
    if not isinstance(values, RecordedMapping):
        return dict(values)
    return {name: values[name] for name in dict.keys(values)}


def plain(value: object) -> object:
    """Copies to plain values; records everything as read."""
    if isinstance(value, Mapping):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return value


def as_lists(reads: Iterable[Path]) -> list[list[str]]:
    """Converts read paths to JSON lists."""
    return [list(path) for path in reads]
