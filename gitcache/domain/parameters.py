"""Sets of the parameters that a render has read, which are the only ones it depends on."""

from collections.abc import Iterable, Mapping, Sequence

Path = Sequence[str]


def picked(parameters: Mapping[str, object], reads: Iterable[Path]) -> list[list[object]]:
    """Pairs each read path with its value, if it has one."""
    return [[list(path), *_at(parameters, path)] for path in reads]


def union(sets: Iterable[Iterable[Path]]) -> list[list[str]]:
    """Merges read sets: sorted paths, without paths below other paths."""
    kept: list[list[str]] = []
    for path in sorted({tuple(path) for reads in sets for path in reads}):
        if not kept or list(path[: len(kept[-1])]) != kept[-1]:
            kept.append(list(path))
    return kept


def _at(parameters: Mapping[str, object], path: Path) -> list[object]:
    here: object = parameters
    for name in path:
        if not isinstance(here, Mapping) or name not in here:
            return []
        here = here[name]
    return [here]
