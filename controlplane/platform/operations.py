"""The operations of all nouns, by their classes."""

from collections.abc import Mapping
from typing import TypeVar, cast

P = TypeVar("P")


class Operations:
    """`operations[Clusters]` are the operations on clusters, as resolvers get them."""

    def __init__(self, *operations: object) -> None:
        self.by_class: Mapping[type[object], object] = {
            type(operations_of_noun): operations_of_noun for operations_of_noun in operations
        }

    def __getitem__(self, kind: type[P]) -> P:
        return cast("P", self.by_class[kind])

    def extended(self, *operations: object) -> "Operations":
        """Returns these and further operations."""
        return Operations(*self.by_class.values(), *operations)
