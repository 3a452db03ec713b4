"""A saved view of a list."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from controlplane.authorization import Actor, Resource, Verb
from controlplane.platform.limits import check_count, check_length
from controlplane.platform.names import check_text
from core.errors import Invalid

MAX_NAME = 100
MAX_LIST = 255
MAX_QUERY = 1_000
MAX_COLUMNS = 50
MAX_FILTERS = 20
_MAX_WORD = 64
_LIST = re.compile(r"[a-z0-9][a-z0-9-]*(/[a-z0-9][a-z0-9-]*)*")


class Sharing(StrEnum):
    """Users who see a view, in addition to its owner."""

    NOBODY = "NOBODY"
    """Nobody else."""
    PROJECT = "PROJECT"
    """Users who may read the project of the view."""
    EVERYBODY = "EVERYBODY"
    """All users of the installation."""


@dataclass(frozen=True, slots=True)
class SavedView:
    """Filter, columns and order of a list under a name."""

    id: str
    name: str
    """Name, unique among the views of its owner for the list."""
    list: str
    """The list, by its path in the console, such as `services` or `clusters`."""
    owner_id: str
    """ID of the user who saved the view."""
    owner: str
    """Email address of the user who saved the view."""
    inserted_at: datetime
    updated_at: datetime
    query: str = ""
    """Filter in the query language of the list, such as `state:failed tag:region=eu`."""
    filters: Mapping[str, str] = field(default_factory=dict)
    """Other filters by their name in the address of the list, such as `status`."""
    columns: tuple[str, ...] = ()
    """Columns in their order. Empty: the usual columns."""
    order: str = ""
    """Column that sorts the rows, after `-` for the reverse order. Empty: the usual order."""
    sharing: Sharing = Sharing.NOBODY
    """Users who see the view, in addition to its owner."""
    project_id: str | None = None
    """ID of the project with which the view is shared."""

    def is_visible_to(self, actor: Actor) -> bool:
        """Returns whether the actor owns the view, or somebody shares it with the actor."""
        if self.owner_id == actor.id or self.sharing is Sharing.EVERYBODY:
            return True
        return bool(self.project_id) and actor.may(Verb.READ, Resource.project(self.project_id))

    def check(self) -> None:
        """Raises Invalid if a value is not allowed."""
        check_text(self.name, "name", MAX_NAME)
        if len(self.list) > MAX_LIST or not _LIST.fullmatch(self.list):
            raise Invalid(f"{self.list[:80]!r} is not the path of a list", field="list")
        check_length(self.query, "query", MAX_QUERY)
        check_length(self.order, "order", _MAX_WORD)
        check_count(len(self.columns), "columns", MAX_COLUMNS)
        check_count(len(self.filters), "filters", MAX_FILTERS)
        for name in (*self.columns, *self.filters):
            check_text(name, "columns or filters", _MAX_WORD)
        for value in self.filters.values():
            check_text(value, "filters")
        if (self.sharing is Sharing.PROJECT) != bool(self.project_id):
            raise Invalid("is required for PROJECT, and only there", field="projectId")
