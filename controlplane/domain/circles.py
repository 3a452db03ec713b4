"""Cycle detection in graphs."""

from collections.abc import Callable, Iterable, Mapping


def find_cycle(start: str, edges: Callable[[str], Iterable[str]]) -> list[str]:
    """Returns a path from a node back to itself, the node first and
    last; empty if there is none.
    """
    came: dict[str, str] = {}
    ahead = [start]
    while ahead:
        here = ahead.pop()
        for node in edges(here):
            if node == start:
                return _way(start, here, came)
            if node not in came:
                came[node] = here
                ahead.append(node)
    return []


def _way(start: str, last: str, came: Mapping[str, str]) -> list[str]:
    way = [start]
    while last != start:
        way.append(last)
        last = came[last]
    return [start, *reversed(way[1:]), start]
