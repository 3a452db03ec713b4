"""The operations of all nouns, by their classes."""

from typing import TypeVar, cast

P = TypeVar("P")


class Operations:
    """`operations[Clusters]` are the operations on clusters, as resolvers get them."""

    def __init__(self, *operations: object) -> None:
        self._by_class: dict[type[object], object] = {
            type(operations_of_noun): operations_of_noun for operations_of_noun in operations
        }

    def __getitem__(self, kind: type[P]) -> P:
        return cast("P", self._by_class[kind])

    def by_class(self) -> dict[type[object], object]:
        """Returns all operations."""
        return dict(self._by_class)
