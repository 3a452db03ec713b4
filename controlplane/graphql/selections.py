"""Selected fields of a query, so that resolvers fetch only those."""

from typing import Any

from strawberry.types.nodes import SelectedField

from controlplane.graphql.context import Info


def selected_fields(info: Info) -> frozenset[str]:
    """Returns the names of all selected fields below this one, at any depth."""
    names: set[str] = set()
    waiting: list[Any] = list(info.selected_fields)
    while waiting:
        node = waiting.pop()
        if isinstance(node, SelectedField):
            names.add(node.name)
        waiting += node.selections
    return frozenset(names)
