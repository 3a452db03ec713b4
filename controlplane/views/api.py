"""Saved views in the API."""

from collections.abc import Sequence

import strawberry

from controlplane.platform.graphql.context import Info
from controlplane.platform.graphql.derive import Draft, Output, draft, output
from controlplane.platform.graphql.resource_fields import ResourceFields
from controlplane.views.model import SavedView, Sharing
from controlplane.views.operations import SavedViews, ViewChange

strawberry.enum(Sharing, name="ViewSharing")


@output(SavedView, hide={"owner_id"}, name="SavedView")
class SavedViewType(Output[SavedView]):
    """A saved view of a list."""

    own: bool
    """True if the caller owns the view."""


@draft(ViewChange)
class SavedViewAttributes(Draft[ViewChange]):
    """Fields of a saved view."""


async def _views(info: Info, views: Sequence[SavedView]) -> list[SavedViewType]:
    actor = info.context.actor
    return [SavedViewType.of(view, own=view.owner_id == actor.id) for view in views]


_VIEWS = ResourceFields("view", SavedViews, SavedViewType, _views)


@strawberry.type
class SavedViewQuery:
    saved_views = _VIEWS.all(SavedViews.all)
    """Views of the caller, and views shared with the caller, by list and name.

    Args:
        list: Path of the list in the console, such as `services`. Default: all lists.
    """
    saved_view = _VIEWS.by_id(SavedViews.get)
    """A saved view."""


@strawberry.type
class SavedViewMutation:
    @strawberry.mutation
    async def save_view(
        self, info: Info, attributes: SavedViewAttributes, id: strawberry.ID | None = None
    ) -> SavedViewType | None:
        """Creates a view of a list, or changes one. Sharing it requires permission to administer
        the project or the installation.

        Args:
            attributes: Fields of the view.
            id: ID of the view. Default: a new view.
        """
        views, actor = info.context[SavedViews], info.context.actor
        return await _VIEWS.one(info, await views.save(actor, id, attributes.change()))

    delete_view = _VIEWS.action(SavedViews.delete)
    """Deletes a view. Its owner may do that, and administrators of the project or installation
    with which it is shared."""
