"""Cycle detection in graphs."""

from collections.abc import Callable, Iterable, Mapping


def find_cycle(start: str, edges: Callable[[str], Iterable[str]]) -> list[str]:
    """Returns a path from a node back to itself, the node first and
    last; empty if there is none.
    """
    predecessors: dict[str, str] = {}
    stack = [start]
    while stack:
        current = stack.pop()
        for node in edges(current):
            if node == start:
                return _path_from(start, current, predecessors)
            if node not in predecessors:
                predecessors[node] = current
                stack.append(node)
    return []


def _path_from(start: str, last: str, predecessors: Mapping[str, str]) -> list[str]:
    path = [start]
    while last != start:
        path.append(last)
        last = predecessors[last]
    return [start, *reversed(path[1:]), start]
