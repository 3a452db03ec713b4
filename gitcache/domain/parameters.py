"""Sets of the parameters that a render has read, which are the only ones it depends on."""

from collections.abc import Iterable, Mapping, Sequence

Path = Sequence[str]


def read_values(parameters: Mapping[str, object], paths: Iterable[Path]) -> list[list[object]]:
    """Pairs each read path with its value, if it has one."""
    return [[list(path), *_value_at(parameters, path)] for path in paths]


def union(sets: Iterable[Iterable[Path]]) -> list[list[str]]:
    """Merges read sets: sorted paths, without paths below other paths."""
    merged: list[list[str]] = []
    for path in sorted({tuple(path) for reads in sets for path in reads}):
        if not merged or list(path[: len(merged[-1])]) != merged[-1]:
            merged.append(list(path))
    return merged


def _value_at(parameters: Mapping[str, object], path: Path) -> list[object]:
    value: object = parameters
    for name in path:
        if not isinstance(value, Mapping) or name not in value:
            return []
        value = value[name]
    return [value]
