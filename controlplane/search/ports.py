"""Ports of the search."""

from dataclasses import dataclass
from typing import Protocol

from controlplane.authorization import Visible
from controlplane.search.model import NamedItem, NamedItemKind, ParsedSearch, SearchHit


@dataclass(frozen=True, slots=True)
class SearchPage:
    """Objects found by a search; `count` is `MAX_FOUND` + 1 if there are more."""

    items: tuple[SearchHit, ...]
    more: bool
    count: int


class SearchStore(Protocol):
    """Search for objects of all clusters, and for items by name."""

    async def objects(
        self, search: ParsedSearch, visible: Visible, first: int, after: str | None
    ) -> SearchPage: ...

    async def places(self, text: str, allowed: dict[NamedItemKind, Visible]) -> list[NamedItem]:
        """Returns items of the allowed kinds whose names contain a text, not yet ranked."""
        ...
