"""What a query selects below a field, so that only this is fetched."""

from typing import Any

from strawberry.types.nodes import SelectedField

from controlplane.graphql.context import Info


def selected(info: Info) -> frozenset[str]:
    """The names of all fields that the query selects anywhere below this one."""
    names: set[str] = set()
    waiting: list[Any] = list(info.selected_fields)
    while waiting:
        node = waiting.pop()
        if isinstance(node, SelectedField):
            names.add(node.name)
        waiting += node.selections
    return frozenset(names)
